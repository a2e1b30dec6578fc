//! `silica install` and `silica uninstall`: what is put in place is removed, and nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::harness::{CommandOutput, SILICA, finish};

fn silica(program: &Path, home: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new(program);
    finish(command.args(arguments).env("SILICA_HOME", home).stdin(Stdio::null()))
}

/// A directory to install to and one for data, with what a key leaves there.
struct Ground {
    directory: TempDir,
}

impl Ground {
    fn new() -> Self {
        let ground = Self { directory: TempDir::new().unwrap() };
        let made = silica(Path::new(SILICA), &ground.data(), &["key", "create", "one"]);
        assert_eq!(made.status, 0, "{made:?}");
        ground
    }

    fn prefix(&self) -> PathBuf {
        self.directory.path().join("prefix")
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn program(&self) -> PathBuf {
        self.prefix().join("bin/silica")
    }

    fn install(&self) -> CommandOutput {
        let prefix = self.prefix();
        let arguments = ["install", "--prefix", prefix.to_str().unwrap()];
        let installed = silica(Path::new(SILICA), &self.data(), &arguments);
        assert_eq!(installed.status, 0, "{installed:?}");
        installed
    }

    fn uninstall(&self, arguments: &[&str]) -> CommandOutput {
        silica(&self.program(), &self.data(), &[&["uninstall"], arguments].concat())
    }
}

#[test]
fn installed_program_works_and_is_removed_without_a_trace() {
    let ground = Ground::new();
    let told = ground.install().stdout;
    assert!(told.contains(&format!("installed {}", ground.program().display())), "{told}");
    assert!(told.contains("export PATH="), "{told}");
    let mode = fs::metadata(ground.program()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    let share = ground.prefix().join("share");
    for file in [
        "man/man1/silica-run.1",
        "bash-completion/completions/silica",
        "zsh/site-functions/_silica",
        "fish/vendor_completions.d/silica.fish",
    ] {
        assert!(share.join(file).is_file(), "{file}");
    }
    // A second installation, by the installed program itself, replaces the first.
    let prefix = ground.prefix();
    let arguments = ["install", "--prefix", prefix.to_str().unwrap()];
    assert_eq!(silica(&ground.program(), &ground.data(), &arguments).status, 0);
    let removed = ground.uninstall(&["--yes"]);
    assert_eq!(removed.status, 0, "{removed:?}");
    assert!(removed.stdout.contains("share/man/man1/silica-run.1"), "{removed:?}");
    assert!(removed.stdout.contains("kept, since --purge was not given"), "{removed:?}");
    assert!(!ground.prefix().exists(), "left something below the prefix");
    assert!(ground.data().join("silica.db").exists());
}

#[test]
fn uninstall_keeps_what_is_not_its_own() {
    let ground = Ground::new();
    ground.install();
    let neighbour = ground.prefix().join("bin/other");
    let edited = ground.prefix().join("share/bash-completion/completions/silica");
    fs::write(&neighbour, "another program").unwrap();
    fs::write(&edited, "# edited").unwrap();
    let removed = ground.uninstall(&["--yes"]);
    assert_eq!(removed.status, 0, "{removed:?}");
    let kept = format!("kept, since it was changed: {}", edited.display());
    assert!(removed.stdout.contains(&kept), "{removed:?}");
    assert!(neighbour.exists() && edited.exists() && !ground.program().exists());
}

#[test]
fn uninstall_without_a_terminal_removes_nothing_unless_told() {
    let ground = Ground::new();
    ground.install();
    let refused = ground.uninstall(&["--purge"]);
    assert_eq!(refused.status, 125, "{refused:?}");
    assert!(refused.stderr.contains("say --yes"), "{refused:?}");
    assert!(ground.program().exists() && ground.data().join("silica.db").exists());
}

#[test]
fn purge_removes_the_data_unless_it_is_in_use_or_foreign() {
    let ground = Ground::new();
    ground.install();
    let lock = fs::File::create(ground.data().join("silica.lock")).unwrap();
    lock.lock().unwrap();
    let refused = ground.uninstall(&["--purge", "--yes"]);
    assert!(refused.status == 125 && refused.stderr.contains("is in use"), "{refused:?}");
    drop(lock);
    let foreign = ground.directory.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.tex"), "").unwrap();
    // Names that other projects use, too.
    for name in ["templates", "guest"] {
        fs::create_dir(foreign.join(name)).unwrap();
    }
    let refused = silica(&ground.program(), &foreign, &["uninstall", "--purge", "--yes"]);
    assert!(refused.stderr.contains("does not look like a data directory"), "{refused:?}");
    assert!(ground.program().exists() && foreign.join("thesis.tex").exists());
    assert!(foreign.join("templates").exists() && foreign.join("guest").exists());
    let removed = ground.uninstall(&["--purge", "--yes"]);
    assert_eq!(removed.status, 0, "{removed:?}");
    assert!(!ground.data().exists() && !ground.prefix().exists());
}

#[test]
fn purge_removes_known_files_and_follows_no_link() {
    let ground = Ground::new();
    ground.install();
    let elsewhere = ground.directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("kept"), "").unwrap();
    std::os::unix::fs::symlink(&elsewhere, ground.data().join("templates")).unwrap();
    fs::create_dir(ground.data().join("logs")).unwrap();
    fs::write(ground.data().join("notes.txt"), "").unwrap();
    let removed = ground.uninstall(&["--purge", "--yes"]);
    assert_eq!(removed.status, 0, "{removed:?}");
    assert!(removed.stdout.contains("kept, since it holds other files"), "{removed:?}");
    let left: Vec<_> =
        fs::read_dir(ground.data()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.txt"]);
    assert!(elsewhere.join("kept").exists());
}

/// The mask of root's shell must not make the program unusable for others.
#[test]
fn a_tight_umask_changes_no_mode() {
    let ground = Ground::new();
    let prefix = ground.prefix();
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077; exec \"$0\" install --prefix \"$1\"", SILICA]).arg(&prefix);
    let installed = finish(command.env("SILICA_HOME", ground.data()));
    assert_eq!(installed.status, 0, "{installed:?}");
    let mode = |path: &str| fs::metadata(prefix.join(path)).unwrap().permissions().mode() & 0o777;
    for (path, expected) in [
        ("", 0o755),
        ("bin", 0o755),
        ("share/man/man1", 0o755),
        ("share/silica", 0o755),
        ("bin/silica", 0o755),
        ("share/man/man1/silica.1", 0o644),
    ] {
        assert_eq!(mode(path), expected, "{path}");
    }
}

#[test]
fn program_that_was_not_installed_says_so() {
    let ground = Ground::new();
    let prefix = ground.prefix();
    let arguments = ["uninstall", "--yes", "--prefix", prefix.to_str().unwrap()];
    let refused = silica(Path::new(SILICA), &ground.data(), &arguments);
    assert!(
        refused.status == 125 && refused.stderr.contains("installed nothing here"),
        "{refused:?}"
    );
}
