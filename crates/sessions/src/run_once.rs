//! A sandbox for one run: code and files in, everything out, and it is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use silica_domain::Outcome;
use silica_engine::{FileError, GuestPath};
use silica_store::Tenant;

use crate::approval::PolicyChoice;
use crate::cell::{Cell, CellEnd, CellRequest};
use crate::create::Create;
use crate::error::SessionError;
use crate::session::ReadOnlyFiles;
use crate::sessions::Sessions;

/// Code that is run once.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The sandbox.
    pub create: Create,
    /// The code.
    pub code: String,
    /// `sys.argv` behind the program's name.
    pub arguments: Vec<String>,
    /// For how long at most.
    pub timeout: Option<Duration>,
    /// By which policy it is checked; the server's default if nothing is said.
    pub policy: Option<PolicyChoice>,
    /// Files that are there before it starts.
    pub files: Vec<(GuestPath, Vec<u8>)>,
    /// Files that are wanted afterwards.
    pub outputs: Vec<GuestPath>,
    /// How much of those is read, all together.
    pub output_bytes_max: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct RunReport {
    /// The cell.
    pub cell: Arc<Cell>,
    /// How it ended.
    pub end: Arc<CellEnd>,
    /// The wanted files, or why there is none.
    pub outputs: Vec<(GuestPath, Result<Vec<u8>, String>)>,
}

impl Sessions {
    /// Runs code in a sandbox of its own that is gone afterwards.
    pub async fn run(
        self: &Arc<Self>,
        tenant: &Tenant,
        request: RunRequest,
    ) -> Result<RunReport, SessionError> {
        let mut argv = vec![String::new()];
        argv.extend(request.arguments);
        let arguments = if argv.len() > 1 { argv } else { Vec::new() };
        check_arguments(&arguments)?;
        // Ended when this is left, on whatever way; nobody waits for the clearing up.
        let admitted = self.admit(tenant, request.create, true).await?;
        let unclaimed = self.make(admitted, &arguments).await?;
        let session = unclaimed.session();
        // So that it ends with the server, and its record with it.
        self.lock().insert(session.id().clone(), Arc::clone(session));
        session.put_files(request.files).await?;
        let cell = CellRequest {
            code: request.code,
            kernel: None,
            environment: BTreeMap::new(),
            timeout: request.timeout,
            policy: request.policy,
        };
        let cell = session.submit(cell).await?;
        let end = cell.done().await?;
        let alive = end.report.outcome != Outcome::SandboxDied;
        let outputs = if request.outputs.is_empty() || !alive {
            let gone = |path| (path, Err("the sandbox ended".to_owned()));
            request.outputs.into_iter().map(gone).collect()
        } else {
            let files = ReadOnlyFiles::from(session.sandbox().files());
            let max = request.output_bytes_max;
            let wanted = request.outputs;
            let read = tokio::task::spawn_blocking(move || read_all(&files, wanted, max));
            read.await.unwrap_or_default()
        };
        Ok(RunReport { cell, end, outputs })
    }
}

/// Arguments of a run, all together.
const ARGUMENTS_BYTES_MAX: usize = 128 * 1024;

fn check_arguments(arguments: &[String]) -> Result<(), SessionError> {
    if arguments.iter().any(|argument| argument.contains('\0')) {
        return Err(SessionError::Bad("an argument cannot hold a NUL".to_owned()));
    }
    let bytes: usize = arguments.iter().map(|argument| argument.len() + 1).sum();
    if bytes > ARGUMENTS_BYTES_MAX {
        let words = format!("the arguments are {bytes} bytes long; at most {ARGUMENTS_BYTES_MAX}");
        return Err(SessionError::Bad(words));
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
