//! A small file system of a test's own. Only root can make one.

use std::ffi::CString;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use tempfile::TempDir;

/// A tmpfs of some size.
pub(crate) struct Mount {
    directory: TempDir,
    is_mounted: bool,
}

impl Mount {
    /// Nothing, and a word about it, where this may not be done.
    pub(crate) fn of_bytes(bytes: u64) -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let options = CString::new(format!("size={bytes},mode=0755")).unwrap();
        match mount("tmpfs", directory.path(), "tmpfs", MountFlags::empty(), options.as_c_str()) {
            Ok(()) => Some(Self { directory, is_mounted: true }),
            Err(error) => {
                eprintln!("skipped: a file system cannot be mounted here ({error})");
                None
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn make_read_only(&self) {
        mount_remount(self.path(), MountFlags::RDONLY, "").unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if std::mem::take(&mut self.is_mounted) {
            unmount(self.path(), UnmountFlags::DETACH).unwrap();
        }
    }
}
