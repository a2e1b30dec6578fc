//! A cell that waits for approval, and what follows from the decision.

use std::sync::Arc;

use silica_domain::{Limits, Outcome};
use silica_engine::{CellReport, CellSetup, Control};
use silica_store::approvals::{ApprovalRecord, Asked, NewApproval, Subject};
use silica_store::{ApprovalId, Digest, Timestamp};
use tokio::sync::{mpsc, oneshot};

use super::{ApprovalOutcome, CheckResult, Review};
use crate::audit;
use crate::cell::{Cell, CellEnd, KernelState, end_unrecorded, give_up};
use crate::error::SessionError;
use crate::event_log::LogEvent;
use crate::fairness::QueueSlot;
use crate::kernel::{Job, KernelHandle};
use crate::session::{EndReason, Session};

/// A cell that waits for approval, with everything it needs to run.
pub(crate) struct Parked {
    pub(crate) cell: Arc<Cell>,
    pub(crate) kernel: Arc<KernelHandle>,
    pub(crate) code: Arc<str>,
    pub(crate) limits: Limits,
    pub(crate) controls: mpsc::Receiver<Control>,
    pub(crate) checked: Arc<CheckResult>,
}

/// Has a cell wait for approval, in the background. It holds no slot in the queue.
pub(crate) async fn park(session: &Arc<Session>, parked: Parked) -> Result<(), SessionError> {
    let review = session.services.review.clone();
    let id = ApprovalId::random()?;
    let (sender, outcome) = oneshot::channel();
    // Before the approval is recorded: from then on it can be decided.
    review.waiting().insert(id.clone(), sender);
    let record = match record(&review, session, &parked, &id).await {
        Ok(record) => record,
        Err(error) => {
            review.waiting().remove(&id);
            return Err(error);
        }
    };
    parked.cell.set_approval(Arc::new(record.clone()));
    parked.cell.set_parked();
    parked.cell.log.push(LogEvent::Approval(Arc::new(record.clone())));
    review.publish(&record);
    let session = Arc::clone(session);
    tokio::spawn(async move { wait(session, parked, id, outcome).await });
    Ok(())
}

/// Records that a cell waits for approval.
async fn record(
    review: &Review,
    session: &Session,
    parked: &Parked,
    id: &ApprovalId,
) -> Result<ApprovalRecord, SessionError> {
    let new = NewApproval {
        id: id.clone(),
        tenant: session.tenant().clone(),
        subject: Subject::Code,
        sandbox: session.id().clone(),
        cell: parked.cell.id.to_string(),
        policy: parked.checked.policy.clone(),
        findings: audit::findings_json(&parked.checked.report.findings),
        code: parked.code.to_string(),
        expires_at: Timestamp::now().after(review.options().timeout),
    };
    match session.services.store.approvals().ask(new).await? {
        Asked::Waits(record) => Ok(*record),
        Asked::TooMany(count) => Err(SessionError::TooManyWait(count)),
        Asked::Revoked => {
            let id = session.id().to_string();
            Err(SessionError::Ended { id, reason: EndReason::Revoked })
        }
    }
}

/// How the waiting ended.
enum WaitEnd {
    Decided(ApprovalOutcome),
    /// The owner interrupted the cell.
    Withdrawn,
    /// The sandbox has ended.
    SandboxEnded,
}

async fn wait(
    session: Arc<Session>,
    mut parked: Parked,
    id: ApprovalId,
    mut outcome: oneshot::Receiver<ApprovalOutcome>,
) {
    let end = loop {
        tokio::select! {
            biased;
            outcome = &mut outcome => {
                break outcome.map_or(WaitEnd::SandboxEnded, WaitEnd::Decided);
            }
            () = session.ended() => break WaitEnd::SandboxEnded,
            control = parked.controls.recv() => match control {
                // The timeout counts from when the cell runs.
                Some(Control::Extend(more)) => {
                    parked.limits.extend_wall(more);
                }
                Some(Control::Input(_)) => {}
                Some(Control::Interrupt | Control::Kill) | None => break WaitEnd::Withdrawn,
            },
        }
    };
    let review = session.services.review.clone();
    review.waiting().remove(&id);
    match end {
        WaitEnd::Decided(ApprovalOutcome::Approved { record, slot }) => {
            run_approved(&session, parked, *record, slot).await;
        }
        WaitEnd::Decided(ApprovalOutcome::Denied(record)) => {
            show_decision(&parked.cell, *record);
            finish(&session, parked, Outcome::Denied, KernelState::Ready);
        }
        WaitEnd::Withdrawn => {
            review.withdraw(&id, session.tenant()).await;
            if let Ok(record) = review.get(id.as_str()).await {
                show_decision(&parked.cell, record);
            }
            finish(&session, parked, Outcome::Interrupted, KernelState::Ready);
        }
        WaitEnd::SandboxEnded => finish(&session, parked, Outcome::SandboxDied, KernelState::Ended),
    }
}

/// Queues an approved cell, if its code is the code that was approved.
async fn run_approved(
    session: &Arc<Session>,
    parked: Parked,
    record: ApprovalRecord,
    slot: QueueSlot,
) {
    if Digest::of(parked.code.as_bytes()) != record.sha256 {
        tracing::error!(approval = %record.id, "the code is not the one that was approved");
        return finish(session, parked, Outcome::Denied, KernelState::Ready);
    }
    let write =
        audit::begin_approved_cell(session, &parked.code, &parked.limits, &parked.checked, &record);
    let begun = match write {
        Ok(write) => write.await,
        Err(error) => Err(error),
    };
    let ticket = match begun {
        Ok(ticket) => ticket,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "an approved cell could not be recorded, so it does not run");
            return finish(session, parked, Outcome::Denied, KernelState::Ready);
        }
    };
    parked.cell.set_queued();
    show_decision(&parked.cell, record);
    let Parked { cell, kernel, code, limits, controls, .. } = parked;
    let code = code.to_string();
    let setup = CellSetup::default();
    let job = Job { cell, code, setup, limits, controls, slot, ticket };
    if let Err(job) = kernel.submit(job) {
        give_up(session, *job);
    }
}

/// Shows a decision in the cell and in its log.
fn show_decision(cell: &Cell, record: ApprovalRecord) {
    let record = Arc::new(record);
    cell.set_approval(Arc::clone(&record));
    cell.log.push(LogEvent::Approval(record));
}

/// Ends a cell that never began; the audit log holds no beginning of it.
fn finish(session: &Session, parked: Parked, outcome: Outcome, kernel: KernelState) {
    let lost = (kernel == KernelState::Ended)
        .then(|| "its sandbox ended before the approval was decided".to_owned());
    let report = CellReport::not_run(outcome);
    let files = Arc::default();
    let end =
        CellEnd { report, files, kernel, lost, limits: parked.limits, network: None, _kept: None };
    end_unrecorded(session, &parked.cell, Arc::new(end));
}
