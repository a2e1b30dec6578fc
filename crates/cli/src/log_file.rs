//! The server's log file: `logs/silica.log` in the data directory, beside standard error. Its size is
//! bounded: a full file is renamed to `silica.log.1`, that one to `silica.log.2`, and so on. Both
//! destinations are written by threads of their own, so no request waits for a disk or a reader.

mod queue;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use queue::LineQueue;

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

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.file.metadata()?.nlink() == 0 {
            // The file was removed: what is written to it is lost.
            *self = Self::with_size(&self.home, self.bytes_max)?;
        }
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
        match std::fs::rename(path(&self.home), full_path(&self.home, 1)) {
            // It was moved away; the next file takes its place all the same.
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        *self = Self::with_size(&self.home, self.bytes_max)?;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.append(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How long the end of the server waits for the last lines of its log.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// Writes the log to standard error and, if it can be opened, to the file.
#[derive(Clone, Debug)]
pub(crate) struct LogWriter {
    stderr: LineQueue,
    file: Option<LineQueue>,
}

impl LogWriter {
    /// Starts the threads that write.
    pub(crate) fn start(file: Option<LogFile>) -> io::Result<Self> {
        let told =
            |lines| tracing::warn!(lines, "lines of the log were dropped: it is read slowly");
        let late = |lines| tracing::warn!(lines, "lines of the log were dropped: the disk is slow");
        Ok(Self {
            stderr: LineQueue::to(io::stderr(), told)?,
            file: file.map(|file| LineQueue::to(file, late)).transpose()?,
        })
    }

    /// Returns whether the log goes to a file.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Waits, within bounds, until the log is written.
    pub(crate) fn finish(&self) {
        let deadline = Instant::now() + FLUSH_PATIENCE;
        for queue in self.file.iter().chain([&self.stderr]) {
            queue.flush(deadline);
        }
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        for queue in self.file.iter().chain([&self.stderr]) {
            queue.add(line);
        }
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
