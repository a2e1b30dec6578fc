//! Two policies in one report, a check that is not repeated, and what is said of a report.

use std::sync::Arc;

use silica_policy::{Action, Policy, PolicyChoice, Preset};

use super::CheckResult;
use crate::cell::CellCode;

const OPEN: PolicyChoice = PolicyChoice::Preset(Preset::Open);
const DATA: PolicyChoice = PolicyChoice::Preset(Preset::Data);

fn check(choice: &PolicyChoice, minimum: Option<&PolicyChoice>, code: &str) -> CheckResult {
    super::check(choice, minimum, &CellCode::from(code.to_owned()))
}

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
fn a_summary_names_the_first_findings_and_counts_the_rest() {
    let code = "import socket\n".repeat(300);
    let summary = check(&DATA, None, &code).summary();
    assert!(summary.ends_with("; and 295 more"), "{summary}");
}

#[test]
fn code_is_not_checked_again_by_the_policy_that_checked_it() {
    let checked = DATA.policy().check_code("import socket");
    let code = CellCode::from(checked.clone());
    let again = super::check(&DATA, None, &code);
    assert!(Arc::ptr_eq(&again.report, checked.report()), "the report is the earlier one");
    let other = super::check(&OPEN, None, &code);
    assert_eq!(other.report.verdict, Action::Allow, "another policy checks for itself");
    let both = super::check(&OPEN, Some(&DATA), &code);
    assert_eq!((both.policy.as_str(), both.report.verdict), ("open+data", Action::Block));
}
