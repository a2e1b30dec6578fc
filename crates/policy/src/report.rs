//! The findings in a text, for people, for models and for programs.

use serde::Serialize;

use crate::text::Lines;
use crate::{Action, Kind, Severity};

mod render;

/// How many findings a report carries; the strongest are kept, and the rest is counted.
pub(crate) const FINDINGS_MAX: usize = 100;
/// Longest piece of code that is quoted.
const QUOTE_CHARS_MAX: usize = 160;

/// The result of the check of one text.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The findings, in the order of the text.
    pub findings: Vec<Finding>,
    /// The strongest action of all findings.
    pub verdict: Action,
    /// How many findings were left out because there are too many.
    pub left_out: usize,
}

/// A piece of code that a rule matches. Its serialised form is what clients read, in the API and on the command line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The rule's id.
    pub rule: String,
    /// What the rule looks at.
    pub kind: Kind,
    /// Its severity.
    pub severity: Severity,
    /// What is done about it.
    pub action: Action,
    /// The line, counted from 1.
    pub line: u32,
    /// The column, counted from 1 in characters.
    pub column: u32,
    /// The first line of the code it is about.
    pub code: String,
    /// The module, the function or the path it is about.
    pub name: String,
    /// Why it was found.
    pub why: String,
    /// What to write instead.
    pub instead: Option<String>,
}

impl Finding {
    /// Returns the finding in a few words, as `Blocked import: os`.
    pub fn headline(&self) -> String {
        let name = &self.name;
        match self.kind {
            Kind::Import => format!("Blocked import: {name}"),
            Kind::Call => format!("Blocked call: {name}()"),
            Kind::Attribute => format!("Blocked attribute: {name}"),
            Kind::Dynamic => format!("Blocked dynamic {name}"),
            Kind::Path => format!("Blocked path: {name}"),
            Kind::Loop => "Blocked loop: it never ends".to_owned(),
            Kind::Resource => format!("Blocked resource use: {name}"),
            Kind::Magic => format!("Blocked magic: {name}"),
            Kind::Shell => format!("Blocked shell command: {name}"),
            Kind::Syntax => format!("Syntax error: {}", self.why),
            Kind::Text => format!("Blocked text: {name}"),
        }
    }
}

impl Report {
    /// Puts two reports on the same text together, so that neither weakens the other.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        for finding in other.findings {
            let same = |own: &Finding| {
                (own.line, own.column, own.kind, &own.name)
                    == (finding.line, finding.column, finding.kind, &finding.name)
            };
            match self.findings.iter_mut().find(|own| same(own)) {
                Some(own) if own.action < finding.action => *own = finding,
                Some(_) => {}
                None => self.findings.push(finding),
            }
        }
        self.verdict = self.verdict.max(other.verdict);
        self.left_out += other.left_out + keep_strongest(&mut self.findings);
        self
    }

    /// Returns what blocks, or else what asks, in a few words each.
    pub fn headlines(&self) -> Vec<String> {
        let decisive = self.findings.iter().filter(|finding| finding.action == self.verdict);
        decisive.map(Finding::headline).collect()
    }

    /// Returns the report as a compiler would print it, with lines of the code and carets.
    pub fn render(&self, code: &str, name: &str) -> String {
        render::compiler(self, code, name)
    }

    /// Returns the report as a text that a model can act on.
    pub fn feedback(&self) -> String {
        render::feedback(self)
    }
}

/// Something found, as yet without lines and words.
pub(crate) struct Raw<'p> {
    pub(crate) rule: &'p crate::policy::Rule,
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) name: String,
    /// Takes the place of the rule's own reason.
    pub(crate) why: Option<String>,
}

/// Makes a report of everything that was found in a text.
pub(crate) fn report(code: &str, mut raw: Vec<Raw<'_>>) -> Report {
    let verdict = raw.iter().map(|raw| raw.rule.action).max().unwrap_or(Action::Allow);
    raw.sort_by(|a, b| b.rule.action.cmp(&a.rule.action).then(a.start.cmp(&b.start)));
    raw.dedup_by(|a, b| a.start == b.start && a.rule.id == b.rule.id && a.name == b.name);
    let left_out = raw.len().saturating_sub(FINDINGS_MAX);
    raw.truncate(FINDINGS_MAX);
    raw.sort_by_key(|raw| raw.start);
    if raw.is_empty() {
        return Report { findings: Vec::new(), verdict, left_out };
    }
    let lines = Lines::new(code);
    let findings = raw.into_iter().map(|raw| finding(&lines, raw)).collect();
    Report { findings, verdict, left_out }
}

fn finding(lines: &Lines<'_>, raw: Raw<'_>) -> Finding {
    let rule = raw.rule;
    let (line, column) = lines.place(raw.start.into());
    let quoted = lines.slice(raw.start.into(), raw.end.into());
    let name = shorten(&raw.name);
    let why = raw.why.unwrap_or_else(|| rule.why.clone()).replace("{name}", &name);
    Finding {
        rule: rule.id.clone(),
        kind: rule.kind,
        severity: rule.severity,
        action: rule.action,
        line,
        column,
        code: shorten(quoted),
        instead: rule.instead.as_ref().map(|text| text.replace("{name}", &name)),
        name,
        why,
    }
}

/// Cuts what a text brought with it to a length that can be shown.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(QUOTE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Keeps the strongest findings, in the order of the text; returns how many were left out.
fn keep_strongest(findings: &mut Vec<Finding>) -> usize {
    let left_out = findings.len().saturating_sub(FINDINGS_MAX);
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.action), finding.line));
    findings.truncate(FINDINGS_MAX);
    findings.sort_by_key(|finding| (finding.line, finding.column));
    left_out
}

#[cfg(test)]
mod tests;
