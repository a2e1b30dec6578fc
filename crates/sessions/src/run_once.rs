//! A single run: creates a sandbox, runs one cell in it, reads files, ends the sandbox.

use std::sync::Arc;
use std::time::Duration;

use silica_domain::Outcome;
use silica_engine::{CellSetup, FileError, GuestPath};
use silica_policy::PolicyChoice;
use silica_store::{SandboxId, Tenant};
use tokio::time::error::Elapsed;

use crate::cell::{Cell, CellEnd, CellPhase, CellRequest};
use crate::create::SandboxRequest;
use crate::ending::Unclaimed;
use crate::error::SessionError;
use crate::fairness::{Reservation, Resource};
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
    /// The name of the file that the code comes from; `None` for a cell's number.
    pub filename: Option<String>,
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

/// How long a single run waits for a person before its client is answered without a result.
const APPROVAL_PATIENCE: Duration = Duration::from_secs(20);

/// How long the result of a run that waited for a person can be fetched after its end.
const RESULT_KEPT: Duration = Duration::from_mins(5);

/// What a single run has come to.
#[derive(Debug)]
pub enum RunEnd {
    /// It has ended.
    Done(Box<RunReport>),
    /// It waits for a person. Its sandbox, of this id, can be found until some time after its end.
    Waits(SandboxId, Arc<Cell>),
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
    /// Counts those files in the budget of the key. To be kept for as long as they are.
    pub held: Reservation,
}

impl Sessions {
    /// Runs code in a sandbox of its own. The sandbox is ended in the background when this returns or is
    /// dropped.
    pub async fn run(
        self: &Arc<Self>,
        tenant: &Tenant,
        request: RunRequest,
    ) -> Result<RunEnd, SessionError> {
        let arguments = argv(request.filename.as_deref(), request.arguments);
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
            setup: CellSetup { filename: request.filename, ..CellSetup::default() },
            timeout: request.timeout,
            policy: request.policy,
        };
        let cell = session.submit(cell).await?;
        cell.done_or_parked().await?;
        let Ok(end) = self.decided(&cell).await else {
            let id = session.id().clone();
            self.keep_for_result(unclaimed, &cell);
            return Ok(RunEnd::Waits(id, cell));
        };
        let end = end?;
        let wanted = request.outputs;
        let mut held = self.admission().hold(tenant, Resource::KeptBytes);
        let outputs = if wanted.is_empty() || end.report.outcome == Outcome::SandboxDied {
            let gone = |path| (path, Err("the sandbox ended".to_owned()));
            wanted.into_iter().map(gone).collect()
        } else {
            let files = ReadOnlyFiles::from(session.sandbox.files());
            let bytes_max = request.output_bytes_max;
            let read = tokio::task::spawn_blocking(move || {
                let outputs = read_all(&files, wanted, bytes_max, &mut held);
                (outputs, held)
            });
            let read = read.await.map_err(|_| SessionError::ShuttingDown)?;
            held = read.1;
            read.0
        };
        Ok(RunEnd::Done(Box::new(RunReport { cell, end, outputs, held })))
    }

    /// Waits for the end of a cell, for a limited time if a person has to decide on it.
    async fn decided(&self, cell: &Cell) -> Result<Result<Arc<CellEnd>, SessionError>, Elapsed> {
        match cell.phase() {
            CellPhase::AwaitingApproval => {
                tokio::time::timeout(APPROVAL_PATIENCE, cell.done()).await
            }
            CellPhase::Queued | CellPhase::Running | CellPhase::Done(_) => Ok(cell.done().await),
        }
    }

    /// Makes a single run findable by its owner, and ends its sandbox some time after its cell.
    fn keep_for_result(&self, unclaimed: Unclaimed, cell: &Arc<Cell>) {
        self.publish(unclaimed.session());
        let cell = Arc::clone(cell);
        tokio::spawn(async move {
            let session = Arc::clone(unclaimed.session());
            let kept = async {
                // The error is that the cell never runs; a client can read that, too.
                let _ = cell.done().await;
                tokio::time::sleep(RESULT_KEPT).await;
            };
            tokio::select! {
                () = kept => {}
                // Its owner deleted it, or its time was up.
                () = session.removed() => {}
            }
            drop(unclaimed);
        });
    }
}

/// Returns `sys.argv` for these arguments; empty for the interpreter's default.
fn argv(filename: Option<&str>, arguments: Vec<String>) -> Vec<String> {
    if arguments.is_empty() && filename.is_none() {
        return Vec::new();
    }
    let mut argv = vec![filename.unwrap_or_default().to_owned()];
    argv.extend(arguments);
    argv
}

/// Checks `sys.argv`.
pub(crate) fn check_arguments(arguments: &[String]) -> Result<(), SessionError> {
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

/// Reads files whole, as long as all of them together have at most `bytes_max` bytes and fit into the budget.
fn read_all(
    files: &ReadOnlyFiles,
    wanted: Vec<GuestPath>,
    bytes_max: u64,
    held: &mut Reservation,
) -> Vec<(GuestPath, Result<Vec<u8>, String>)> {
    let mut left = bytes_max;
    let mut read_one = |path: &GuestPath| match files.read_whole(path, left) {
        Ok(bytes) => {
            held.grow(bytes.len() as u64).map_err(|error| error.to_string())?;
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
