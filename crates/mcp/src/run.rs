//! Running code: follows the events of a cell, reports progress, and interrupts what a client cancels.

use futures_util::StreamExt;
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use crate::api::{Api, ApiBody, Method};
use crate::arguments::Language;
use crate::calls::{CallError, is_id, json_call, stream};
use crate::events::{EventReader, EventsError};
use crate::render;

/// The longest text of one progress notification.
const PROGRESS_CHARS_MAX: usize = 2000;

/// Code to run in a session.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) language: Language,
    pub(crate) text: String,
    pub(crate) timeout_seconds: Option<f64>,
}

/// What is left of a stream of events.
enum Followed {
    /// The cell or command with this id has ended.
    Done(String),
    /// The cell waits for this approval.
    Waiting(String),
}

/// Runs code in a session and renders what came of it.
pub(crate) async fn run<A: Api>(
    api: &A,
    session: &str,
    program: &Program,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, CallError> {
    let (kind, body) = request(program);
    let place = format!("/v1/sandboxes/{session}/{kind}");
    let body = stream(api, place.clone(), &body).await?;
    let mut following =
        Following { reader: EventReader::default(), id: None, progress: Progress::of(context) };
    let followed = tokio::select! {
        followed = following.follow(body) => followed?,
        () = context.ct.cancelled() => {
            if let Some(id) = &following.id {
                interrupt(api, &place, id, program.language).await;
            }
            return Ok(render::failure("the client cancelled this run"));
        }
    };
    match followed {
        Followed::Waiting(approval) => Ok(render::waiting(session, &approval)),
        Followed::Done(id) => {
            let ended = json_call(api, Method::Get, format!("{place}/{id}"), None).await?;
            Ok(match program.language {
                Language::Python => render::cell(session, &ended),
                Language::Bash | Language::Javascript => render::command(session, &ended),
            })
        }
    }
}

/// Returns the noun of the API and the body of the request.
fn request(program: &Program) -> (&'static str, Value) {
    let Program { language, text: code, timeout_seconds } = program;
    let interpreter = match language {
        Language::Python => {
            return ("cells", json!({"code": code, "timeout_seconds": timeout_seconds}));
        }
        Language::Bash => ["bash", "-c"],
        Language::Javascript => ["node", "-e"],
    };
    let arguments = json!([interpreter[0], interpreter[1], code]);
    ("commands", json!({"arguments": arguments, "timeout_seconds": timeout_seconds}))
}

async fn interrupt<A: Api>(api: &A, place: &str, id: &str, language: Language) {
    let (verb, body) = match language {
        Language::Python => ("interrupt", json!({})),
        Language::Bash | Language::Javascript => ("signal", json!({"signal": "KILL"})),
    };
    // An error is that it has ended, or that its sandbox has.
    let _ = json_call(api, Method::Post, format!("{place}/{id}/{verb}"), Some(&body)).await;
}

/// A stream of events that is being read.
struct Following {
    reader: EventReader,
    /// The id of the cell or command, once it is known.
    id: Option<String>,
    progress: Option<Progress>,
}

impl Following {
    async fn follow(&mut self, mut body: ApiBody) -> Result<Followed, CallError> {
        let invalid = |error: EventsError| CallError::Failed(error.to_string());
        while let Some(piece) = body.next().await {
            self.reader.push(&piece?).map_err(invalid)?;
            while let Some(event) = self.reader.next_event().map_err(invalid)? {
                match event.name.as_str() {
                    "start" => self.id = id_in(&event.data),
                    "stdout" | "stderr" => self.report(&event.data).await,
                    "approval" if event.data["state"] == "pending" => {
                        let approval = event.data["id"].as_str().unwrap_or_default();
                        return Ok(Followed::Waiting(approval.to_owned()));
                    }
                    "done" => {
                        let id = event.data["id"].as_str().filter(|id| is_id(id));
                        let id = id.ok_or_else(|| CallError::Failed("it has no id".to_owned()))?;
                        return Ok(Followed::Done(id.to_owned()));
                    }
                    _ => {}
                }
            }
        }
        Err(CallError::Failed("the server ended the stream of the run early".to_owned()))
    }

    async fn report(&mut self, data: &Value) {
        if let (Some(progress), Some(text)) = (&mut self.progress, data["text"].as_str()) {
            progress.report(text).await;
        }
    }
}

fn id_in(data: &Value) -> Option<String> {
    let id = data["cell"].as_str().or_else(|| data["command"].as_str())?;
    is_id(id).then(|| id.to_owned())
}

/// Tells a client that asked for it what the code prints.
struct Progress {
    peer: rmcp::Peer<RoleServer>,
    token: ProgressToken,
    /// Bytes printed so far; grows with each notification.
    bytes: usize,
}

impl Progress {
    fn of(context: &RequestContext<RoleServer>) -> Option<Self> {
        let token = context.meta.get_progress_token()?;
        Some(Self { peer: context.peer.clone(), token, bytes: 0 })
    }

    async fn report(&mut self, text: &str) {
        self.bytes += text.len();
        let shown: String = text.chars().take(PROGRESS_CHARS_MAX).collect();
        let progress = ProgressNotificationParam::new(self.token.clone(), self.bytes as f64);
        // A client that has left gets no result either.
        let _ = self.peer.notify_progress(progress.with_message(shown)).await;
    }
}
