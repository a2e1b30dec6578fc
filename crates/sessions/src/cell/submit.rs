//! Cells of a session: queueing, finding, keeping.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use silica_domain::CellId;
use silica_engine::EngineError;
use silica_engine::{CODE_BYTES_MAX, Report};
use silica_store::StoreError;
use silica_store::audit::Ticket;

use super::{Cell, CellEnd, CellPhase, CellRequest, give_up};
use crate::approval::{Parked, park};
use crate::audit;
use crate::create::check_environment;
use crate::error::SessionError;
use crate::kernel::{Job, KernelHandle};
use crate::session::{EndReason, KEPT_BYTES_MAX, KEPT_MAX, Session};

impl Session {
    /// Has a cell recorded and then queued: see [`Cell::begun`] and [`Cell::done`]. Once this has
    /// returned, whoever asked may go away; the cell runs all the same.
    pub async fn submit(self: &Arc<Self>, request: CellRequest) -> Result<Arc<Cell>, SessionError> {
        self.start_something()?;
        let kernel = self.kernel(request.kernel)?;
        if request.code.len() > CODE_BYTES_MAX {
            let length = request.code.len();
            let words =
                format!("the code is {length} bytes long; at most {CODE_BYTES_MAX} are run");
            return Err(SessionError::Bad(words));
        }
        check_environment(&request.environment)?;
        let timeout = self.timeout(request.timeout)?;
        let queued = self.admission.queue(self.tenant())?;
        let code: Arc<str> = request.code.into();
        let checking = self.review.check(request.policy, &code, self.tenant(), self.id());
        let checked = Arc::new(checking.await?);
        let number = self.cells_asked.fetch_add(1, Ordering::Relaxed) + 1;
        if number > self.terms.max_cells {
            let reason = EndReason::MaxCells;
            return Err(SessionError::Ended { id: self.id().to_string(), reason });
        }
        let limits = self.terms.limits.with_wall(timeout, self.terms.timeout_max);
        let limits = limits.map_err(EngineError::from)?;
        let (id, most) = (CellId::new(number), self.terms.timeout_max);
        let made = Cell::new(id, kernel.id(), Arc::clone(&checked), timeout, most);
        let ((cell, controls), environment) = (made, request.environment);
        if self.review.asks(&checked) {
            // They would change what runs without being part of what is approved.
            if !environment.is_empty() {
                let words = "a cell that a person has to approve takes no variables of its own";
                return Err(SessionError::Bad(words.to_owned()));
            }
            // A place in the queue is for what can run.
            drop(queued);
            let parked = Parked { cell, kernel, code, limits, controls, checked };
            return self.park(parked).await;
        }
        let begin = audit::begin_cell(self, &code, &limits, &checked, None)?;
        let (session, asked) = (Arc::clone(self), Arc::clone(&cell));
        let runtime = tokio::runtime::Handle::current();
        // From the store straight to the kernel: a task in between would be woken to do only that.
        let then = move |recorded: Result<Ticket, StoreError>| {
            let _runtime = runtime.enter();
            match recorded {
                Ok(ticket) => {
                    let (cell, code) = (asked, code.to_string());
                    let job = Job { cell, code, environment, limits, controls, queued, ticket };
                    session.enqueue(&kernel, job);
                }
                Err(error) => asked.set_recorded(Err(error)),
            }
        };
        begin.then(then).await?;
        Ok(cell)
    }

    /// Has a cell wait for a person; one that cannot wait is forgotten again. Beside, so that a client
    /// that leaves breaks nothing in the middle.
    async fn park(self: &Arc<Self>, parked: Parked) -> Result<Arc<Cell>, SessionError> {
        let (session, cell) = (Arc::clone(self), Arc::clone(&parked.cell));
        let waits = tokio::spawn(async move {
            let cell = Arc::clone(&parked.cell);
            session.lock().cells.push_back(Arc::clone(&cell));
            let waits = park(&session, parked).await;
            if waits.is_err() {
                session.lock().cells.retain(|other| !Arc::ptr_eq(other, &cell));
            }
            waits
        });
        waits.await.unwrap_or(Err(SessionError::ShuttingDown)).map(|()| cell)
    }

    /// From here on the cell exists.
    fn enqueue(&self, kernel: &KernelHandle, job: Job) {
        let cell = Arc::clone(&job.cell);
        self.lock().cells.push_back(Arc::clone(&cell));
        cell.set_recorded(Ok(()));
        if let Err(job) = kernel.submit(job) {
            // Its beginning is on record, so its end must be.
            give_up(self, *job);
        }
    }

    fn timeout(&self, asked: Option<Duration>) -> Result<Duration, SessionError> {
        let (timeout, most) = (asked.unwrap_or(self.terms.timeout), self.terms.timeout_max);
        if timeout.is_zero() || timeout > most {
            let words = format!(
                "a timeout of {} seconds cannot be had; at most {} are allowed here",
                timeout.as_secs_f64(),
                most.as_secs_f64()
            );
            return Err(SessionError::Bad(words));
        }
        Ok(timeout)
    }

    /// A cell that runs or is kept.
    pub fn cell(&self, id: CellId) -> Result<Arc<Cell>, SessionError> {
        let found = self.lock().cells.iter().find(|cell| cell.id == id).cloned();
        found.ok_or_else(|| SessionError::NoCell(id.to_string()))
    }

    /// The cells that run or are kept, oldest first.
    pub fn cells(&self) -> Vec<Arc<Cell>> {
        self.lock().cells.iter().cloned().collect()
    }

    /// Counts a cell that has ended, and forgets old ones for it.
    pub(crate) fn cell_ended(&self, ended: &Cell, end: &CellEnd) {
        self.cells_run.fetch_add(1, Ordering::Relaxed);
        self.numbers.cell_ended(end);
        let mut inner = self.lock();
        inner.last_used = Instant::now();
        // Another kernel's end may have had it forgotten this very moment.
        if inner.cells.iter().rev().any(|cell| std::ptr::eq(&raw const **cell, ended)) {
            inner.kept_bytes += ended.kept_bytes();
        }
        let done = |cell: &Arc<Cell>| matches!(cell.phase(), CellPhase::Done(_));
        while inner.cells.len() > KEPT_MAX || inner.kept_bytes > KEPT_BYTES_MAX {
            // The newest stays, however large: somebody is about to read it.
            let Some(oldest) = inner.cells.iter().position(done) else { break };
            if oldest + 1 == inner.cells.len() {
                break;
            }
            let forgotten = inner.cells.remove(oldest).map_or(0, |cell| cell.kept_bytes());
            inner.kept_bytes = inner.kept_bytes.saturating_sub(forgotten);
        }
    }

    pub(crate) fn charge(&self, report: &Report) {
        let output = report.stdout.total() + report.stderr.total();
        self.admission.charge(self.tenant(), output, report.cpu.unwrap_or_default());
    }
}
