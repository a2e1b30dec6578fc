//! Errors in the forms that E2B's clients parse.
//!
//! A handler returns an [`E2bError`]; the layer around its routes knows the [`ErrorShape`].

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use silica_domain::UnknownId;
use silica_engine::FileError;
use silica_sessions::{AdmissionError, SessionError};
use silica_store::StoreError;

use super::frames;
use crate::http::dialect::{Complete, ErrorForm, unrendered};
use crate::http::problem::{Code, Problem};

/// What a handler of a service returns.
pub(super) type E2bResult = Result<Response, E2bError>;

/// Why a request is refused.
#[derive(Clone, Debug)]
pub(super) enum E2bError {
    /// The sandbox does not exist, or has ended.
    Gone(String),
    /// The sandbox runs, but no service listens on this port.
    PortClosed { sandbox: String, port: String },
    /// E2B has this feature and this server does not.
    Unsupported(String),
    /// A change of a file outside of the directories for files, which their user may not do either.
    Outside(String),
    /// Every other error.
    Problem(Problem),
}

/// What the log says of a response that breaks off.
pub(super) const SANDBOX_ENDED: &str = "the sandbox has ended";

/// The form of an error response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorShape {
    /// `{"code": 404, "message": …}`.
    Number,
    /// `{"code": "not_found", "message": …}`: a unary call of Connect.
    Call,
    /// The object of `Call`, in the last frame of a Connect stream.
    Stream,
    /// Plain text.
    Text,
}

impl E2bError {
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
            Self::Outside(_) => StatusCode::FORBIDDEN,
            Self::Problem(problem) => match problem.code() {
                Code::SandboxEnded | Code::CommandEnded => StatusCode::NOT_FOUND,
                Code::NotAFile | Code::NotADirectory | Code::CannotStart => StatusCode::BAD_REQUEST,
                Code::Refused => StatusCode::FORBIDDEN,
                code => code.name_and_status().1,
            },
        }
    }

    /// Returns the code of Connect.
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

    /// Returns the object in the last frame of a stream.
    pub(super) fn in_stream(&self) -> Value {
        json!({"code": self.connect_code(), "message": self.words()})
    }

    pub(super) fn render(&self, shape: ErrorShape) -> Response {
        let mut response = match (self, shape) {
            // E2B's proxy in front of its sandboxes renders these, so every service has one form.
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
            (_, ErrorShape::Number) => {
                let code = self.status().as_u16();
                json_answer(self.status(), &json!({"code": code, "message": self.words()}))
            }
            (_, ErrorShape::Call) => json_answer(self.status(), &self.in_stream()),
            (_, ErrorShape::Stream) => frames::only_an_end(&self.in_stream()),
            (_, ErrorShape::Text) => (self.status(), self.words()).into_response(),
        };
        self.set_retry_headers(&mut response);
        response.extensions_mut().insert(Complete);
        response
    }

    /// E2B's clients retry on their own: tells them when, or that retrying does not help.
    fn set_retry_headers(&self, response: &mut Response) {
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

impl IntoResponse for E2bError {
    fn into_response(self) -> Response {
        unrendered(self.status(), self)
    }
}

impl ErrorForm for ErrorShape {
    type Error = E2bError;

    fn render(&self, error: &E2bError) -> Response {
        error.render(*self)
    }
}

impl From<Problem> for E2bError {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<UnknownId> for E2bError {
    fn from(error: UnknownId) -> Self {
        SessionError::from(error).into()
    }
}

impl From<SessionError> for E2bError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Ended { id, .. } => Self::Gone(id),
            SessionError::File(error) => error.into(),
            error => Self::Problem(error.into()),
        }
    }
}

impl From<FileError> for E2bError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Outside(_) => Self::Outside(error.to_string()),
            error => Self::Problem(error.into()),
        }
    }
}

impl From<StoreError> for E2bError {
    fn from(error: StoreError) -> Self {
        Self::Problem(error.into())
    }
}

impl From<AdmissionError> for E2bError {
    fn from(refusal: AdmissionError) -> Self {
        Self::Problem(refusal.into())
    }
}
