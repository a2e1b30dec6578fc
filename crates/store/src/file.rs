//! The files of the store: their paths, how they are made and opened. No other module opens them.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, accessat, mknodat};
use rustix::io::Errno;

use crate::error::Failure;
use crate::housekeeper::LOG_BYTES_KEPT;
use crate::store::Durability;
use crate::{StoreError, schema};

/// The pause between two attempts to switch to a write-ahead log while another process does it.
const WAL_RETRY_PAUSE: Duration = Duration::from_millis(10);
/// Pages of the log after which a commit moves them into the file, if the housekeeping has not.
const WAL_PAGES_MAX: i64 = 16_384;
/// Compiled statements that each connection caches.
const STATEMENTS_MAX: usize = 64;
/// How much of a lock file is read.
const HOLDER_BYTES_MAX: u64 = 32;

/// The paths of the files, and how long to wait for their locks.
#[derive(Clone, Debug)]
pub(crate) struct StorePaths {
    pub(crate) database: PathBuf,
    pub(crate) patience: Duration,
}

impl StorePaths {
    /// The key of the audit chain, in a file of its own so that the database does not contain it.
    pub(crate) fn audit_key(&self) -> PathBuf {
        self.database.with_file_name("audit.key")
    }

    /// The key that seals secrets.
    pub(crate) fn secrets_key(&self) -> PathBuf {
        self.database.with_file_name("secrets.key")
    }

    /// The journal of pending writes.
    pub(crate) fn journal(&self) -> PathBuf {
        self.database.with_extension("pending")
    }

    /// Whether the journal holds anything.
    pub(crate) fn has_journal(&self) -> bool {
        fs::symlink_metadata(self.journal()).is_ok_and(|file| file.len() > 0)
    }

    /// Opens the journal to be read and appended to; creates it if it does not exist. It is
    /// truncated later, possibly by root in another user's directory. So it must be a plain file of
    /// that user, without other hard links and not reached by a symbolic link: otherwise that user
    /// could make root truncate another file.
    pub(crate) fn open_journal(&self) -> Result<File, StoreError> {
        let path = self.journal();
        let mut options = private();
        options.read(true).append(true).create(true).custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let file = options.open(&path).map_err(self.refused(&path))?;
        let refused = self.refused(&path);
        let owner = fs::metadata(self.directory()).map_err(&refused)?;
        if rustix::process::geteuid().is_root() {
            let made = file.metadata().map_err(&refused)?;
            if made.uid() == 0 && made.len() == 0 {
                std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid()))
                    .map_err(&refused)?;
            }
        }
        let opened = file.metadata().map_err(&refused)?;
        let is_ours = [owner.uid(), rustix::process::geteuid().as_raw()].contains(&opened.uid());
        if !opened.is_file() || opened.nlink() != 1 || !is_ours {
            let doing = format!(
                "cannot use {}: it must be a regular file, with one link, of its directory's owner",
                path.display()
            );
            return Err(StoreError::io(doing, io::ErrorKind::PermissionDenied.into()));
        }
        Ok(file)
    }

    fn lock(&self) -> PathBuf {
        self.database.with_extension("lock")
    }

    /// Returns the length of the write-ahead log.
    pub(crate) fn log_bytes(&self) -> u64 {
        fs::symlink_metadata(self.log()).map_or(0, |file| file.len())
    }

    fn log(&self) -> PathBuf {
        let mut name = OsString::from(&self.database);
        name.push("-wal");
        name.into()
    }

    pub(crate) fn explain(&self, failure: impl Into<Failure>) -> StoreError {
        failure.into().explain(&self.database, self.patience)
    }

    /// Locks the store for this server. The lock is held until the file is dropped.
    pub(crate) fn lock_for_server(&self) -> Result<File, StoreError> {
        let path = self.lock();
        self.make_directory()?;
        let mut file =
            private().read(true).create(true).open(&path).map_err(self.refused(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Only for the error message; without it the message is shorter.
                let _ = file.take(HOLDER_BYTES_MAX).read_to_string(&mut holder);
                let holder = holder.trim().to_owned();
                return Err(StoreError::InUse { path: self.database.clone(), holder });
            }
            Err(fs::TryLockError::Error(error)) => return Err(self.refused(&path)(error)),
        }
        self.give_to_owner(&path)?;
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(self.refused(&path))?;
        Ok(file)
    }

    /// Opens the database for writing; creates it and brings its schema up to date.
    pub(crate) fn open_for_writing(
        &self,
        durability: Durability,
    ) -> Result<Connection, StoreError> {
        self.make_database()?;
        self.check_writable()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.database, flags)
            .map_err(|error| self.explain(error))?;
        self.prepare_for_writing(&connection, durability).map_err(|error| self.explain(error))?;
        schema::migrate(&connection, self)?;
        Ok(connection)
    }

    fn prepare_for_writing(
        &self,
        connection: &Connection,
        durability: Durability,
    ) -> Result<(), Failure> {
        self.prepare(connection)?;
        self.use_log(connection)?;
        let synchronous = match durability {
            Durability::Process => "NORMAL",
            Durability::Machine => "FULL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "wal_autocheckpoint", WAL_PAGES_MAX)?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES_KEPT as i64)?;
        Ok(())
    }

    fn prepare(&self, connection: &Connection) -> Result<(), Failure> {
        connection.busy_timeout(self.patience)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        // Another program may have written the schema: nothing in it may call functions.
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        Ok(())
    }

    /// Switches to a write-ahead log. SQLite's busy timeout does not apply to that, so this
    /// retries.
    fn use_log(&self, connection: &Connection) -> Result<(), Failure> {
        let deadline = Instant::now() + self.patience;
        loop {
            let answer = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| {
                row.get::<_, String>(0)
            });
            match answer {
                Ok(mode) if mode == "wal" => return Ok(()),
                Ok(mode) => {
                    tracing::warn!(
                        mode,
                        "this file system has no write-ahead log; readers will wait for writers"
                    );
                    return Ok(());
                }
                Err(error) if is_busy(&error) && Instant::now() < deadline => {
                    std::thread::sleep(WAL_RETRY_PAUSE);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Opens the database for reading only.
    pub(crate) fn open_for_reading(&self) -> Result<Connection, StoreError> {
        self.check_readable()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(&self.database, flags)
            .map_err(Failure::from)
            .and_then(|connection| self.ready_to_read(connection));
        let opened = match opened {
            // To read the log, SQLite needs an index in shared memory, which it cannot create here.
            Err(failure) if cannot_open(&failure) && self.log().exists() => {
                Err(StoreError::Unclosed { path: self.database.clone() }.into())
            }
            // Without a log the file alone holds everything.
            Err(failure) if cannot_open(&failure) => {
                let flags = flags | OpenFlags::SQLITE_OPEN_URI;
                Connection::open_with_flags(immutable(&self.database), flags)
                    .map_err(Failure::from)
                    .and_then(|connection| self.ready_to_read(connection))
            }
            other => other,
        };
        opened.map_err(|failure| self.explain(failure))
    }

    /// Checks that SQLite can create files beside the database, since its own error does not say
    /// why it cannot.
    fn check_writable(&self) -> Result<(), StoreError> {
        let directory = (self.directory(), Access::WRITE_OK | Access::EXEC_OK);
        let database = (self.database.as_path(), Access::READ_OK | Access::WRITE_OK);
        for (path, access) in [directory, database] {
            accessat(CWD, path, access, AtFlags::EACCESS)
                .map_err(|errno| self.refused(path)(errno.into()))?;
        }
        Ok(())
    }

    /// Checks that the database can be read, since SQLite's own error does not say why it cannot.
    fn check_readable(&self) -> Result<(), StoreError> {
        match accessat(CWD, &self.database, Access::READ_OK, AtFlags::EACCESS) {
            Ok(()) => Ok(()),
            Err(Errno::NOENT) => Err(StoreError::Missing { path: self.database.clone() }),
            Err(errno) => {
                let doing = format!("cannot read {}", self.database.display());
                Err(StoreError::io(doing, errno.into()))
            }
        }
    }

    fn ready_to_read(&self, connection: Connection) -> Result<Connection, Failure> {
        self.prepare(&connection)?;
        schema::check(&connection, self)?;
        Ok(connection)
    }

    fn make_directory(&self) -> Result<(), StoreError> {
        let directory = self.directory();
        fs::create_dir_all(directory).map_err(self.refused(directory))
    }

    /// Creates an empty database that only its owner can read; SQLite gives its other files the
    /// same mode. `mknodat` does not open it: closing a file descriptor would drop the locks that
    /// other connections of this process have on the file (fcntl(2), "Advisory record locking").
    fn make_database(&self) -> Result<(), StoreError> {
        self.make_directory()?;
        let mode = Mode::RUSR | Mode::WUSR;
        match mknodat(CWD, &self.database, FileType::RegularFile, mode, 0) {
            Ok(()) => self.give_to_owner(&self.database),
            Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(self.refused(&self.database)(errno.into())),
        }
    }

    /// Creates a file with this content, atomically: it is written under another name and linked. A
    /// file that exists stays as it is.
    pub(crate) fn make_private(&self, path: &Path, content: &[u8]) -> Result<(), StoreError> {
        let partial = path.with_extension(format!("partial-{}", std::process::id()));
        let write = || {
            let mut file = private().create(true).truncate(true).open(&partial)?;
            file.write_all(content)?;
            file.sync_all()
        };
        write().map_err(self.refused(&partial))?;
        self.give_to_owner(&partial)?;
        let linked = fs::hard_link(&partial, path);
        fs::remove_file(&partial).map_err(self.refused(&partial))?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(self.refused(path)(error))
            }
            _ => File::open(self.directory())
                .and_then(|directory| directory.sync_all())
                .map_err(self.refused(path)),
        }
    }

    /// Gives a file that root has created to the owner of the directory, as SQLite does with its
    /// files.
    fn give_to_owner(&self, path: &Path) -> Result<(), StoreError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let refused = self.refused(path);
        let owner = fs::metadata(self.directory()).map_err(&refused)?;
        std::os::unix::fs::lchown(path, Some(owner.uid()), Some(owner.gid())).map_err(refused)
    }

    fn directory(&self) -> &Path {
        self.database.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    fn refused(&self, path: &Path) -> impl Fn(io::Error) -> StoreError {
        let path = path.to_owned();
        let database = self.database.clone();
        move |error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly { path: database.clone() }
            }
            io::ErrorKind::StorageFull => StoreError::Full { path: database.clone() },
            _ => StoreError::io(format!("cannot create or write {}", path.display()), error),
        }
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn cannot_open(failure: &Failure) -> bool {
    matches!(failure, Failure::Sql(error)
        if matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)))
}

/// Returns the URI by which SQLite opens a file without locks, as one that does not change.
fn immutable(path: &Path) -> String {
    use std::fmt::Write;
    let mut address = "file:".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            address.push(char::from(byte));
        } else {
            write!(address, "%{byte:02x}").expect("writing to a string does not fail");
        }
    }
    address + "?immutable=1"
}
