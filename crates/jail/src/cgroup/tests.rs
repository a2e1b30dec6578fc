//! Parsing of the kernel's tables; the real groups are exercised by the integration tests.

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

/// What this very host offers is either usable or explained, controller by controller.
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
