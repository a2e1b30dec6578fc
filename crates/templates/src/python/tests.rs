//! Finding an interpreter among good and bad candidates.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};

use super::{Answer, Python, PythonError};
use crate::{BuildOptions, PythonVersion, Spec, TemplateSource};

impl Python {
    /// Makes one up for tests that only look at it.
    pub(crate) fn example(executable: &str, version: &str) -> Self {
        let numbers: Vec<u16> =
            version.split('.').map(|part| part.parse().expect("a number")).collect();
        Self {
            executable: PathBuf::from(executable),
            base_prefix: PathBuf::from("/usr"),
            version: PythonVersion { major: numbers[0], minor: numbers[1], micro: numbers[2] },
            abi: "cpython-311-linux-x86_64".to_owned(),
            stdlib: PathBuf::from("/usr/lib/python3.11"),
            libdir: None,
            pip: PathBuf::from("/usr/lib/python3/dist-packages"),
        }
    }
}

fn spec(extra: &str) -> Spec {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("template.toml");
    fs::write(&path, format!("name = \"a\"\n{extra}")).expect("write");
    TemplateSource::from_path(&path).spec().expect("good")
}

fn options(search_path: &Path) -> BuildOptions {
    BuildOptions::new(vec![(OsString::from("PATH"), search_path.into())])
}

fn answer(change: impl FnOnce(&mut Answer)) -> Result<Python, PythonError> {
    let mut answer = Answer {
        executable: "/usr/bin/python3.11".into(),
        base_prefix: "/usr".into(),
        version: (3, 11, 2),
        abi: "cpython-311-x86_64-linux-gnu-linux-x86_64".to_owned(),
        stdlib: "/usr/lib/python3.11".into(),
        shared: false,
        libdir: PathBuf::new(),
        implementation: "cpython".to_owned(),
        pip: Some("/usr/lib/python3/dist-packages".into()),
        pip_version: vec![23, 0],
    };
    change(&mut answer);
    answer.check(Path::new("/x/python3"), &spec("python = \">=3.11\"\n"))
}

fn check(change: impl FnOnce(&mut Answer), expected: &Expect) {
    expected.assert_eq(&answer(change).unwrap_err().to_string());
}

#[test]
fn refuses_unsuitable_interpreters() {
    assert!(answer(|_| {}).is_ok());
    check(
        |answer| answer.version = (3, 10, 1),
        &expect![
            "/x/python3 is Python 3.10.1; the template needs >=3.11 (and Silica 3.10.0 or newer)"
        ],
    );
    check(
        |answer| answer.implementation = "pypy".to_owned(),
        &expect!["/x/python3 is pypy; only CPython can be used"],
    );
    check(|answer| answer.pip = None, &expect!["/x/python3 has no pip module"]);
    check(
        |answer| answer.pip_version = vec![21, 3],
        &expect!["/x/python3 has pip 21.3; 22.0 or newer is needed"],
    );
    check(
        |answer| answer.abi = "../x".to_owned(),
        &expect!["/x/python3 gave an answer that is not understood"],
    );
}

#[test]
fn a_named_interpreter_is_not_replaced_by_another() {
    let mut options = options(Path::new("/usr/bin"));
    options.python = Some("/nonexistent/python3".into());
    let error = Python::find(&spec(""), &options).unwrap_err();
    assert!(matches!(error, PythonError::NoAnswer { .. }), "{error}");

    options.python = Some("/bin/echo".into());
    let error = Python::find(&spec(""), &options).unwrap_err();
    expect!["/bin/echo gave an answer that is not understood"].assert_eq(&error.to_string());
}

#[test]
fn goes_on_past_a_broken_candidate_and_through_a_shell_script() {
    let real = Python::find(&spec(""), &options(Path::new("/usr/bin"))).expect("a Python");
    let folder = tempfile::tempdir().expect("folder");
    let script = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::create_dir(&path).expect("folder");
        fs::write(path.join("python3"), text).expect("write");
        fs::set_permissions(path.join("python3"), fs::Permissions::from_mode(0o755)).expect("mode");
        path
    };
    let broken = script("broken", "#!/bin/sh\nexit 1\n".to_owned());
    let executable = real.executable().display();
    let shim = script("shim", format!("#!/bin/sh\nexec {executable} \"$@\"\n"));
    let path = std::env::join_paths([broken, shim]).expect("a path");
    let found = Python::find(&spec(""), &options(Path::new(&path))).expect("found");
    assert_eq!(found, real);
}
