//! The task of a kernel: owns the interpreter, runs cells one after the other, replaces a lost interpreter.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use silica_domain::{Limits, Outcome};
use silica_engine::{BranchError, CellReport, Changes, Control, Kernel, Setup};
use silica_store::audit::Ticket;
use tokio::sync::{mpsc, watch};

use super::question::Question;
use super::{BranchJob, Job, KernelHandle, Message, UndoJob};
use crate::busy_poll;
use crate::cell::{Cell, CellEnd, KernelState, LogWriter, give_up, write_end};
use crate::error::SessionError;
use crate::fairness::{Permit, QueueSlot};
use crate::kept::KeptBytes;
use crate::marks::Mark;
use crate::session::Session;

/// How often in a row an interpreter that ends without running a cell is replaced.
const IDLE_ENDS_MAX: u32 = 3;

/// The state of the task.
pub(super) struct KernelTask {
    pub(super) session: Arc<Session>,
    pub(super) handle: Arc<KernelHandle>,
    pub(super) kernel: Option<Kernel>,
    pub(super) setup: Setup,
}

/// Waits until a flag is set.
pub(super) async fn is_set(flag: &mut watch::Receiver<bool>) {
    if flag.wait_for(|is_set| *is_set).await.is_err() {
        // The sender was dropped: the flag is never set.
        std::future::pending::<()>().await;
    }
}

impl KernelTask {
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
                () = is_set(&mut closing) => break,
                message = inbox.recv() => match message {
                    Some(Message::Run(job)) => {
                        ends_in_a_row = 0;
                        self.cell(*job).await;
                        if self.handle.restart_wanted.swap(false, Ordering::AcqRel) {
                            self.try_replace().await;
                        }
                    }
                    Some(Message::Branch(job)) => self.branch(*job).await,
                    Some(Message::Undo(UndoJob { mark, reply })) => {
                        // A caller that has given up gets what it has, and no answer.
                        if !reply.is_closed() {
                            let _ = reply.send(self.set_back(&mark).await);
                        }
                    }
                    Some(Message::Restart) => self.try_replace().await,
                    Some(Message::Ask(question)) => self.answer(question).await,
                    None => break,
                },
                () = idle_end => {
                    if self.session.sandbox.is_dead() {
                        break;
                    }
                    tracing::info!(kernel = %self.handle.id, "interpreter ended between cells");
                    ends_in_a_row += 1;
                    if ends_in_a_row > IDLE_ENDS_MAX {
                        // The next cell tries to start an interpreter again.
                        self.kernel = None;
                        continue;
                    }
                    self.try_replace().await;
                }
            }
        }
        self.close(inbox).await;
    }

    /// Replaces the interpreter by the one of a mark, and the files by its files. After a failure there is a new
    /// interpreter without variables.
    async fn set_back(&mut self, mark: &Mark) -> Result<(), SessionError> {
        if let Some(kernel) = self.kernel.take() {
            kernel.kill().await;
        }
        let _executing = self.session.execute();
        match mark.engine.restore(&self.session.sandbox, &mark.frozen).await {
            Ok(kernel) => {
                self.kernel = Some(kernel);
                self.handle.cells_begun.store(mark.cells_begun, Ordering::Relaxed);
                self.session.marks.forget_after(mark);
                self.session.mark_files_changed();
                Ok(())
            }
            Err(error) => {
                {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, mark = mark.id(), "a kernel could not be set back");
                }
                if !self.session.sandbox.is_dead() {
                    self.try_replace().await;
                }
                Err(error.into())
            }
        }
    }

    /// Begins a branching, unless its caller has given up. An interpreter that is lost by it is replaced.
    async fn branch(&mut self, job: BranchJob) {
        let BranchJob { engine, options, carried, reply } = job;
        if reply.is_closed() {
            return;
        }
        if self.kernel.is_none() {
            self.try_replace().await;
        }
        let Some(kernel) = &mut self.kernel else { return };
        let _executing = self.session.execute();
        let begun = engine.begin_branch(&self.session.sandbox, kernel, &options, carried).await;
        let is_lost = matches!(&begun, Err(BranchError::Kernel(_)));
        let begun =
            begun.map(|branch| (branch, self.handle.cells_begun())).map_err(SessionError::from);
        // A caller that has given up drops the branching.
        let _ = reply.send(begun);
        if is_lost && !self.session.sandbox.is_dead() {
            self.try_replace().await;
        }
    }

    /// Ends the cells that are still queued, then the interpreter.
    async fn close(mut self, mut inbox: mpsc::UnboundedReceiver<Message>) {
        self.handle.closing.send_replace(true);
        inbox.close();
        while let Some(message) = inbox.recv().await {
            if let Message::Run(job) = message {
                give_up(&self.session, *job);
            }
        }
        match self.kernel.take() {
            Some(kernel) if !self.session.sandbox.is_dead() => kernel.kill().await,
            // Keeps the socket open until the sandbox is gone. An interpreter whose socket closes wakes up to
            // end by itself, which is wasted work while it is being killed.
            Some(_open) => self.session.removed().await,
            None => {}
        }
    }

    /// Waits for a permit and runs the cell, unless it is interrupted or the sandbox dies before.
    async fn cell(&mut self, job: Job) {
        let Job { cell, code, setup, mut limits, mut controls, slot, ticket } = job;
        self.handle.set_current(Some(Arc::clone(&cell)));
        let permit = self.permit(slot, &mut controls, &mut limits).await;
        let dead = self.session.sandbox.is_dead();
        if permit.is_some() && self.kernel.is_none() && !dead {
            self.try_replace().await;
        }
        let mut network = None;
        let (report, files, kept) = match (permit, &mut self.kernel) {
            _ if dead => not_run(Outcome::SandboxDied),
            (Some(permit), Some(kernel)) => {
                let _executing = self.session.execute();
                self.session.note_files().await;
                let mark = self.session.network.mark().await;
                let begun = self.handle.cells_begun.fetch_add(1, Ordering::Relaxed) + 1;
                cell.begin(begun);
                kernel.set_up_next_cell(setup);
                let mut writer =
                    LogWriter::new(Arc::clone(&cell.log), self.session.begin_keeping());
                let run = kernel.run(&code, &limits, &mut writer, &mut controls);
                let report = busy_poll::run(run).await;
                let mut kept = writer.finish();
                drop(permit);
                let mut report = report.unwrap_or_else(|error| {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "a cell found no interpreter");
                    CellReport::not_run(Outcome::Disconnected)
                });
                let mut files = self.session.changed_files().await;
                network = self.session.network.since(mark).await;
                keep_rest(&mut kept, &mut report, &mut files);
                (report, files.into(), Some(kept))
            }
            (Some(_), None) => not_run(Outcome::Disconnected),
            (None, _) => not_run(Outcome::Interrupted),
        };
        // From here on an interrupt is refused: the cell has ended.
        drop(controls);
        let (kernel, lost) = self.after(&report).await;
        let end = CellEnd { report, files, kernel, lost, limits, network, _kept: kept };
        self.finish(&cell, Arc::new(end), ticket);
    }

    /// Waits for a permit to run; `None` if the cell is interrupted before. Extensions add to the limits.
    async fn permit(
        &self,
        slot: QueueSlot,
        controls: &mut mpsc::Receiver<Control>,
        limits: &mut Limits,
    ) -> Option<Permit> {
        let permit = slot.permit();
        tokio::pin!(permit);
        loop {
            tokio::select! {
                biased;
                control = controls.recv() => match control {
                    Some(Control::Extend(more)) => limits.extend_wall(more),
                    // It has asked for nothing yet.
                    Some(Control::Input(_)) => {}
                    Some(Control::Interrupt | Control::Kill) | None => return None,
                },
                permit = permit.as_mut() => return Some(permit),
            }
        }
    }

    /// Answers a question between two cells. A dropped sender is an answer that nobody waits for.
    async fn answer(&mut self, question: Question) {
        let Some(kernel) = &mut self.kernel else { return };
        let _executing = self.session.execute();
        match question {
            Question::Complete { code, answer } => {
                let _ = answer.send(kernel.complete(&code).await);
            }
            Question::Inspect { code, cursor, detail, answer } => {
                let _ = answer.send(kernel.inspect(&code, cursor, detail).await);
            }
            Question::IsComplete { code, answer } => {
                let _ = answer.send(kernel.is_complete(&code).await);
            }
        }
    }

    /// Replaces a lost interpreter; returns what became of the kernel and what was lost.
    async fn after(&mut self, report: &CellReport) -> (KernelState, Option<String>) {
        let wanted = self.handle.restart_wanted.swap(false, Ordering::AcqRel);
        if report.kernel_lives && !wanted {
            return (KernelState::Ready, None);
        }
        let id = self.handle.id;
        if self.session.sandbox.is_dead() {
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
        if !wanted
            && let Some(mark) = self.session.marks.newest()
            && self.set_back(&mark).await.is_ok()
        {
            let (mark, cells) = (mark.id(), mark.cells());
            let told = format!(
                "kernel {id} and the files were set back to mark {mark}, after its first {cells} cells"
            );
            return (KernelState::Restarted, Some(told));
        }
        match self.replace().await {
            Ok(()) => (KernelState::Restarted, Some(lost)),
            Err(_) => (KernelState::Ended, Some(lost)),
        }
    }

    /// Replaces the interpreter. After a failure there is none, which the next cell reports.
    async fn try_replace(&mut self) {
        // `replace` has logged the error.
        let _ = self.replace().await;
    }

    /// Replaces the interpreter.
    async fn replace(&mut self) -> Result<(), SessionError> {
        if let Some(kernel) = self.kernel.take() {
            kernel.kill().await;
        }
        let started = self.session.start_kernel(&self.setup).await;
        match started {
            Ok(kernel) => {
                self.kernel = Some(kernel);
                self.handle.cells_begun.store(0, Ordering::Relaxed);
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

    fn finish(&self, cell: &Arc<Cell>, end: Arc<CellEnd>, ticket: Ticket) {
        self.handle.set_current(None);
        self.handle.cells_run.fetch_add(1, Ordering::Relaxed);
        self.session.charge(&end.report);
        write_end(&self.session, cell, end, ticket);
    }
}

/// Returns the report of a cell that never began.
fn not_run(outcome: Outcome) -> (CellReport, Arc<Changes>, Option<KeptBytes>) {
    (CellReport::not_run(outcome), Arc::default(), None)
}

/// Counts the text of an error and the names of files for the key, or leaves them out.
fn keep_rest(kept: &mut KeptBytes, report: &mut CellReport, files: &mut Changes) {
    if let Some(error) = &mut report.error
        && !kept.grow(error.bytes())
    {
        *error = error.without_text();
        report.keeping_refused = true;
    }
    if !kept.grow(files.bytes()) {
        *files = Changes::left_out();
    }
    kept.settle();
}
