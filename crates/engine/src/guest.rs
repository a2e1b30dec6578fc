//! The guest's code and the certificates it trusts, on disk: a layer over every template, named
//! after its content and replaced with the binary. A layer that is in place is never changed.

#[cfg(test)]
mod tests;
mod trust;

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};

use silica_templates::{Home, TRUST_BUNDLE, Template, is_same_file};

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

/// What the layer has beside the guest's own code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Additions<'a> {
    /// Files beside the guest's code.
    pub(crate) tier_files: TierFiles,
    /// Certificates that programs trust beside those of the public authorities, as PEM.
    pub(crate) trust: Option<&'a [u8]>,
}

/// Makes sure the layer for a template's Python exists and returns it.
///
/// It is named after its content and moved into place whole, so that one that is there is right.
/// The files are compiled ahead, because the guest cannot write beside them. One with certificates
/// of its own is made of links to the files of the layer without, so that an engine whose
/// certificate is new at each start does not wait for the compiler.
pub(crate) fn ensure(
    home: &Home,
    template: &Template,
    additions: Additions<'_>,
) -> Result<Layer, GuestError> {
    let all = home.path().join("guest");
    let version = content(additions.tier_files);
    let name = format!("{version}-py{}", template.manifest.python_version);
    let plain = ensure_layer(&all, &name, &version, |partial| {
        write(partial, template, additions.tier_files)
    })?;
    let Some(trust) = additions.trust else { return Ok(plain) };
    let name = format!("{name}-{}", short_digest(Sha256::new_with_prefix(trust)));
    ensure_layer(&all, &name, &version, |partial| {
        link_tree(&plain.path, partial)?;
        let bundle = partial.join(&TRUST_BUNDLE[1..]);
        std::fs::remove_file(&bundle)?;
        let content = [trust::public_roots().as_bytes(), trust].concat();
        write_file(&bundle, &content)
    })
}

/// Returns the layer of this name, which `write` makes if it is not there.
fn ensure_layer(
    all: &Path,
    name: &str,
    version: &str,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<Layer, GuestError> {
    /// Keeps writers of one process apart.
    static WRITERS: AtomicU64 = AtomicU64::new(0);
    let path = all.join(name);
    let failed = |error| GuestError::Write(path.clone(), error);
    if let Some(layer) = Layer::hold(&path).map_err(failed)? {
        return Ok(layer);
    }
    let writer = WRITERS.fetch_add(1, Ordering::Relaxed);
    let partial = all.join(format!(".partial-{}-{writer}", std::process::id()));
    if partial.exists() {
        // Of a process that had this number and died.
        std::fs::remove_dir_all(&partial).map_err(failed)?;
    }
    write(&partial).map_err(failed)?;
    // Locked before it has its name: without a lock the sweep of another process may remove it.
    let ours = Layer::hold(&partial).map_err(failed)?;
    // rename(2) replaces no directory that holds something, so the first process wins.
    let moved = std::fs::rename(&partial, &path);
    let layer = match (&moved, ours) {
        (Ok(()), Some(ours)) => Some(Layer { path: path.clone(), ..ours }),
        // Another process may have been first; its layer is the same.
        _ => Layer::hold(&path).map_err(failed)?,
    };
    if moved.is_err() {
        // What stays is removed by a later `sweep`.
        let _ = std::fs::remove_dir_all(&partial);
    }
    sweep(all, version);
    let missing = || moved.err().unwrap_or_else(|| io::ErrorKind::NotFound.into());
    layer.ok_or_else(|| failed(missing()))
}

/// Returns the name of this version: a digest of all files but those of one engine alone.
fn content(tier_files: TierFiles) -> String {
    let mut hash = Sha256::new();
    let roots = (TRUST_BUNDLE, trust::public_roots().as_bytes());
    for (name, content) in FILES.iter().chain(tier_files).chain([&roots]) {
        // With lengths, so that no two sets of files make one sequence of bytes.
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    short_digest(hash)
}

fn short_digest(hash: Sha256) -> String {
    let digest = hash.finalize();
    let short = digest[..6].iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    format!("{short:012x}")
}

/// Removes unused layers of other versions and of engines that have ended, and what writers that
/// died have left. What cannot be removed only takes room.
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
        } else if !(name.starts_with(version) && is_shared(&name)) {
            let _ = remove_unused(all, &path);
        }
    }
}

/// Returns whether a layer serves every engine of its version: its name has no digest of
/// certificates.
fn is_shared(name: &str) -> bool {
    name.matches('-').count() == 1
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
    let package = layer.join(&PACKAGE[1..]);
    std::fs::create_dir_all(&package)?;
    for (name, content) in FILES.iter().chain(tier_files) {
        std::fs::write(package.join(name), content)?;
    }
    compile(&package, template);
    write_file(&layer.join(&TRUST_BUNDLE[1..]), trust::public_roots().as_bytes())?;
    walk(layer, &mut |path, kind| open_to_readers(path, kind))
}

fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, content)?;
    open_to_readers(path, Kind::File)
}

/// Makes a tree whose files are those of another.
fn link_tree(from: &Path, to: &Path) -> io::Result<()> {
    walk(from, &mut |path, kind| {
        let place = to.join(path.strip_prefix(from).unwrap_or(path));
        match kind {
            Kind::Directory => {
                std::fs::create_dir_all(&place)?;
                open_to_readers(&place, kind)
            }
            // Some file systems have no links.
            Kind::File => {
                std::fs::hard_link(path, &place).or_else(|_| std::fs::copy(path, &place).map(drop))
            }
        }
    })
}

/// What a layer consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Directory,
    File,
}

/// Visits a tree, each directory before its content.
fn walk(root: &Path, visit: &mut dyn FnMut(&Path, Kind) -> io::Result<()>) -> io::Result<()> {
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.pop() {
        let kind = if path.is_dir() { Kind::Directory } else { Kind::File };
        visit(&path, kind)?;
        if kind == Kind::Directory {
            for entry in std::fs::read_dir(&path)? {
                pending.push(entry?.path());
            }
        }
    }
    Ok(())
}

/// Sets the mode of a file or directory: the jail reads it under another user id.
fn open_to_readers(path: &Path, kind: Kind) -> io::Result<()> {
    let mode = match kind {
        Kind::Directory => 0o755,
        Kind::File => 0o644,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
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
