//! The task that owns a kernel's interpreter and runs its cells one after the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use silica_domain::{Limits, Outcome};
use silica_engine::{Changes, Control, Kernel, Report, Setup};
use silica_store::audit::Ticket;
use tokio::sync::{mpsc, watch};

use super::{Job, KernelHandle, Message};
use crate::busy_poll;
use crate::cell::{Cell, CellEnd, KernelState, Scribe, give_up, write_end};
use crate::error::SessionError;
use crate::fairness::{Queued, Turn};
use crate::session::Session;

/// How often an interpreter is replaced that ends without having been given anything to run.
const IDLE_ENDS_MAX: u32 = 3;

/// The task's state.
pub(super) struct Keeper {
    pub(super) session: Arc<Session>,
    pub(super) handle: Arc<KernelHandle>,
    pub(super) kernel: Option<Kernel>,
    /// Cells that the present interpreter was given.
    pub(super) cells_begun: u64,
    pub(super) setup: Setup,
}

/// Waits until a flag is set.
pub(super) async fn raised(flag: &mut watch::Receiver<bool>) {
    if flag.wait_for(|raised| *raised).await.is_err() {
        // Nobody is left to raise it.
        std::future::pending::<()>().await;
    }
}

impl Keeper {
    pub(super) async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Message>) {
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
                    tracing::info!(kernel = %self.handle.id, "interpreter ended between cells");
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
                let report = busy_poll::run(run).await;
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
