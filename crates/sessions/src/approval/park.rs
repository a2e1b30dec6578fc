//! A cell that waits for a person, and what it does with the word it gets.

use std::collections::BTreeMap;
use std::sync::Arc;

use silica_domain::{Limits, Outcome};
use silica_engine::{Changes, Control, Report};
use silica_store::approvals::{ApprovalRecord, Asked, NewApproval};
use silica_store::{ApprovalId, Digest};
use tokio::sync::{mpsc, oneshot};

use super::{Checked, Review, Verdict};
use crate::audit;
use crate::cell::{Cell, CellEnd, KernelState, end_unrecorded, give_up};
use crate::error::SessionError;
use crate::event_log::Event;
use crate::kernel::{Job, KernelHandle};
use crate::session::Session;

/// A cell on its way to its kernel that waits for a person.
pub(crate) struct Parked {
    pub(crate) cell: Arc<Cell>,
    pub(crate) kernel: Arc<KernelHandle>,
    pub(crate) code: Arc<str>,
    pub(crate) limits: Limits,
    pub(crate) controls: mpsc::Receiver<Control>,
    pub(crate) checked: Arc<Checked>,
}

/// Has a cell wait for a person. It holds no place in any queue, and nothing of it runs.
pub(crate) async fn park(session: &Arc<Session>, parked: Parked) -> Result<(), SessionError> {
    let review = session.review().clone();
    let id = ApprovalId::random()?;
    let (sender, word) = oneshot::channel();
    // Before it can be seen, so that nobody decides about something that cannot hear it.
    review.waiting().insert(id.clone(), sender);
    let record = match ask(&review, session, &parked, &id).await {
        Ok(record) => record,
        Err(error) => {
            review.waiting().remove(&id);
            return Err(error);
        }
    };
    parked.cell.set_approval(Arc::new(record.clone()));
    parked.cell.set_parked();
    parked.cell.log.push(Event::Approval(Arc::new(record.clone())));
    review.tell(&record);
    let session = Arc::clone(session);
    tokio::spawn(async move { wait(session, parked, id, word).await });
    Ok(())
}

async fn ask(
    review: &Review,
    session: &Session,
    parked: &Parked,
    id: &ApprovalId,
) -> Result<ApprovalRecord, SessionError> {
    let new = NewApproval {
        id: id.clone(),
        tenant: session.tenant().clone(),
        sandbox: session.id().clone(),
        cell: parked.cell.id.to_string(),
        policy: parked.checked.policy.clone(),
        findings: parked.checked.findings(),
        code: parked.code.to_string(),
        expires_at: silica_store::Timestamp::now().after(review.options().timeout),
    };
    match session.store().approvals().ask(new).await? {
        Asked::Waits(record) => Ok(*record),
        Asked::TooMany(count) => Err(SessionError::TooManyWait(count)),
    }
}

/// How the waiting ended.
enum End {
    Word(Verdict),
    /// Its owner interrupted it.
    Withdrawn,
    /// Its sandbox is gone, and with it whatever it could have run in.
    Gone,
}

async fn wait(
    session: Arc<Session>,
    mut parked: Parked,
    id: ApprovalId,
    mut word: oneshot::Receiver<Verdict>,
) {
    let end = loop {
        tokio::select! {
            biased;
            verdict = &mut word => break verdict.map_or(End::Gone, End::Word),
            () = session.ended() => break End::Gone,
            control = parked.controls.recv() => match control {
                // Its time begins when it runs.
                Some(Control::Extend(more)) => {
                    parked.limits.extend_wall(more);
                }
                Some(Control::Interrupt | Control::Kill) | None => break End::Withdrawn,
            },
        }
    };
    let review = session.review().clone();
    review.waiting().remove(&id);
    match end {
        End::Word(Verdict::Approved { record, queued }) => {
            go(&session, parked, *record, queued).await;
        }
        End::Word(Verdict::Refused(record)) => {
            tell(&parked.cell, *record);
            finish(&session, parked, Outcome::Denied, KernelState::Ready);
        }
        End::Withdrawn => {
            review.withdraw(&id, session.tenant()).await;
            if let Ok(record) = review.get(id.as_str()).await {
                tell(&parked.cell, record);
            }
            finish(&session, parked, Outcome::Interrupted, KernelState::Ready);
        }
        End::Gone => finish(&session, parked, Outcome::SandboxDied, KernelState::Ended),
    }
}

/// Runs what was approved, if it is what was approved.
async fn go(
    session: &Arc<Session>,
    parked: Parked,
    record: ApprovalRecord,
    queued: crate::fairness::Queued,
) {
    if Digest::of(parked.code.as_bytes()) != record.sha256 {
        tracing::error!(approval = %record.id, "the code is not the one that was approved");
        return finish(session, parked, Outcome::Denied, KernelState::Ready);
    }
    let approval = Some(&record);
    let begun = audit::begin_cell(session, &parked.code, &parked.limits, &parked.checked, approval);
    let begun = match begun {
        Ok(begun) => begun.await,
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
    tell(&parked.cell, record);
    let Parked { cell, kernel, code, limits, controls, .. } = parked;
    let (code, environment) = (code.to_string(), BTreeMap::new());
    let job = Job { cell, code, environment, limits, controls, queued, ticket };
    if let Err(job) = kernel.submit(job) {
        give_up(session, *job);
    }
}

fn tell(cell: &Cell, record: ApprovalRecord) {
    let record = Arc::new(record);
    cell.set_approval(Arc::clone(&record));
    cell.log.push(Event::Approval(record));
}

/// Ends a cell that never began: there is nothing in the audit log that would have to end.
fn finish(session: &Session, parked: Parked, outcome: Outcome, kernel: KernelState) {
    let lost = (kernel == KernelState::Ended)
        .then(|| "its sandbox ended before anybody had decided about it".to_owned());
    let (report, files) = (Report::not_run(outcome), Changes::default());
    let end = CellEnd { report, files, kernel, lost, limits: parked.limits };
    end_unrecorded(session, &parked.cell, &Arc::new(end));
}
