//! The guest's code on disk: a layer over every template, named after its content and replaced with
//! the binary. A layer that is in place is never changed.

#[cfg(test)]
mod tests;

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sha2::{Digest, Sha256};

use silica_templates::{Home, Template, is_same_file};

/// The Python files of the guest, by name.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/guest_files.rs"));

/// Where the guest's package is seen inside.
pub(crate) const PACKAGE: &str = "/opt/silica/guest/silica_guest";

/// Files that a tier needs beside the guest's, by name.
type TierFiles = &'static [(&'static str, &'static [u8])];

/// Why the layer could not be written.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// Some file of it.
    #[error("cannot write the guest's code to {0}")]
    Write(PathBuf, #[source] io::Error),
}

/// The age at which the writer of a half-written layer must have died.
const PARTIAL_AGE_MAX: Duration = Duration::from_hours(1);

/// A layer that is in use: it stays as long as this does.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) path: PathBuf,
    _lock: File,
}

impl Layer {
    /// Opens and locks a layer; `None` if there is none, or if it is being removed this moment.
    fn hold(path: &Path) -> io::Result<Option<Self>> {
        let lock = match File::open(path) {
            Ok(directory) => directory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match lock.try_lock_shared() {
            Ok(()) => {}
            // Only `remove_unused` locks exclusively.
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // It may have been moved away between opening and locking.
        Ok(is_same_file(&lock, path).then(|| Self { path: path.to_owned(), _lock: lock }))
    }
}

/// Makes sure the layer for a template's Python exists and returns it.
///
/// It is named after its content and moved into place whole, so that one that is there is right.
/// The files are compiled ahead, because the guest cannot write beside them.
pub(crate) fn ensure(
    home: &Home,
    template: &Template,
    tier_files: TierFiles,
) -> Result<Layer, GuestError> {
    let all = home.path().join("guest");
    let version = content(tier_files);
    let path = all.join(format!("{version}-py{}", template.manifest.python_version));
    let failed = |error| GuestError::Write(path.clone(), error);
    if let Some(layer) = Layer::hold(&path).map_err(failed)? {
        return Ok(layer);
    }
    let partial = all.join(format!(".partial-{}", std::process::id()));
    write(&partial, template, tier_files).map_err(failed)?;
    // rename(2) replaces no directory that holds something, so the first process wins.
    let moved = std::fs::rename(&partial, &path);
    let layer = Layer::hold(&path).map_err(failed)?;
    // Another process may have been first; its layer is the same.
    if moved.is_err() {
        // What stays is removed by a later `sweep`.
        let _ = std::fs::remove_dir_all(&partial);
    }
    sweep(&all, &version);
    let missing = || moved.err().unwrap_or_else(|| io::ErrorKind::NotFound.into());
    layer.ok_or_else(|| failed(missing()))
}

/// Returns the name of this version: a digest of all files.
fn content(tier_files: TierFiles) -> String {
    let mut hash = Sha256::new();
    for (name, content) in FILES.iter().chain(tier_files) {
        // With lengths, so that no two sets of files make one sequence of bytes.
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    let digest = hash.finalize();
    let short = digest[..6].iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    format!("{short:012x}")
}

/// Removes unused layers of other versions, and what writers that died have left. What cannot be
/// removed only takes room.
fn sweep(all: &Path, version: &str) {
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        if name.starts_with('.') {
            let modified = entry.metadata().and_then(|about| about.modified()).ok();
            let age = modified.and_then(|time| time.elapsed().ok());
            if age > Some(PARTIAL_AGE_MAX) {
                let _ = std::fs::remove_dir_all(&path);
            }
        } else if !name.starts_with(version) {
            let _ = remove_unused(all, &path);
        }
    }
}

fn remove_unused(all: &Path, path: &Path) -> io::Result<()> {
    let lock = File::open(path)?;
    // A process that uses the layer holds the shared lock.
    if lock.try_lock().is_err() {
        return Ok(());
    }
    // Out of the way first, so that no process finds half of it.
    let leaving = all.join(format!(".removing-{}", std::process::id()));
    std::fs::rename(path, &leaving)?;
    std::fs::remove_dir_all(&leaving)
}

fn write(layer: &Path, template: &Template, tier_files: TierFiles) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if layer.exists() {
        std::fs::remove_dir_all(layer)?;
    }
    let package = layer.join(&PACKAGE[1..]);
    std::fs::create_dir_all(&package)?;
    for (name, content) in FILES.iter().chain(tier_files) {
        std::fs::write(package.join(name), content)?;
    }
    compile(&package, template);
    // The jail reads it under another user id.
    let mut pending = vec![layer.to_owned()];
    while let Some(path) = pending.pop() {
        let is_directory = path.is_dir();
        let mode = if is_directory { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        if is_directory {
            for entry in std::fs::read_dir(&path)? {
                pending.push(entry?.path());
            }
        }
    }
    Ok(())
}

/// Compiles with the template's own interpreter. Without this imports are slower, not wrong.
fn compile(package: &Path, template: &Template) {
    let inside = &template.manifest.base_interpreter;
    let on_host = template.root().join(inside.strip_prefix("/").unwrap_or(inside));
    let interpreter = if on_host.exists() { on_host } else { inside.clone() };
    let libraries: Vec<String> = template
        .manifest
        .library_path
        .iter()
        .map(|path| {
            template.root().join(path.strip_prefix("/").unwrap_or(path)).display().to_string()
        })
        .collect();
    let compiled = Command::new(interpreter)
        // Unchecked (PEP 552): the layer never changes, so imports need not compare it with its
        // source.
        .args(["-I", "-S", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"])
        // Tracebacks name the file as the guest sees it.
        .args(["-d", PACKAGE])
        .arg(package)
        .env_clear()
        .env("LD_LIBRARY_PATH", libraries.join(":"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        tracing::warn!("the guest's code could not be compiled ahead; starts will be slower");
    }
}
