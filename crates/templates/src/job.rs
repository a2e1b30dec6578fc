//! One build under way: its folders, its steps, and which of them are done.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::interpreter::{self, GuestPython};
use super::python::Python;
use super::venv::{self, GUEST_VENV};
use super::{
    BuildError, BuildOptions, Home, MANIFEST_FORMAT, Manifest, Progress, Spec, Step, StepError,
    TemplateDigest, check, files, packages, skeleton, store, tree, trust,
};

/// The part of a build's folder that is not part of the result.
pub(super) const WORK: &str = ".work";

/// One build under way.
pub(super) struct Job<'build> {
    pub(super) home: &'build Home,
    pub(super) spec: &'build Spec,
    pub(super) options: &'build BuildOptions,
    pub(super) python: &'build Python,
    pub(super) digest: &'build TemplateDigest,
    pub(super) folder: PathBuf,
}

impl Job<'_> {
    /// Returns the guest's root under construction.
    pub(super) fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Returns where a guest path lies in the tree under construction.
    pub(super) fn in_root(&self, guest: &Path) -> PathBuf {
        self.root().join(guest.strip_prefix("/").unwrap_or(guest))
    }

    /// Returns a folder for things that are not part of the result.
    pub(super) fn scratch(&self) -> PathBuf {
        self.folder.join(WORK).join("scratch")
    }

    /// Gives a program no more than it needs to start: for code that is not ours.
    pub(super) fn apply_plain_environment(&self, command: &mut Command) {
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("TMPDIR", self.scratch());
        let guest = GuestPython::of(self.python);
        if let Some(libraries) = guest.library_path.first() {
            command.env("LD_LIBRARY_PATH", self.in_root(libraries));
        }
    }

    /// Runs the steps that are not done yet, in order.
    pub(super) fn run_steps(&self, progress: &mut dyn Progress) -> Result<(), BuildError> {
        let failed = |step| {
            move |source| BuildError::Step {
                name: self.spec.name.clone(),
                step,
                source: Box::new(source),
            }
        };
        for step in Step::all() {
            let first_time = self.seconds_spent(step).is_none();
            if first_time {
                let begin = Instant::now();
                progress.started(step);
                self.run_step(step, progress).map_err(failed(step))?;
                // After the step: one that broke has no mark and runs again from its beginning.
                self.mark(step, begin.elapsed()).map_err(failed(step))?;
                progress.finished(step, begin.elapsed());
            }
            if self.options.stop_after == Some(step) {
                return Err(BuildError::Stopped(step));
            }
        }
        Ok(())
    }

    fn run_step(&self, step: Step, progress: &mut dyn Progress) -> Result<(), StepError> {
        tree::folder(&self.folder)?;
        tree::folder(&self.scratch())?;
        match step {
            Step::Skeleton => skeleton::create(&self.root(), Path::new("/")),
            Step::Interpreter => interpreter::install(self),
            Step::Venv => venv::create(self),
            Step::Packages => packages::install(self, progress),
            Step::Files => files::install(self),
            Step::Check => check::imports(self, progress),
            Step::Finish => self.finish(),
        }
    }

    fn finish(&self) -> Result<(), StepError> {
        // After the imports were checked: on the host the links lead nowhere, and some packages read
        // the list when they are imported.
        trust::replace_lists(&self.in_root(&venv::guest_site(self.python.version())))?;
        tree::open_to_readers(&self.root())?;
        // Part of the build, so that `hold` finds it from the first moment.
        tree::file(&self.folder.join(store::IN_USE), b"")?;
        self.manifest()?.write(&self.folder)?;
        // One call for the whole tree instead of one for each of its many thousand files.
        File::open(&self.folder)
            .and_then(|folder| Ok(rustix::fs::syncfs(&folder)?))
            .map_err(tree::io("sync", &self.folder))
    }

    fn manifest(&self) -> Result<Manifest, StepError> {
        let guest = GuestPython::of(self.python);
        let site = venv::guest_site(self.python.version());
        Ok(Manifest {
            format: MANIFEST_FORMAT,
            name: self.spec.name.to_string(),
            description: self.spec.description.clone(),
            digest: self.digest.as_str().to_owned(),
            description_digest: TemplateDigest::of_description(self.spec).as_str().to_owned(),
            python_version: self.python.version().to_string(),
            interpreter: Path::new(GUEST_VENV).join("bin/python3"),
            base_interpreter: guest.executable,
            prefix: PathBuf::from(GUEST_VENV),
            packages: check::installed(&self.in_root(&site))?,
            site: vec![site],
            library_path: guest.library_path,
            stdlib: guest.stdlib,
            system_dirs: skeleton::system_dirs(Path::new("/")),
            preload: self.spec.preload.clone(),
            environment: self.spec.environment.clone(),
            bytes: tree::bytes_on_disk(&self.root())?,
            build_seconds: Step::all().filter_map(|step| self.seconds_spent(step)).sum(),
        })
    }

    fn marker(&self, step: Step) -> PathBuf {
        self.folder.join(WORK).join("steps").join(step.as_str())
    }

    /// Returns how long a finished step took; nothing if it is not finished.
    fn seconds_spent(&self, step: Step) -> Option<f64> {
        fs::read_to_string(self.marker(step)).ok()?.trim().parse().ok()
    }

    fn mark(&self, step: Step, took: Duration) -> Result<(), StepError> {
        tree::file(&self.marker(step), took.as_secs_f64().to_string().as_bytes())
    }
}
