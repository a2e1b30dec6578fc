//! A cell: the request, its phases, and what can be done while it runs.

mod end;
mod output;
mod submit;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use silica_domain::{CellId, KernelId, Limits};
use silica_engine::{CellReport, CellSetup, Changes, Control};
use silica_policy::{CheckedCode, PolicyChoice};
use silica_store::approvals::ApprovalRecord;
use silica_store::{StoreError, Timestamp};
use tokio::sync::{SetOnce, mpsc};

use crate::approval::CheckResult;
use crate::error::SessionError;
use crate::event_log::{EventLog, LogEvent};
use crate::kept::{HasOutput, KeptBytes};
use crate::network::CellNetwork;

pub(crate) use end::{end_unrecorded, give_up, write_end};
pub(crate) use output::LogWriter;

/// The most controls that wait for a cell: an interrupt, a kill and a few extensions.
const CONTROLS_MAX: usize = 8;

/// The longest line of input.
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// A request to run code.
#[derive(Clone, Debug)]
pub struct CellRequest {
    /// The code.
    pub code: CellCode,
    /// The kernel to run in; `None` is the first kernel of the sandbox.
    pub kernel: Option<KernelId>,
    /// Environment variables, arguments and the file's name of this cell.
    pub setup: CellSetup,
    /// The timeout; `None` is the default of the sandbox.
    pub timeout: Option<Duration>,
    /// The policy that checks the code; `None` is the server's default.
    pub policy: Option<PolicyChoice>,
}

/// The code of a cell.
#[derive(Clone, Debug)]
pub enum CellCode {
    /// It is checked when it is submitted.
    Unchecked(Arc<str>),
    /// A policy has checked it; it is not checked by the same policy again.
    Checked(CheckedCode),
}

impl CellCode {
    pub(crate) fn text(&self) -> &Arc<str> {
        match self {
            Self::Unchecked(code) => code,
            Self::Checked(checked) => checked.code(),
        }
    }
}

impl From<String> for CellCode {
    fn from(code: String) -> Self {
        Self::Unchecked(code.into())
    }
}

impl From<CheckedCode> for CellCode {
    fn from(code: CheckedCode) -> Self {
        Self::Checked(code)
    }
}

/// What became of the kernel of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelState {
    /// Its interpreter runs, with its variables.
    Ready,
    /// A new interpreter has replaced the old one.
    Restarted,
    /// It has ended with its sandbox, or no new interpreter could be started.
    Ended,
}

impl KernelState {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Restarted => "restarted",
            Self::Ended => "ended",
        }
    }
}

/// The result of a cell that has ended.
#[derive(Debug)]
pub struct CellEnd {
    /// Outcome, output, results and usage, as the engine reports them.
    pub report: CellReport,
    /// The files that it created, changed and removed.
    pub files: Arc<Changes>,
    /// What became of its kernel.
    pub kernel: KernelState,
    /// A sentence about what was lost with the interpreter; `None` if it was not lost.
    pub lost: Option<String>,
    /// The limits it ran under.
    pub limits: Limits,
    /// What it did with the network; `None` if its sandbox has none.
    pub network: Option<CellNetwork>,
    /// Counts its output and results in the budget of its key; `None` if it has none.
    pub(crate) _kept: Option<KeptBytes>,
}

impl CellEnd {
    fn files_without_names(&self) -> Arc<Changes> {
        if self.files.bytes() == 0 { Arc::clone(&self.files) } else { Changes::left_out().into() }
    }

    /// Returns it without output, results, the text of its error and the names of files, which then count as left out.
    fn without_output(&self) -> Self {
        Self {
            report: self.report.without_output(),
            files: self.files_without_names(),
            kernel: self.kernel,
            lost: self.lost.clone(),
            limits: self.limits.clone(),
            network: self.network.clone(),
            _kept: None,
        }
    }
}

/// How far a cell has come.
#[derive(Clone, Debug)]
pub enum CellPhase {
    /// A person has to approve it.
    AwaitingApproval,
    /// It waits for a permit to run.
    Queued,
    /// It runs.
    Running,
    /// It has ended.
    Done(Arc<CellEnd>),
}

/// A cell.
#[derive(Debug)]
pub struct Cell {
    /// Its id, unique in its sandbox.
    pub id: CellId,
    /// The kernel it runs in.
    pub kernel: KernelId,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// What the policy found in its code.
    pub checked: Arc<CheckResult>,
    /// Its output and results.
    pub log: Arc<EventLog>,
    number: AtomicU64,
    approval: Mutex<Option<Arc<ApprovalRecord>>>,
    phase: Mutex<CellPhase>,
    // One `SetOnce` for each event, so that a waiter is not woken by the other events.
    /// Its beginning is in the audit log. It does not run before.
    recorded: SetOnce<()>,
    /// Its beginning could not be recorded, so it never runs.
    unrecorded: SetOnce<StoreError>,
    parked: SetOnce<()>,
    ended: SetOnce<()>,
    controls: mpsc::Sender<Control>,
    /// The timeout with all extensions.
    timeout: Mutex<Duration>,
    timeout_max: Duration,
}

impl Cell {
    pub(crate) fn new(
        id: CellId,
        kernel: KernelId,
        checked: Arc<CheckResult>,
        timeout: Duration,
        timeout_max: Duration,
    ) -> (Arc<Self>, mpsc::Receiver<Control>) {
        let (controls, receiver) = mpsc::channel(CONTROLS_MAX);
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
            unrecorded: SetOnce::new(),
            parked: SetOnce::new(),
            ended: SetOnce::new(),
            controls,
            timeout: timeout.into(),
            timeout_max,
        };
        (Arc::new(cell), receiver)
    }

    /// Returns its number among the cells of its interpreter, from 1; 0 before it runs.
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = CellPhase::Running;
        self.log.push(LogEvent::Start);
    }

    /// Returns how far it has come.
    pub fn phase(&self) -> CellPhase {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_done(&self, end: Arc<CellEnd>) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = CellPhase::Done(end);
        // The error is that it was set before; a cell ends once.
        let _ = self.ended.set(());
    }

    /// Marks it as waiting for approval; that it waits is in the store.
    pub(crate) fn set_parked(&self) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = CellPhase::AwaitingApproval;
        // The error is that it was set before; a cell waits for one approval.
        let _ = self.parked.set(());
        self.set_recorded(Ok(()));
    }

    /// Marks it as queued after its approval.
    pub(crate) fn set_queued(&self) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = CellPhase::Queued;
    }

    /// Returns the approval that it waits or waited for.
    pub fn approval(&self) -> Option<Arc<ApprovalRecord>> {
        self.approval.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_approval(&self, record: Arc<ApprovalRecord>) {
        *self.approval.lock().unwrap_or_else(PoisonError::into_inner) = Some(record);
    }

    /// Sets whether its beginning was recorded.
    pub(crate) fn set_recorded(&self, recorded: Result<(), StoreError>) {
        // The errors are that it was set before; a cell is recorded once.
        match recorded {
            Ok(()) => drop(self.recorded.set(())),
            Err(error) => drop(self.unrecorded.set(error)),
        }
    }

    /// Waits until its beginning is recorded. Fails if it cannot be recorded; then the cell never runs.
    pub async fn begun(&self) -> Result<(), SessionError> {
        tokio::select! {
            () = self.recorded.wait() => Ok(()),
            error = self.unrecorded.wait() => Err(error.clone().into()),
        }
    }

    /// Waits until it has ended or waits for approval.
    pub async fn done_or_parked(&self) -> Result<(), SessionError> {
        tokio::select! {
            end = self.done() => end.map(drop),
            () = self.parked.wait() => Ok(()),
        }
    }

    /// Waits for its end. Fails if its beginning could not be recorded; then the cell never runs.
    pub async fn done(&self) -> Result<Arc<CellEnd>, SessionError> {
        tokio::select! {
            () = self.ended.wait() => {}
            error = self.unrecorded.wait() => return Err(error.clone().into()),
        }
        match self.phase() {
            CellPhase::Done(end) => Ok(end),
            // `set_done` sets the phase first, and an ended cell has no other phase after it.
            CellPhase::AwaitingApproval | CellPhase::Queued | CellPhase::Running => {
                Err(SessionError::CellEnded(self.id))
            }
        }
    }

    fn control(&self, control: Control) -> Result<(), SessionError> {
        if let CellPhase::Done(_) = self.phase() {
            return Err(SessionError::CellEnded(self.id));
        }
        // A full channel holds an interrupt already; the receiver of a cell that has ended is dropped.
        match self.controls.try_send(control) {
            Err(mpsc::error::TrySendError::Closed(_)) => Err(SessionError::CellEnded(self.id)),
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => Ok(()),
        }
    }

    /// Raises `KeyboardInterrupt` in this cell, and in no other.
    pub fn interrupt(&self) -> Result<(), SessionError> {
        self.control(Control::Interrupt)
    }

    /// Gives the code a line that it has asked for. One that it did not ask for is dropped.
    pub fn input(&self, line: String) -> Result<(), SessionError> {
        if line.len() > INPUT_BYTES_MAX {
            let message = format!("a line of input must have at most {INPUT_BYTES_MAX} bytes");
            return Err(SessionError::Bad(message));
        }
        self.control(Control::Input(line))
    }

    /// Returns a guard that interrupts this cell when it is dropped, for a client that may leave.
    pub fn interrupt_on_drop(self: &Arc<Self>) -> InterruptOnDrop {
        InterruptOnDrop { cell: Some(Arc::clone(self)) }
    }

    pub(crate) fn kill(&self) {
        // The only error is that it has ended.
        let _ = self.control(Control::Kill);
    }

    /// Extends its timeout; returns the timeout in all.
    pub fn extend(&self, more: Duration) -> Result<Duration, SessionError> {
        let mut timeout = self.timeout.lock().unwrap_or_else(PoisonError::into_inner);
        let total = timeout.saturating_add(more);
        if total > self.timeout_max {
            let total = total.as_secs_f64();
            let most = self.timeout_max.as_secs_f64();
            return Err(SessionError::Bad(format!(
                "the timeout of a cell must be at most {most} seconds; it would be {total}"
            )));
        }
        self.control(Control::Extend(more))?;
        *timeout = total;
        Ok(total)
    }
}

impl HasOutput for Cell {
    fn drop_output(&self) -> bool {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let CellPhase::Done(end) = &*phase else { return false };
        if Arc::strong_count(end) > 1 || self.log.has_readers() {
            return false;
        }
        *phase = CellPhase::Done(Arc::new(end.without_output()));
        self.log.drop_events();
        true
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
