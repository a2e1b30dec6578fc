//! One kernel of a session: a task that owns the interpreter and runs its cells one after the other.
//!
//! When the interpreter is lost a new one takes its place, and the cell that lost it says so.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use silica_domain::{Limits, Outcome};
use silica_engine::{Changes, Control, Kernel, Report, Setup};
use silica_store::Timestamp;
use silica_store::audit::Ticket;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{mpsc, watch};

use crate::admission::{Queued, Turn};
use crate::audit;
use crate::cell::{Cell, CellEnd, KernelState, Scribe};
use crate::error::SessionError;
use crate::log::Event;
use crate::session::Session;
use crate::wakeful;

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
    pub id: String,
    /// Whether it runs something.
    pub phase: KernelPhase,
    /// The cell it runs.
    pub cell: Option<String>,
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
    id: String,
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
        id: String,
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

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn info(&self) -> KernelInfo {
        let cell = self.current().map(|cell| cell.id.clone());
        let phase = match (*self.closing.borrow(), &cell) {
            (true, _) => KernelPhase::Ended,
            (false, Some(_)) => KernelPhase::Busy,
            (false, None) => KernelPhase::Idle,
        };
        KernelInfo {
            id: self.id.clone(),
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

/// How often an interpreter is replaced that ends without having been given anything to run.
const IDLE_ENDS_MAX: u32 = 3;

/// The task's state.
struct Keeper {
    session: Arc<Session>,
    handle: Arc<KernelHandle>,
    kernel: Option<Kernel>,
    /// Cells that the present interpreter was given.
    cells_begun: u64,
    setup: Setup,
}

/// Waits until a flag is set.
async fn raised(flag: &mut watch::Receiver<bool>) {
    if flag.wait_for(|raised| *raised).await.is_err() {
        // Nobody is left to raise it.
        std::future::pending::<()>().await;
    }
}

impl Keeper {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Message>) {
        let mut closing = self.handle.closing.subscribe();
        let mut ends_in_a_row = 0;
        loop {
            let idle_end = async {
                match &mut self.kernel {
                    Some(kernel) => kernel.ended().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = raised(&mut closing) => break,
                message = inbox.recv() => match message {
                    Some(Message::Run(job)) => {
                        ends_in_a_row = 0;
                        self.cell(*job).await;
                        if self.handle.restart_wanted.swap(false, Ordering::AcqRel) {
                            // As below.
                            let _ = self.replace().await;
                        }
                    }
                    // As below.
                    Some(Message::Restart) => drop(self.replace().await),
                    None => break,
                },
                () = idle_end => {
                    if self.session.sandbox().is_dead() {
                        break;
                    }
                    tracing::info!(kernel = self.handle.id, "interpreter ended between cells");
                    ends_in_a_row += 1;
                    if ends_in_a_row > IDLE_ENDS_MAX {
                        // The next cell tries once more.
                        self.kernel = None;
                        continue;
                    }
                    // Without an interpreter the next cell says so.
                    let _ = self.replace().await;
                }
            }
        }
        self.handle.closing.send_replace(true);
        inbox.close();
        while let Some(message) = inbox.recv().await {
            if let Message::Run(job) = message {
                give_up(&self.session, *job);
            }
        }
        match self.kernel.take() {
            Some(kernel) if !self.session.sandbox().is_dead() => kernel.kill().await,
            // If its socket closed first, the interpreter would wake up to end by itself, just to be killed.
            Some(_open) => self.session.gone().await,
            None => {}
        }
    }

    /// Waits for the cell's turn and runs it, unless it is interrupted or its kernel ended before.
    async fn cell(&mut self, job: Job) {
        let Job { cell, code, environment, mut limits, mut controls, queued, ticket } = job;
        self.handle.set_current(Some(Arc::clone(&cell)));
        let turn = self.turn(queued, &mut controls, &mut limits).await;
        let dead = self.session.sandbox().is_dead();
        if turn.is_some() && self.kernel.is_none() && !dead {
            // If there is none again, the cell says so.
            let _ = self.replace().await;
        }
        let (report, files) = match (turn, &mut self.kernel) {
            _ if dead => (Report::not_run(Outcome::SandboxDied), Changes::default()),
            (Some(turn), Some(kernel)) => {
                self.session.note_files().await;
                self.cells_begun += 1;
                cell.begin(self.cells_begun);
                kernel.set_next_environment(environment);
                let mut scribe = Scribe::new(Arc::clone(&cell.log));
                let run = kernel.run(&code, &limits, &mut scribe, &mut controls);
                let report = wakeful::run(run).await;
                scribe.finish();
                drop(turn);
                let report = report.unwrap_or_else(|error| {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "a cell found no interpreter");
                    Report::not_run(Outcome::Disconnected)
                });
                let files = self.session.changed_files().await;
                (report, files)
            }
            (Some(_), None) => (Report::not_run(Outcome::Disconnected), Changes::default()),
            (None, _) => (Report::not_run(Outcome::Interrupted), Changes::default()),
        };
        // From here on an interrupt has nobody to hit.
        drop(controls);
        let (kernel, lost) = self.after(&report).await;
        let end = Arc::new(CellEnd { report, files, kernel, lost, limits });
        self.finish(&cell, &end, ticket);
    }

    async fn turn(
        &self,
        queued: Queued,
        controls: &mut mpsc::Receiver<Control>,
        limits: &mut Limits,
    ) -> Option<Turn> {
        let turn = queued.turn();
        tokio::pin!(turn);
        loop {
            tokio::select! {
                biased;
                control = controls.recv() => match control {
                    Some(Control::Extend(more)) => limits.extend_wall(more),
                    Some(Control::Interrupt | Control::Kill) | None => return None,
                },
                turn = turn.as_mut() => return Some(turn),
            }
        }
    }

    /// What became of the interpreter; starts a new one where the old one was lost.
    async fn after(&mut self, report: &Report) -> (KernelState, Option<String>) {
        let wanted = self.handle.restart_wanted.swap(false, Ordering::AcqRel);
        if report.kernel_lives && !wanted {
            return (KernelState::Ready, None);
        }
        let id = &self.handle.id;
        if self.session.sandbox().is_dead() {
            self.kernel = None;
            let lost = "the whole sandbox ended: its files and all its kernels are lost";
            return (KernelState::Ended, Some(lost.to_owned()));
        }
        let lost = format!(
            "the variables of kernel {id} are lost; files and other kernels are still there"
        );
        if *self.handle.closing.borrow() {
            return (KernelState::Ended, Some(lost));
        }
        match self.replace().await {
            Ok(()) => (KernelState::Restarted, Some(lost)),
            Err(_) => (KernelState::Ended, Some(lost)),
        }
    }

    /// Starts a new interpreter in the place of the old one.
    async fn replace(&mut self) -> Result<(), SessionError> {
        if let Some(kernel) = self.kernel.take() {
            kernel.kill().await;
        }
        let started = self.session.start_kernel(&self.setup).await;
        match started {
            Ok(kernel) => {
                self.kernel = Some(kernel);
                self.cells_begun = 0;
                self.handle.restarts.send_modify(|restarts| *restarts += 1);
                Ok(())
            }
            Err(error) => {
                let error_shown = &error as &dyn std::error::Error;
                tracing::warn!(error = error_shown, "no new interpreter could be started");
                self.handle.restarts.send_modify(|_| ());
                Err(error)
            }
        }
    }

    fn finish(&self, cell: &Arc<Cell>, end: &Arc<CellEnd>, ticket: Ticket) {
        self.handle.set_current(None);
        self.handle.cells_run.fetch_add(1, Ordering::Relaxed);
        self.session.charge(&end.report);
        write_end(&self.session, cell, end, ticket);
    }
}

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

fn write_end(session: &Session, cell: &Cell, end: &Arc<CellEnd>, ticket: Ticket) {
    audit::finish(session.store(), ticket, &audit::of_cell(end));
    end_unrecorded(session, cell, end);
}

/// Ends a cell of which no beginning is on record.
pub(crate) fn end_unrecorded(session: &Session, cell: &Cell, end: &Arc<CellEnd>) {
    cell.set_done(Arc::clone(end));
    cell.log.push(Event::Done);
    session.cell_ended(cell, end);
}
