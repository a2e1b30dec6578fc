//! Data directories of tests, over templates that are built once for all of them.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use silica_engine::{CreateOptions, KernelOrigin, ZygotePolicy};
use silica_jail::client::UseOfHost;
use tempfile::TempDir;

use super::engine::{TestEngine, start_engine};
use super::program::{CommandOutput, collect, finish, start};
use super::{EVERYTHING, GONE_WITHIN, SCIENCE, SILICA, eventually};

/// The data directory in which a template was built by this very binary, once for all tests.
fn shared_home(template: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let home = target.join(match template {
        SCIENCE => "silica-test-home-ci",
        _ => "silica-test-home",
    });
    fs::create_dir_all(&home).unwrap();
    let lock = fs::File::create(home.join(".test-lock")).unwrap();
    lock.lock().unwrap();
    let stamp = home.join(".test-stamp");
    let binary = format!("{:?}", fs::metadata(SILICA).unwrap().modified().unwrap());
    if fs::read_to_string(&stamp).is_ok_and(|text| text == binary) {
        return home;
    }
    let built = Command::new(SILICA)
        .args(["template", "build", template])
        .env("SILICA_HOME", &home)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    // The guest's layer is written by the first run.
    let run = Command::new(SILICA)
        .args(["run", "--template", template, "-c", ""])
        .env("SILICA_HOME", &home)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    fs::write(&stamp, binary).unwrap();
    home
}

/// The data directory of one test, with a template ready.
pub(crate) struct TestHome {
    directory: TempDir,
    template: &'static str,
}

impl TestHome {
    pub(crate) fn new(template: &'static str) -> Self {
        let shared = shared_home(template);
        let directory = tempfile::Builder::new().prefix("silica-test-").tempdir().unwrap();
        fs::create_dir(directory.path().join("work")).unwrap();
        for name in ["templates", "guest"] {
            std::os::unix::fs::symlink(shared.join(name), directory.path().join(name)).unwrap();
        }
        Self { directory, template }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The directory in which the binary is run.
    pub(crate) fn working_directory(&self) -> PathBuf {
        self.path().join("work")
    }

    /// `silica run --template …`, not started yet.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(SILICA);
        command
            .args(["run", "--template", self.template])
            .env("SILICA_HOME", self.path())
            .env_remove("SILICA_LOG")
            .current_dir(self.working_directory())
            .stdin(Stdio::null());
        command
    }

    /// Runs with these arguments to the end.
    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        finish(self.command().args(arguments))
    }

    /// Runs code with `--json` and further arguments.
    pub(crate) fn json(&self, code: &str, arguments: &[&str]) -> Value {
        self.run(&[&["--json", "-c", code], arguments].concat()).json()
    }

    /// Runs with `input` on standard input.
    pub(crate) fn run_with_stdin(&self, arguments: &[&str], input: &[u8]) -> CommandOutput {
        let mut command = self.command();
        let mut child = start(command.args(arguments).stdin(Stdio::piped()));
        // A program that does not want all of it closes the pipe.
        let _ = child.stdin.take().unwrap().write_all(input);
        collect(child)
    }

    /// An engine over this data directory with the template added and warm.
    pub(crate) async fn engine(&self) -> TestEngine {
        self.engine_with(ZygotePolicy::default(), EVERYTHING).await
    }

    pub(crate) async fn engine_with(
        &self,
        zygotes: ZygotePolicy,
        use_of_host: UseOfHost,
    ) -> TestEngine {
        let engine = start_engine(self.path(), self.template, zygotes, use_of_host).await;
        engine.warm(self.template).await.unwrap();
        engine
    }

    pub(crate) fn options(&self, origin: KernelOrigin) -> CreateOptions {
        CreateOptions { kernel: origin, ..CreateOptions::new(self.template) }
    }

    /// The control groups of the zones of this data directory that exist now, with all below them.
    pub(crate) fn groups(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(self.path().join("run")).into_iter().flatten().flatten() {
            let record = fs::read_to_string(entry.path()).unwrap_or_default();
            let recorded: Vec<PathBuf> = serde_json::from_str(&record).unwrap_or_default();
            for directory in recorded {
                add_groups(&directory, &mut found);
            }
        }
        found
    }
}

impl Drop for TestHome {
    /// Removes the groups that a killed zone left: no later zone uses this data directory.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let cleared = eventually(GONE_WITHIN, || {
            // A group whose processes are still dying is tried again.
            self.groups().iter().rev().for_each(|group| drop(fs::remove_dir(group)));
            self.groups().is_empty()
        });
        assert!(cleared, "left {:?}", self.groups());
    }
}

fn add_groups(directory: &Path, found: &mut BTreeSet<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    found.insert(directory.to_owned());
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_groups(&entry.path(), found);
        }
    }
}
