//! The interpreter of the guest: the host's own under `/usr`, or a copy below `/opt/silica`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::job::Job;
use super::python::Python;
use super::{StepError, packages, tree};

/// Where a copied installation lies in the guest.
const GUEST_PREFIX: &str = "/opt/silica/python";
/// Where the loader looks for libraries beside the copied program.
const ORIGIN_LIB: &[u8] = b"$ORIGIN/../lib";
/// Parts of the standard library that no guest needs.
const UNWANTED: &[&str] = &[
    "__pycache__",
    "dist-packages",
    "idlelib",
    "lib2to3",
    "site-packages",
    "test",
    "tests",
    "tkinter",
    "turtledemo",
];

/// The interpreter as the guest sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GuestPython {
    pub(super) executable: PathBuf,
    /// The folders of the standard library.
    pub(super) stdlib: Vec<PathBuf>,
    /// What `LD_LIBRARY_PATH` must hold.
    pub(super) library_path: Vec<PathBuf>,
}

impl GuestPython {
    /// Says where `python` will be in the guest.
    pub(super) fn of(python: &Python) -> Self {
        let series = python.version().series();
        let (executable, stdlib) = if python.is_system() {
            (python.executable().to_owned(), python.stdlib().to_owned())
        } else {
            let prefix = Path::new(GUEST_PREFIX);
            (prefix.join(format!("bin/python{series}")), prefix.join(format!("lib/python{series}")))
        };
        let copied_library = !python.is_system() && python.libdir().is_some();
        Self {
            executable,
            stdlib: vec![stdlib.clone(), stdlib.join("lib-dynload")],
            library_path: copied_library
                .then(|| Path::new(GUEST_PREFIX).join("lib"))
                .into_iter()
                .collect(),
        }
    }
}

/// Returns the program that behaves like the guest's interpreter but can be run on the host.
pub(super) fn on_host(job: &Job<'_>) -> PathBuf {
    let guest = GuestPython::of(job.python).executable;
    if job.python.is_system() { guest } else { job.in_root(&guest) }
}

/// Copies the installation into the tree, unless the guest sees the host's.
pub(super) fn install(job: &Job<'_>) -> Result<(), StepError> {
    let python = job.python;
    if python.is_system() {
        return Ok(());
    }
    let prefix = job.in_root(Path::new(GUEST_PREFIX));
    tree::remove(&prefix)?;
    let series = python.version().series();
    let bin = prefix.join("bin");
    let program = format!("python{series}");
    for folder in [&prefix, &bin, &prefix.join("lib")] {
        tree::folder(folder)?;
    }
    tree::copy_file(python.executable(), &bin.join(&program))?;
    for name in ["python3", "python"] {
        tree::link(Path::new(&program), &bin.join(name))?;
    }
    let stdlib = prefix.join(format!("lib/python{series}"));
    copy_libraries(python, &prefix.join("lib"))?;
    tree::copy(python.stdlib(), &stdlib, &wanted)?;
    forget_home(python, &prefix)?;
    packages::compile(job, &stdlib)
}

fn wanted(below: &Path) -> bool {
    let name = below.file_name().unwrap_or_default();
    let unwanted = UNWANTED.iter().any(|unwanted| name == OsStr::new(unwanted));
    let build_configuration = name.as_encoded_bytes().starts_with(b"config-");
    !unwanted && !build_configuration && below.extension() != Some(OsStr::new("a"))
}

/// Copies the shared libraries that lie beside the standard library: `libpython` itself, and in
/// some distributions (conda) those that its modules are linked to.
fn copy_libraries(python: &Python, target: &Path) -> Result<(), StepError> {
    let beside = python.stdlib().parent().map(Path::to_owned);
    let libdir = python.libdir().map(Path::to_owned);
    let mut folders: Vec<PathBuf> = beside.into_iter().chain(libdir).collect();
    folders.dedup();
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        for path in tree::children(folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let library = name.ends_with(".so") || name.contains(".so.");
            if !library || !path.is_file() {
                continue;
            }
            let place = target.join(&*name);
            match fs::read_link(&path) {
                // A link beside its target stays one. Any other would lead to the host's place, so
                // the file is copied.
                Ok(to) if to.components().count() == 1 => tree::link(&to, &place)?,
                Ok(_) | Err(_) => tree::copy_file(&path, &place)?,
            }
        }
    }
    Ok(())
}

/// Takes the host's paths out of the copy: from the programs, whose search path for libraries would
/// lead nowhere in the guest, and from the build-time variables that `sysconfig` reads.
fn forget_home(python: &Python, prefix: &Path) -> Result<(), StepError> {
    let old = python.base_prefix().as_os_str().as_encoded_bytes();
    let libdir = python.libdir().unwrap_or(Path::new("")).as_os_str();
    tree::walk(prefix, &mut |path, metadata| {
        if metadata.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let program = name.contains(".so") || path.starts_with(prefix.join("bin"));
            let variables = name.starts_with("_sysconfig") || name == "build-details.json";
            if program && !libdir.is_empty() {
                edit(path, |bytes| replace_search_path(bytes, libdir.as_encoded_bytes()))?;
            } else if variables {
                edit(path, |bytes| replace(bytes, old, GUEST_PREFIX.as_bytes()))?;
            }
        }
        Ok(tree::Descend::Yes)
    })
}

fn edit(path: &Path, change: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Result<(), StepError> {
    let content = fs::read(path).map_err(tree::io("read", path))?;
    match change(&content) {
        Some(changed) => fs::write(path, changed).map_err(tree::io("write", path)),
        None => Ok(()),
    }
}

/// Puts `$ORIGIN/../lib` in the place of the search path `old` in an ELF file's string table.
/// The table's offsets must not move, so the rest is filled with zeros, and an `old` that is too
/// short stays: `library_path` in the manifest covers that.
fn replace_search_path(bytes: &[u8], old: &[u8]) -> Option<Vec<u8>> {
    let needle = [b"\0", old, b"\0"].concat();
    let place = find(bytes, &needle)? + 1;
    if !bytes.starts_with(b"\x7fELF") || old.len() < ORIGIN_LIB.len() {
        return None;
    }
    let mut changed = bytes.to_vec();
    changed[place..place + old.len()].fill(0);
    changed[place..place + ORIGIN_LIB.len()].copy_from_slice(ORIGIN_LIB);
    Some(changed)
}

fn replace(bytes: &[u8], old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let mut changed = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(place) = find(rest, old) {
        changed.extend_from_slice(&rest[..place]);
        changed.extend_from_slice(new);
        rest = &rest[place + old.len()..];
    }
    changed.extend_from_slice(rest);
    (changed != bytes).then_some(changed)
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return None;
    }
    bytes.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests;
