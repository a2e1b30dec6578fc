//! Two policies in one report, and what is said of it.

use std::sync::Arc;

use silica_policy::{Action, Policy, Preset};

use super::{PolicyChoice, check};

const OPEN: PolicyChoice = PolicyChoice::Preset(Preset::Open);
const DATA: PolicyChoice = PolicyChoice::Preset(Preset::Data);

#[test]
fn the_minimum_is_joined_and_named() {
    let checked = check(&OPEN, Some(&DATA), "import socket");
    assert_eq!((checked.policy.as_str(), checked.report.verdict), ("open+data", Action::Block));
    assert_eq!(checked.line(), "open+data: block (network)");
    assert_eq!(checked.summary(), "Blocked import: socket");
    let alone = check(&OPEN, None, "import socket");
    assert_eq!((alone.policy.as_str(), alone.report.verdict), ("open", Action::Allow));
    assert_eq!(alone.line(), "open: allow");
}

#[test]
fn the_same_policy_twice_says_everything_once() {
    let checked = check(&DATA, Some(&DATA), "import socket");
    assert_eq!((checked.policy.as_str(), checked.report.findings.len()), ("data", 1));
}

#[test]
fn a_client_cannot_weaken_the_minimum_with_rules_of_its_own() {
    let lax = "name = 'lax'\nextends = 'data'\n[[rule]]\nid = 'network'\naction = 'allow'\n\
               [[rule]]\nid = 'import'\naction = 'allow'\n";
    let lax = PolicyChoice::Own(Arc::new(Policy::parse(lax).expect("a policy")));
    assert_eq!(check(&lax, None, "import socket").report.verdict, Action::Allow);
    assert_eq!(check(&lax, Some(&DATA), "import socket").report.verdict, Action::Block);
}

#[test]
fn a_sentence_does_not_tell_everything() {
    let code = "import socket\n".repeat(300);
    let summary = check(&DATA, None, &code).summary();
    assert!(summary.ends_with("; and 295 more"), "{summary}");
}
