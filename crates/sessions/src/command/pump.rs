//! Copies the output of a running command into its log, enforces its timeout, records its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use silica_engine::{CommandEvent, HeadTail};
use silica_store::audit::Ticket;

use super::{Command, CommandEnded, CommandOutcome, CommandPhase};
use crate::audit;
use crate::event_log::{Decoder, EventLog, LogEvent, OutputText};
use crate::session::Session;

/// SIGTERM and SIGKILL; their numbers are the same on every architecture of Linux.
const TERM: i32 = 15;
const KILL: i32 = 9;

/// The time between SIGTERM and SIGKILL after a timeout.
const GRACE: Duration = Duration::from_secs(2);

/// Copies the output of a command into its log until it has ended.
pub(super) struct Pump {
    pub(super) session: Arc<Session>,
    pub(super) command: Arc<Command>,
    pub(super) stdout: HeadTail,
    pub(super) stderr: HeadTail,
    pub(super) started: Instant,
    pub(super) deadline: Option<Instant>,
    pub(super) timed_out: bool,
}

impl Pump {
    pub(super) async fn run(mut self, mut process: silica_engine::CommandProcess, ticket: Ticket) {
        let log = Arc::clone(&self.command.log);
        let mut out = Decoder::default();
        let mut err = Decoder::default();
        let end = loop {
            let event = tokio::select! {
                biased;
                () = expired(self.deadline) => {
                    self.stop().await;
                    continue;
                }
                // A client that reads slowly slows down this command only.
                event = next(&log, &mut process) => event,
            };
            match event {
                Some(CommandEvent::Stdout(bytes)) => {
                    self.stdout.push(&bytes);
                    push(&log, out.text(&bytes), LogEvent::Stdout);
                }
                Some(CommandEvent::Stderr(bytes)) => {
                    self.stderr.push(&bytes);
                    push(&log, err.text(&bytes), LogEvent::Stderr);
                }
                Some(CommandEvent::Ended(end)) => break end,
                None => break process.handle().wait().await,
            }
        };
        push(&log, out.finish(), LogEvent::Stdout);
        push(&log, err.finish(), LogEvent::Stderr);
        let ended = Arc::new(CommandEnded {
            outcome: CommandOutcome::of(end, self.timed_out),
            stdout: self.stdout,
            stderr: self.stderr,
            duration: self.started.elapsed(),
        });
        let output = ended.stdout.total() + ended.stderr.total();
        audit::finish(&self.session.services.store, ticket, &audit::of_command(&ended));
        self.command.phase.send_replace(CommandPhase::Done(ended));
        log.push(LogEvent::Done);
        self.session.command_ended(output);
    }

    /// Sends SIGTERM at the first call, SIGKILL at the second.
    async fn stop(&mut self) {
        let signal = if self.timed_out { KILL } else { TERM };
        // The error is that it has ended meanwhile.
        let _ = self.command.handle.signal(signal).await;
        self.deadline = if self.timed_out { None } else { Some(Instant::now() + GRACE) };
        self.timed_out = true;
    }
}

async fn expired(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// How often a waiting command checks whether its slowest reader has timed out, which wakes no one.
const RECHECK_PAUSE: Duration = Duration::from_secs(1);

async fn next(log: &EventLog, process: &mut silica_engine::CommandProcess) -> Option<CommandEvent> {
    while !log.has_room() {
        let room = std::future::poll_fn(|context| log.poll_room(context));
        // Ready or timed out, the loop checks again.
        let _ = tokio::time::timeout(RECHECK_PAUSE, room).await;
    }
    process.next().await
}

fn push(log: &EventLog, text: String, event: fn(OutputText) -> LogEvent) {
    if !text.is_empty() {
        log.push(event(OutputText::Utf8(text.into())));
    }
}
