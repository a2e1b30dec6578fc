//! The end of a cell: recorded, kept and shown to those who wait for it.

use std::sync::Arc;

use silica_domain::Outcome;
use silica_engine::{Changes, Report};
use silica_store::audit::Ticket;

use super::{Cell, CellEnd, KernelState};
use crate::audit;
use crate::event_log::Event;
use crate::kernel::Job;
use crate::session::Session;

/// Ends a cell that comes too late for its kernel.
pub(crate) fn give_up(session: &Session, job: Job) {
    let (outcome, lost) = if session.sandbox().is_dead() {
        (Outcome::SandboxDied, "its sandbox had ended before it began")
    } else {
        (Outcome::Interrupted, "its kernel had ended before it began")
    };
    let (report, lost) = (Report::not_run(outcome), Some(lost.to_owned()));
    let (files, kernel) = (Changes::default(), KernelState::Ended);
    let end = Arc::new(CellEnd { report, files, kernel, lost, limits: job.limits });
    write_end(session, &job.cell, &end, job.ticket);
}

pub(crate) fn write_end(session: &Session, cell: &Cell, end: &Arc<CellEnd>, ticket: Ticket) {
    audit::finish(session.store(), ticket, &audit::of_cell(end));
    end_unrecorded(session, cell, end);
}

/// Ends a cell of which no beginning is on record.
pub(crate) fn end_unrecorded(session: &Session, cell: &Cell, end: &Arc<CellEnd>) {
    cell.set_done(Arc::clone(end));
    cell.log.push(Event::Done);
    session.cell_ended(cell, end);
}
