//! The entry points for `tests/fuzz`: checking code, and parsing policy files.
//!
//! They exist only with the feature `fuzzing`; no other code may use them.

use crate::report::FINDINGS_MAX;
use crate::{Action, Policy, Preset, Report};

/// Code that every preset but `open` blocks, whatever comes after it.
const FORBIDDEN: &str = "import ctypes\n";

/// Has every preset check a text. The report must be consistent, and the strictest preset must find
/// the code before the text.
pub fn code(text: &str) {
    for preset in Preset::ALL {
        let report = Policy::preset(preset).check(text);
        judge(&report, text);
        drop(report.render(text, "cell.py"));
        drop(report.feedback());
        judge(&report.clone().join(report), text);
    }
    let report = Policy::preset(Preset::Strict).check(&format!("{FORBIDDEN}{text}"));
    assert_eq!(report.verdict, Action::Block, "{text:?} hides the code before it");
}

/// Reads a text as a policy file, and has what is read check some code.
pub fn rules(text: &str) {
    if let Ok(policy) = Policy::parse(text) {
        judge(&policy.check(FORBIDDEN), FORBIDDEN);
    }
}

fn judge(report: &Report, text: &str) {
    assert!(report.findings.len() <= FINDINGS_MAX, "{} findings", report.findings.len());
    let strongest = report.findings.iter().map(|finding| finding.action).max();
    assert_eq!(report.verdict, strongest.unwrap_or(Action::Allow));
    let lines = 1 + text.bytes().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
    for finding in &report.findings {
        assert!((1..=lines).contains(&(finding.line as usize)), "line {}", finding.line);
        assert!(finding.column >= 1 && !finding.rule.is_empty());
    }
}
