//! The files of the store: where they lie, how they are made and opened. Nothing else opens them.

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
use crate::store::Durability;
use crate::{StoreError, schema};

/// How often the switch to a write-ahead log is tried again while another process makes it.
const WAL_RETRY_PAUSE: Duration = Duration::from_millis(10);
/// Pages of the log after which a commit moves them into the file itself, if nobody did before.
const WAL_PAGES_MAX: i64 = 16_384;
/// Statements that are kept compiled for each connection.
const STATEMENTS_MAX: usize = 64;
/// What is read of a lock file.
const HOLDER_BYTES_MAX: u64 = 32;

/// Where the files lie, and how long to wait for their locks.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) database: PathBuf,
    pub(crate) patience: Duration,
}

impl Place {
    /// The key of the audit chain: beside the database and not in it.
    pub(crate) fn audit_key(&self) -> PathBuf {
        self.database.with_file_name("audit.key")
    }

    /// Where stands what was promised and is not in the database yet.
    pub(crate) fn journal(&self) -> PathBuf {
        self.database.with_extension("pending")
    }

    /// Whether there is anything in it.
    pub(crate) fn has_journal(&self) -> bool {
        fs::symlink_metadata(self.journal()).is_ok_and(|file| file.len() > 0)
    }

    /// Opens it to be read and added to; makes it if it is not there. It is emptied later, by root too, who may
    /// be in another user's directory: so it must be that user's own file, by no other name and no link.
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
            let words =
                format!("cannot use {}: it is no plain file of this user's", path.display());
            return Err(StoreError::io(words, io::ErrorKind::PermissionDenied.into()));
        }
        Ok(file)
    }

    fn lock(&self) -> PathBuf {
        self.database.with_extension("lock")
    }

    fn log(&self) -> PathBuf {
        let mut name = OsString::from(&self.database);
        name.push("-wal");
        name.into()
    }

    pub(crate) fn explain(&self, failure: impl Into<Failure>) -> StoreError {
        failure.into().explain(&self.database, self.patience)
    }

    /// Takes the lock that only one server may have; it is held until the file is dropped.
    pub(crate) fn lock_for_server(&self) -> Result<File, StoreError> {
        let path = self.lock();
        self.make_directory()?;
        let mut file =
            private().read(true).create(true).open(&path).map_err(self.refused(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who it is helps, and nothing depends on it.
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

    /// Opens for writing; makes what is not there.
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
        Ok(())
    }

    fn prepare(&self, connection: &Connection) -> Result<(), Failure> {
        connection.busy_timeout(self.patience)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        // The schema may have been written by somebody else: nothing in it may call functions.
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        Ok(())
    }

    /// Switches to a write-ahead log. SQLite does not wait for others while it does that.
    fn use_log(&self, connection: &Connection) -> Result<(), Failure> {
        let deadline = Instant::now() + self.patience;
        loop {
            let answer = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| {
                row.get::<_, String>(0)
            });
            match answer {
                Ok(mode) if mode == "wal" => return Ok(()),
                Ok(mode) => {
                    tracing::warn!(mode, "no write-ahead log here; readers will wait for writers");
                    return Ok(());
                }
                Err(error) if is_busy(&error) && Instant::now() < deadline => {
                    std::thread::sleep(WAL_RETRY_PAUSE);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Opens for reading only, whoever else has the file open.
    pub(crate) fn open_for_reading(&self) -> Result<Connection, StoreError> {
        self.check_readable()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(&self.database, flags)
            .map_err(Failure::from)
            .and_then(|connection| self.ready_to_read(connection));
        let opened = match opened {
            // The log needs an index in shared memory, and that cannot be made here.
            Err(failure) if cannot_open(&failure) && self.log().exists() => {
                Err(StoreError::Unclosed { path: self.database.clone() }.into())
            }
            // Without a log the file alone is all there is.
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

    /// SQLite needs to make files beside the database, and does not say why it cannot.
    fn check_writable(&self) -> Result<(), StoreError> {
        let directory = (self.directory(), Access::WRITE_OK | Access::EXEC_OK);
        let database = (self.database.as_path(), Access::READ_OK | Access::WRITE_OK);
        for (path, access) in [directory, database] {
            accessat(CWD, path, access, AtFlags::EACCESS)
                .map_err(|errno| self.refused(path)(errno.into()))?;
        }
        Ok(())
    }

    /// SQLite does not say why it cannot open a file.
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

    /// Makes an empty database that only its owner can read; SQLite gives its other files the same
    /// mode. It is not opened here: closing it would drop the locks that connections of this process
    /// have on it (fcntl(2), "Advisory record locking").
    fn make_database(&self) -> Result<(), StoreError> {
        self.make_directory()?;
        let mode = Mode::RUSR | Mode::WUSR;
        match mknodat(CWD, &self.database, FileType::RegularFile, mode, 0) {
            Ok(()) => self.give_to_owner(&self.database),
            Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(self.refused(&self.database)(errno.into())),
        }
    }

    /// Makes a new file with some content, whole or not at all; one that is there stays.
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

    /// What root makes in another user's data directory belongs to that user, as SQLite's files do.
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
        let (path, database) = (path.to_owned(), self.database.clone());
        move |error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly { path: database.clone() }
            }
            io::ErrorKind::StorageFull => StoreError::Full { path: database.clone() },
            _ => StoreError::io(format!("cannot make {}", path.display()), error),
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

/// The address under which SQLite reads a file as one that nobody changes.
fn immutable(path: &Path) -> String {
    use std::fmt::Write;
    let mut address = "file:".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            address.push(char::from(byte));
        } else {
            write!(address, "%{byte:02x}").expect("a string takes whatever is written to it");
        }
    }
    address + "?immutable=1"
}
