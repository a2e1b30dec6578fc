//! Labelled texts: what must be found, and what must not.

use silica_policy::{Action, Policy, Preset};

struct Sample {
    label: String,
    code: String,
}

/// Splits a set into labelled texts; the text before the first label describes the set.
fn samples(set: &str) -> Vec<Sample> {
    let parts = set.split("\n### ").skip(1);
    let sample = |part: &str| {
        let (label, code) = part.split_once('\n').expect("a label and code");
        Sample { label: label.to_owned(), code: code.to_owned() }
    };
    parts.map(sample).collect()
}

#[test]
fn every_labelled_violation_of_strict_is_found() {
    let policy = Policy::preset(Preset::Strict);
    let samples = samples(include_str!("../sets/strict.txt"));
    assert!(samples.len() >= 140, "{} samples", samples.len());
    let mut missed = Vec::new();
    for Sample { label, code } in &samples {
        let report = policy.check(&code.replace('␀', "\0"));
        let (rules, _) = label.split_once(" (").expect("rules and what it tries");
        for rule in rules.split(' ') {
            let found = report.findings.iter().any(|finding| finding.rule == rule);
            if !found || report.verdict != Action::Block {
                let found: Vec<_> = report.findings.iter().map(|f| &f.rule).collect();
                missed.push(format!("{label}: {rule} is not in {found:?}"));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_module_by_its_name_is_no_attribute() {
    let report = Policy::preset(Preset::Strict).check("import os\nos.remove('a')\n");
    let rules: Vec<_> = report.findings.iter().map(|finding| finding.rule.as_str()).collect();
    assert_eq!(rules, ["import", "file"]);
}

#[test]
fn ordinary_analysis_raises_no_alarm_under_data() {
    let policy = Policy::preset(Preset::Data);
    let samples = samples(include_str!("../sets/ordinary.txt"));
    assert!(samples.len() >= 200, "{} samples", samples.len());
    let mut alarms = Vec::new();
    for Sample { label, code } in &samples {
        let report = policy.check(code);
        if let Some(finding) = report.findings.first() {
            alarms.push(format!("{label}: {} at line {}", finding.headline(), finding.line));
        }
    }
    // One in a hundred; a warning counts as an alarm too.
    let most = samples.len() / 100;
    assert!(alarms.len() <= most, "{} of {}:\n{}", alarms.len(), samples.len(), alarms.join("\n"));
}
