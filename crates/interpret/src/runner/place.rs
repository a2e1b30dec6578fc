//! A sandbox in which a model's code runs: made while the model thinks, ended when nobody needs it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use silica_engine::{Changes, GuestPath};
use silica_sessions::{
    CellRequest, EndReason, LogEvent as CellEvent, LogRead, OutputText as Text, PolicyChoice,
    ReadOnlyFiles, SandboxRequest, Session, SessionError, Sessions,
};
use silica_store::Tenant;
use tokio::task::JoinHandle;

use super::{Ran, Runner};
use crate::event::{Event, Voice};

/// All files that travel with an answer, together.
const FILES_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Files that are told of in one answer.
const FILES_MAX: usize = 200;

/// A file that code left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFile {
    /// Where it is in the sandbox.
    pub path: String,
    /// Its size.
    pub size: u64,
    /// Its content; `None` where the sandbox stays or it does not fit.
    pub content: Option<Vec<u8>>,
}

/// What becomes of a sandbox when its request is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// It is ended.
    End,
    /// A conversation goes on in it.
    Keep,
}

/// Ends a sandbox when nobody has it any more, unless it is kept.
#[derive(Debug)]
struct Tenancy {
    sessions: Arc<Sessions>,
    session: Arc<Session>,
    afterwards: Afterwards,
}

impl Drop for Tenancy {
    fn drop(&mut self) {
        if self.afterwards == Afterwards::End {
            let (sessions, session) = (Arc::clone(&self.sessions), Arc::clone(&self.session));
            tokio::spawn(async move { sessions.end(&session, EndReason::Deleted).await });
        }
    }
}

#[derive(Debug)]
enum State {
    /// It is being made beside; whoever drops the handle drops what comes of it, which ends it.
    Making(JoinHandle<Result<Tenancy, SessionError>>),
    Ready(Tenancy),
}

/// A sandbox in which a model's code runs.
#[derive(Debug)]
pub(crate) struct Place {
    state: State,
    /// The longest that a cell may take here.
    timeout_max: Duration,
    /// How code is checked on its way in; the server's default if nothing is said.
    policy: Option<PolicyChoice>,
}

impl Place {
    /// Begins to make a sandbox with files in it, and does not wait for it.
    pub(crate) fn begin(
        sessions: &Arc<Sessions>,
        tenant: &Tenant,
        create: SandboxRequest,
        files: Vec<(GuestPath, Vec<u8>)>,
    ) -> Self {
        let (sessions, tenant) = (Arc::clone(sessions), tenant.clone());
        let timeout_max = sessions.options().timeout_max;
        let making = tokio::spawn(async move {
            let session = sessions.create(&tenant, create).await?;
            let tenancy = Tenancy { sessions, session, afterwards: Afterwards::End };
            tenancy.session.put_files(files).await?;
            Ok(tenancy)
        });
        Self { state: State::Making(making), timeout_max, policy: None }
    }

    /// The sandbox of a conversation, which stays.
    pub(crate) async fn existing(
        sessions: &Arc<Sessions>,
        session: Arc<Session>,
        files: Vec<(GuestPath, Vec<u8>)>,
    ) -> Result<Self, SessionError> {
        session.put_files(files).await?;
        let timeout_max = sessions.options().timeout_max;
        let (sessions, afterwards) = (Arc::clone(sessions), Afterwards::Keep);
        let state = State::Ready(Tenancy { sessions, session, afterwards });
        Ok(Self { state, timeout_max, policy: None })
    }

    /// Has the sessions check code by this policy, and let a person decide where it says so.
    pub(crate) fn check_by(&mut self, policy: PolicyChoice) {
        self.policy = Some(policy);
    }

    /// The sandbox, once it is there.
    pub(crate) async fn session(&mut self) -> Result<&Arc<Session>, SessionError> {
        if let State::Making(making) = &mut self.state {
            let made = making.await.unwrap_or(Err(SessionError::ShuttingDown))?;
            self.state = State::Ready(made);
        }
        match &self.state {
            State::Ready(tenancy) => Ok(&tenancy.session),
            State::Making(_) => Err(SessionError::ShuttingDown),
        }
    }

    /// Says now if it is known already that there will be no sandbox: then no model need be asked.
    pub(crate) async fn fail_early(&mut self) -> Result<(), SessionError> {
        match &self.state {
            State::Making(making) if making.is_finished() => self.session().await.map(drop),
            State::Making(_) | State::Ready(_) => Ok(()),
        }
    }

    /// Its id, if it is there.
    pub(crate) fn id(&self) -> Option<String> {
        match &self.state {
            State::Ready(tenancy) => Some(tenancy.session.id().to_string()),
            State::Making(_) => None,
        }
    }

    /// Lets the sandbox live on.
    pub(crate) async fn keep(&mut self) -> Result<Arc<Session>, SessionError> {
        let session = Arc::clone(self.session().await?);
        if let State::Ready(tenancy) = &mut self.state {
            tenancy.afterwards = Afterwards::Keep;
        }
        Ok(session)
    }

    /// The files that code made or changed; with their content where the sandbox goes away.
    pub(crate) async fn collect(&self, changes: &Changes) -> Vec<OutputFile> {
        let State::Ready(tenancy) = &self.state else { return Vec::new() };
        let named = changes.created.iter().chain(&changes.changed).take(FILES_MAX);
        let found: Vec<OutputFile> = named
            .map(|file| OutputFile { path: file.path.clone(), size: file.size, content: None })
            .collect();
        let stays = tenancy.afterwards == Afterwards::Keep;
        let files = match tenancy.session.read_files() {
            Ok(files) if !stays && !found.is_empty() => files,
            _ => return found,
        };
        let without = found.clone();
        let read = tokio::task::spawn_blocking(move || fill(&files, found));
        read.await.unwrap_or(without)
    }
}

/// Reads what fits.
fn fill(files: &ReadOnlyFiles, mut found: Vec<OutputFile>) -> Vec<OutputFile> {
    let mut left = FILES_BYTES_MAX;
    for file in &mut found {
        // One that is gone or too large is named without its content.
        let path = GuestPath::parse(&file.path);
        file.content = path.and_then(|path| files.read_whole(&path, left)).ok();
        left -= file.content.as_ref().map_or(0, |content| content.len() as u64);
    }
    found
}

impl Runner for Place {
    async fn run(
        &mut self,
        code: &str,
        time_max: Duration,
        voice: &Voice,
    ) -> Result<Ran, SessionError> {
        let most = self.timeout_max.min(time_max);
        let policy = self.policy.clone();
        let session = self.session().await?;
        let request = CellRequest {
            code: code.to_owned().into(),
            kernel: None,
            environment: BTreeMap::new(),
            timeout: Some(most),
            policy,
        };
        let cell = session.submit(request).await?;
        let interrupt = cell.interrupt_on_drop();
        if voice.is_heard() {
            let mut reader = cell.log.read(0);
            while let Some(read) = reader.next().await {
                if let LogRead::Event(_, event) = read
                    && let Some(event) = told(event)
                {
                    voice.tell(event).await;
                }
            }
        }
        let end = cell.done().await?;
        interrupt.disarm();
        Ok(Ran::from(&*end))
    }
}

/// What of a cell's own events is passed on.
fn told(event: CellEvent) -> Option<Event> {
    let text = |text: Text| match text {
        Text::Utf8(text) => text.to_string(),
        Text::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
    };
    match event {
        CellEvent::Stdout(said) => Some(Event::Stdout(text(said))),
        CellEvent::Stderr(said) => Some(Event::Stderr(text(said))),
        CellEvent::Result(bundle) => Some(Event::Result(bundle)),
        CellEvent::Error(error) => Some(Event::Error(error)),
        CellEvent::Approval(approval) => Some(Event::Approval(approval.id.to_string())),
        CellEvent::Start | CellEvent::Done => None,
    }
}
