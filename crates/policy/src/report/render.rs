//! Prints a report: for people as a compiler does, for models as sentences.

use std::fmt::Write as _;

use super::{Finding, Report};
use crate::Action;

/// Longest line that is shown; a longer one is cut around what was found.
const SHOWN_CHARS_MAX: usize = 120;

pub(super) fn compiler(report: &Report, code: &str, name: &str) -> String {
    let lines: Vec<&str> = code.split('\n').collect();
    let mut out = String::new();
    for finding in &report.findings {
        let line = lines.get(finding.line as usize - 1).copied().unwrap_or_default();
        one(&mut out, finding, line.trim_end_matches('\r'), name);
    }
    out
}

fn one(out: &mut String, finding: &Finding, line: &str, name: &str) {
    let Finding { action, rule, severity, why, column, .. } = finding;
    let number = finding.line.to_string();
    let margin = " ".repeat(number.len());
    let (shown, before) = window(line, *column as usize - 1);
    let width =
        finding.code.chars().count().clamp(1, shown.chars().count().max(before + 1) - before);
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}[{rule}]: {why}", action.name());
    let _ = writeln!(out, "{margin}--> {name}:{number}:{column} ({} severity)", severity.name());
    let _ = writeln!(out, "{margin} |");
    let _ = writeln!(out, "{number} | {shown}");
    let _ = writeln!(out, "{margin} | {}{}", " ".repeat(before), "^".repeat(width));
    if let Some(instead) = &finding.instead {
        let _ = writeln!(out, "{margin} = instead: {instead}");
    }
    out.push('\n');
}

/// Returns the part of a line that is shown, and how many characters of it are before the finding.
/// Control characters are replaced, so that a text cannot control a terminal.
fn window(line: &str, place: usize) -> (String, usize) {
    let start = if place + 20 > SHOWN_CHARS_MAX { place - 20 } else { 0 };
    let shown = line.chars().skip(start).take(SHOWN_CHARS_MAX).map(plain).collect::<String>();
    let before = (place - start).min(shown.chars().count());
    (shown, before)
}

fn plain(c: char) -> char {
    let bidirectional =
        ('\u{202a}'..='\u{202e}').contains(&c) || ('\u{2066}'..='\u{2069}').contains(&c);
    match c {
        '\t' => ' ',
        c if c.is_control() || bidirectional => '\u{fffd}',
        c => c,
    }
}

pub(super) fn feedback(report: &Report) -> String {
    let heading = match report.verdict {
        Action::Block => "The code was not run. What has to change:",
        Action::Ask => "The code waits for a person to approve it, because of:",
        Action::Warn => "The code may run. Notes:",
        Action::Allow => return "Nothing was found.".to_owned(),
    };
    let mut out = heading.to_owned();
    let decisive = report.findings.iter().filter(|finding| finding.action == report.verdict);
    for finding in decisive {
        let Finding { line, column, rule, code, why, .. } = finding;
        let _ = write!(out, "\n- line {line}, column {column}, `{code}` ({rule}): {why}.");
        if let Some(instead) = &finding.instead {
            let _ = write!(out, " Instead: {instead}.");
        }
    }
    if report.left_out > 0 {
        let _ = write!(out, "\n- and {} more", report.left_out);
    }
    out
}
