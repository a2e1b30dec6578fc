//! Findings of a policy: the one form for cells, approvals, prompts and `silica check`.

use schemars::JsonSchema;
use serde::Serialize;
use silica_policy::{Policy, Report};

/// A finding of a policy's rule
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Finding {
    /// The rule's id
    rule: String,
    /// What the rule looks at
    kind: &'static str,
    /// How severe it is
    #[schemars(extend("enum" = ["low", "medium", "high", "critical"]))]
    severity: &'static str,
    /// What is done about it
    #[schemars(extend("enum" = ["warn", "ask", "block"]))]
    action: &'static str,
    /// The line, from 1
    line: u32,
    /// The column, from 1, in characters
    column: u32,
    /// The code that it concerns
    code: String,
    /// The module, function or path that it concerns
    name: String,
    /// Why it was found
    why: String,
    /// What to write instead
    instead: Option<String>,
}

/// Renders the findings of a report.
pub(crate) fn findings(report: &Report) -> Vec<Finding> {
    report.findings.iter().map(Finding::from).collect()
}

impl From<&silica_policy::Finding> for Finding {
    fn from(finding: &silica_policy::Finding) -> Self {
        Self {
            rule: finding.rule.clone(),
            kind: finding.kind.name(),
            severity: finding.severity.name(),
            action: finding.action.name(),
            line: finding.line,
            column: finding.column,
            code: finding.code.clone(),
            name: finding.name.clone(),
            why: finding.why.clone(),
            instead: finding.instead.clone(),
        }
    }
}

/// The object of `silica check --json`.
#[derive(Debug, Serialize)]
pub(crate) struct CheckReport {
    policy: String,
    verdict: &'static str,
    findings: Vec<Finding>,
    left_out: usize,
}

impl CheckReport {
    /// Renders what a policy found in code.
    pub(crate) fn new(policy: &Policy, report: &Report) -> Self {
        Self {
            policy: policy.name().to_owned(),
            verdict: report.verdict.name(),
            findings: findings(report),
            left_out: report.left_out,
        }
    }
}
