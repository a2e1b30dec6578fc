//! What the guest may plant, and what becomes of it. The guest is played by the test, on a real
//! tmpfs where it may mount one.

mod archives;
mod changing;
mod extracting;
mod listing;
mod naming;
mod paths;
mod races;
mod reading;
mod special;
mod watching;
mod writing;

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use super::*;

/// A user id that is neither root nor the one of the tests.
const STRANGER: u32 = 54321;

/// The inodes of the jail's file system while it is empty: itself and its four directories.
const INODES_WHEN_EMPTY: u64 = 5;

/// What a copy or an archive may take in these tests.
const COPY_BYTES_MAX: u64 = 1 << 20;

/// A sandbox's file system, without a sandbox.
struct Ground {
    root: PathBuf,
    files: Files,
    _mount: Option<OwnedFd>,
    _directory: Option<tempfile::TempDir>,
}

impl Ground {
    fn new() -> Self {
        Self::with("64m", "100k")
    }

    /// A file system of this size with so many inodes, where the test may mount one: in no
    /// directory, and gone with its descriptor.
    fn with(size: &str, inodes: &str) -> Self {
        if !is_root() {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().to_owned();
            return Self::over(root, None, Some(directory));
        }
        let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
        for (key, value) in [("size", size), ("nr_inodes", inodes), ("mode", "755")] {
            rustix::mount::fsconfig_set_string(context.as_fd(), key, value).unwrap();
        }
        rustix::mount::fsconfig_create(context.as_fd()).unwrap();
        let flags = FsMountFlags::FSMOUNT_CLOEXEC;
        let mount =
            rustix::mount::fsmount(context.as_fd(), flags, MountAttrFlags::empty()).unwrap();
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Self::over(root, Some(mount), None)
    }

    fn over(root: PathBuf, mount: Option<OwnedFd>, directory: Option<tempfile::TempDir>) -> Self {
        // The last one is a place of files to the guest alone.
        for place in PLACES.map(|(place, _)| place).into_iter().chain(["shm"]) {
            fs::create_dir(root.join(place)).unwrap();
        }
        let files = files(&root);
        Self { root, files, _mount: mount, _directory: directory }
    }

    /// Gives everything that is there now, and everything made later, to another user.
    fn give_to(&mut self, owner: u32) {
        for path in [self.root.clone()].into_iter().chain(PLACES.map(|(at, _)| self.root.join(at)))
        {
            // Through the descriptor's entry in /proc, and not the entry itself.
            chown(path.join("."), Some(owner), Some(owner)).unwrap();
        }
        self.files = files(&self.root);
    }

    /// Where the guest would find a path.
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(std::ffi::OsStr::from_bytes(guest(path).inner()))
    }

    fn put(&self, path: &str, content: &[u8]) -> Result<u64, FileError> {
        self.put_with(path, content, &OPTIONS)
    }

    fn put_with(
        &self,
        path: &str,
        content: &[u8],
        options: &WriteOptions,
    ) -> Result<u64, FileError> {
        let mut writer = self.files.write(&guest(path), options)?;
        for chunk in content.chunks(1000) {
            writer.write(chunk)?;
        }
        writer.finish()
    }

    fn get(&self, path: &str) -> Result<Vec<u8>, FileError> {
        drain(self.files.read(&guest(path))?)
    }

    /// What happened since a snapshot, which becomes one of now.
    fn changes(&self, snapshot: &mut Snapshot) -> Changes {
        let now = self.files.snapshot().unwrap();
        let changes = now.since(snapshot);
        *snapshot = now;
        changes
    }

    /// Everything below a path, as the files say, with `/` behind directories.
    fn names(&self, path: &str) -> Vec<String> {
        let listing = self.files.list(&guest(path), DEPTH_MAX).unwrap();
        let entries = listing.entries.into_iter();
        entries
            .map(|listed| match listed.stat.kind {
                FileKind::Directory => format!("{}/", listed.path),
                _ => listed.path,
            })
            .collect()
    }
}

const OPTIONS: WriteOptions = WriteOptions {
    mode: FILE_MODE_DEFAULT,
    parents: Parents::Require,
    existing: Existing::Replace,
    bytes_max: u64::MAX,
};

fn files(root: &Path) -> Files {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(root, flags, Mode::empty()).unwrap();
    let tree = WritableTree { directory, inodes_when_empty: INODES_WHEN_EMPTY };
    Files::new(tree, COPY_BYTES_MAX).unwrap()
}

fn guest(path: &str) -> GuestPath {
    GuestPath::parse(path).unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn drain(mut reader: Reader) -> Result<Vec<u8>, FileError> {
    let (mut content, mut buffer) = (Vec::new(), [0; 777]);
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(content),
            length => content.extend_from_slice(&buffer[..length]),
        }
    }
}

/// How something ended, in one word: `ok`, or the error's variant.
fn word<T>(result: Result<T, FileError>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(error) => format!("{error:?}").split(['(', ' ']).next().unwrap().to_owned(),
    }
}

fn make_fifo(path: &Path) {
    let (kind, mode) = (rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
}
