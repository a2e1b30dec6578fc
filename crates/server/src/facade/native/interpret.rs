//! Prompts: a model writes code, the code runs, the answer comes back, whole or as it happens.

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Deserialize;
use silica_interpret::preset::Shape;
use silica_interpret::{Answered, Ask, EVENTS_MAX, Event, InterpretError, Talk, Voice};
use silica_sessions::Create;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::run::{FileBody, given};
use super::sandboxes::{LimitsBody, plan};
use super::seconds;
use crate::app::App;
use crate::facade::native::render::interpret as render;
use crate::http::auth::Caller;
use crate::http::guard::RequestId;
use crate::http::json::{Answer, Json};
use crate::http::problem::Problem;
use crate::http::stream;

/// A prompt, and nothing else that has to be known.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SimpleBody {
    prompt: String,
    model: Option<String>,
}

/// A prompt, and everything that can be said about it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InterpretBody {
    prompt: String,
    model: Option<String>,
    preset: Option<String>,
    policy: Option<String>,
    shape: Option<ShapeBody>,
    rounds: Option<u32>,
    conversation: Option<String>,
    template: Option<String>,
    limits: Option<LimitsBody>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    files: Vec<FileBody>,
    timeout_seconds: Option<f64>,
}

/// The shapes, as clients write them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
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

    fn ask(mut self, app: &App) -> Result<Ask, Problem> {
        let files = self.take_files()?;
        let goes_on = self.conversation.as_deref().is_some_and(|id| id != NEW);
        if goes_on && (self.template.is_some() || self.limits.is_some() || !self.env.is_empty()) {
            let words = "template, limits and env belong to a sandbox that is made; this \
                         conversation has one";
            return Err(Problem::bad(words));
        }
        let limits = self.limits.unwrap_or_default();
        Ok(Ask {
            prompt: self.prompt,
            model: self.model,
            preset: self.preset,
            policy: self.policy,
            shape: self.shape.map(Shape::from),
            rounds: self.rounds,
            conversation: match self.conversation {
                None => Talk::Once,
                Some(id) if id == NEW => Talk::New,
                Some(id) => Talk::In(id),
            },
            create: if goes_on {
                Create::default()
            } else {
                plan(app, self.template, &limits, self.env)?
            },
            files,
            timeout: self.timeout_seconds.map(seconds).transpose()?,
            ..Ask::default()
        })
    }
}

/// `POST /interpret`
pub(crate) async fn simple(
    State(app): State<App>,
    caller: Caller,
    Json(body): Json<SimpleBody>,
) -> Result<Response, Problem> {
    let ask = Ask { prompt: body.prompt, model: body.model, ..Ask::default() };
    // Dropped with the connection: that stops the model and the code.
    let answered = app.interpreter.ask(&caller.tenant, ask, &Voice::silent()).await?;
    Ok(Answer(render::answered(&answered)).into_response())
}

/// `POST /v1/interpret`
pub(crate) async fn interpret(
    State(app): State<App>,
    caller: Caller,
    Extension(request_id): Extension<RequestId>,
    headers: HeaderMap,
    Json(body): Json<InterpretBody>,
) -> Result<Response, Problem> {
    let ask = body.ask(&app)?;
    if !stream::wanted(&headers) {
        let answered = app.interpreter.ask(&caller.tenant, ask, &Voice::silent()).await?;
        return Ok(Answer(render::answered(&answered)).into_response());
    }
    let (sender, mut events) = mpsc::channel(EVENTS_MAX);
    let (interpreter, tenant) = (app.interpreter, caller.tenant);
    let work = tokio::spawn(async move {
        let voice = Voice::new(sender);
        interpreter.ask(&tenant, ask, &voice).await
    });
    let mut work = Work(work);
    // What is refused before anything happens has a status of its own.
    let Some(first) = events.recv().await else {
        let answered = work.end().await?;
        return Ok(stream::events(Body::from(last(&Ok(answered), &request_id.0))));
    };
    let telling =
        Telling { first: Some(first), events, work, request_id: request_id.0, over: false };
    let stream = futures_util::stream::unfold(telling, |mut telling| async move {
        let chunk = telling.next().await?;
        Some((Ok::<_, Infallible>(chunk), telling))
    });
    Ok(stream::events(Body::from_stream(stream)))
}

/// The request at work; given up when dropped.
struct Work(JoinHandle<Result<Answered, InterpretError>>);

impl Work {
    async fn end(&mut self) -> Result<Answered, Problem> {
        match (&mut self.0).await {
            Ok(answered) => answered.map_err(Problem::from),
            Err(_) => {
                Err(Problem::new(crate::http::problem::Code::Internal, "the request broke off"))
            }
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A request that is told as it happens.
struct Telling {
    first: Option<Event>,
    events: mpsc::Receiver<Event>,
    work: Work,
    request_id: String,
    over: bool,
}

impl Telling {
    /// What there is, as one chunk; waits if there is nothing.
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        let first = match self.first.take() {
            Some(first) => Some(first),
            None => match tokio::time::timeout(stream::KEEP_ALIVE, self.events.recv()).await {
                Ok(event) => event,
                Err(_) => return Some(Bytes::from_static(b": still here\n\n")),
            },
        };
        let Some(first) = first else {
            self.over = true;
            let ended = self.work.end().await;
            return Some(last(&ended, &self.request_id).into());
        };
        let mut chunk = Vec::new();
        render::event(&mut chunk, &first);
        while let Ok(event) = self.events.try_recv() {
            render::event(&mut chunk, &event);
        }
        Some(chunk.into())
    }
}

/// The last event: the whole answer, or why there is none.
fn last(ended: &Result<Answered, Problem>, request_id: &str) -> Vec<u8> {
    let mut chunk = Vec::new();
    match ended {
        Ok(answered) => stream::line(&mut chunk, None, "done", &render::answered(answered)),
        Err(problem) => stream::line(&mut chunk, None, "problem", &problem.body(request_id)),
    }
    chunk
}
