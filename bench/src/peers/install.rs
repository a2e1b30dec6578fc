//! Where peers are installed: a folder of the bench, by package names, once.
//!
//! Programs of the system come from apt, which installs for the whole machine and needs root;
//! everything else stays in the folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::is_on_path;
use crate::plain::Plain;

/// The programs that drive peers and the kernel, written beside them.
const DRIVERS: [(&str, &str); 5] = [
    ("peers.py", include_str!("../../drivers/peers.py")),
    ("pyodide.mjs", include_str!("../../drivers/pyodide.mjs")),
    ("floor.py", include_str!("../../drivers/floor.py")),
    ("floor.c", include_str!("../../drivers/floor.c")),
    ("parse.py", include_str!("../../drivers/parse.py")),
];

/// Whether something that is missing may be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Install,
    LeaveOut,
}

/// The folder in which peers are installed.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    path: PathBuf,
    missing: Missing,
}

impl Place {
    pub(crate) fn new(path: &Path, missing: Missing) -> Result<Self> {
        std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path: path.canonicalize()?, missing })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Sees to it that a program of the system is there.
    pub(super) fn program(&self, program: &str, package: &str) -> Result<()> {
        if is_on_path(program) {
            return Ok(());
        }
        self.may_install(program)?;
        ensure!(is_on_path("apt-get"), "{program} is not installed, and there is no apt-get");
        let quiet = ["install", "-y", "-q", "--no-install-recommends", package];
        let mut command = Command::new("apt-get");
        command.args(quiet).env("DEBIAN_FRONTEND", "noninteractive");
        run(&mut command)
    }

    /// A virtual environment with packages, which also sees those of the template behind its own.
    pub(super) fn environment(
        &self,
        name: &str,
        base: &Path,
        plain: &Plain,
        packages: &[&str],
    ) -> Result<PathBuf> {
        let environment = self.path.join("environments").join(name);
        // It is of use as long as what it was made from is there: a template that is built anew
        // moves.
        let (complete, made_from) = (environment.join("complete"), made_from(base, plain));
        if std::fs::read_to_string(&complete).is_ok_and(|noted| noted == made_from) {
            return Ok(environment);
        }
        self.may_install(name)?;
        // An interpreter of the template is a copy that finds its library by this; another would be
        // misled.
        let library = if base == plain.interpreter() { plain.libraries() } else { Path::new("") };
        let mut make = Command::new(base);
        run(make
            .args(["-m", "venv", "--clear"])
            .arg(&environment)
            .env("LD_LIBRARY_PATH", library))?;
        let mut pip = Command::new(environment.join("bin/python"));
        run(pip
            .args(["-m", "pip", "install", "-q", "--disable-pip-version-check"])
            .args(packages)
            .env("LD_LIBRARY_PATH", library))?;
        if base == plain.interpreter() {
            see_packages_of(plain, &environment)?;
        }
        std::fs::write(complete, made_from)?;
        Ok(environment)
    }

    /// A package of npm; the folder of its modules.
    pub(super) fn npm(&self, package: &str) -> Result<PathBuf> {
        let prefix = self.path.join("npm");
        let modules = prefix.join("node_modules");
        if modules.join(package).exists() {
            return Ok(modules);
        }
        self.may_install(package)?;
        ensure!(is_on_path("npm") && is_on_path("node"), "node and npm are not installed");
        std::fs::create_dir_all(&prefix)?;
        let mut command = Command::new("npm");
        run(command
            .args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
            .arg(&prefix)
            .arg(package))?;
        Ok(modules)
    }

    /// Writes one of our programs where peers can read it.
    pub(crate) fn driver(&self, name: &str) -> Result<PathBuf> {
        let (_, text) =
            DRIVERS.iter().find(|(known, _)| *known == name).context("no such driver")?;
        let directory = self.path.join("drivers");
        std::fs::create_dir_all(&directory)?;
        let path = directory.join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// An empty folder for this run.
    pub(super) fn scratch(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join("scratch").join(name);
        if path.exists() {
            std::fs::remove_dir_all(&path)
                .with_context(|| format!("cannot empty {}", path.display()))?;
        }
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }

    fn may_install(&self, what: &str) -> Result<()> {
        match self.missing {
            Missing::Install => {
                eprintln!("bench: installing {what} (once)");
                Ok(())
            }
            Missing::LeaveOut => bail!("not installed, and installing was not wanted"),
        }
    }
}

fn made_from(base: &Path, plain: &Plain) -> String {
    format!("{}\n{}\n", base.display(), plain.site().display())
}

fn see_packages_of(plain: &Plain, environment: &Path) -> Result<()> {
    let library = environment.join("lib");
    let versions = std::fs::read_dir(&library)?.flatten().map(|entry| entry.path());
    let site = versions
        .map(|version| version.join("site-packages"))
        .find(|site| site.exists())
        .context("the environment has no site-packages")?;
    let line = format!("{}\n", plain.site().display());
    Ok(std::fs::write(site.join("template.pth"), line)?)
}

/// An interpreter that is new enough.
pub(super) fn python_of_at_least((major, minor): (u32, u32)) -> Result<PathBuf> {
    let named =
        (minor..minor + 5).rev().map(|minor| PathBuf::from(format!("python{major}.{minor}")));
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let mut kept: Vec<PathBuf> = std::fs::read_dir(home.join(".pyenv/versions"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin/python3"))
        .collect();
    kept.sort();
    let test = format!("import sys; sys.exit(sys.version_info < ({major}, {minor}))");
    let fits = |python: &PathBuf| {
        let mut command = Command::new(python);
        command.args(["-c", &test]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let mut candidates =
        [PathBuf::from("python3")].into_iter().chain(named).chain(kept.into_iter().rev());
    candidates.find(fits).with_context(|| {
        format!("it needs CPython {major}.{minor} or newer, and there is none here")
    })
}

/// Runs a command; its last words are the error if it fails.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no reason given");
        bail!("{} failed: {last}", command.get_program().display());
    }
    Ok(())
}
