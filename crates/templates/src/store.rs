//! Finished builds: finding, using, replacing and removing them.
//!
//! `current` is swapped by one rename, so a reader sees the old build or the new one, never none. A
//! process that uses a build holds a shared lock on its `.in-use`; a build is only removed under
//! the exclusive one, so no process loses a tree that it uses.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::home::{BUILDING_PREFIX, REMOVING_PREFIX};
use super::{Home, Manifest, ManifestError, Spec, TemplateDigest, TemplateName, digest};

mod folder;

pub use folder::is_same_file;
use folder::{discard, finished, io, names_in, sync, try_exclusive};

/// The file in a build whose lock says that it is used.
pub(super) const IN_USE: &str = ".in-use";

/// A finished build.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// What it is and how to start it.
    pub manifest: Manifest,
    /// The build's folder on the host.
    folder: PathBuf,
}

/// A template that was built, as [`list`] finds it.
#[derive(Debug)]
pub struct ListedTemplate {
    pub name: TemplateName,
    /// The current build, or what is wrong with it.
    pub build: Result<Template, TemplateStoreError>,
}

/// Keeps a build from being removed for as long as it lives.
#[derive(Debug)]
pub struct Hold {
    _file: File,
}

/// Why finished builds could not be found, used or changed.
#[derive(Debug, thiserror::Error)]
pub enum TemplateStoreError {
    /// A file operation failed.
    #[error("could not {doing} {path}", path = path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A build's manifest cannot be used.
    #[error("the build of template `{name}` is damaged or from another version; build it again")]
    Manifest {
        name: TemplateName,
        #[source]
        source: ManifestError,
    },
    /// `current` leads somewhere that is not a build of this template.
    #[error("{path} does not name a build of this template", path = path.display())]
    Current { path: PathBuf },
    /// The build was removed in the meantime; load the template again.
    #[error("the build in {path} is gone; load the template again", path = path.display())]
    Gone { path: PathBuf },
    /// A sandbox uses the build, so it cannot be removed.
    #[error("template `{name}` is in use")]
    InUse { name: TemplateName },
    /// The template is being built, so it cannot be removed.
    #[error("template `{name}` is being built")]
    Building { name: TemplateName },
}

impl Template {
    /// Returns the guest's root skeleton on the host.
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Returns the build's folder on the host.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns whether it was built from this description. Does not look at the interpreter, which
    /// only [`super::ensure`] can.
    pub fn is_described_by(&self, spec: &Spec) -> bool {
        self.manifest.description_digest == TemplateDigest::of_description(spec).as_str()
    }

    /// Keeps this build from being removed until the guard is dropped.
    pub fn hold(&self) -> Result<Hold, TemplateStoreError> {
        let path = self.folder.join(IN_USE);
        let gone = || TemplateStoreError::Gone { path: self.folder.clone() };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(gone()),
            Err(error) => return Err(io("open", &path)(error)),
        };
        match file.try_lock_shared() {
            Ok(()) => {}
            // The exclusive lock is held only to remove the build.
            Err(TryLockError::WouldBlock) => return Err(gone()),
            Err(TryLockError::Error(error)) => return Err(io("lock", &path)(error)),
        }
        // The lock may be on a file that was moved away between opening and locking.
        if is_same_file(&file, &path) { Ok(Hold { _file: file }) } else { Err(gone()) }
    }
}

/// Returns the build of a template that is in use, if it was ever built.
pub fn load(home: &Home, name: &TemplateName) -> Result<Option<Template>, TemplateStoreError> {
    let current = home.current(name);
    let target = match fs::read_link(&current) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io("read", &current)(error)),
    };
    // A link that leads elsewhere is refused: only the name of a build in this folder is followed.
    match target.to_str().filter(|short| digest::is_short(short)) {
        Some(short) => load_from(name, home.template(name).join(short)),
        None => Err(TemplateStoreError::Current { path: current }),
    }
}

/// Returns every template that was built, sorted by name.
pub fn list(home: &Home) -> Result<Vec<ListedTemplate>, TemplateStoreError> {
    let mut builds = Vec::new();
    for entry in names_in(&home.templates())? {
        let Ok(name) = TemplateName::new(&entry) else {
            continue;
        };
        if let Some(build) = load(home, &name).transpose() {
            builds.push(ListedTemplate { name, build });
        }
    }
    Ok(builds)
}

/// Removes a template's builds and returns whether there were any. Refuses while one is in use.
pub fn remove(home: &Home, name: &TemplateName) -> Result<bool, TemplateStoreError> {
    let folder = home.template(name);
    if !folder.is_dir() {
        return Ok(false);
    }
    // Held to the end, or a build could publish into the folder that is being removed.
    let Some(_lock) = try_exclusive(&home.build_lock(name))? else {
        return Err(TemplateStoreError::Building { name: name.clone() });
    };
    let builds = finished(&folder)?;
    // All locks first, so that a refusal leaves everything as it was.
    let mut locks = Vec::new();
    for build in &builds {
        match try_exclusive(&build.join(IN_USE))? {
            Some(lock) => locks.push(lock),
            None => return Err(TemplateStoreError::InUse { name: name.clone() }),
        }
    }
    let existed = load(home, name).is_ok_and(|build| build.is_some());
    // `current` first: a reader finds no build rather than half of one.
    let current = home.current(name);
    match fs::remove_file(&current) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(io("remove", &current)(error));
        }
        Ok(()) | Err(_) => {}
    }
    for build in &builds {
        discard(build)?;
    }
    sweep_leftovers(&folder)?;
    Ok(existed)
}

/// Returns the finished build of a digest, if it is there and sound.
pub(super) fn load_digest(
    home: &Home,
    name: &TemplateName,
    digest: &TemplateDigest,
) -> Result<Option<Template>, TemplateStoreError> {
    let template = load_from(name, home.finished(name, digest))?;
    Ok(template.filter(|template| template.manifest.digest == digest.as_str()))
}

/// Moves what was built into place and makes it the current build.
pub(super) fn publish(
    home: &Home,
    name: &TemplateName,
    digest: &TemplateDigest,
) -> Result<(), TemplateStoreError> {
    let building = home.building(name, digest);
    let finished = home.finished(name, digest);
    if finished.exists() {
        // Damaged, or it would have been used as it is.
        discard(&finished)?;
    }
    fs::rename(&building, &finished).map_err(io("put in place", &finished))?;
    // The folder's entry must be on disk before `current` names it, or a crash could leave a link
    // to nothing.
    sync(&home.template(name))?;
    make_current(home, name, digest)
}

/// Points `current` at a finished build, in one step.
pub(super) fn make_current(
    home: &Home,
    name: &TemplateName,
    digest: &TemplateDigest,
) -> Result<(), TemplateStoreError> {
    let current = home.current(name);
    let fresh = home.template(name).join(".current-new");
    // Left over from a crash between the two calls below, or not there.
    let _ = fs::remove_file(&fresh);
    symlink(digest.short(), &fresh).map_err(io("link", &fresh))?;
    // symlink(2) cannot replace a link, and rename(2) replaces in one step.
    fs::rename(&fresh, &current).map_err(io("replace", &current))?;
    sync(&home.template(name))
}

/// Removes builds that are neither current nor in use, and what broken builds left behind. The
/// caller holds the build lock.
pub(super) fn sweep(
    home: &Home,
    name: &TemplateName,
    current: &TemplateDigest,
) -> Result<(), TemplateStoreError> {
    let folder = home.template(name);
    for build in finished(&folder)? {
        if build == home.finished(name, current) {
            continue;
        }
        if let Some(_lock) = try_exclusive(&build.join(IN_USE))? {
            discard(&build)?;
        }
    }
    sweep_leftovers(&folder)
}

fn load_from(name: &TemplateName, folder: PathBuf) -> Result<Option<Template>, TemplateStoreError> {
    let manifest = Manifest::read(&folder)
        .map_err(|source| TemplateStoreError::Manifest { name: name.clone(), source })?;
    Ok(manifest
        // A folder that was copied from another template is not a build of this one.
        .filter(|manifest| manifest.name == name.as_str())
        .map(|manifest| Template { manifest, folder }))
}

fn sweep_leftovers(folder: &Path) -> Result<(), TemplateStoreError> {
    for entry in names_in(folder)? {
        if entry.starts_with(BUILDING_PREFIX) || entry.starts_with(REMOVING_PREFIX) {
            let path = folder.join(entry);
            fs::remove_dir_all(&path).map_err(io("remove", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
