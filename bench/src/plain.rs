//! Plain Python: the same interpreter and packages as the template, outside the jail.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use silica_templates::Template;

/// How to start plain Python.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    interpreter: PathBuf,
    site: PathBuf,
    libraries: PathBuf,
    preload: Vec<String>,
    template_environment: Vec<(String, String)>,
}

impl Plain {
    /// Finds the template's own interpreter on the host.
    pub(crate) fn new(template: &Template) -> Self {
        let on_host = |inside: &Path| {
            let path = template.root().join(inside.strip_prefix("/").unwrap_or(inside));
            let found = if path.exists() { path } else { inside.to_owned() };
            found.canonicalize().unwrap_or(found)
        };
        let manifest = &template.manifest;
        let library = manifest.library_path.first().cloned().unwrap_or_default();
        Self {
            interpreter: on_host(&manifest.base_interpreter),
            site: on_host(&manifest.site[0]),
            libraries: on_host(&library),
            preload: manifest.preload.clone(),
            template_environment: manifest.environment.clone().into_iter().collect(),
        }
    }

    pub(crate) fn interpreter(&self) -> &Path {
        &self.interpreter
    }

    /// The modules that the template loads ahead.
    pub(crate) fn preload(&self) -> &[String] {
        &self.preload
    }

    /// Where the template's packages are.
    pub(crate) fn site(&self) -> &Path {
        &self.site
    }

    /// Where the interpreter finds its own library.
    pub(crate) fn libraries(&self) -> &Path {
        &self.libraries
    }

    /// The variables it runs with, and no others.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let mut variables = vec![
            ("PYTHONPATH".to_owned(), self.site.display().to_string()),
            ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()),
            ("LD_LIBRARY_PATH".to_owned(), self.libraries.display().to_string()),
        ];
        let threads = self.threads().map(|(name, value)| (name.to_owned(), value.to_owned()));
        variables.extend(threads);
        variables
    }

    /// The variables that keep libraries to one thread, as the template has them.
    #[expect(clippy::unused_self, reason = "what a template sets belongs to it")]
    pub(crate) fn threads(&self) -> [(&'static str, &'static str); 2] {
        [("OPENBLAS_NUM_THREADS", "1"), ("OMP_NUM_THREADS", "1")]
    }

    fn command(&self, code: &str) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.args(["-c", code]).env_clear().envs(self.environment()).stdin(Stdio::null());
        command
    }

    /// Runs a program of ours with everything that the template sets.
    pub(crate) fn script(&self, path: &Path) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.arg(path).env_clear().envs(self.environment()).stdin(Stdio::null());
        command.envs(self.template_environment.iter().cloned());
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
}
