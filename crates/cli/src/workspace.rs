//! One live sandbox and its interpreter, in an engine of this process or on a server. `silica run`
//! and `silica repl` work in either without knowing which.

mod local;
pub(crate) mod network;
mod remote;

use std::path::Path;

use anyhow::Result;
use silica_domain::{CellError, Outcome};
use silica_engine::{CellSetup, Control, GuestPath, Input, Watcher};
use tokio::sync::mpsc;

use crate::client::Client;
use crate::limits::LimitArgs;
use network::NetworkArgs;

pub(crate) use local::LocalWorkspace;
pub(crate) use remote::RemoteWorkspace;

/// What a sandbox is made with.
#[derive(Debug)]
pub(crate) struct WorkspaceOptions<'a> {
    /// `None` for the default template.
    pub(crate) template: Option<&'a str>,
    pub(crate) limits: &'a LimitArgs,
    pub(crate) environment: &'a [(String, String)],
    pub(crate) inputs: &'a [String],
    pub(crate) network: &'a NetworkArgs,
}

/// How a cell ended, for the person at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CellSummary {
    pub(crate) end: CellEnding,
    pub(crate) exit_code: i32,
    /// The exception, unless the cell was interrupted.
    pub(crate) error: Option<CellError>,
    /// What else there is to say, such as limits that were hit.
    pub(crate) notes: Vec<String>,
}

/// What a cell's end means for the cells after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellEnding {
    /// It ran to its end.
    Fine,
    /// It failed, and the interpreter is still there.
    Failed,
    /// It called `exit`.
    Exited,
    /// The interpreter ended, and its variables with it.
    Lost,
}

impl CellEnding {
    /// Reads an outcome; `lives` is whether the interpreter is still there.
    fn of(outcome: Outcome, lives: bool) -> Self {
        match outcome {
            Outcome::Exited(_) => Self::Exited,
            _ if !lives => Self::Lost,
            Outcome::Ok => Self::Fine,
            Outcome::Raised
            | Outcome::Interrupted
            | Outcome::TimedOut
            | Outcome::CpuExceeded
            | Outcome::OutOfMemory
            | Outcome::Crashed(_)
            | Outcome::Vanished(_)
            | Outcome::Disconnected
            | Outcome::SandboxDied
            | Outcome::Denied => Self::Failed,
        }
    }
}

/// A live sandbox and its interpreter.
#[derive(Debug)]
pub(crate) enum Workspace {
    Local(Box<LocalWorkspace>),
    Remote(Box<RemoteWorkspace>),
}

impl Workspace {
    /// Makes a sandbox in an engine of this process.
    pub(crate) async fn local(
        options: &WorkspaceOptions<'_>,
        tier: silica_domain::Tier,
    ) -> Result<Self> {
        Ok(Self::Local(Box::new(LocalWorkspace::open(options, tier).await?)))
    }

    /// Makes a sandbox on a server.
    pub(crate) async fn remote(options: &WorkspaceOptions<'_>, client: Client) -> Result<Self> {
        Ok(Self::Remote(Box::new(RemoteWorkspace::open(options, client).await?)))
    }

    /// Runs a cell and hands its output to a watcher.
    pub(crate) async fn run(
        &mut self,
        code: &str,
        setup: CellSetup,
        watcher: &mut dyn Watcher,
        controls: &mut mpsc::Receiver<Control>,
    ) -> Result<CellSummary> {
        match self {
            Self::Local(local) => local.run(code, setup, watcher, controls).await,
            Self::Remote(remote) => remote.run(code, setup, watcher, controls).await,
        }
    }

    /// Starts another interpreter in the place of one that ended. A server does that by itself. Fails
    /// if the sandbox ended too.
    pub(crate) async fn replace_interpreter(&mut self) -> Result<()> {
        match self {
            Self::Local(local) => local.replace_interpreter().await,
            Self::Remote(remote) => remote.check_interpreter().await,
        }
    }

    /// Copies a file or directory out; returns its size. From a server only a file.
    pub(crate) async fn copy_out(&self, guest: &GuestPath, host: &Path) -> Result<u64> {
        match self {
            Self::Local(local) => local.copy_out(guest, host),
            Self::Remote(remote) => remote.copy_out(guest, host).await,
        }
    }

    /// Ends the sandbox.
    pub(crate) async fn close(self) {
        match self {
            Self::Local(local) => local.close().await,
            Self::Remote(remote) => remote.close().await,
        }
    }
}

/// Reads `HOST[:GUEST]`; a colon in a host path that exists as a whole is part of the path.
pub(crate) fn input(text: &str) -> Result<Input> {
    let (host, name) = input_parts(text);
    Ok(Input::new(host, name)?)
}

/// Splits `HOST[:GUEST]`.
fn input_parts(text: &str) -> (&Path, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, guest)) if !Path::new(text).exists() => (Path::new(host), Some(guest)),
        _ => (Path::new(text), None),
    }
}
