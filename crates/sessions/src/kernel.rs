//! One kernel of a session: a task that owns the interpreter and runs its cells one after the other.
//!
//! When the interpreter is lost a new one takes its place, and the cell that lost it says so.

mod lifecycle;
mod task;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use silica_domain::{CellId, KernelId, Limits};
use silica_engine::{Control, Kernel, Setup};
use silica_store::Timestamp;
use silica_store::audit::Ticket;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{mpsc, watch};

use crate::cell::Cell;
use crate::fairness::Queued;
use crate::session::Session;

use task::{Keeper, raised};

/// Whether a kernel runs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelPhase {
    /// It waits for code.
    Idle,
    /// It runs a cell.
    Busy,
    /// It is gone.
    Ended,
}

impl KernelPhase {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Ended => "ended",
        }
    }
}

/// What is known of a kernel.
#[derive(Clone, Debug)]
pub struct KernelInfo {
    /// `k1`, `k2` …, unique in its sandbox.
    pub id: KernelId,
    /// Whether it runs something.
    pub phase: KernelPhase,
    /// The cell it runs.
    pub cell: Option<CellId>,
    /// How many it has run.
    pub cells_run: u64,
    /// How often a new interpreter took the place of a lost one.
    pub restarts: u64,
    /// Where it started to work.
    pub directory: String,
    /// Since when it is there.
    pub created_at: Timestamp,
}

/// A cell on its way to its kernel.
pub(crate) struct Job {
    pub(crate) cell: Arc<Cell>,
    pub(crate) code: String,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) limits: Limits,
    pub(crate) controls: mpsc::Receiver<Control>,
    pub(crate) queued: Queued,
    pub(crate) ticket: Ticket,
}

enum Message {
    Run(Box<Job>),
    Restart,
}

/// The session's end of a kernel.
#[derive(Debug)]
pub(crate) struct KernelHandle {
    id: KernelId,
    directory: String,
    created_at: Timestamp,
    /// Bounded by the places in the queue that each cell needs.
    messages: mpsc::UnboundedSender<Message>,
    closing: watch::Sender<bool>,
    current: Mutex<Option<Arc<Cell>>>,
    /// Whether a new interpreter is wanted when the current cell has ended. Set only while there is one.
    restart_wanted: AtomicBool,
    cells_run: AtomicU64,
    /// Who waits for a restart is also told that none could be made.
    restarts: watch::Sender<u64>,
}

impl KernelHandle {
    /// Starts the task of a kernel.
    pub(crate) fn start(
        session: &Arc<Session>,
        id: KernelId,
        kernel: Kernel,
        setup: Setup,
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
            restarts: watch::Sender::new(0),
        });
        let keeper = Keeper {
            session: Arc::clone(session),
            handle: Arc::clone(&handle),
            kernel: Some(kernel),
            cells_begun: 0,
            setup,
        };
        tokio::spawn(keeper.run(inbox));
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

    /// Hands a cell over; one whose kernel has ended this very moment comes back.
    pub(crate) fn submit(&self, job: Job) -> Result<(), Box<Job>> {
        match self.messages.send(Message::Run(Box::new(job))) {
            Err(SendError(Message::Run(job))) => Err(job),
            Ok(()) | Err(SendError(Message::Restart)) => Ok(()),
        }
    }

    /// Interrupts what it runs, if anything.
    pub(crate) fn interrupt(&self) {
        if let Some(cell) = self.current() {
            // One that ends this very moment needs no interrupt.
            let _ = cell.interrupt();
        }
    }

    /// Has a new interpreter take the place of this one, whatever it runs, and waits until it has, or
    /// until it is clear that none will.
    pub(crate) async fn restart(&self) {
        let (mut restarts, mut closing) = (self.restarts.subscribe(), self.closing.subscribe());
        self.ask_for_restart();
        tokio::select! {
            // Its sender is here.
            _ = restarts.changed() => {}
            () = raised(&mut closing) => {}
        }
    }

    fn ask_for_restart(&self) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some(cell) => {
                // A cell that still waits for its turn, or ends this moment, takes no interpreter along.
                self.restart_wanted.store(true, Ordering::Release);
                cell.kill();
            }
            // A task that has ended has nothing to restart.
            None => drop(self.messages.send(Message::Restart)),
        }
    }

    /// Ends it when its current cell has ended. Cells that wait for it are given up.
    pub(crate) fn close_after_cell(&self) {
        self.closing.send_replace(true);
    }

    /// Ends it, whatever it runs.
    pub(crate) fn close(&self) {
        self.close_after_cell();
        if let Some(cell) = self.current() {
            cell.kill();
        }
    }
}
