//! Errors on their way to a client: a stable code, and words. Each facade renders them in its dialect.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use silica_domain::UnknownId;
use silica_engine::{BranchError, CommandError, FileError};
use silica_interpret::model::ModelError;
use silica_sessions::{AdmissionError, CheckResult, SessionError};
use silica_store::StoreError;

use crate::prompt_sandbox::PromptError;

macro_rules! codes {
    ($($code:ident = $name:literal, $status:ident;)*) => {
        /// What went wrong, for programs. The names never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the name in JSON says it")]
        pub enum Code {
            $($code,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$code,)*];

            /// Its name in JSON and its status.
            pub fn name_and_status(self) -> (&'static str, StatusCode) {
                match self {
                    $(Self::$code => ($name, StatusCode::$status),)*
                }
            }
        }
    };
}

codes! {
    BadRequest = "bad_request", BAD_REQUEST;
    BadPath = "bad_path", BAD_REQUEST;
    BadLimit = "bad_limit", BAD_REQUEST;
    BadNetwork = "bad_network", BAD_REQUEST;
    PromptTooLong = "prompt_too_long", BAD_REQUEST;
    BadRange = "bad_range", RANGE_NOT_SATISFIABLE;
    Unauthorized = "unauthorized", UNAUTHORIZED;
    Forbidden = "forbidden", FORBIDDEN;
    OwnApproval = "own_approval", FORBIDDEN;
    NotApprovable = "not_approvable", FORBIDDEN;
    NetworkNotOffered = "network_not_offered", FORBIDDEN;
    WrongOrigin = "wrong_origin", FORBIDDEN;
    LinkInvalid = "link_invalid", FORBIDDEN;
    PortNotExposed = "port_not_exposed", FORBIDDEN;
    NotFound = "not_found", NOT_FOUND;
    SandboxNotFound = "sandbox_not_found", NOT_FOUND;
    KernelNotFound = "kernel_not_found", NOT_FOUND;
    CellNotFound = "cell_not_found", NOT_FOUND;
    CommandNotFound = "command_not_found", NOT_FOUND;
    FileNotFound = "file_not_found", NOT_FOUND;
    TemplateNotFound = "template_not_found", NOT_FOUND;
    KeyNotFound = "key_not_found", NOT_FOUND;
    ApprovalNotFound = "approval_not_found", NOT_FOUND;
    SecretNotFound = "secret_not_found", NOT_FOUND;
    SnapshotNotFound = "snapshot_not_found", NOT_FOUND;
    ModelNotFound = "model_not_found", NOT_FOUND;
    ConversationNotFound = "conversation_not_found", NOT_FOUND;
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED;
    RequestTimeout = "request_timeout", REQUEST_TIMEOUT;
    TooLarge = "too_large", PAYLOAD_TOO_LARGE;
    Conflict = "conflict", CONFLICT;
    SandboxEnded = "sandbox_ended", CONFLICT;
    CannotFork = "cannot_fork", CONFLICT;
    CellEnded = "cell_ended", CONFLICT;
    CommandEnded = "command_ended", CONFLICT;
    AlreadyDecided = "already_decided", CONFLICT;
    PolicyBlocked = "policy_blocked", UNPROCESSABLE_ENTITY;
    ConversationBusy = "conversation_busy", CONFLICT;
    NotAFile = "not_a_file", UNPROCESSABLE_ENTITY;
    NotADirectory = "not_a_directory", UNPROCESSABLE_ENTITY;
    Refused = "refused", UNPROCESSABLE_ENTITY;
    CannotStart = "cannot_start", UNPROCESSABLE_ENTITY;
    RateLimited = "rate_limited", TOO_MANY_REQUESTS;
    QuotaExceeded = "quota_exceeded", TOO_MANY_REQUESTS;
    QueueFull = "queue_full", TOO_MANY_REQUESTS;
    BudgetSpent = "budget_spent", TOO_MANY_REQUESTS;
    Internal = "internal", INTERNAL_SERVER_ERROR;
    ModelFailed = "model_failed", BAD_GATEWAY;
    PortClosed = "port_closed", BAD_GATEWAY;
    PortFailed = "port_failed", BAD_GATEWAY;
    Starting = "starting", SERVICE_UNAVAILABLE;
    ShuttingDown = "shutting_down", SERVICE_UNAVAILABLE;
    StoreUnavailable = "store_unavailable", SERVICE_UNAVAILABLE;
    CannotCreate = "cannot_create", SERVICE_UNAVAILABLE;
    ModelNotConfigured = "model_not_configured", SERVICE_UNAVAILABLE;
    ModelBusy = "model_busy", SERVICE_UNAVAILABLE;
    ModelSlow = "model_slow", GATEWAY_TIMEOUT;
    PortSlow = "port_slow", GATEWAY_TIMEOUT;
    DiskFull = "disk_full", INSUFFICIENT_STORAGE;
}

/// An error on its way to a client.
#[derive(Clone, Debug)]
pub struct Problem {
    code: Code,
    detail: String,
    retry: Option<Duration>,
    /// The size of the file that a range lies outside of.
    size: Option<u64>,
    /// What the policy found in blocked code.
    checked: Option<Box<CheckResult>>,
}

impl Problem {
    /// Creates a problem with words for people.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), retry: None, size: None, checked: None }
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Returns the words for people.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns when a retry may succeed.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// The size of the file, if the requested range lies outside of it.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// The findings of the policy, if it blocked the code.
    pub(crate) fn checked(&self) -> Option<&CheckResult> {
        self.checked.as_deref()
    }

    /// Adds when a retry may succeed.
    pub(crate) fn retry_after(self, retry: Duration) -> Self {
        Self { retry: Some(retry), ..self }
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(Code::BadRequest, detail)
    }
}

/// A problem that the guard renders, in the extensions of a response.
#[derive(Clone, Debug)]
pub(crate) struct Pending(pub(crate) Problem);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.code.name_and_status().1.into_response();
        response.extensions_mut().insert(Pending(self));
        response
    }
}

/// Joins an error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        let code = match &error {
            SessionError::NoSandbox(_) => Code::SandboxNotFound,
            SessionError::Ended { .. } | SessionError::ApprovalVoid(_) => Code::SandboxEnded,
            SessionError::NoKernel(_) => Code::KernelNotFound,
            SessionError::NoSnapshot(_) => Code::SnapshotNotFound,
            SessionError::NoWatcher(_) | SessionError::NoMark => Code::NotFound,
            SessionError::NoCell(_) => Code::CellNotFound,
            SessionError::NoCommand(_) => Code::CommandNotFound,
            SessionError::CellEnded(_) => Code::CellEnded,
            SessionError::CommandEnded(_) => Code::CommandEnded,
            SessionError::Bad(_) | SessionError::Input(_) => Code::BadRequest,
            SessionError::NoTemplate(_) => Code::TemplateNotFound,
            SessionError::BadNetwork(_) => Code::BadNetwork,
            SessionError::NotOffered(_) => Code::NetworkNotOffered,
            SessionError::NoSecret(_) => Code::SecretNotFound,
            SessionError::Limit(_) => Code::BadLimit,
            SessionError::Blocked(_) => Code::PolicyBlocked,
            SessionError::NoApproval(_) => Code::ApprovalNotFound,
            SessionError::AlreadyDecided { .. } => Code::AlreadyDecided,
            SessionError::OwnApproval(_) => Code::OwnApproval,
            SessionError::OtherCode(_) | SessionError::Busy(_) => Code::Conflict,
            SessionError::NotApprovable => Code::NotApprovable,
            SessionError::Refused(AdmissionError::Rate(_)) => Code::RateLimited,
            SessionError::PortNotExposed(_) => Code::PortNotExposed,
            SessionError::PortClosed(_) => Code::PortClosed,
            SessionError::TooManyPortConnections(_)
            | SessionError::TooManyKernels(_)
            | SessionError::TooManySnapshots(_)
            | SessionError::TooManyWatches(_)
            | SessionError::TooManyWait(_)
            | SessionError::TooManySecrets(_)
            | SessionError::TooManyQuestions(_)
            | SessionError::Refused(AdmissionError::Quota { .. }) => Code::QuotaExceeded,
            SessionError::Refused(AdmissionError::QueueFull { .. }) => Code::QueueFull,
            SessionError::Branch(error) => branch_code(error),
            SessionError::File(error) => file_code(error),
            SessionError::Command(error) => command_code(error),
            SessionError::Engine(_)
            | SessionError::Kernel(_)
            | SessionError::Zone(_)
            | SessionError::Egress(_) => {
                tracing::error!(error = &error as &dyn std::error::Error, "engine failed");
                Code::CannotCreate
            }
            // The end of the zone is logged once, and not for each request that waited for another.
            SessionError::NoZone => Code::CannotCreate,
            SessionError::Store(_) => {
                tracing::error!(error = &error as &dyn std::error::Error, "store failed");
                Code::StoreUnavailable
            }
            SessionError::ShuttingDown => Code::ShuttingDown,
        };
        let retry = match &error {
            SessionError::Refused(refusal) => Some(refusal.retry_after()),
            SessionError::ShuttingDown | SessionError::NoZone => Some(Duration::from_secs(5)),
            SessionError::TooManyWait(_) => Some(Duration::from_mins(1)),
            _ => None,
        };
        // The causes of these errors name files of the host, so only the log has them.
        let detail = match code {
            Code::StoreUnavailable | Code::CannotCreate => error.to_string(),
            _ => chain(&error),
        };
        let size = match &error {
            SessionError::File(FileError::Range { size, .. }) => Some(*size),
            _ => None,
        };
        let checked = match error {
            SessionError::Blocked(checked) => Some(checked),
            _ => None,
        };
        Self { code, detail, retry, size, checked }
    }
}

fn branch_code(error: &BranchError) -> Code {
    match error {
        BranchError::Refused(_) | BranchError::NotWritten(_) | BranchError::HeldOpen => {
            Code::CannotFork
        }
        BranchError::Files(error) => file_code(error),
        BranchError::OtherZygote
        | BranchError::Kernel(_)
        | BranchError::System(_)
        | BranchError::Sandbox(_) => {
            tracing::error!(error = error as &dyn std::error::Error, "a sandbox was not copied");
            Code::CannotCreate
        }
    }
}

fn file_code(error: &FileError) -> Code {
    match error {
        FileError::Outside(_) | FileError::Place(_) => Code::BadPath,
        FileError::Missing(_) => Code::FileNotFound,
        FileError::Linked(_)
        | FileError::Denied(_)
        | FileError::Special(_)
        | FileError::Unanswered { .. } => Code::Refused,
        FileError::IsDirectory(_) => Code::NotAFile,
        FileError::NotDirectory(_) => Code::NotADirectory,
        FileError::Exists(_) | FileError::NotEmpty(_) | FileError::IntoItself(_) => Code::Conflict,
        FileError::TooMuch(_) | FileError::TooLarge { .. } | FileError::Missed(_) => Code::TooLarge,
        FileError::DiskFull(_) => Code::DiskFull,
        FileError::Range { .. } => Code::BadRange,
        FileError::Entry { .. } | FileError::Archive(_) | FileError::Metadata { .. } => {
            Code::BadRequest
        }
        FileError::Shrunk(_)
        | FileError::Unfinished(_)
        | FileError::Output(_)
        | FileError::Write(..)
        | FileError::System { .. } => Code::Internal,
    }
}

fn command_code(error: &CommandError) -> Code {
    match error {
        CommandError::Invalid(_) => Code::BadRequest,
        CommandError::TooLarge => Code::TooLarge,
        CommandError::TooMany => Code::QuotaExceeded,
        CommandError::SandboxDied => Code::SandboxEnded,
        CommandError::NotFound(_)
        | CommandError::NotExecutable { .. }
        | CommandError::Directory { .. }
        | CommandError::Killed(_) => Code::CannotStart,
        CommandError::Refused { .. }
        | CommandError::Slow
        | CommandError::Streams(_)
        | CommandError::Tier(_) => Code::CannotCreate,
    }
}

impl From<UnknownId> for Problem {
    fn from(error: UnknownId) -> Self {
        SessionError::from(error).into()
    }
}

impl From<PromptError> for Problem {
    fn from(error: PromptError) -> Self {
        let code = match &error {
            PromptError::Sandbox(_) | PromptError::Store(_) => Code::Internal,
            PromptError::NotConfigured => Code::ModelNotConfigured,
            PromptError::Bad(_) | PromptError::Policy(_) => Code::BadRequest,
            PromptError::PromptTooLong { .. } => Code::PromptTooLong,
            PromptError::ModelNotAllowed(_) => Code::ModelNotFound,
            PromptError::NoConversation(_) => Code::ConversationNotFound,
            PromptError::Busy(_) => Code::ConversationBusy,
            PromptError::Model(error) => model_code(error),
            PromptError::Spent(_) => Code::BudgetSpent,
            PromptError::Time(_) => Code::ModelSlow,
        };
        let retry = match &error {
            PromptError::Spent(spent) => Some(spent.retry_after),
            PromptError::Model(error) => error.retry_after(),
            _ => None,
        };
        match error {
            PromptError::Sandbox(error) => error.into(),
            PromptError::Store(error) => error.into(),
            error => {
                if let PromptError::Model(error) = &error {
                    let error = error as &dyn std::error::Error;
                    tracing::warn!(error, "a model gave no answer");
                }
                // The causes name the operator's provider, so only the log has them.
                let detail = match &error {
                    PromptError::Model(error) => error.to_string(),
                    error => chain(error),
                };
                Self { retry, ..Self::new(code, detail) }
            }
        }
    }
}

fn model_code(error: &ModelError) -> Code {
    match error {
        ModelError::NoKey => Code::ModelNotConfigured,
        ModelError::NoModel { .. } => Code::ModelNotFound,
        ModelError::Busy { .. } => Code::ModelBusy,
        ModelError::Slow(_) => Code::ModelSlow,
        ModelError::KeyRefused { .. }
        | ModelError::Refused { .. }
        | ModelError::Failed { .. }
        | ModelError::Unreachable(_)
        | ModelError::Cut
        | ModelError::Malformed(_)
        | ModelError::TooLong(_)
        | ModelError::ScriptEnded => Code::ModelFailed,
    }
}

impl From<FileError> for Problem {
    fn from(error: FileError) -> Self {
        SessionError::File(error).into()
    }
}

impl From<AdmissionError> for Problem {
    fn from(refusal: AdmissionError) -> Self {
        SessionError::Refused(refusal).into()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        SessionError::Store(error).into()
    }
}
