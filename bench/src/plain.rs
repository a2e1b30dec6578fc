//! Plain Python: the same interpreter and packages as the template, outside the jail.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use silica_engine::template::Template;

/// How to start it.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    interpreter: PathBuf,
    site: PathBuf,
    libraries: PathBuf,
}

impl Plain {
    /// Finds the template's own interpreter on the host.
    pub(crate) fn new(template: &Template) -> Self {
        let on_host = |inside: &std::path::Path| {
            let path = template.root().join(inside.strip_prefix("/").unwrap_or(inside));
            if path.exists() { path } else { inside.to_owned() }
        };
        let manifest = &template.manifest;
        let library = manifest.library_path.first().cloned().unwrap_or_default();
        Self {
            interpreter: on_host(&manifest.base_interpreter),
            site: on_host(&manifest.site[0]),
            libraries: on_host(&library),
        }
    }

    fn command(&self, code: &str) -> Command {
        let mut command = Command::new(&self.interpreter);
        command
            .args(["-c", code])
            .env_clear()
            .env("PYTHONPATH", &self.site)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("OPENBLAS_NUM_THREADS", "1")
            .env("OMP_NUM_THREADS", "1")
            .env("LD_LIBRARY_PATH", &self.libraries)
            .stdin(Stdio::null());
        command
    }

    /// Runs code in a new process; how long that took, start and end included.
    pub(crate) fn run(&self, code: &str) -> Result<Duration> {
        let started = Instant::now();
        let output = self.command(code).output()?;
        let took = started.elapsed();
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(took)
    }

    /// Runs code that prints a number of seconds; that number.
    pub(crate) fn seconds(&self, code: &str) -> Result<Duration> {
        let output = self.command(code).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let seconds: f64 = String::from_utf8_lossy(&output.stdout).trim().parse()?;
        Ok(Duration::from_secs_f64(seconds))
    }
}
