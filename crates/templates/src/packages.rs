//! Fills the virtual environment with a template's packages, by the interpreter's own pip.
//!
//! Only wheels are ever installed (`--only-binary :all:`), because building a source archive runs
//! the package's code here, on the host. pip's settings for indexes and proxies are respected.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::job::Job;
use super::lock::{Locked, Pin};
use super::venv::{self, GUEST_VENV};
use super::{Packages, Progress, StepError, ToolError, command, interpreter, tree, wheels};

/// How long one run of pip may take.
// A proxy that hangs must not hold the build lock for ever.
const PIP_WALL_MAX: Duration = Duration::from_hours(1);
/// How long byte-compiling may take.
const COMPILE_WALL_MAX: Duration = Duration::from_mins(30);

const PIP_RUNNER: &str = include_str!("host/pip_runner.py");

/// The part of a step's progress that a piece of work counts for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    from: f32,
    to: f32,
}

const FETCHING: Share = Share { from: 0.0, to: 0.6 };
const INSTALLING: Share = Share { from: 0.6, to: 0.8 };

impl Share {
    /// Returns the step's fraction when `done` of `total` pieces are done.
    pub(super) fn of(self, done: usize, total: usize) -> f32 {
        let part = done.min(total) as f32 / total.max(1) as f32;
        self.from + (self.to - self.from) * part
    }
}

/// Installs the packages and byte-compiles them.
pub(super) fn install(job: &Job<'_>, progress: &mut dyn Progress) -> Result<(), StepError> {
    // From a clean environment, as an attempt that broke may have left half a package.
    venv::create(job)?;
    venv::for_host(job)?;
    match &job.spec.packages {
        Packages::Locked(entries) => install_locked(job, entries, progress)?,
        Packages::Pinned(pins) => install_pinned(job, pins, progress)?,
    }
    // Back to the guest's interpreter before anything is compiled or published: the host's path
    // means nothing inside.
    venv::for_guest(job)?;
    progress.message("byte-compiling");
    progress.fraction(INSTALLING.to);
    compile(job, &job.in_root(Path::new(GUEST_VENV)))
}

/// Byte-compiles a folder of the tree. The byte code names the guest's paths, not the host's, and
/// stays valid by the source's time of change, which copies and overlays keep.
pub(super) fn compile(job: &Job<'_>, folder: &Path) -> Result<(), StepError> {
    let mut command = Command::new(interpreter::on_host(job));
    // Without `site`, whose `.pth` files may run code: byte-compiling runs none (SECURITY.md).
    command.args(["-I", "-B", "-S", "-m", "compileall", "-q", "-j", "0", "-s"]);
    command.arg(job.root()).args(["-p", "/"]).arg(folder);
    job.apply_plain_environment(&mut command);
    let mut unwritten = None;
    let run = command::run("compileall", command, COMPILE_WALL_MAX, &mut |line| {
        // A file that could not be written also makes compileall exit with 1. Only its text tells a
        // full disk from a file that is not valid Python.
        if line.contains("[Errno ") {
            unwritten.get_or_insert_with(|| line.to_owned());
        }
    });
    match (run, unwritten) {
        (_, Some(message)) => Err(StepError::CompileWrite { message }),
        // Exit code 1 means that some file is not valid Python, as test data of packages may be.
        (Err(ToolError::Failed { status, .. }), None) if status.code() == Some(1) => Ok(()),
        (Err(source), None) => Err(StepError::Compile { path: folder.to_owned(), source }),
        (Ok(()), None) => Ok(()),
    }
}

/// Prepares a run of pip inside the environment under construction.
pub(super) fn pip(job: &Job<'_>, verb: &str) -> Command {
    let venv = Path::new(GUEST_VENV);
    let mut command = Command::new(job.in_root(&venv.join("bin/python")));
    // Isolated, so that neither `PYTHON*` variables nor the caller's directory change what is
    // imported.
    command.args(["-I", "-B", "-c", PIP_RUNNER]);
    command.arg(job.python.pip()).arg(venv.join("bin/python"));
    command.args(["--disable-pip-version-check", "--no-input", "--no-color", verb]);
    // On the command line, which wins over pip's configuration files.
    command.args(["--only-binary", ":all:", "--progress-bar", "off"]);
    job.options.apply_environment(&mut command);
    // A build that is killed leaves nothing outside its own folder.
    command.env("TMPDIR", job.scratch()).current_dir(job.scratch());
    command
}

/// Runs pip to its end.
pub(super) fn run_pip(
    doing: &'static str,
    command: Command,
    on_line: &mut dyn FnMut(&str),
) -> Result<(), StepError> {
    command::run("pip", command, PIP_WALL_MAX, on_line)
        .map_err(|source| StepError::Pip { doing, source })
}

/// Writes entries to a file that pip reads.
pub(super) fn write_requirements(
    job: &Job<'_>,
    name: &str,
    entries: &[&Locked],
) -> Result<PathBuf, StepError> {
    let path = job.scratch().join(name);
    let lines: Vec<String> = entries.iter().map(|entry| entry.to_requirement()).collect();
    tree::file(&path, (lines.join("\n") + "\n").as_bytes())?;
    Ok(path)
}

fn install_locked(
    job: &Job<'_>,
    entries: &[Locked],
    progress: &mut dyn Progress,
) -> Result<(), StepError> {
    let entries = wheels::applicable(job, entries)?;
    let cache = wheels::fetch(job, &entries, progress, FETCHING)?;
    let list = write_requirements(job, "requirements.txt", &entries)?;
    let mut command = pip(job, "install");
    // Compiled later by `compile`, which writes the guest's paths into the byte code.
    command.args(["--no-compile", "--no-warn-script-location", "--no-cache-dir"]);
    // Without the index and without `--no-deps`: what the lock leaves out makes pip fail here.
    command.args(["--no-index", "--require-hashes", "--find-links"]);
    command.arg(&cache).arg("--requirement").arg(&list);
    run_install(command, entries.len(), progress)
}

fn install_pinned(
    job: &Job<'_>,
    pins: &[Pin],
    progress: &mut dyn Progress,
) -> Result<(), StepError> {
    if pins.is_empty() {
        return Ok(());
    }
    let cache = job.home.path().join("cache/pip");
    let mut command = pip(job, "install");
    command.args(["--no-compile", "--no-warn-script-location", "--cache-dir"]);
    command.arg(&cache);
    command.args(pins.iter().map(Pin::to_requirement));
    run_install(command, pins.len(), progress)
}

/// Returns the first word of a line.
pub(super) fn first_word(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// Returns the wheel and its size from a line in which pip says what it downloads.
pub(super) fn downloading(line: &str) -> Option<String> {
    let (wheel, size) = line.trim_start().strip_prefix("Downloading ")?.split_once(" (")?;
    let name = wheel.rsplit('/').next().unwrap_or(wheel);
    Some(format!("downloading {name} ({}", size.split_once(')')?.0.to_owned() + ")"))
}

fn run_install(
    command: Command,
    total: usize,
    progress: &mut dyn Progress,
) -> Result<(), StepError> {
    let mut count = 0;
    run_pip("install", command, &mut |line| {
        if let Some(package) = line.strip_prefix("Collecting ") {
            count += 1;
            progress.fraction(INSTALLING.of(count, 2 * total));
            progress.message(&format!("fetching {}", first_word(package)));
        } else if line.starts_with("Processing ") {
            count += 1;
            progress.fraction(INSTALLING.of(count, 2 * total));
        } else if let Some(wheel) = downloading(line) {
            progress.message(&wheel);
        } else if let Some(packages) = line.strip_prefix("Installing collected packages: ") {
            progress.message(&format!("installing {} packages", packages.split(", ").count()));
        }
    })
}
