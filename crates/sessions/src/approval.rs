//! The check of code by a policy, and approval by a person, before code runs.
//!
//! Code that the policy blocks never becomes a cell. Code that it asks about waits, outside every queue, until
//! a person decides or the approval expires. What is approved is the text of one digest, and the digest is
//! compared again before the text runs.
//!
//! A connection that no rule allows may wait for a person, too (`connection`).

mod connection;
mod decide;
mod park;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use silica_policy::{Action, Policy, PolicyChoice, Preset, Report};
use silica_store::approvals::ApprovalRecord;
use silica_store::audit::Note;
use silica_store::{ApprovalId, Digest, SandboxId, Store, Tenant};
use tokio::sync::{broadcast, oneshot, watch};

use crate::cell::CellCode;
use crate::error::SessionError;
use crate::fairness::QueueSlot;

pub(crate) use connection::{ConnectionAnswer, ConnectionQuestion};
pub use decide::DecisionRequest;
pub(crate) use park::{Parked, park};

/// The most approvals that a slow subscriber may be behind; more than can wait at a time.
const NEWS_MAX: usize = 256;

/// Code up to this length is checked on the calling thread, longer code on one that may block.
const SHORT_BYTES_MAX: usize = 32 * 1024;

/// The most findings that an error message names.
const HEADLINES_MAX: usize = 5;

/// Which executions need approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalMode {
    /// Those that the policy asks about.
    ByPolicy,
    /// All of them.
    Always,
}

/// What the operator decides about the check and the approvals.
#[derive(Clone, Debug)]
pub struct ReviewOptions {
    /// The default policy.
    pub policy: PolicyChoice,
    /// A policy that is applied in addition to every other one, so that no request can ask for less.
    pub minimum: Option<PolicyChoice>,
    /// Which executions need approval.
    pub mode: ApprovalMode,
    /// How long an approval waits for a decision before it expires, which denies it.
    pub timeout: Duration,
    /// Whether a key may approve its own executions.
    pub own: bool,
}

impl Default for ReviewOptions {
    fn default() -> Self {
        Self {
            policy: PolicyChoice::Preset(Preset::Open),
            minimum: None,
            mode: ApprovalMode::ByPolicy,
            timeout: Duration::from_hours(1),
            own: false,
        }
    }
}

/// What the policies found in a piece of code.
#[derive(Clone, Debug)]
pub struct CheckResult {
    /// The name of the policy; `own+minimum` if the server's minimum was applied too.
    pub policy: String,
    /// The findings of all policies together.
    pub report: Arc<Report>,
}

impl CheckResult {
    /// Returns it as one line, for the audit log.
    pub(crate) fn line(&self) -> String {
        let rules: Vec<&str> = self.report.findings.iter().map(|found| &*found.rule).collect();
        let verdict = self.report.verdict.name();
        if rules.is_empty() {
            format!("{}: {verdict}", self.policy)
        } else {
            format!("{}: {verdict} ({})", self.policy, rules.join(", "))
        }
    }

    /// Returns the findings that decide the verdict as one sentence.
    pub(crate) fn summary(&self) -> String {
        let headlines = self.report.headlines();
        let shown = headlines.iter().take(HEADLINES_MAX).map(String::as_str).collect::<Vec<_>>();
        let more = headlines.len() - shown.len() + self.report.left_out;
        match more {
            0 => shown.join("; "),
            more => format!("{}; and {more} more", shown.join("; ")),
        }
    }
}

/// The end of an approval, sent to the cell that waits for it.
#[derive(Debug)]
pub(crate) enum ApprovalOutcome {
    /// The cell may run, with this slot in the queue.
    Approved { record: Box<ApprovalRecord>, slot: QueueSlot },
    /// A person denied it, or it expired.
    Denied(Box<ApprovalRecord>),
}

/// The check and the approvals of a server. Clones share one state.
#[derive(Clone, Debug)]
pub struct Review(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: ReviewOptions,
    store: Store,
    /// Cells of this process that wait for approval. Approvals from before a restart are in the store only.
    waiting: Mutex<HashMap<ApprovalId, oneshot::Sender<ApprovalOutcome>>>,
    /// Connections of this process that wait for approval. The sandbox holds the receiver.
    connections: Mutex<HashMap<ApprovalId, watch::Sender<Option<ConnectionAnswer>>>>,
    news: broadcast::Sender<ApprovalRecord>,
}

impl Review {
    pub(crate) fn new(options: ReviewOptions, store: Store) -> Self {
        let news = broadcast::Sender::new(NEWS_MAX);
        let waiting = Mutex::default();
        let connections = Mutex::default();
        Self(Arc::new(Inner { options, store, waiting, connections, news }))
    }

    /// Returns what the operator decided.
    pub fn options(&self) -> &ReviewOptions {
        &self.0.options
    }

    /// Subscribes to approvals: each is sent when it begins to wait and when it is decided.
    pub fn news(&self) -> broadcast::Receiver<ApprovalRecord> {
        self.0.news.subscribe()
    }

    fn publish(&self, record: &ApprovalRecord) {
        // The error is that there is no subscriber.
        let _ = self.0.news.send(record.clone());
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<ApprovalId, oneshot::Sender<ApprovalOutcome>>> {
        // A map: a panic while the lock is held leaves no broken invariant.
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether every execution needs approval.
    pub(crate) fn always_needs_approval(&self) -> bool {
        self.0.options.mode == ApprovalMode::Always
    }

    /// Returns whether code with this result needs approval.
    pub(crate) fn needs_approval(&self, checked: &CheckResult) -> bool {
        self.always_needs_approval() || checked.report.verdict == Action::Ask
    }

    /// Checks code. Blocked code is noted in the audit log and returned as an error.
    pub(crate) async fn check(
        &self,
        choice: Option<PolicyChoice>,
        code: &CellCode,
        tenant: &Tenant,
        sandbox: &SandboxId,
    ) -> Result<CheckResult, SessionError> {
        let choice = choice.unwrap_or_else(|| self.0.options.policy.clone());
        let minimum = self.0.options.minimum.clone();
        let checked = if code.text().len() <= SHORT_BYTES_MAX {
            check(&choice, minimum.as_ref(), code)
        } else {
            let code = code.clone();
            let work = move || check(&choice, minimum.as_ref(), &code);
            let done = tokio::task::spawn_blocking(work).await;
            done.map_err(|_| SessionError::ShuttingDown)?
        };
        if checked.report.verdict < Action::Block {
            return Ok(checked);
        }
        let mut note = Note::new("policy_blocked")
            .with("check", &checked.line())
            .with("sha256", &Digest::of(code.text().as_bytes()).to_string());
        note.tenant = Some(tenant.clone());
        note.sandbox = Some(sandbox.clone());
        self.0.store.audit().note(note).await?;
        Err(SessionError::Blocked(Box::new(checked)))
    }
}

/// Checks code by a policy and by the server's minimum, if that is another policy.
fn check(choice: &PolicyChoice, minimum: Option<&PolicyChoice>, code: &CellCode) -> CheckResult {
    let policy = choice.policy();
    let report = report(policy, code);
    match minimum.map(PolicyChoice::policy) {
        Some(minimum) if !std::ptr::eq(minimum, policy) => CheckResult {
            policy: format!("{}+{}", policy.name(), minimum.name()),
            report: Arc::new((*report).clone().join((*self::report(minimum, code)).clone())),
        },
        _ => CheckResult { policy: policy.name().to_owned(), report },
    }
}

/// Returns what a policy finds in code, from its earlier report if it has checked the code before.
fn report(policy: &Policy, code: &CellCode) -> Arc<Report> {
    let earlier = match code {
        CellCode::Checked(checked) => checked.report_of(policy).cloned(),
        CellCode::Unchecked(_) => None,
    };
    earlier.unwrap_or_else(|| Arc::new(policy.check(code.text())))
}
