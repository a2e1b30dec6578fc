//! A cell from its being asked for to its being forgotten.

mod end;
mod output;
mod submit;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use silica_domain::{CellId, KernelId, Limits};
use silica_engine::{Changes, Control, Report};
use silica_store::approvals::ApprovalRecord;
use silica_store::{StoreError, Timestamp};
use tokio::sync::{SetOnce, mpsc};

use crate::approval::{Checked, PolicyChoice};
use crate::error::SessionError;
use crate::event_log::{Event, EventLog};

pub(crate) use end::{end_unrecorded, give_up, write_end};
pub(crate) use output::Scribe;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct CellRequest {
    /// The code.
    pub code: String,
    /// In which kernel; the first if nothing is said.
    pub kernel: Option<KernelId>,
    /// Variables for this cell alone, on top of the kernel's.
    pub environment: BTreeMap<String, String>,
    /// For how long at most; the server's default if nothing is said.
    pub timeout: Option<Duration>,
    /// By which policy it is checked; the server's default if nothing is said.
    pub policy: Option<PolicyChoice>,
}

/// What became of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelState {
    /// It is there, with its variables.
    Ready,
    /// A new one took its place.
    Restarted,
    /// It is gone, with its sandbox or because no new one could be started.
    Ended,
}

impl KernelState {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Restarted => "restarted",
            Self::Ended => "ended",
        }
    }
}

/// Everything about a cell that has ended.
#[derive(Debug)]
pub struct CellEnd {
    /// What the engine says.
    pub report: Report,
    /// Which files it made, changed and removed.
    pub files: Changes,
    /// What became of its kernel.
    pub kernel: KernelState,
    /// What was lost with the kernel, and what was not.
    pub lost: Option<String>,
    /// The limits it ran under.
    pub limits: Limits,
}

/// How far a cell has come.
#[derive(Clone, Debug)]
pub enum CellPhase {
    /// It waits for a person.
    AwaitingApproval,
    /// It waits for its turn.
    Queued,
    /// It runs.
    Running,
    /// It has ended.
    Done(Arc<CellEnd>),
}

/// A cell.
#[derive(Debug)]
pub struct Cell {
    /// `c1`, `c2` …, unique in its sandbox.
    pub id: CellId,
    /// The kernel it runs in.
    pub kernel: KernelId,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// What the check said of its code.
    pub checked: Arc<Checked>,
    /// What it says.
    pub log: Arc<EventLog>,
    /// Which cell of its interpreter it is, from 1; 0 while it waits.
    number: AtomicU64,
    approval: Mutex<Option<Arc<ApprovalRecord>>>,
    phase: Mutex<CellPhase>,
    /// Whether it is on record, without which it does not begin, or why it is not; whether it waits
    /// for a person; how it ended. Who waits for one of these is not woken by the others.
    recorded: SetOnce<()>,
    refused: SetOnce<StoreError>,
    parked: SetOnce<()>,
    ended: SetOnce<Arc<CellEnd>>,
    controls: mpsc::Sender<Control>,
    /// The time it has been given so far, and the most it can be given.
    granted: Mutex<Duration>,
    timeout_max: Duration,
}

impl Cell {
    pub(crate) fn new(
        id: CellId,
        kernel: KernelId,
        checked: Arc<Checked>,
        timeout: Duration,
        timeout_max: Duration,
    ) -> (Arc<Self>, mpsc::Receiver<Control>) {
        // An interrupt, a kill and a few extensions; more at once is nobody's wish.
        let (controls, receiver) = mpsc::channel(8);
        let cell = Self {
            id,
            kernel,
            created_at: Timestamp::now(),
            checked,
            log: Arc::default(),
            number: 0.into(),
            approval: Mutex::default(),
            phase: Mutex::new(CellPhase::Queued),
            recorded: SetOnce::new(),
            refused: SetOnce::new(),
            parked: SetOnce::new(),
            ended: SetOnce::new(),
            controls,
            granted: timeout.into(),
            timeout_max,
        };
        (Arc::new(cell), receiver)
    }

    /// Which cell of its interpreter it is, counted from 1 again after a restart; 0 while it waits.
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = CellPhase::Running;
        self.log.push(Event::Start);
    }

    /// How far it has come.
    pub fn phase(&self) -> CellPhase {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_done(&self, end: Arc<CellEnd>) {
        let done = CellPhase::Done(Arc::clone(&end));
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = done;
        // It ends once.
        let _ = self.ended.set(end);
    }

    /// It waits for a person from now on, which is on record.
    pub(crate) fn set_parked(&self) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = CellPhase::AwaitingApproval;
        // It waits once.
        let _ = self.parked.set(());
        self.set_recorded(Ok(()));
    }

    /// It waits for a turn like any other.
    pub(crate) fn set_queued(&self) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = CellPhase::Queued;
    }

    /// What a person was asked, and what they said.
    pub fn approval(&self) -> Option<Arc<ApprovalRecord>> {
        self.approval.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_approval(&self, record: Arc<ApprovalRecord>) {
        *self.approval.lock().unwrap_or_else(PoisonError::into_inner) = Some(record);
    }

    /// It is on record, or could not be recorded.
    pub(crate) fn set_recorded(&self, recorded: Result<(), StoreError>) {
        // It is recorded once.
        match recorded {
            Ok(()) => drop(self.recorded.set(())),
            Err(error) => drop(self.refused.set(error)),
        }
    }

    /// Waits until it is on record. One that cannot be recorded does not begin.
    pub async fn begun(&self) -> Result<(), SessionError> {
        tokio::select! {
            () = self.recorded.wait() => Ok(()),
            refused = self.refused.wait() => Err(refused.clone().into()),
        }
    }

    /// Waits until it has ended or waits for a person, which may take longer than a client does.
    pub async fn done_or_parked(&self) -> Result<(), SessionError> {
        tokio::select! {
            end = self.done() => end.map(drop),
            () = self.parked.wait() => Ok(()),
        }
    }

    /// Waits for its end. One that could not be recorded never began.
    pub async fn done(&self) -> Result<Arc<CellEnd>, SessionError> {
        tokio::select! {
            end = self.ended.wait() => Ok(Arc::clone(end)),
            refused = self.refused.wait() => Err(refused.clone().into()),
        }
    }

    fn control(&self, control: Control) -> Result<(), SessionError> {
        if let CellPhase::Done(_) = self.phase() {
            return Err(SessionError::CellEnded(self.id));
        }
        // A full channel holds an interrupt already; a closed one belongs to a cell that has ended.
        match self.controls.try_send(control) {
            Err(mpsc::error::TrySendError::Closed(_)) => Err(SessionError::CellEnded(self.id)),
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => Ok(()),
        }
    }

    /// Interrupts this cell and no other.
    pub fn interrupt(&self) -> Result<(), SessionError> {
        self.control(Control::Interrupt)
    }

    /// Returns a guard that interrupts this cell when it is dropped, for a client that may leave.
    pub fn interrupt_on_drop(self: &Arc<Self>) -> InterruptOnDrop {
        InterruptOnDrop { cell: Some(Arc::clone(self)) }
    }

    pub(crate) fn kill(&self) {
        // One that has ended needs no killing.
        let _ = self.control(Control::Kill);
    }

    /// Gives it more time; returns what it has in all.
    pub fn extend(&self, more: Duration) -> Result<Duration, SessionError> {
        let mut granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        let total = granted.saturating_add(more);
        if total > self.timeout_max {
            let (total, most) = (total.as_secs(), self.timeout_max.as_secs());
            let words =
                format!("{total} seconds in all are more than the {most} a cell may have here");
            return Err(SessionError::Bad(words));
        }
        self.control(Control::Extend(more))?;
        *granted = total;
        Ok(total)
    }

    /// What it costs to keep.
    pub(crate) fn kept_bytes(&self) -> usize {
        let results = match self.phase() {
            CellPhase::Done(end) => end.report.results.iter().map(|bundle| bundle.bytes()).sum(),
            CellPhase::AwaitingApproval | CellPhase::Queued | CellPhase::Running => 0,
        };
        self.log.kept() + results as usize
    }
}

/// Interrupts a cell when it is dropped; a cell that has ended is left alone.
#[derive(Debug)]
pub struct InterruptOnDrop {
    cell: Option<Arc<Cell>>,
}

impl InterruptOnDrop {
    /// Lets the cell run on.
    pub fn disarm(mut self) {
        self.cell = None;
    }
}

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            // The only error is that the cell has ended, which needs no interrupt.
            let _ = cell.interrupt();
        }
    }
}
