//! What is said when something is refused, in the forms E2B's clients understand.
//!
//! A handler returns a [`Refusal`]; the layer around its routes knows the [`Shape`] and renders it.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use silica_engine::FileError;
use silica_sessions::{Refusal as Admission, SessionError};
use silica_store::StoreError;

use super::{frames, lent};
use crate::http::guard::AsItIs;
use crate::http::problem::{Code, Problem};

/// Why something is refused.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// The sandbox a request is for is not there, or not any more.
    Gone(String),
    /// The sandbox is there, but nothing can be reached on this port.
    PortClosed { sandbox: String, port: String },
    /// Theirs can do this and ours cannot.
    Unsupported(String),
    /// Beyond the places that files are kept in.
    Outside(String),
    /// Whatever the native side says.
    Problem(Problem),
}

/// In which form it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `{"code": 404, "message": …}`.
    Number,
    /// `{"code": "not_found", "message": …}`: one call of Connect.
    Call,
    /// The same in the last frame of a stream.
    Stream,
    /// Plain text.
    Text,
}

impl Refusal {
    pub(super) fn bad(words: impl Into<String>) -> Self {
        Self::Problem(Problem::bad(words))
    }

    pub(super) fn missing(words: impl Into<String>) -> Self {
        Self::Problem(Problem::new(Code::NotFound, words))
    }

    pub(super) fn unauthorized(words: impl Into<String>) -> Self {
        Self::Problem(Problem::new(Code::Unauthorized, words))
    }

    fn words(&self) -> String {
        match self {
            Self::Gone(_) => "The sandbox was not found".to_owned(),
            Self::PortClosed { .. } => "The sandbox is running but port is not open".to_owned(),
            Self::Unsupported(what) => format!("{what} is not supported by this server"),
            Self::Outside(words) => words.clone(),
            Self::Problem(problem) => problem.detail().to_owned(),
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Gone(_) | Self::PortClosed { .. } => StatusCode::BAD_GATEWAY,
            Self::Unsupported(_) => StatusCode::NOT_IMPLEMENTED,
            Self::Outside(_) => StatusCode::NOT_FOUND,
            Self::Problem(problem) => match problem.code() {
                Code::SandboxEnded | Code::CommandEnded => StatusCode::NOT_FOUND,
                Code::NotAFile | Code::NotADirectory | Code::CannotStart => StatusCode::BAD_REQUEST,
                Code::Refused => StatusCode::FORBIDDEN,
                code => code.name_and_status().1,
            },
        }
    }

    /// The name of it in Connect.
    fn connect_code(&self) -> &'static str {
        match (self, self.status()) {
            (Self::Unsupported(_), _) => "unimplemented",
            (_, StatusCode::NOT_FOUND) => "not_found",
            (_, StatusCode::CONFLICT) => "already_exists",
            (_, StatusCode::UNAUTHORIZED) => "unauthenticated",
            (_, StatusCode::FORBIDDEN) => "permission_denied",
            (
                _,
                StatusCode::TOO_MANY_REQUESTS
                | StatusCode::INSUFFICIENT_STORAGE
                | StatusCode::PAYLOAD_TOO_LARGE,
            ) => "resource_exhausted",
            (_, StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY) => "unavailable",
            (_, StatusCode::INTERNAL_SERVER_ERROR) => "internal",
            _ => "invalid_argument",
        }
    }

    /// As it stands in the last frame of a stream.
    pub(super) fn in_stream(&self) -> Value {
        json!({"code": self.connect_code(), "message": self.words()})
    }

    pub(super) fn render(&self, shape: Shape) -> Response {
        let mut response = match (self, shape) {
            // Said by what stands before their sandboxes, whatever was asked of them.
            (Self::Gone(sandbox), _) => {
                let body = json!({"sandboxId": sandbox, "message": self.words(), "code": 502});
                json_answer(self.status(), &body)
            }
            (Self::PortClosed { sandbox, port }, _) => {
                let message = self.words();
                let port: Value = port.parse::<u16>().map_or(json!(port), |port| json!(port));
                let body =
                    json!({"sandboxId": sandbox, "message": message, "port": port, "code": 502});
                json_answer(self.status(), &body)
            }
            (_, Shape::Number) => {
                let code = self.status().as_u16();
                json_answer(self.status(), &json!({"code": code, "message": self.words()}))
            }
            (_, Shape::Call) => json_answer(self.status(), &self.in_stream()),
            (_, Shape::Stream) => frames::only_an_end(&self.in_stream()),
            (_, Shape::Text) => (self.status(), self.words()).into_response(),
        };
        self.say_when_to_retry(&mut response);
        response.extensions_mut().insert(AsItIs);
        response
    }

    /// Their clients try again by themselves; what does not pass by waiting says so.
    fn say_when_to_retry(&self, response: &mut Response) {
        let Self::Problem(problem) = self else { return };
        let headers = response.headers_mut();
        if problem.code() == Code::QuotaExceeded {
            headers.insert("should-retry", HeaderValue::from_static("false"));
        } else if let Some(after) = problem.retry() {
            let seconds = after.as_secs_f64().ceil().max(1.0) as u64;
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
    }
}

fn json_answer(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(Held(self));
        response
    }
}

/// Lets the layer that knows the shape write the body.
#[derive(Clone, Debug)]
struct Held(Refusal);

/// Goes around routes that refuse in one shape: writes refusals out, and marks everything else as
/// complete.
pub(super) async fn shaped(State(shape): State<Shape>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let (body, lender) = lent::lend(body);
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if let Some(Held(refusal)) = response.extensions_mut().remove::<Held>() {
        lender.read_rest().await;
        return refusal.render(shape);
    }
    response.extensions_mut().insert(AsItIs);
    response
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Ended { id, .. } => Self::Gone(id),
            SessionError::File(error) => error.into(),
            error => Self::Problem(error.into()),
        }
    }
}

impl From<FileError> for Refusal {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Outside(_) => Self::Outside(error.to_string()),
            error => Self::Problem(error.into()),
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Problem(error.into())
    }
}

impl From<Admission> for Refusal {
    fn from(refusal: Admission) -> Self {
        Self::Problem(refusal.into())
    }
}
