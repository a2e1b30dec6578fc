//! The virtual environment that holds a template's packages, laid out by hand.
//!
//! It is the same folder in two guises: while pip fills it, it belongs to the host's interpreter;
//! in the guest it belongs to the guest's. Only two links and `pyvenv.cfg` tell them apart.

use std::path::{Path, PathBuf};

use super::interpreter::GuestPython;
use super::job::Job;
use super::{PythonVersion, StepError, tree};

/// Where the virtual environment lies in the guest.
pub(super) const GUEST_VENV: &str = "/opt/silica/venv";

/// Makes the environment as the guest will see it, without packages.
pub(super) fn create(job: &Job<'_>) -> Result<(), StepError> {
    tree::remove(&job.in_root(Path::new(GUEST_VENV)))?;
    for_guest(job)
}

/// Points the environment at the guest's interpreter.
pub(super) fn for_guest(job: &Job<'_>) -> Result<(), StepError> {
    lay_out(job, &GuestPython::of(job.python).executable)
}

/// Points the environment at the host's interpreter, so that pip can run in it.
pub(super) fn for_host(job: &Job<'_>) -> Result<(), StepError> {
    lay_out(job, job.python.executable())
}

/// Returns the guest path of the folder that packages lie in.
pub(super) fn guest_site(version: PythonVersion) -> PathBuf {
    let series = version.series();
    Path::new(GUEST_VENV).join(format!("lib/python{series}/site-packages"))
}

fn lay_out(job: &Job<'_>, interpreter: &Path) -> Result<(), StepError> {
    let version = job.python.version();
    let venv = job.in_root(Path::new(GUEST_VENV));
    let bin = venv.join("bin");
    for folder in [&venv, &bin, &job.in_root(&guest_site(version))] {
        tree::folder(folder)?;
    }
    // Some distributions put compiled packages into lib64; `venv` makes this link for them too.
    tree::link(Path::new("lib"), &venv.join("lib64"))?;
    let program = format!("python{}", version.series());
    tree::link(interpreter, &bin.join(&program))?;
    for name in ["python3", "python"] {
        tree::link(Path::new(&program), &bin.join(name))?;
    }
    let home = interpreter.parent().unwrap_or(Path::new("/")).display();
    let config = format!(
        "home = {home}\ninclude-system-site-packages = false\nversion = {version}\nexecutable = {}\n",
        interpreter.display()
    );
    tree::file(&venv.join("pyvenv.cfg"), config.as_bytes())
}
