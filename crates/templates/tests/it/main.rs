//! Templates are built whole or not at all, go on where they stopped, and carry nothing of the
//! host. These builds use the machine's Python, its pip and its package index.

mod case;

use std::collections::BTreeSet;
use std::error::Error as _;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use silica_templates::{
    BuildError, Home, Silent, Step, StepError, TemplateName, TemplateSource, build, ensure, remove,
};

use case::{
    Case, Recorder, SMALL, Unmount, assert_no_host_path, assert_readable_by_all, small, step_error,
    walk,
};

#[test]
fn builds_the_python_template_whole() {
    let mut case = Case::new();
    // Whatever `python3` is here, a shim or a copy to be made.
    case.options.python = None;
    let name = TemplateName::new("python").expect("a name");
    let spec = TemplateSource::find(&case.home, &name).expect("found").spec().expect("good");
    let mut recorder = Recorder::default();
    let template = ensure(&case.home, &spec, &case.options, &mut recorder).expect("built");

    assert_eq!(recorder.started, Step::all().collect::<Vec<_>>());
    assert_readable_by_all(&template);
    let host_python = Command::new("python3")
        .args(["-I", "-c", "import sys; print(sys.base_prefix)"])
        .output()
        .expect("run");
    let prefix = PathBuf::from(String::from_utf8_lossy(&host_python.stdout).trim());
    let mut host = vec![case.folder.path().to_owned()];
    host.extend((!prefix.starts_with("/usr")).then_some(prefix));
    assert_no_host_path(&template, &host);
    let manifest = &template.manifest;
    let installed: BTreeSet<_> =
        manifest.packages.iter().filter_map(|package| package.split("==").next()).collect();
    assert!(installed.contains("ipython"), "{installed:?}");
    let site = template.root().join(manifest.site[0].strip_prefix("/").expect("absolute"));
    assert!(site.join("IPython/__pycache__").is_dir(), "not byte-compiled");
    let script = fs::read_to_string(site.join("../../../bin/ipython")).expect("a script");
    assert!(script.starts_with("#!/opt/silica/venv/bin/python\n"), "{script}");

    // Built once, it is used as it is.
    let mut again = Recorder::default();
    let same = ensure(&case.home, &spec, &case.options, &mut again).expect("there");
    assert_eq!((same, again.started), (template, Vec::new()));
    assert!(remove(&case.home, &name).expect("removed"));
}

#[test]
fn a_build_goes_on_where_it_stopped() {
    let mut case = Case::new();
    let spec = case.spec(SMALL);
    let mut recorder = Recorder::default();
    for step in Step::all() {
        case.options.stop_after = Some(step);
        let stopped = build(&case.home, &spec, &case.options, &mut recorder);
        assert!(matches!(stopped, Err(BuildError::Stopped(at)) if at == step), "{stopped:?}");
        assert_eq!(case.current(), None);
    }
    case.options.stop_after = None;
    let template = build(&case.home, &spec, &case.options, &mut recorder).expect("built");
    assert_eq!(recorder.started, Step::all().collect::<Vec<_>>());
    assert_eq!(case.current().as_ref(), Some(&template));
    assert_readable_by_all(&template);
    let left: Vec<_> = fs::read_dir(template.folder())
        .expect("list")
        .map(|entry| entry.expect("entry").file_name())
        .collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn what_a_broken_step_left_does_not_reach_the_result() {
    let mut case = Case::new();
    let spec = case.spec(SMALL);
    case.options.stop_after = Some(Step::Venv);
    build(&case.home, &spec, &case.options, &mut Silent).unwrap_err();
    let mut sites = Vec::new();
    walk(&case.home.template(&small()), &mut |path, _| {
        sites.extend(path.ends_with("site-packages").then(|| path.to_owned()));
    });
    fs::write(sites[0].join("half.py"), "broken").expect("write");
    case.options.stop_after = None;
    let template = build(&case.home, &spec, &case.options, &mut Silent).expect("built");
    walk(&template.root(), &mut |path, _| {
        assert!(!path.ends_with("half.py"));
    });
}

#[test]
fn a_failed_build_leaves_the_old_one() {
    let mut case = Case::new();
    let old = case.build(SMALL).expect("built");
    let failures = [
        (
            "name = \"small\"\npackages = [\"six==0.0.0.1\"]\n",
            Step::Packages,
            "No matching distribution",
        ),
        ("name = \"small\"\npreload = [\"no_such_module\"]\n", Step::Check, "No module named"),
    ];
    for (toml, at, why) in failures {
        let error = case.build(toml).unwrap_err();
        let (step, source) = step_error(&error);
        assert_eq!(step, at);
        let text = source.source().expect("a reason").to_string();
        assert!(text.contains(why), "{text}");
        assert!(!error.advice().is_empty());
        assert_eq!(case.current().as_ref(), Some(&old));
    }
    let spec = case.spec(SMALL);
    case.options.python = Some("/nonexistent/python3".into());
    let error = build(&case.home, &spec, &case.options, &mut Silent).unwrap_err();
    assert!(matches!(error, BuildError::Python { .. }), "{error}");
    assert_eq!(case.current(), Some(old));
}

#[test]
fn a_wheel_with_the_wrong_hash_is_refused() {
    let case = Case::new();
    let spec = case.spec(SMALL);
    let source = case.folder.path().join("source");
    let wrong = format!("six==1.17.0 --hash=sha256:{}\n", "0".repeat(64));
    fs::write(source.join("requirements.lock"), wrong).expect("write");
    let forged = TemplateSource::from_path(&source).spec().expect("good");
    let error = build(&case.home, &forged, &case.options, &mut Silent).unwrap_err();
    let (step, source) = step_error(&error);
    assert_eq!(step, Step::Packages);
    assert!(matches!(source, StepError::Pip { .. }), "{source:?}");
    assert_eq!(case.current(), None);
    build(&case.home, &spec, &case.options, &mut Silent).expect("the right one");
}

#[test]
fn says_when_the_data_directory_cannot_be_written() {
    let mut case = Case::new();
    let file = case.folder.path().join("file");
    fs::write(&file, "").expect("write");
    case.home = Home::new(file.join("home"));
    let error = case.build(SMALL).unwrap_err();
    assert!(matches!(error, BuildError::Home { .. }), "{error:?}");
}

#[test]
fn a_new_build_replaces_the_old_one_unless_it_is_in_use() {
    let case = Case::new();
    let first = case.build(SMALL).expect("built");
    let hold = first.hold().expect("held");
    let second = case.build(&format!("{SMALL}# changed\n")).expect("built");
    assert_ne!(first.folder(), second.folder());
    assert!(first.root().is_dir(), "removed although in use");
    drop(hold);
    let third = case.build(&format!("{SMALL}# changed again\n")).expect("built");
    assert!(!first.folder().exists() && !second.folder().exists());
    assert_eq!(case.current(), Some(third));
}

#[test]
fn what_was_fetched_once_is_not_fetched_again() {
    let mut case = Case::new();
    case.build(SMALL).expect("built");
    case.options.environment.push(("PIP_NO_INDEX".into(), "1".into()));
    case.options.environment.retain(|(name, _)| name != "PIP_FIND_LINKS");
    case.build(&format!("{SMALL}# changed\n")).expect("built without an index");
}

#[test]
fn two_builds_at_once_make_one() {
    let case = Case::new();
    let spec = case.spec(SMALL);
    let run = || {
        let mut recorder = Recorder::default();
        let template = build(&case.home, &spec, &case.options, &mut recorder).expect("built");
        (template, recorder)
    };
    let ((one, first), (other, second)) = std::thread::scope(|scope| {
        let thread = scope.spawn(run);
        (run(), thread.join().expect("no panic"))
    });
    assert_eq!(one, other);
    assert_eq!(first.started.len() + second.started.len(), Step::all().len());
    let messages = [first.messages, second.messages].concat();
    assert!(messages.iter().any(|message| message.starts_with("waiting")), "{messages:?}");
}

#[test]
fn a_full_disk_is_named_and_the_build_goes_on_once_there_is_room() {
    let mut case = Case::new();
    let disk = case.folder.path().join("disk");
    fs::create_dir(&disk).expect("make");
    let mount = |arguments: &[&str]| {
        let status = Command::new("mount")
            .args(arguments)
            .arg("tmpfs")
            .arg(&disk)
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=16m"]) {
        return; // Only root can make a small disk.
    }
    let _unmount = Unmount(disk.clone());
    case.home = Home::new(disk.join("home"));
    let old = case.build(SMALL).expect("built");
    fs::write(case.folder.path().join("source/big"), vec![1; 20 << 20]).expect("write");
    let larger = format!("{SMALL}files = [{{ source = \"big\", target = \"/opt/big\" }}]\n");
    let error = case.build(&larger).unwrap_err();
    let (step, source) = step_error(&error);
    assert_eq!(step, Step::Files);
    let StepError::Io { source, .. } = source else {
        panic!("{source:?}");
    };
    assert_eq!(source.kind(), io::ErrorKind::StorageFull);
    assert_eq!(case.current(), Some(old));

    assert!(mount(&["-o", "remount,size=64m"]));
    let mut recorder = Recorder::default();
    build(&case.home, &case.spec(&larger), &case.options, &mut recorder).expect("built");
    assert_eq!(recorder.started, [Step::Files, Step::Check, Step::Finish]);
}
