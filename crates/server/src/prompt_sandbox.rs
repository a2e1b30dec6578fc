//! The sandboxes of prompts: implements what `silica-interpret` needs of sandboxes with sessions.
//!
//! A sandbox is created while the model answers. It ends with its request, unless a conversation goes on in it.

use std::sync::Arc;
use std::time::Duration;

use silica_engine::{CellSetup, ChangedFile, GuestPath};
use silica_interpret::{
    EventSink, InterpretError, OutputFile, PromptEvent, PromptRequest, PromptService,
    RequestSandbox, RunError, RunResult, Runner, SandboxHandle, SandboxProvider, WrittenFile,
};
use silica_policy::{CheckedCode, PolicyChoice};
use silica_sessions::{
    CellEnd, CellRequest, EndReason, LogEvent, LogRead, OutputText, ReadOnlyFiles, SandboxRequest,
    Session, SessionError, Sessions,
};
use silica_store::Tenant;
use tokio::task::JoinHandle;

use crate::facade::limits::field;

/// The most bytes of all files of one answer together.
const FILES_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The most files of one answer.
const FILES_MAX: usize = 200;

/// Answers prompts with code that runs in sessions.
pub type Prompts = PromptService<PromptSandboxes>;

/// A prompt for [`Prompts`].
pub type Prompt = PromptRequest<PromptSandboxes>;

/// Why [`Prompts`] gave no answer.
pub type PromptError = InterpretError<SessionError>;

/// Creates the sandboxes of prompts.
#[derive(Clone, Debug)]
pub struct PromptSandboxes(Arc<Sessions>);

impl PromptSandboxes {
    /// Creates sandboxes in these sessions.
    pub fn new(sessions: Arc<Sessions>) -> Self {
        Self(sessions)
    }

    fn sandbox(&self, state: State) -> PromptSandbox {
        let timeout_max = self.0.options().timeout_max;
        PromptSandbox { state, timeout_max, policy: None }
    }
}

impl SandboxProvider for PromptSandboxes {
    type Request = SandboxRequest;
    type Path = GuestPath;
    type Error = SessionError;
    type Handle = ConversationSandbox;
    type Sandbox = PromptSandbox;

    fn begin(
        &self,
        tenant: &Tenant,
        mut request: SandboxRequest,
        template: Option<&str>,
        files: Vec<(GuestPath, Vec<u8>)>,
    ) -> PromptSandbox {
        request.template = request.template.or_else(|| template.map(str::to_owned));
        let sessions = Arc::clone(&self.0);
        let tenant = tenant.clone();
        let creating = tokio::spawn(async move {
            let session = sessions.create(&tenant, request).await?;
            let lease = Lease { sessions, session, afterwards: Afterwards::End };
            lease.session.put_files(files).await?;
            Ok(lease)
        });
        self.sandbox(State::Creating(creating))
    }

    async fn reopen(
        &self,
        handle: ConversationSandbox,
        files: Vec<(GuestPath, Vec<u8>)>,
    ) -> Result<PromptSandbox, SessionError> {
        let session = handle.0;
        session.put_files(files).await?;
        let sessions = Arc::clone(&self.0);
        let lease = Lease { sessions, session, afterwards: Afterwards::Keep };
        Ok(self.sandbox(State::Ready(lease)))
    }

    fn default_timeout(&self) -> Duration {
        self.0.options().timeout
    }
}

/// The sandbox of a conversation.
#[derive(Clone, Debug)]
pub struct ConversationSandbox(Arc<Session>);

impl SandboxHandle for ConversationSandbox {
    fn id(&self) -> String {
        self.0.id().to_string()
    }

    fn has_ended(&self) -> bool {
        self.0.end_reason().is_some()
    }
}

/// What becomes of a sandbox after its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Afterwards {
    End,
    /// A conversation goes on in it.
    Keep,
}

/// A session in use by a request; dropping this ends it, unless it is kept.
#[derive(Debug)]
struct Lease {
    sessions: Arc<Sessions>,
    session: Arc<Session>,
    afterwards: Afterwards,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.afterwards == Afterwards::End {
            let sessions = Arc::clone(&self.sessions);
            let session = Arc::clone(&self.session);
            tokio::spawn(async move { sessions.end(&session, EndReason::Deleted).await });
        }
    }
}

#[derive(Debug)]
enum State {
    /// Dropping the handle drops the lease that comes of it, which ends the sandbox.
    Creating(JoinHandle<Result<Lease, SessionError>>),
    Ready(Lease),
}

/// The sandbox of one request.
#[derive(Debug)]
pub struct PromptSandbox {
    state: State,
    /// The longest timeout that the sessions allow.
    timeout_max: Duration,
    /// The policy by which the sessions check code; `None` is the server's default.
    policy: Option<PolicyChoice>,
}

impl PromptSandbox {
    /// Waits until the sandbox is created.
    async fn lease(&mut self) -> Result<&mut Lease, SessionError> {
        if let State::Creating(creating) = &mut self.state {
            let created = creating.await.unwrap_or(Err(SessionError::ShuttingDown))?;
            self.state = State::Ready(created);
        }
        match &mut self.state {
            State::Ready(lease) => Ok(lease),
            State::Creating(_) => Err(SessionError::ShuttingDown),
        }
    }

    async fn run_cell(
        &mut self,
        code: &CheckedCode,
        time_max: Duration,
        events: &EventSink,
    ) -> Result<RunResult, SessionError> {
        let request = CellRequest {
            code: code.clone().into(),
            kernel: None,
            setup: CellSetup::default(),
            timeout: Some(self.timeout_max.min(time_max)),
            policy: self.policy.clone(),
        };
        let cell = self.lease().await?.session.submit(request).await?;
        let interrupt = cell.interrupt_on_drop();
        if events.is_open() {
            let mut reader = cell.log.read(0);
            while let Some(read) = reader.next().await {
                if let LogRead::Event(_, event) = read
                    && let Some(event) = prompt_event(event)
                {
                    events.send(event).await;
                }
            }
        }
        let end = cell.done().await?;
        interrupt.disarm();
        Ok(run_result(&end))
    }
}

impl Runner for PromptSandbox {
    type Error = SessionError;

    async fn run(
        &mut self,
        code: &CheckedCode,
        time_max: Duration,
        events: &EventSink,
    ) -> Result<RunResult, RunError<SessionError>> {
        self.run_cell(code, time_max, events).await.map_err(|error| match error {
            SessionError::Blocked(checked) => RunError::Blocked(checked.report),
            error => RunError::Sandbox(error),
        })
    }
}

impl RequestSandbox for PromptSandbox {
    type Handle = ConversationSandbox;

    fn check_by(&mut self, policy: PolicyChoice) {
        self.policy = Some(policy);
    }

    async fn fail_early(&mut self) -> Result<(), SessionError> {
        match &self.state {
            State::Creating(creating) if creating.is_finished() => self.lease().await.map(drop),
            State::Creating(_) | State::Ready(_) => Ok(()),
        }
    }

    fn id(&self) -> Option<String> {
        match &self.state {
            State::Ready(lease) => Some(lease.session.id().to_string()),
            State::Creating(_) => None,
        }
    }

    async fn keep(&mut self) -> Result<ConversationSandbox, SessionError> {
        let lease = self.lease().await?;
        lease.afterwards = Afterwards::Keep;
        Ok(ConversationSandbox(Arc::clone(&lease.session)))
    }

    async fn collect(&self, written: Vec<WrittenFile>) -> Vec<OutputFile> {
        let State::Ready(lease) = &self.state else { return Vec::new() };
        let output =
            |file: WrittenFile| OutputFile { path: file.path, size: file.size, content: None };
        let found: Vec<OutputFile> = written.into_iter().take(FILES_MAX).map(output).collect();
        let files = match lease.session.read_files() {
            Ok(files) if lease.afterwards == Afterwards::End && !found.is_empty() => files,
            _ => return found,
        };
        let without = found.clone();
        let read = tokio::task::spawn_blocking(move || fill(&files, found));
        read.await.unwrap_or(without)
    }
}

/// Reads the content of the files that fit. A file that is gone or too large keeps its name only.
fn fill(files: &ReadOnlyFiles, mut found: Vec<OutputFile>) -> Vec<OutputFile> {
    let mut left = FILES_BYTES_MAX;
    for file in &mut found {
        let path = GuestPath::parse(&file.path);
        file.content = path.and_then(|path| files.read_whole(&path, left)).ok();
        left -= file.content.as_ref().map_or(0, |content| content.len() as u64);
    }
    found
}

/// Returns the event of a prompt for an event of its cell.
fn prompt_event(event: LogEvent) -> Option<PromptEvent> {
    let text = |text: OutputText| match text {
        OutputText::Utf8(text) => text.to_string(),
        OutputText::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
    };
    match event {
        LogEvent::Stdout(output) => Some(PromptEvent::Stdout(text(output))),
        LogEvent::Stderr(output) => Some(PromptEvent::Stderr(text(output))),
        LogEvent::Result(bundle) => Some(PromptEvent::Result(bundle)),
        LogEvent::Error(error) => Some(PromptEvent::Error(error)),
        LogEvent::Approval(approval) => Some(PromptEvent::Approval(approval.id.to_string())),
        LogEvent::Start
        | LogEvent::Input { .. }
        | LogEvent::Clear { .. }
        | LogEvent::Comm(_)
        | LogEvent::Done => None,
    }
}

fn run_result(end: &CellEnd) -> RunResult {
    let report = &end.report;
    let written = |file: &ChangedFile| WrittenFile { path: file.path.clone(), size: file.size };
    RunResult {
        outcome: report.outcome,
        message: report.outcome.explain(&end.limits, field),
        stdout: report.stdout.to_string(),
        stderr: report.stderr.to_string(),
        results: report.results.clone(),
        error: report.error.clone(),
        written: end.files.created.iter().chain(&end.files.changed).map(written).collect(),
        removed: end.files.removed.iter().map(|file| file.path.clone()).collect(),
        duration: report.duration,
        lost: end.lost.clone(),
    }
}
