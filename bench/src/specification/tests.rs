//! The real specification is read, and each kind of bar is held against figures.

use std::collections::BTreeMap;

use super::{Verdict, parse};
use crate::results::Finding;

fn findings(number: &str, values: &[(f64, &str)]) -> BTreeMap<String, Vec<Finding>> {
    let finding = |(value, unit): &(f64, &str)| Finding { value: *value, unit: (*unit).to_owned() };
    BTreeMap::from([(number.to_owned(), values.iter().map(finding).collect())])
}

fn judge(row: &str, number: &str, values: &[(f64, &str)]) -> Verdict {
    parse(row).unwrap()[0].judge(&findings(number, values)).unwrap()
}

#[test]
fn every_promise_of_the_specification_is_read() {
    let promises = parse(include_str!("../../../SPECIFICATION.md")).unwrap();
    let numbers: Vec<String> = promises.into_iter().map(|promise| promise.number).collect();
    let expected: Vec<String> = (1..=28).map(|number| format!("P{number}")).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn bars_are_held_against_what_was_measured() {
    let row = "| P1 | start | ≤ 0.15 × plain Python | |";
    assert_eq!(judge(row, "P1", &[(0.15, "×")]), Verdict::Kept("0.15 ×".to_owned()));
    assert_eq!(judge(row, "P1", &[(0.151, "×")]), Verdict::Missed("0.15 ×".to_owned()));
    assert_eq!(judge(row, "P2", &[(0.1, "×")]), Verdict::NotMeasured);
}

#[test]
fn bar_may_be_a_least_and_may_name_a_quantile() {
    let row = "| P15 | by 16 clients | p50 ≥ 250 a second |";
    assert_eq!(judge(row, "P15", &[(260.0, "a second")]), Verdict::Kept("260 a second".to_owned()));
    assert_eq!(
        judge(row, "P15", &[(249.9, "a second")]),
        Verdict::Missed("250 a second".to_owned())
    );
}

#[test]
fn several_bars_must_all_hold() {
    let row = "| P20 | idle | ≤ 1 % of a core; ≤ 1.2 × |";
    let both = [(0.5, "% of a core"), (1.3, "×")];
    assert_eq!(judge(row, "P20", &both), Verdict::Missed("0.50 % of a core; 1.30 ×".to_owned()));
}

#[test]
fn what_cannot_be_compared_is_an_error() {
    let promises = parse("| P1 | start | ≤ 5 ms |").unwrap();
    let wrong = promises[0].judge(&findings("P1", &[(1.0, "MB")])).unwrap_err();
    assert_eq!(wrong.to_string(), r#"P1 is promised in "ms" and was measured in "MB""#);
    let many = promises[0].judge(&findings("P1", &[(1.0, "ms"), (1.0, "ms")])).unwrap_err();
    assert_eq!(many.to_string(), "P1 has 1 bars, and 2 figures were measured for it");
}

#[test]
fn bar_without_a_number_is_refused() {
    let error = parse("| P1 | start | fast |").unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        r#"P1 has no bar that can be checked: "fast" has neither ≤ nor ≥"#
    );
    assert!(parse("| C1 | other | ≤ 1 |").is_err());
}
