//! Work on the files of a sandbox, off the threads that serve requests.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use silica_engine::{FileError, Files};
use silica_sessions::{ReadOnlyFiles, Session};
use silica_store::Timestamp;
use tokio::task::JoinHandle;

use super::problem::{Code, Problem};

/// Reads files on a thread that may block.
pub(crate) async fn read<T: Send + 'static>(
    session: &Session,
    act: impl FnOnce(&ReadOnlyFiles) -> Result<T, FileError> + Send + 'static,
) -> Result<T, Problem> {
    done(session.look_up(act).await?).await
}

/// Changes files on a thread that may block. The session marks the change.
pub(crate) async fn change<T: Send + 'static>(
    session: &Session,
    act: impl FnOnce(&Arc<Files>) -> Result<T, FileError> + Send + 'static,
) -> Result<T, Problem> {
    done(session.change_files(act).await?).await
}

async fn done<T>(work: JoinHandle<Result<T, FileError>>) -> Result<T, Problem> {
    let lost = |_| Problem::new(Code::Internal, "the file operation failed");
    Ok(work.await.map_err(lost)??)
}

/// Converts a time of a file system.
pub(crate) fn timestamp(time: SystemTime) -> Timestamp {
    let micros = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX),
    };
    Timestamp::from_micros(micros)
}
