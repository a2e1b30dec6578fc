//! Parsing of the kernel's tables; the real groups are exercised by the integration tests.

use super::meter::field;
use super::*;

#[test]
fn field_finds_whole_keys_only() {
    let text = "low 0\noom 3\noom_kill 2\n";
    assert_eq!(field(text, "oom_kill"), Some(2));
    assert_eq!(field(text, "oom"), Some(3));
    assert_eq!(field(text, "missing"), None);
    assert_eq!(field("oom_kill many\n", "oom_kill"), None);
    assert_eq!(field("", "oom"), None);
}

/// On the host of the test, each controller is either usable or missing with a reason.
#[test]
fn survey_accounts_for_every_controller_once() {
    let survey = host::survey();
    for controller in Controller::ALL {
        let usable = survey.places.iter().filter(|place| place.controllers.contains(&controller));
        let missing = survey.missing.iter().filter(|(one, _)| *one == controller);
        assert_eq!(usable.count() + missing.count(), 1, "{controller:?}");
    }
    for place in &survey.places {
        assert!(place.parent.join("cgroup.procs").exists(), "{place:?}");
    }
    assert!(survey.missing.iter().all(|(_, reason)| !reason.is_empty()));
}

/// A tree of groups as v2 shows them, in ordinary files: name, type, controllers, processes.
fn unified(groups: &[(&str, &str, &str, &str)]) -> tempfile::TempDir {
    let top = tempfile::tempdir().unwrap();
    for (name, kind, controllers, processes) in groups {
        let directory = top.path().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        for (file, text) in [
            ("cgroup.controllers", controllers),
            ("cgroup.procs", processes),
            ("cgroup.subtree_control", &""),
        ] {
            std::fs::write(directory.join(file), text).unwrap();
        }
        // The root has no type.
        if !kind.is_empty() {
            std::fs::write(directory.join("cgroup.type"), kind).unwrap();
        }
    }
    top
}

/// Shows the group that is found for an engine in group `start`, and the missing controllers.
fn found(groups: &[(&str, &str, &str, &str)], start: &str) -> String {
    let tree = unified(groups);
    let top = tree.path();
    let (place, missing) = host::find_v2(&Controller::ALL, top, &top.join(start));
    let names = |controllers: &[Controller]| -> Vec<&str> {
        controllers.iter().map(|controller| controller.name()).collect()
    };
    let place = place.map(|place| {
        let parent = format!("/{}", place.parent.strip_prefix(top).unwrap().display());
        format!("{parent}: {}\n", names(&place.controllers).join(" "))
    });
    let reason = |(controller, reason): (Controller, String)| {
        format!("no {}: {}\n", controller.name(), reason.replace(&top.display().to_string(), ""))
    };
    place.into_iter().chain(missing.into_iter().map(reason)).collect()
}

const ALL: &str = "cpuset cpu io memory pids";

#[test]
fn one_v2_group_serves_all_controllers() {
    // As systemd has it for a login of root: the processor stays with the root.
    let groups = [
        ("", "", ALL, "1\n"),
        ("user", "domain\n", "memory pids", ""),
        ("user/session", "domain\n", "memory pids", "1\n2\n"),
    ];
    expect_test::expect![[r"
        /: memory pids cpu cpuacct
    "]]
    .assert_eq(&found(&groups, "user/session"));
}

#[test]
fn most_controllers_are_taken_where_no_v2_group_has_all() {
    let groups = [
        ("", "domain\n", "memory pids", ""),
        ("user", "domain\n", "memory pids", ""),
        ("user/app", "domain\n", "pids", ""),
        ("user/app/scope", "domain\n", "pids", "1\n"),
    ];
    expect_test::expect![[r"
        /user: memory pids cpuacct
        no cpu: the cpu controller is not passed to /user
    "]]
    .assert_eq(&found(&groups, "user/app/scope"));
}

#[test]
fn v2_group_with_this_process_alone_is_taken() {
    let own = format!("{}\n", std::process::id());
    let groups = [("", "", ALL, "1\n"), ("service", "domain\n", ALL, &own)];
    expect_test::expect![[r"
        /service: memory pids cpu cpuacct
    "]]
    .assert_eq(&found(&groups, "service"));
}

#[test]
fn v2_group_into_which_an_engine_was_moved_aside_is_skipped() {
    let own = format!("{}\n", std::process::id());
    let groups = [("service", "domain\n", ALL, ""), ("service/silica-host", "domain\n", ALL, &own)];
    let found = found(&groups, "service/silica-host");
    assert_eq!(found, "/service: memory pids cpu cpuacct\n");
}

#[test]
fn v2_groups_that_cannot_have_children_are_reported() {
    let groups = [("", "domain\n", ALL, "1\n"), ("threads", "threaded\n", ALL, "")];
    expect_test::expect![[r"
        no memory: /threads is for threads only
        no pids: /threads is for threads only
        no cpu: /threads is for threads only
        no cpuacct: /threads is for threads only
    "]]
    .assert_eq(&found(&groups, "threads"));
    expect_test::expect![[r"
        no memory: / holds other processes too
        no pids: / holds other processes too
        no cpu: / holds other processes too
        no cpuacct: / holds other processes too
    "]]
    .assert_eq(&found(&groups, ""));
}
