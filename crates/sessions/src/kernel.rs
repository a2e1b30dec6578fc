//! A kernel of a session: runs cells one after the other in one interpreter, in a task of its own.
//!
//! When the interpreter is lost, a new one replaces it, and the cell that lost it reports that.

mod lifecycle;
mod question;
mod task;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use silica_domain::{BranchOptions, CellId, KernelId, Limits};
use silica_engine::{Branch, Carried, CellSetup, Control, Engine, Kernel, Setup};
use silica_store::Timestamp;
use silica_store::audit::Ticket;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::cell::Cell;
use crate::error::SessionError;
use crate::fairness::QueueSlot;
use crate::marks::Mark;
use crate::session::Session;

use question::Question;
use task::{KernelTask, is_set};

/// Whether a kernel runs a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelPhase {
    /// It waits for a cell.
    Idle,
    /// It runs a cell.
    Busy,
    /// It has ended.
    Ended,
}

impl KernelPhase {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Ended => "ended",
        }
    }
}

/// What clients see of a kernel.
#[derive(Clone, Debug)]
pub struct KernelInfo {
    /// Its id, unique in its sandbox.
    pub id: KernelId,
    /// Whether it runs a cell.
    pub phase: KernelPhase,
    /// The cell it runs.
    pub cell: Option<CellId>,
    /// How many cells it has run.
    pub cells_run: u64,
    /// How often a new interpreter has replaced a lost one.
    pub restarts: u64,
    /// The directory in which it started.
    pub directory: String,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A recorded cell on its way to its kernel.
pub(crate) struct Job {
    pub(crate) cell: Arc<Cell>,
    pub(crate) code: String,
    pub(crate) setup: CellSetup,
    pub(crate) limits: Limits,
    pub(crate) controls: mpsc::Receiver<Control>,
    pub(crate) slot: QueueSlot,
    pub(crate) ticket: Ticket,
}

/// A branching on its way to the kernel whose interpreter is copied.
pub(crate) struct BranchJob {
    pub(crate) engine: Arc<Engine>,
    pub(crate) options: BranchOptions,
    pub(crate) carried: Carried,
    /// Takes the branching, and how many cells the interpreter has begun.
    pub(crate) reply: oneshot::Sender<Result<(Branch, u64), SessionError>>,
}

/// A way back on its way to the kernel whose interpreter is set back.
pub(crate) struct UndoJob {
    pub(crate) mark: Arc<Mark>,
    pub(crate) reply: oneshot::Sender<Result<(), SessionError>>,
}

enum Message {
    Run(Box<Job>),
    Undo(UndoJob),
    Branch(Box<BranchJob>),
    Restart,
    Ask(Question),
}

/// Controls the task of a kernel.
#[derive(Debug)]
pub(crate) struct KernelHandle {
    id: KernelId,
    directory: String,
    created_at: Timestamp,
    /// Unbounded, since each cell holds a slot of the bounded queue.
    messages: mpsc::UnboundedSender<Message>,
    closing: watch::Sender<bool>,
    current: Mutex<Option<Arc<Cell>>>,
    /// Whether the interpreter is to be replaced when the current cell has ended. Set only while a cell is
    /// current.
    restart_wanted: AtomicBool,
    cells_run: AtomicU64,
    /// Cells that the current interpreter was given.
    cells_begun: AtomicU64,
    /// Counts restarts. Waiters are also notified of a restart that failed.
    restarts: watch::Sender<u64>,
    /// Bounds the questions that wait.
    questions: Semaphore,
}

impl KernelHandle {
    /// Starts the task of a kernel whose interpreter is ready.
    pub(crate) fn start(
        session: &Arc<Session>,
        id: KernelId,
        kernel: Kernel,
        setup: Setup,
        cells_begun: u64,
    ) -> Arc<Self> {
        let (messages, inbox) = mpsc::unbounded_channel();
        let handle = Arc::new(Self {
            id,
            directory: setup.directory.clone().unwrap_or_else(|| "/workspace".to_owned()),
            created_at: Timestamp::now(),
            messages,
            closing: watch::Sender::new(false),
            current: Mutex::default(),
            restart_wanted: false.into(),
            cells_run: 0.into(),
            cells_begun: cells_begun.into(),
            restarts: watch::Sender::new(0),
            questions: Semaphore::new(question::QUESTIONS_MAX),
        });
        let task = KernelTask {
            session: Arc::clone(session),
            handle: Arc::clone(&handle),
            kernel: Some(kernel),
            setup,
        };
        tokio::spawn(task.run(inbox));
        handle
    }

    pub(crate) fn id(&self) -> KernelId {
        self.id
    }

    pub(crate) fn info(&self) -> KernelInfo {
        let cell = self.current().map(|cell| cell.id);
        let phase = match (*self.closing.borrow(), &cell) {
            (true, _) => KernelPhase::Ended,
            (false, Some(_)) => KernelPhase::Busy,
            (false, None) => KernelPhase::Idle,
        };
        KernelInfo {
            id: self.id,
            phase,
            cell,
            cells_run: self.cells_run.load(Ordering::Relaxed),
            restarts: *self.restarts.borrow(),
            directory: self.directory.clone(),
            created_at: self.created_at,
        }
    }

    fn current(&self) -> Option<Arc<Cell>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_current(&self, cell: Option<Arc<Cell>>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = cell;
    }

    /// Queues a cell. Returns it if the kernel has ended.
    pub(crate) fn submit(&self, job: Job) -> Result<(), Box<Job>> {
        match self.messages.send(Message::Run(Box::new(job))) {
            Err(SendError(Message::Run(job))) => Err(job),
            Ok(())
            | Err(SendError(
                Message::Restart | Message::Branch(_) | Message::Undo(_) | Message::Ask(_),
            )) => Ok(()),
        }
    }

    /// Has the interpreter copied after the cells that are queued. If the kernel has ended, the reply is dropped.
    pub(crate) fn branch(&self, job: BranchJob) {
        drop(self.messages.send(Message::Branch(Box::new(job))));
    }

    /// Has the interpreter set back after the cells that are queued. If the kernel has ended, the reply is dropped.
    pub(crate) fn undo(&self, job: UndoJob) {
        drop(self.messages.send(Message::Undo(job)));
    }

    /// Returns how many cells the interpreter has begun.
    pub(crate) fn cells_begun(&self) -> u64 {
        self.cells_begun.load(Ordering::Relaxed)
    }

    /// Interrupts the running cell, if there is one.
    pub(crate) fn interrupt(&self) {
        if let Some(cell) = self.current() {
            // The only error is that the cell has ended.
            let _ = cell.interrupt();
        }
    }

    /// Replaces the interpreter, whatever it runs; returns when it is replaced, could not be, or the kernel
    /// has ended.
    pub(crate) async fn restart(&self) {
        let mut restarts = self.restarts.subscribe();
        let mut closing = self.closing.subscribe();
        self.request_restart();
        tokio::select! {
            // The only error is a dropped sender, and the sender is a field of `self`.
            _ = restarts.changed() => {}
            () = is_set(&mut closing) => {}
        }
    }

    fn request_restart(&self) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some(cell) => {
                // Killing a cell that is still queued, or has just ended, does not end the interpreter.
                self.restart_wanted.store(true, Ordering::Release);
                cell.kill();
            }
            // The error is that the task has ended; then there is no interpreter to replace.
            None => drop(self.messages.send(Message::Restart)),
        }
    }

    /// Ends it after its current cell. Cells in its queue are ended without running.
    pub(crate) fn close_after_cell(&self) {
        self.closing.send_replace(true);
    }

    /// Ends it at once, killing its current cell.
    pub(crate) fn close(&self) {
        self.close_after_cell();
        if let Some(cell) = self.current() {
            cell.kill();
        }
    }
}
