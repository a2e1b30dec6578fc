//! Builds a template step by step, so that a build which breaks goes on where it stopped.
//!
//! Everything happens in a folder of its own; the finished tree is moved into place at the end.
//! Whatever fails before that leaves the build in use untouched.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::job::{Job, WORK};
use super::python::Python;
use super::{
    BuildError, BuildOptions, Home, Progress, Spec, Template, TemplateDigest, TemplateStoreError,
    store, tree,
};

/// How long to wait for another process that builds the same template.
const LOCK_WAIT_MAX: Duration = Duration::from_hours(1);
/// How often to look whether it has ended.
const LOCK_POLL: Duration = Duration::from_millis(100);
/// The steps of a build, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The empty root with its `/etc`.
    Skeleton,
    /// The interpreter, where it has to be copied.
    Interpreter,
    /// The virtual environment.
    Venv,
    /// The packages in it.
    Packages,
    /// The template's own files.
    Files,
    /// Importing the modules to load ahead.
    Check,
    /// Modes, manifest, and writing everything to disk.
    Finish,
}

/// Builds a template, or goes on with a build that broke, and makes it the current one.
///
/// If the same build is already there, it is used as it is.
pub fn build(
    home: &Home,
    spec: &Spec,
    options: &BuildOptions,
    progress: &mut dyn Progress,
) -> Result<Template, BuildError> {
    let (python, digest) = identify(spec, options)?;
    let _lock = lock(home, spec, progress)?;
    let in_store = |source| BuildError::Store { name: spec.name.clone(), source: Box::new(source) };
    if let Ok(Some(template)) = store::load_digest(home, &spec.name, &digest) {
        store::make_current(home, &spec.name, &digest).map_err(in_store)?;
        return Ok(template);
    }
    let job = Job {
        home,
        spec,
        options,
        python: &python,
        digest: &digest,
        folder: home.building(&spec.name, &digest),
    };
    job.run_steps(progress)?;
    store::publish(home, &spec.name, &digest).map_err(in_store)?;
    tidy(home, spec, &digest, progress);
    store::load_digest(home, &spec.name, &digest)
        .and_then(|template| {
            template.ok_or_else(|| TemplateStoreError::Gone {
                path: home.finished(&spec.name, &digest),
            })
        })
        .map_err(in_store)
}

/// Returns the current build if it is what `spec` describes, and builds it otherwise.
pub fn ensure(
    home: &Home,
    spec: &Spec,
    options: &BuildOptions,
    progress: &mut dyn Progress,
) -> Result<Template, BuildError> {
    let (_, digest) = identify(spec, options)?;
    match store::load(home, &spec.name) {
        Ok(Some(template)) if template.manifest.digest == digest.as_str() => Ok(template),
        // Missing, stale or damaged: a build puts all three right.
        Ok(_) | Err(_) => build(home, spec, options, progress),
    }
}

impl Step {
    const ALL: [Self; 7] = [
        Self::Skeleton,
        Self::Interpreter,
        Self::Venv,
        Self::Packages,
        Self::Files,
        Self::Check,
        Self::Finish,
    ];

    /// Returns every step in order.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        Self::ALL.into_iter()
    }

    /// Returns the step's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skeleton => "skeleton",
            Self::Interpreter => "interpreter",
            Self::Venv => "venv",
            Self::Packages => "packages",
            Self::Files => "files",
            Self::Check => "check",
            Self::Finish => "finish",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

fn identify(spec: &Spec, options: &BuildOptions) -> Result<(Python, TemplateDigest), BuildError> {
    let python = Python::find(spec, options).map_err(|source| BuildError::Python {
        name: spec.name.clone(),
        source: Box::new(source),
    })?;
    let digest = TemplateDigest::of(spec, &python)?;
    Ok((python, digest))
}

/// Takes the lock that lets one process at a time build a template, waiting for its turn.
fn lock(home: &Home, spec: &Spec, progress: &mut dyn Progress) -> Result<File, BuildError> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| BuildError::Home { path, source }
    };
    let folder = home.template(&spec.name);
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    // The guest reads its root under another uid, whatever the umask says.
    for folder in [home.templates(), folder] {
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&folder, open).map_err(at(&folder))?;
    }
    let path = home.build_lock(&spec.name);
    let file =
        File::options().create(true).truncate(false).write(true).open(&path).map_err(at(&path))?;
    let begin = Instant::now();
    let mut said = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(source)) => return Err(at(&path)(source)),
            Err(TryLockError::WouldBlock) if begin.elapsed() > LOCK_WAIT_MAX => {
                return Err(BuildError::Busy {
                    name: spec.name.clone(),
                    minutes: LOCK_WAIT_MAX.as_secs() / 60,
                });
            }
            Err(TryLockError::WouldBlock) => {
                if !said {
                    progress.message("waiting for another process that builds this template");
                    said = true;
                }
                thread::sleep(LOCK_POLL);
            }
        }
    }
}

/// Removes what is no longer needed. The new build is in place by now, so a failure is only
/// reported.
fn tidy(home: &Home, spec: &Spec, digest: &TemplateDigest, progress: &mut dyn Progress) {
    let work = home.finished(&spec.name, digest).join(WORK);
    let removed = tree::remove(&work).map_err(io::Error::other);
    let swept = store::sweep(home, &spec.name, digest).map_err(io::Error::other);
    if let Err(error) = removed.and(swept) {
        progress.message(&format!("left something behind: {error}"));
    }
}
