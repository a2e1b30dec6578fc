//! Submitting, finding and forgetting cells of a session.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use silica_domain::CellId;
use silica_engine::{CODE_BYTES_MAX, CellReport, CellSetup, EngineError};
use silica_store::StoreError;
use silica_store::audit::Ticket;
use tokio::runtime::Handle;

use super::{Cell, CellPhase, CellRequest, give_up};
use crate::approval::{Parked, park};
use crate::audit;
use crate::create::{check_environment, check_seconds};
use crate::error::SessionError;
use crate::kept::HasOutput;
use crate::kernel::{Job, KernelHandle};
use crate::run_once::check_arguments;
use crate::session::{EndReason, KEPT_MAX, Session};

/// About how many bytes a note in the audit log takes: that code was blocked, or waits for a person.
const NOTE_BYTES: u64 = 1024;

/// The longest name of the file that a cell comes from.
const FILENAME_BYTES_MAX: usize = 1024;

impl Session {
    /// Submits a cell: checks it, records it, then queues it, or has it wait for approval. See
    /// [`Cell::begun`] and [`Cell::done`]. The cell runs even if the caller leaves after this returns.
    pub async fn submit(self: &Arc<Self>, request: CellRequest) -> Result<Arc<Cell>, SessionError> {
        self.ensure_open()?;
        let kernel = self.kernel(request.kernel)?;
        check_code(request.code.text())?;
        check_setup(&request.setup)?;
        let timeout = self.timeout(request.timeout)?;
        let slot = self.services.admission.queue(self.tenant())?;
        let code = Arc::clone(request.code.text());
        let review = &self.services.review;
        let checked = review.check(request.policy, &request.code, self.tenant(), self.id()).await;
        if matches!(checked, Err(SessionError::Blocked(_))) {
            self.services.admission.charge_record(self.tenant(), NOTE_BYTES);
        }
        let checked = Arc::new(checked?);
        let id = self.next_cell()?;
        let most = self.terms.timeout_max;
        let limits = self.terms.limits.with_wall(timeout, most).map_err(EngineError::from)?;
        let (cell, controls) = Cell::new(id, kernel.id(), Arc::clone(&checked), timeout, most);
        let setup = request.setup;
        if review.needs_approval(&checked) {
            // They would change what runs without being part of what is approved.
            let has_more = setup.arguments.is_some() || setup.comm.is_some();
            if has_more || !setup.environment.is_empty() {
                let message =
                    "a cell that needs approval must have no env, arguments or comm of its own";
                return Err(SessionError::Bad(message.to_owned()));
            }
            // A cell that waits for a person must not block the queue.
            drop(slot);
            self.services.admission.charge_record(self.tenant(), 2 * NOTE_BYTES);
            return self.park(Parked { cell, kernel, code, limits, controls, checked }).await;
        }
        let begin = audit::begin_cell(self, &code, &limits, &checked)?;
        let session = Arc::clone(self);
        let submitted = Arc::clone(&cell);
        let runtime = Handle::current();
        // The store's thread hands the recorded cell to its kernel. A task in between would be woken for
        // nothing else, which costs a good part of a short cell's time.
        let queue = move |recorded: Result<Ticket, StoreError>| {
            let _runtime = runtime.enter();
            match recorded {
                Ok(ticket) => {
                    let cell = submitted;
                    let code = code.to_string();
                    let job = Job { cell, code, setup, limits, controls, slot, ticket };
                    session.enqueue(&kernel, job);
                }
                Err(error) => submitted.set_recorded(Err(error)),
            }
        };
        begin.then(queue).await?;
        Ok(cell)
    }

    /// Returns the id of the next cell. Fails if the sandbox may run no more cells.
    fn next_cell(&self) -> Result<CellId, SessionError> {
        let number = self.cells_submitted.fetch_add(1, Ordering::Relaxed) + 1;
        if number > self.terms.max_cells {
            let reason = EndReason::MaxCells;
            return Err(SessionError::Ended { id: self.id().to_string(), reason });
        }
        Ok(CellId::new(number))
    }

    /// Has a cell wait for approval, in a task of its own, so that a client that leaves does not cancel it
    /// halfway. A cell that cannot wait is removed again.
    async fn park(self: &Arc<Self>, parked: Parked) -> Result<Arc<Cell>, SessionError> {
        let session = Arc::clone(self);
        let cell = Arc::clone(&parked.cell);
        let parking = tokio::spawn(async move {
            let cell = Arc::clone(&parked.cell);
            session.lock().cells.push_back(Arc::clone(&cell));
            let result = park(&session, parked).await;
            if result.is_err() {
                session.lock().cells.retain(|other| !Arc::ptr_eq(other, &cell));
            }
            result
        });
        parking.await.unwrap_or(Err(SessionError::ShuttingDown)).map(|()| cell)
    }

    /// Hands a recorded cell to its kernel. From here on clients can find it.
    fn enqueue(&self, kernel: &KernelHandle, job: Job) {
        let cell = Arc::clone(&job.cell);
        self.lock().cells.push_back(Arc::clone(&cell));
        cell.set_recorded(Ok(()));
        if let Err(job) = kernel.submit(job) {
            // Its beginning is recorded, so its end must be.
            give_up(self, *job);
        }
    }

    fn timeout(&self, asked: Option<Duration>) -> Result<Duration, SessionError> {
        let timeout = asked.unwrap_or(self.terms.timeout);
        check_seconds("timeout_seconds", timeout, self.terms.timeout_max)?;
        Ok(timeout)
    }

    /// Returns a cell that has not ended or is kept.
    pub fn cell(&self, id: CellId) -> Result<Arc<Cell>, SessionError> {
        let found = self.lock().cells.iter().find(|cell| cell.id == id).cloned();
        found.ok_or_else(|| SessionError::NoCell(id.to_string()))
    }

    /// Returns the cells that have not ended or are kept, oldest first.
    pub fn cells(&self) -> Vec<Arc<Cell>> {
        self.lock().cells.iter().cloned().collect()
    }

    /// Counts a cell that has ended, and forgets old ones beyond what is kept.
    pub(crate) fn cell_ended(&self, ended: &Arc<Cell>) {
        self.cells_run.fetch_add(1, Ordering::Relaxed);
        self.may_drop_output(Arc::downgrade(ended) as Weak<dyn HasOutput>);
        let mut items = self.lock();
        items.last_used = Instant::now();
        let done = |cell: &Arc<Cell>| matches!(cell.phase(), CellPhase::Done(_));
        while items.cells.len() > KEPT_MAX {
            let Some(oldest) = items.cells.iter().position(done) else { break };
            // The newest stays: its client is about to read it.
            if oldest + 1 == items.cells.len() {
                break;
            }
            items.cells.remove(oldest);
        }
    }

    /// Charges the owner for the output and the processor time of a cell.
    pub(crate) fn charge(&self, report: &CellReport) {
        let output = report.stdout.total() + report.stderr.total();
        self.charge_execution(output, report.cpu.unwrap_or_default());
    }
}

fn check_setup(setup: &CellSetup) -> Result<(), SessionError> {
    check_environment(&setup.environment)?;
    check_arguments(setup.arguments.as_deref().unwrap_or_default())?;
    if let Some(comm) = &setup.comm
        && comm.bytes() > CODE_BYTES_MAX as u64
    {
        let message = format!("a message of a comm must have at most {CODE_BYTES_MAX} bytes");
        return Err(SessionError::Bad(message));
    }
    let is_name = |name: &String| {
        (1..=FILENAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
    };
    if !setup.filename.as_ref().is_none_or(is_name) {
        return Err(SessionError::Bad(format!(
            "filename must have 1 to {FILENAME_BYTES_MAX} bytes and no control characters"
        )));
    }
    Ok(())
}

fn check_code(code: &str) -> Result<(), SessionError> {
    let bytes = code.len();
    if bytes > CODE_BYTES_MAX {
        return Err(SessionError::Bad(format!(
            "code must have at most {CODE_BYTES_MAX} bytes; it has {bytes}"
        )));
    }
    Ok(())
}
