//! Files with a key of 32 bytes beside the database, so that a copy of the database alone reveals
//! and proves nothing.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::StoreError;
use crate::digest::{from_hex, to_hex};
use crate::file::StorePaths;
use crate::random::random;

/// The bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;
/// The longest key file that is read.
const KEY_FILE_BYTES_MAX: u64 = 4096;
/// The mode bits that a key file must not have: writing by its group, and any access by others. Its
/// group may read it.
const EXPOSED: u32 = 0o027;

/// Creates a key file with a random key. One that exists stays as it is.
pub(crate) fn make(paths: &StorePaths, path: &Path) -> Result<(), StoreError> {
    let content = format!("{}\n", to_hex(&random::<KEY_BYTES>()?));
    paths.make_private(path, content.as_bytes())
}

/// Reads a key file; `missing` is the error if there is none.
pub(crate) fn load(
    path: PathBuf,
    missing: impl Fn(PathBuf) -> StoreError,
) -> Result<[u8; KEY_BYTES], StoreError> {
    let cannot = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => missing(path.clone()),
        _ => StoreError::io(format!("cannot read {}", path.display()), error),
    };
    let file = File::open(&path).map_err(cannot)?;
    let mode = file.metadata().map_err(cannot)?.permissions().mode() & 0o777;
    if mode & EXPOSED != 0 {
        return Err(StoreError::KeyFileExposed { path, mode });
    }
    let mut bytes = Vec::new();
    file.take(KEY_FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(cannot)?;
    let text = String::from_utf8_lossy(&bytes);
    from_hex::<KEY_BYTES>(text.trim_end()).ok_or(StoreError::KeyFileMalformed { path })
}
