//! A single run: creates a sandbox, runs one cell in it, reads files, ends the sandbox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use silica_domain::Outcome;
use silica_engine::{FileError, GuestPath};
use silica_policy::PolicyChoice;
use silica_store::Tenant;

use crate::cell::{Cell, CellEnd, CellRequest};
use crate::create::SandboxRequest;
use crate::error::SessionError;
use crate::session::{Purpose, ReadOnlyFiles};
use crate::sessions::Sessions;

/// The most bytes of all arguments together.
const ARGUMENTS_BYTES_MAX: usize = 128 * 1024;

/// A request for a single run.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The sandbox to run in.
    pub sandbox: SandboxRequest,
    /// The code to run.
    pub code: String,
    /// `sys.argv` without the program's name.
    pub arguments: Vec<String>,
    /// The timeout of the code; `None` is the server's default.
    pub timeout: Option<Duration>,
    /// The policy that checks the code; `None` is the server's default.
    pub policy: Option<PolicyChoice>,
    /// Files that are written before the code runs.
    pub files: Vec<(GuestPath, Vec<u8>)>,
    /// Files that are read after the code has run.
    pub outputs: Vec<GuestPath>,
    /// The most bytes of all read files together.
    pub output_bytes_max: u64,
}

/// The result of a single run.
#[derive(Debug)]
pub struct RunReport {
    /// The cell.
    pub cell: Arc<Cell>,
    /// How the cell ended.
    pub end: Arc<CellEnd>,
    /// The files of `outputs`, or why one could not be read.
    pub outputs: Vec<(GuestPath, Result<Vec<u8>, String>)>,
}

impl Sessions {
    /// Runs code in a sandbox of its own. The sandbox is ended in the background when this returns or is
    /// dropped.
    pub async fn run(
        self: &Arc<Self>,
        tenant: &Tenant,
        request: RunRequest,
    ) -> Result<RunReport, SessionError> {
        let arguments = argv(request.arguments);
        check_arguments(&arguments)?;
        let admitted = self.admit(tenant, request.sandbox, Purpose::SingleRun).await?;
        let unclaimed = self.make(admitted, &arguments).await?;
        let session = unclaimed.session();
        // So that a shutdown ends it and the cell's record is finished.
        self.insert(session);
        session.put_files(request.files).await?;
        let cell = CellRequest {
            code: request.code.into(),
            kernel: None,
            environment: BTreeMap::new(),
            timeout: request.timeout,
            policy: request.policy,
        };
        let cell = session.submit(cell).await?;
        let end = cell.done().await?;
        let wanted = request.outputs;
        let outputs = if wanted.is_empty() || end.report.outcome == Outcome::SandboxDied {
            let gone = |path| (path, Err("the sandbox ended".to_owned()));
            wanted.into_iter().map(gone).collect()
        } else {
            let files = ReadOnlyFiles::from(session.sandbox.files());
            let bytes_max = request.output_bytes_max;
            let read = tokio::task::spawn_blocking(move || read_all(&files, wanted, bytes_max));
            read.await.unwrap_or_default()
        };
        Ok(RunReport { cell, end, outputs })
    }
}

/// Returns `sys.argv` for these arguments; empty for the interpreter's default.
fn argv(arguments: Vec<String>) -> Vec<String> {
    if arguments.is_empty() {
        return Vec::new();
    }
    let mut argv = vec![String::new()];
    argv.extend(arguments);
    argv
}

fn check_arguments(arguments: &[String]) -> Result<(), SessionError> {
    if arguments.iter().any(|argument| argument.contains('\0')) {
        return Err(SessionError::Bad("arguments must not contain NUL".to_owned()));
    }
    let bytes: usize = arguments.iter().map(|argument| argument.len() + 1).sum();
    if bytes > ARGUMENTS_BYTES_MAX {
        return Err(SessionError::Bad(format!(
            "arguments must have at most {ARGUMENTS_BYTES_MAX} bytes; they have {bytes}"
        )));
    }
    Ok(())
}

/// Reads files whole, as long as all of them together have at most `bytes_max` bytes.
fn read_all(
    files: &ReadOnlyFiles,
    wanted: Vec<GuestPath>,
    bytes_max: u64,
) -> Vec<(GuestPath, Result<Vec<u8>, String>)> {
    let mut left = bytes_max;
    let mut read_one = |path: &GuestPath| match files.read_whole(path, left) {
        Ok(bytes) => {
            left -= bytes.len() as u64;
            Ok(bytes)
        }
        Err(FileError::TooLarge { .. }) => {
            Err(format!("it does not fit into the {bytes_max} bytes of an answer"))
        }
        Err(error) => Err(error.to_string()),
    };
    let read = |path: GuestPath| {
        let content = read_one(&path);
        (path, content)
    };
    wanted.into_iter().map(read).collect()
}
