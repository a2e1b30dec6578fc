//! What this crate needs of sandboxes, as traits. The server implements them with its sessions; tests pretend.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use silica_domain::{Bundle, CellError, Outcome};
use silica_policy::{CheckedCode, PolicyChoice, Report};
use silica_store::Tenant;

use crate::event::EventSink;

/// The result of running code.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// How the code ended.
    pub outcome: Outcome,
    /// Why it ended so, where its output and exception do not say it.
    pub message: Option<String>,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
    /// The results that it displayed.
    pub results: Vec<Arc<Bundle>>,
    /// The exception that ended it.
    pub error: Option<CellError>,
    /// The files that it created or changed.
    pub written: Vec<WrittenFile>,
    /// The paths of the files that it removed.
    pub removed: Vec<String>,
    /// Wall-clock time.
    pub duration: Duration,
    /// A sentence about what was lost with its interpreter; `None` if it was not lost.
    pub lost: Option<String>,
}

/// A file that code created or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// Its path in the sandbox.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
}

/// A file that is part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFile {
    /// Its path in the sandbox.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its content; `None` where the sandbox lives on or the content does not fit.
    pub content: Option<Vec<u8>>,
}

impl RunResult {
    /// Returns whether the code ran to its end without an error.
    pub fn succeeded(&self) -> bool {
        matches!(self.outcome, Outcome::Ok | Outcome::Exited(0))
    }

    /// Returns its stdout, followed by the value of its last expression, without space around them.
    pub fn output(&self) -> String {
        let main = self.results.iter().find(|bundle| bundle.main);
        let value = main.and_then(|bundle| bundle.get("text/plain"));
        let value = value.map(String::from_utf8_lossy).unwrap_or_default();
        let printed = self.stdout.trim();
        match (printed.is_empty(), value.trim()) {
            (_, "") => printed.to_owned(),
            (true, value) => value.to_owned(),
            (false, value) => format!("{printed}\n{value}"),
        }
    }

    /// Returns its stderr, its exception and the message, one below the other; `None` if all are empty.
    pub fn complaint(&self) -> Option<String> {
        join([self.written_errors(), self.message.clone()])
    }

    /// Returns its stderr and its exception, one below the other; `None` if both are empty. All of it comes from the
    /// sandbox.
    pub fn written_errors(&self) -> Option<String> {
        let traceback = self.error.as_ref().map(|error| {
            if error.traceback.is_empty() {
                format!("{}: {}", error.name, error.value)
            } else {
                error.traceback.join("\n")
            }
        });
        join([Some(self.stderr.clone()), traceback])
    }
}

fn join(parts: [Option<String>; 2]) -> Option<String> {
    let parts = parts.into_iter().flatten().map(|part| part.trim().to_owned());
    let text: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    (!text.is_empty()).then(|| text.join("\n"))
}

/// Why code was not run.
#[derive(Debug)]
pub enum RunError<E> {
    /// A policy of the server blocks it.
    Blocked(Arc<Report>),
    /// The sandbox failed.
    Sandbox(E),
}

/// Runs pieces of code, one after the other, in one sandbox.
pub trait Runner: Send {
    /// How the sandbox fails.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Runs code for at most `time_max`, and sends its output to `events` while it runs. Dropping the future
    /// interrupts the code.
    fn run(
        &mut self,
        code: &CheckedCode,
        time_max: Duration,
        events: &EventSink,
    ) -> impl Future<Output = Result<RunResult, RunError<Self::Error>>> + Send;
}

/// The sandbox of one request.
pub trait RequestSandbox: Runner {
    /// Identifies the sandbox after the request.
    type Handle: SandboxHandle;

    /// Sets the policy by which the sandbox checks code before it runs.
    fn check_by(&mut self, policy: PolicyChoice);

    /// Fails if it is already known that the sandbox cannot be created, so that no model need be asked.
    fn fail_early(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Returns the id of the sandbox; `None` while it is being created.
    fn id(&self) -> Option<String>;

    /// Lets the sandbox live on after the request.
    fn keep(&mut self) -> impl Future<Output = Result<Self::Handle, Self::Error>> + Send;

    /// Reads the files of an answer. Their content is included where the sandbox ends with the request.
    fn collect(&self, written: Vec<WrittenFile>) -> impl Future<Output = Vec<OutputFile>> + Send;
}

/// A sandbox that lives on for a conversation.
pub trait SandboxHandle: Clone + fmt::Debug + Send + Sync + 'static {
    /// Returns the id of the sandbox.
    fn id(&self) -> String;

    /// Returns whether the sandbox has ended.
    fn has_ended(&self) -> bool;
}

/// Creates the sandboxes of requests.
pub trait SandboxProvider: fmt::Debug + Send + Sync + 'static {
    /// A request for a sandbox.
    type Request: Clone + Default + fmt::Debug + Send + Sync + 'static;
    /// The path of a file in a sandbox.
    type Path: Clone + fmt::Debug + fmt::Display + Send + Sync + 'static;
    /// How a sandbox fails.
    type Error: std::error::Error + Send + Sync + 'static;
    /// Identifies a sandbox after its request.
    type Handle: SandboxHandle;
    /// The sandbox of one request.
    type Sandbox: RequestSandbox<Error = Self::Error, Handle = Self::Handle>;

    /// Begins to create a sandbox with files in it, and returns at once. `template` is used if the request
    /// names none.
    fn begin(
        &self,
        tenant: &Tenant,
        request: Self::Request,
        template: Option<&str>,
        files: Vec<(Self::Path, Vec<u8>)>,
    ) -> Self::Sandbox;

    /// Returns the sandbox of a conversation, with files added to it.
    fn reopen(
        &self,
        handle: Self::Handle,
        files: Vec<(Self::Path, Vec<u8>)>,
    ) -> impl Future<Output = Result<Self::Sandbox, Self::Error>> + Send;

    /// Returns the default timeout of code.
    fn default_timeout(&self) -> Duration;
}
