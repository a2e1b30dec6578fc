//! What stands between code that is asked for and code that runs: the check, and people.
//!
//! A policy looks at the code. What it blocks never becomes a cell; what it asks about waits, without
//! a place in any queue, until somebody decides or time does. What is approved is the text of a
//! digest, and that digest is compared once more before the text runs.

mod decide;
mod park;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use silica_policy::{Action, Finding, Policy, Preset, Report};
use silica_store::approvals::ApprovalRecord;
use silica_store::audit::Note;
use silica_store::{ApprovalId, Digest, SandboxId, Store, Tenant};
use tokio::sync::{broadcast, oneshot};

use crate::error::SessionError;
use crate::fairness::Queued;

pub use decide::Word;
pub(crate) use park::{Parked, park};

/// News that nobody has taken yet; more than can wait at a time.
const NEWS_MAX: usize = 256;

/// Code up to this length is checked where it is asked for; longer code on a thread of its own.
const SHORT_BYTES_MAX: usize = 32 * 1024;

/// Findings that are told in a sentence; all of them are told beside it.
const HEADLINES_MAX: usize = 5;

/// One of the presets, or a policy of somebody's own.
#[derive(Clone, Debug)]
pub enum PolicyChoice {
    /// Part of the binary.
    Preset(Preset),
    /// Read from a file or a request.
    Own(Arc<Policy>),
}

impl PolicyChoice {
    /// Returns the policy itself.
    pub fn policy(&self) -> &Policy {
        match self {
            Self::Preset(preset) => Policy::preset(*preset),
            Self::Own(policy) => policy,
        }
    }
}

/// Which executions a person is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskWhen {
    /// Those that the policy asks about.
    Policy,
    /// All.
    Always,
}

/// What the operator decides about the check and the approvals.
#[derive(Clone, Debug)]
pub struct ReviewOptions {
    /// The policy of those who name none.
    pub policy: PolicyChoice,
    /// What every other policy is joined with: nobody can ask for less.
    pub minimum: Option<PolicyChoice>,
    /// Which executions a person is asked about.
    pub ask: AskWhen,
    /// How long a decision is waited for; none by then is a no.
    pub timeout: Duration,
    /// Whether a key may approve what it asked for itself.
    pub own: bool,
}

impl Default for ReviewOptions {
    fn default() -> Self {
        Self {
            policy: PolicyChoice::Preset(Preset::Open),
            minimum: None,
            ask: AskWhen::Policy,
            timeout: Duration::from_hours(1),
            own: false,
        }
    }
}

/// What the check said of a piece of code.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The policy's name.
    pub policy: String,
    /// What it found.
    pub report: Report,
}

impl Checked {
    /// In a line, for the audit log.
    pub(crate) fn line(&self) -> String {
        let rules: Vec<&str> = self.report.findings.iter().map(|found| &*found.rule).collect();
        let verdict = self.report.verdict.name();
        if rules.is_empty() {
            format!("{}: {verdict}", self.policy)
        } else {
            format!("{}: {verdict} ({})", self.policy, rules.join(", "))
        }
    }

    /// What decides, in a sentence.
    pub(crate) fn summary(&self) -> String {
        let headlines = self.report.headlines();
        let told = headlines.iter().take(HEADLINES_MAX).map(String::as_str).collect::<Vec<_>>();
        let more = headlines.len() - told.len() + self.report.left_out;
        match more {
            0 => told.join("; "),
            more => format!("{}; and {more} more", told.join("; ")),
        }
    }

    /// The findings as JSON, as clients see them.
    pub fn findings(&self) -> Value {
        self.report.findings.iter().map(finding).collect()
    }
}

fn finding(finding: &Finding) -> Value {
    json!({
        "rule": finding.rule,
        "kind": finding.kind.name(),
        "severity": finding.severity.name(),
        "action": finding.action.name(),
        "line": finding.line,
        "column": finding.column,
        "code": finding.code,
        "name": finding.name,
        "why": finding.why,
        "instead": finding.instead,
    })
}

/// What became of the wish that somebody decide.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It may run, with this place in the queue.
    Approved { record: Box<ApprovalRecord>, queued: Queued },
    /// It may not, or nobody said so in time.
    Refused(Box<ApprovalRecord>),
}

/// The check and the approvals of a server; copies are cheap and mean the same.
#[derive(Clone, Debug)]
pub struct Review(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: ReviewOptions,
    store: Store,
    /// Who waits for a decision here. What waits since before a restart is only in the store.
    waiting: Mutex<HashMap<ApprovalId, oneshot::Sender<Verdict>>>,
    news: broadcast::Sender<ApprovalRecord>,
}

impl Review {
    pub(crate) fn new(options: ReviewOptions, store: Store) -> Self {
        let news = broadcast::Sender::new(NEWS_MAX);
        Self(Arc::new(Inner { options, store, waiting: Mutex::default(), news }))
    }

    /// What the operator decided.
    pub fn options(&self) -> &ReviewOptions {
        &self.0.options
    }

    /// Everything that is asked and decided from now on.
    pub fn news(&self) -> broadcast::Receiver<ApprovalRecord> {
        self.0.news.subscribe()
    }

    fn tell(&self, record: &ApprovalRecord) {
        // Nobody may be listening.
        let _ = self.0.news.send(record.clone());
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<ApprovalId, oneshot::Sender<Verdict>>> {
        // A map has no invariant that a panic elsewhere could have broken halfway.
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether code can run here now or later without a person's word for it.
    pub(crate) fn asks_always(&self) -> bool {
        self.0.options.ask == AskWhen::Always
    }

    /// Checks code. What is blocked ends here, and is on record.
    pub(crate) async fn check(
        &self,
        choice: Option<PolicyChoice>,
        code: &Arc<str>,
        tenant: &Tenant,
        sandbox: &SandboxId,
    ) -> Result<Checked, SessionError> {
        let choice = choice.unwrap_or_else(|| self.0.options.policy.clone());
        let minimum = self.0.options.minimum.clone();
        let text = Arc::clone(code);
        let work = move || check(&choice, minimum.as_ref(), &text);
        let checked = if code.len() <= SHORT_BYTES_MAX {
            work()
        } else {
            let done = tokio::task::spawn_blocking(work).await;
            done.map_err(|_| SessionError::ShuttingDown)?
        };
        if checked.report.verdict < Action::Block {
            return Ok(checked);
        }
        let mut note = Note::new("policy_blocked")
            .with("check", &checked.line())
            .with("sha256", &Digest::of(code.as_bytes()).to_string());
        note.tenant = Some(tenant.clone());
        note.sandbox = Some(sandbox.clone());
        self.0.store.audit().note(note).await?;
        Err(SessionError::Blocked(Box::new(checked)))
    }

    /// Whether a person is to be asked about it.
    pub(crate) fn asks(&self, checked: &Checked) -> bool {
        self.asks_always() || checked.report.verdict == Action::Ask
    }
}

fn check(choice: &PolicyChoice, minimum: Option<&PolicyChoice>, code: &str) -> Checked {
    let policy = choice.policy();
    let report = policy.check(code);
    match minimum.map(PolicyChoice::policy) {
        // The same policy twice would only say everything twice.
        Some(minimum) if !std::ptr::eq(minimum, policy) => Checked {
            policy: format!("{}+{}", policy.name(), minimum.name()),
            report: report.join(minimum.check(code)),
        },
        _ => Checked { policy: policy.name().to_owned(), report },
    }
}
