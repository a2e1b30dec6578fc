//! Prompts: a model writes code, the code runs, and the answer comes back whole or as events.

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use silica_interpret::preset::Shape;
use silica_interpret::{ConversationRef, EVENTS_MAX, EventSink, PromptAnswer, PromptEvent};
use silica_sessions::SandboxRequest;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::run::{FileBody, given};
use super::sandboxes::plan;
use super::wire::interpret::Interpretation;
use super::wire::problem::ProblemBody;
use super::{seconds, wire};
use crate::app::App;
use crate::facade::limits::LimitsBody;
use crate::http::auth::Caller;
use crate::http::guard::RequestId;
use crate::http::json::Json;
use crate::http::long_answer::long_answer;
use crate::http::problem::Problem;
use crate::http::stream;
use crate::prompt_sandbox::{Prompt, PromptError};

/// About how many bytes the records of a prompt's begin and end take beside the prompt itself.
const RECORDS_BYTES: u64 = 2048;

/// A prompt
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Prompt", extend("examples" = [
    {"prompt": "Calculate the first 20 Fibonacci numbers", "model": null},
]))]
pub(crate) struct PromptBody {
    /// The task in plain words; at most 2000 characters unless the operator allows more
    prompt: String,
    /// The model, if the operator offers several
    model: Option<String>,
}

/// A prompt with options
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Interpret", extend("examples" = [{
    "prompt": "Plot the sum of b by a", "preset": "data", "conversation": "new",
    "files": [{"path": "data.csv", "content": "a,b\n1,2\n"}],
}]))]
pub(crate) struct InterpretBody {
    /// The task in plain words
    prompt: String,
    /// The model, if the operator offers several
    model: Option<String>,
    /// `data`, `math`, `program` or one of the operator's
    preset: Option<String>,
    /// `strict`, `data`, `open`, or a policy in TOML; the preset's if left out
    policy: Option<String>,
    /// One program, or step by step with a tool; the preset's if left out
    shape: Option<ShapeBody>,
    /// How often code may go back to the model; at most the operator's number
    rounds: Option<u32>,
    /// `new` to begin a conversation, its id to continue it; left out for a sandbox that ends with the
    /// request
    conversation: Option<String>,
    /// The template that the sandbox starts from
    template: Option<String>,
    /// The limits of the sandbox
    limits: Option<LimitsBody>,
    /// Variables
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Files that are written to the sandbox; relative paths are below `/workspace`
    #[serde(default)]
    files: Vec<FileBody>,
    /// The wall-clock time that each piece of code may take
    timeout_seconds: Option<f64>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum ShapeBody {
    Interpret,
    Agent,
}

impl From<ShapeBody> for Shape {
    fn from(shape: ShapeBody) -> Self {
        match shape {
            ShapeBody::Interpret => Self::Interpret,
            ShapeBody::Agent => Self::Agent,
        }
    }
}

/// The word for a conversation that is to begin.
const NEW: &str = "new";

impl InterpretBody {
    /// The files that came with it.
    pub(crate) fn take_files(
        &mut self,
    ) -> Result<Vec<(silica_engine::GuestPath, Vec<u8>)>, Problem> {
        given(std::mem::take(&mut self.files))
    }

    fn prompt(mut self, app: &App) -> Result<Prompt, Problem> {
        let files = self.take_files()?;
        let goes_on = self.conversation.as_deref().is_some_and(|id| id != NEW);
        if goes_on && (self.template.is_some() || self.limits.is_some() || !self.env.is_empty()) {
            let words = "template, limits and env apply to a new sandbox; this conversation has one \
                         already";
            return Err(Problem::bad(words));
        }
        let limits = self.limits.unwrap_or_default();
        Ok(Prompt {
            model: self.model,
            preset: self.preset,
            policy: self.policy,
            shape: self.shape.map(Shape::from),
            rounds: self.rounds,
            conversation: match self.conversation {
                None => ConversationRef::None,
                Some(id) if id == NEW => ConversationRef::New,
                Some(id) => ConversationRef::Existing(id),
            },
            sandbox: if goes_on {
                SandboxRequest::default()
            } else {
                plan(app, self.template, &limits, self.env)?
            },
            files,
            timeout: self.timeout_seconds.map(seconds).transpose()?,
            ..Prompt::new(self.prompt)
        })
    }
}

/// `POST /interpret`
pub(crate) async fn simple(
    State(app): State<App>,
    caller: Caller,
    Json(body): Json<PromptBody>,
) -> Result<Response, Problem> {
    let prompt = Prompt { model: body.model, ..Prompt::new(body.prompt) };
    count_record(&app, &caller, &prompt)?;
    // Dropped when the client disconnects, which stops the model and the code.
    let answered = app.prompts.answer(&caller.tenant, prompt, &EventSink::discard()).await?;
    long_answer(&app, &caller.tenant, Interpretation::from(&answered)).await
}

/// `POST /v1/interpret`
pub(crate) async fn interpret(
    State(app): State<App>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    headers: HeaderMap,
    Json(body): Json<InterpretBody>,
) -> Result<Response, Problem> {
    let prompt = body.prompt(&app)?;
    count_record(&app, &caller, &prompt)?;
    if !stream::wanted(&headers) {
        let answered = app.prompts.answer(&caller.tenant, prompt, &EventSink::discard()).await?;
        return long_answer(&app, &caller.tenant, Interpretation::from(&answered)).await;
    }
    let (sender, mut events) = mpsc::channel(EVENTS_MAX);
    let prompts = app.prompts;
    let tenant = caller.tenant;
    let task = tokio::spawn(async move {
        let sink = EventSink::new(sender);
        prompts.answer(&tenant, prompt, &sink).await
    });
    let mut running = RunningRequest(task);
    // A request that is refused before the first event has a status of its own.
    let Some(first) = events.recv().await else {
        let answered = running.end().await?;
        return Ok(stream::events(Body::from(last(&Ok(answered), &request_id.0))));
    };
    let stream = InterpretStream {
        first: Some(first),
        events,
        running,
        request_id: request_id.0,
        over: false,
    };
    let chunks = futures_util::stream::unfold(stream, |mut stream| async move {
        let chunk = stream.next().await?;
        Some((Ok::<_, Infallible>(chunk), stream))
    });
    Ok(stream::events(Body::from_stream(chunks)))
}

/// Counts what the audit log records of a prompt; refuses if its key has too much recorded.
fn count_record(app: &App, caller: &Caller, prompt: &Prompt) -> Result<(), Problem> {
    let bytes = prompt.prompt.len() as u64 + RECORDS_BYTES;
    Ok(app.sessions.admission().record(&caller.tenant, bytes)?)
}

/// A request that runs; aborted when this is dropped.
struct RunningRequest(JoinHandle<Result<PromptAnswer, PromptError>>);

impl RunningRequest {
    async fn end(&mut self) -> Result<PromptAnswer, Problem> {
        match (&mut self.0).await {
            Ok(answered) => answered.map_err(Problem::from),
            Err(_) => {
                Err(Problem::new(crate::http::problem::Code::Internal, "the request broke off"))
            }
        }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The events of a request, as they happen.
struct InterpretStream {
    first: Option<PromptEvent>,
    events: mpsc::Receiver<PromptEvent>,
    running: RunningRequest,
    request_id: String,
    over: bool,
}

impl InterpretStream {
    /// Returns every event that is there as one chunk; waits if there is none.
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        let first = match self.first.take() {
            Some(first) => Some(first),
            None => match tokio::time::timeout(stream::KEEP_ALIVE, self.events.recv()).await {
                Ok(event) => event,
                Err(_) => return Some(stream::KEEP_ALIVE_COMMENT),
            },
        };
        let Some(first) = first else {
            self.over = true;
            let ended = self.running.end().await;
            return Some(last(&ended, &self.request_id).into());
        };
        let mut chunk = Vec::new();
        // Writing to memory cannot fail.
        let _ = wire::interpret::write(&mut chunk, &first);
        while let Ok(event) = self.events.try_recv() {
            let _ = wire::interpret::write(&mut chunk, &event);
        }
        Some(chunk.into())
    }
}

/// Returns the last event: the answer, or the problem.
fn last(ended: &Result<PromptAnswer, Problem>, request_id: &str) -> Vec<u8> {
    let mut chunk = Vec::new();
    let written = match ended {
        Ok(answered) => stream::event(&mut chunk, None, "done", &Interpretation::from(answered)),
        Err(problem) => {
            stream::event(&mut chunk, None, "problem", &ProblemBody::new(problem, request_id))
        }
    };
    // Writing to memory cannot fail.
    drop(written);
    chunk
}
