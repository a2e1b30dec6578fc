//! Cells of a session: queueing, finding, keeping, and the files they changed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use silica_domain::Limits;
use silica_engine::{CODE_BYTES_MAX, Changes, Report};

use super::{EndReason, KEPT_BYTES_MAX, KEPT_MAX, Session};
use crate::audit;
use crate::cell::{Cell, CellPhase, CellRequest};
use crate::error::SessionError;
use crate::kernel::{Job, give_up};
use crate::review::{Parked, park};

impl Session {
    /// Queues a cell. Whoever asked may go away at any moment; the cell then runs all the same.
    pub async fn submit(self: &Arc<Self>, request: CellRequest) -> Result<Arc<Cell>, SessionError> {
        let session = Arc::clone(self);
        let submitted = tokio::spawn(async move { session.queue_cell(request).await }).await;
        submitted.unwrap_or(Err(SessionError::ShuttingDown))
    }

    async fn queue_cell(self: Arc<Self>, request: CellRequest) -> Result<Arc<Cell>, SessionError> {
        self.start_something()?;
        let kernel = self.kernel(request.kernel.as_deref())?;
        if request.code.len() > CODE_BYTES_MAX {
            let length = request.code.len();
            let words =
                format!("the code is {length} bytes long; at most {CODE_BYTES_MAX} are run");
            return Err(SessionError::Bad(words));
        }
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
        let limits = Limits { wall: timeout, ..self.terms.limits.clone() };
        let (id, most) = (format!("c{number}"), self.terms.timeout_max);
        let made = Cell::new(id, kernel.id().to_owned(), Arc::clone(&checked), timeout, most);
        let (cell, controls) = made;
        if self.review.asks(&checked) {
            // A place in the queue is for what can run.
            drop(queued);
            cell.set_phase(CellPhase::AwaitingApproval);
            self.lock().cells.push_back(Arc::clone(&cell));
            let parked = Parked { cell, kernel, code, limits, controls, checked };
            return self.park(parked).await;
        }
        let ticket = audit::begin_cell(&self, &code, &limits, &checked, None).await?;
        self.lock().cells.push_back(Arc::clone(&cell));
        let code = code.to_string();
        let job = Job { cell: Arc::clone(&cell), code, limits, controls, queued, ticket };
        if let Err(job) = kernel.submit(job) {
            // Its beginning is on record, so its end must be.
            give_up(&self, *job);
            return Err(SessionError::NoKernel(kernel.id().to_owned()));
        }
        Ok(cell)
    }

    /// Has a cell wait for a person; one that cannot wait is forgotten again.
    async fn park(self: &Arc<Self>, parked: Parked) -> Result<Arc<Cell>, SessionError> {
        let cell = Arc::clone(&parked.cell);
        let waits = park(self, parked).await;
        if waits.is_err() {
            self.lock().cells.retain(|other| !Arc::ptr_eq(other, &cell));
        }
        waits.map(|()| cell)
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
    pub fn cell(&self, id: &str) -> Result<Arc<Cell>, SessionError> {
        let found = self.lock().cells.iter().find(|cell| cell.id == id).cloned();
        found.ok_or_else(|| SessionError::NoCell(id.to_owned()))
    }

    /// The cells that run or are kept, oldest first.
    pub fn cells(&self) -> Vec<Arc<Cell>> {
        self.lock().cells.iter().cloned().collect()
    }

    pub(crate) fn cell_ended(&self) {
        self.cells_run.fetch_add(1, Ordering::Relaxed);
        let mut inner = self.lock();
        inner.last_used = Instant::now();
        let done = |cell: &Arc<Cell>| matches!(cell.phase(), CellPhase::Done(_));
        let mut bytes: usize = inner.cells.iter().map(|cell| cell.kept_bytes()).sum();
        while inner.cells.len() > KEPT_MAX || bytes > KEPT_BYTES_MAX {
            // The newest stays, however large: somebody is about to read it.
            let Some(oldest) = inner.cells.iter().position(done) else { break };
            if oldest + 1 == inner.cells.len() {
                break;
            }
            bytes -= inner.cells.remove(oldest).map_or(0, |cell| cell.kept_bytes());
        }
    }

    pub(crate) fn charge(&self, report: &Report) {
        let output = report.stdout.total() + report.stderr.total();
        self.admission.charge(self.tenant(), output, report.cpu.unwrap_or_default());
    }

    /// Notes how the files stand before a cell, if anybody else has changed them.
    pub(crate) async fn note_files(&self) {
        if !self.files_touched.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut snapshot = self.snapshot.lock().await;
        let files = Arc::clone(self.sandbox.files());
        let taken = tokio::task::spawn_blocking(move || files.snapshot()).await;
        *snapshot = taken.ok().and_then(Result::ok);
    }

    /// Which files changed since that was last asked.
    pub(crate) async fn changed_files(&self) -> Changes {
        let mut snapshot = self.snapshot.lock().await;
        let Some(mut before) = snapshot.take() else { return Changes::default() };
        let files = Arc::clone(self.sandbox.files());
        let compared = tokio::task::spawn_blocking(move || {
            let changes = files.changes(&mut before);
            (changes, before)
        });
        match compared.await {
            Ok((changes, after)) => {
                *snapshot = Some(after);
                changes.unwrap_or_default()
            }
            Err(_) => Changes::default(),
        }
    }
}
