//! Work on the files of a sandbox, off the threads that serve requests.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use silica_engine::{FileError, Files};
use silica_sessions::Session;
use silica_store::Timestamp;

use super::problem::{Code, Problem};

/// Runs work on files on a thread that may block.
pub(crate) async fn with_files<T: Send + 'static>(
    session: &Session,
    act: impl FnOnce(&Files) -> Result<T, FileError> + Send + 'static,
) -> Result<T, Problem> {
    let files = Arc::clone(session.files()?);
    let done = tokio::task::spawn_blocking(move || act(&files)).await;
    let lost = |_| Problem::new(Code::Internal, "the file operation failed");
    Ok(done.map_err(lost)??)
}

/// Converts a time of a file system.
pub(crate) fn timestamp(time: SystemTime) -> Timestamp {
    let micros = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX),
    };
    Timestamp::from_micros(micros)
}
