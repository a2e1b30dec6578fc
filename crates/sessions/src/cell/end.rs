//! The end of a cell: recorded, then published to its waiters.

use std::sync::Arc;

use silica_domain::Outcome;
use silica_engine::CellReport;
use silica_store::audit::Ticket;

use super::{Cell, CellEnd, KernelState};
use crate::audit;
use crate::event_log::LogEvent;
use crate::kernel::Job;
use crate::session::Session;

/// Ends a cell whose kernel ended before the cell began.
pub(crate) fn give_up(session: &Session, job: Job) {
    let (outcome, lost) = if session.sandbox.is_dead() {
        (Outcome::SandboxDied, "its sandbox had ended before it began")
    } else {
        (Outcome::Interrupted, "its kernel had ended before it began")
    };
    let end = Arc::new(CellEnd {
        report: CellReport::not_run(outcome),
        files: Arc::default(),
        kernel: KernelState::Ended,
        lost: Some(lost.to_owned()),
        limits: job.limits,
        network: None,
        _kept: None,
    });
    write_end(session, &job.cell, end, job.ticket);
}

/// Records the end of a cell, and publishes it.
pub(crate) fn write_end(session: &Session, cell: &Arc<Cell>, end: Arc<CellEnd>, ticket: Ticket) {
    audit::finish(session, ticket, &audit::of_cell(&end));
    end_unrecorded(session, cell, end);
}

/// Publishes the end of a cell. For one whose beginning was never recorded this is all.
pub(crate) fn end_unrecorded(session: &Session, cell: &Arc<Cell>, end: Arc<CellEnd>) {
    session.services.statistics.cell_ended(&end);
    cell.set_done(end);
    cell.log.push(LogEvent::Done);
    session.cell_ended(cell);
}
