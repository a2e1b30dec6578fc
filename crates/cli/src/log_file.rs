//! The server's log file: `logs/silica.log` in the data directory, beside standard error. Its size is
//! bounded: a full file is renamed to `silica.log.1`, that one to `silica.log.2`, and so on.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// The directory of the log in the data directory.
const DIRECTORY: &str = "logs";
/// The current file.
const NAME: &str = "silica.log";
/// The size at which a file is full.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// The most full files that are kept.
const FULL_FILES_MAX: usize = 4;

/// Returns the path of the current file.
pub(crate) fn path(home: &Path) -> PathBuf {
    home.join(DIRECTORY).join(NAME)
}

/// Returns the path of a full file; 1 is the newest.
pub(crate) fn full_path(home: &Path, number: usize) -> PathBuf {
    home.join(DIRECTORY).join(format!("{NAME}.{number}"))
}

/// A log file that is renamed when it is full.
#[derive(Debug)]
pub(crate) struct LogFile {
    home: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl LogFile {
    /// Opens the file and appends to it. Only the server's user can read it.
    pub(crate) fn open(home: &Path) -> io::Result<Self> {
        Self::with_size(home, FILE_BYTES_MAX)
    }

    fn with_size(home: &Path, bytes_max: u64) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home.join(DIRECTORY))?;
        let file = File::options().append(true).create(true).mode(0o600).open(path(home))?;
        let bytes = file.metadata()?.len();
        Ok(Self { home: home.to_owned(), file, bytes, bytes_max })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.bytes_max {
            self.rotate()?;
        }
        self.bytes += line.len() as u64;
        self.file.write_all(line)
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..FULL_FILES_MAX).rev() {
            // The older one may not be there yet.
            let _ =
                std::fs::rename(full_path(&self.home, number), full_path(&self.home, number + 1));
        }
        std::fs::rename(path(&self.home), full_path(&self.home, 1))?;
        *self = Self::with_size(&self.home, self.bytes_max)?;
        Ok(())
    }
}

/// Writes the log to standard error and, if it can be opened, to the file.
#[derive(Clone, Debug)]
pub(crate) struct LogWriter(pub(crate) Option<Arc<Mutex<LogFile>>>);

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(file) = &self.0 {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            // A full disk loses the log, and must not stop the server.
            let _ = file.write(line);
        }
        io::stderr().write_all(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
