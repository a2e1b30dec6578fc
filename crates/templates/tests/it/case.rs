//! A home to build in, and what is asked of every build.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use silica_templates::{
    BuildError, BuildOptions, Home, Progress, Silent, Spec, Step, StepError, Template,
    TemplateName, TemplateSource, build, load,
};

/// A small package without dependencies, locked.
pub(crate) const LOCK: &str = "six==1.17.0 \\\n    \
    --hash=sha256:4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274 \\\n    \
    --hash=sha256:ff70335d468e7eb6ec65b95b99d3a2836546063f63acc5171de367e834932a81\n";

/// The template around it.
pub(crate) const SMALL: &str =
    "name = \"small\"\nrequirements = \"requirements.lock\"\npreload = [\"six\"]\n";

pub(crate) struct Case {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) home: Home,
    pub(crate) options: BuildOptions,
}

impl Case {
    pub(crate) fn new() -> Self {
        // The tree must be readable by all even where the user's own files are not.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        let folder = tempfile::tempdir().expect("folder");
        let mut options = BuildOptions::new(std::env::vars_os().collect());
        let system = Path::new("/usr/bin/python3");
        // The system's is used in place, which is quick; the whole build below copies another.
        options.python = system.is_file().then(|| system.to_owned());
        Self { home: Home::new(folder.path().join("home")), folder, options }
    }

    pub(crate) fn spec(&self, toml: &str) -> Spec {
        let source = self.folder.path().join("source");
        fs::create_dir_all(&source).expect("make");
        fs::write(source.join("requirements.lock"), LOCK).expect("write");
        fs::write(source.join("template.toml"), toml).expect("write");
        TemplateSource::from_path(&source).spec().expect("good")
    }

    pub(crate) fn build(&self, toml: &str) -> Result<Template, BuildError> {
        build(&self.home, &self.spec(toml), &self.options, &mut Silent)
    }

    pub(crate) fn current(&self) -> Option<Template> {
        load(&self.home, &small()).expect("load")
    }
}

#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) started: Vec<Step>,
    pub(crate) messages: Vec<String>,
}

impl Progress for Recorder {
    fn started(&mut self, step: Step) {
        self.started.push(step);
    }
    fn message(&mut self, text: &str) {
        self.messages.push(text.to_owned());
    }
    fn fraction(&mut self, done: f32) {
        assert!((0.0..=1.0).contains(&done), "{done}");
    }
    fn finished(&mut self, _step: Step, _took: Duration) {}
}

pub(crate) fn small() -> TemplateName {
    TemplateName::new("small").expect("a name")
}

/// Returns the step at which a build failed, and why.
pub(crate) fn step_error(error: &BuildError) -> (Step, &StepError) {
    match error {
        BuildError::Step { step, source, .. } => (*step, source),
        other => panic!("{other:?}"),
    }
}

/// Shows every path below `root` to `visit`, following no links.
pub(crate) fn walk(root: &Path, visit: &mut dyn FnMut(&Path, &fs::Metadata)) {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("list") {
            let path = entry.expect("entry").path();
            let metadata = fs::symlink_metadata(&path).expect("look");
            visit(&path, &metadata);
            if metadata.is_dir() {
                folders.push(path);
            }
        }
    }
}

pub(crate) fn assert_readable_by_all(template: &Template) {
    for folder in template.folder().ancestors().take(3) {
        assert_eq!(
            fs::metadata(folder).expect("look").mode() & 0o777,
            0o755,
            "{}",
            folder.display()
        );
    }
    walk(&template.root(), &mut |path, metadata| {
        let mode = metadata.mode() & 0o7777;
        let good = metadata.is_symlink() || mode == 0o755 || (metadata.is_file() && mode == 0o644);
        assert!(good, "{} has mode {mode:o}", path.display());
    });
}

/// Every file but programs is looked through: byte code names its source, scripts their
/// interpreter, and `sysconfig` where Python was installed.
pub(crate) fn assert_no_host_path(template: &Template, host: &[PathBuf]) {
    walk(&template.root(), &mut |path, metadata| {
        let content = if metadata.is_symlink() {
            let target = fs::read_link(path).expect("link");
            target.into_os_string().into_encoded_bytes()
        } else if metadata.is_file() {
            fs::read(path).expect("read")
        } else {
            return;
        };
        if content.starts_with(b"\x7fELF") {
            return;
        }
        for place in host {
            let needle = place.as_os_str().as_encoded_bytes();
            let found = content.windows(needle.len()).any(|window| window == needle);
            assert!(!found, "{} names {}", path.display(), place.display());
        }
    });
}

pub(crate) struct Unmount(pub(crate) PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        // A disk that stays mounted is seen by the developer; a panic in a drop would hide the failure.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
