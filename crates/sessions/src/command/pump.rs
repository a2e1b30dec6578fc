//! Copies the output of a running command into its log, enforces its timeout, records its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use silica_engine::{CommandEvent, Decoder, HeadTail};
use silica_store::audit::Ticket;

use super::{Command, CommandEnded, CommandOutcome, CommandPhase};
use crate::audit;
use crate::event_log::{EventLog, LogEvent, OutputText};
use crate::kept::KeptBytes;
use crate::session::{Executing, Session};

/// SIGTERM and SIGKILL; their numbers are the same on every architecture of Linux.
const TERM: i32 = 15;
const KILL: i32 = 9;

/// The time between SIGTERM and SIGKILL after a timeout.
const GRACE: Duration = Duration::from_secs(2);

/// Copies the output of a command into its log until it has ended.
pub(super) struct Pump {
    pub(super) session: Arc<Session>,
    /// Keeps the session active until the command has ended.
    pub(super) _executing: Executing,
    pub(super) command: Arc<Command>,
    pub(super) kept: KeptBytes,
    /// How much of `kept` is for the log.
    pub(super) log_bytes: usize,
    /// Whether the budget had no room for some output.
    pub(super) keeping_refused: bool,
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
                    self.keeping_refused |= !keep(&mut self.stdout, &mut self.kept, &bytes);
                    self.push(out.text(&bytes), LogEvent::Stdout);
                }
                Some(CommandEvent::Stderr(bytes)) => {
                    self.keeping_refused |= !keep(&mut self.stderr, &mut self.kept, &bytes);
                    self.push(err.text(&bytes), LogEvent::Stderr);
                }
                Some(CommandEvent::Ended(end)) => break end,
                None => break process.handle().wait().await,
            }
        };
        self.push(out.finish(), LogEvent::Stdout);
        self.push(err.finish(), LogEvent::Stderr);
        self.kept.settle();
        let ended = Arc::new(CommandEnded {
            outcome: CommandOutcome::of(end, self.timed_out),
            stdout: self.stdout.into(),
            stderr: self.stderr.into(),
            keeping_refused: self.keeping_refused,
            duration: self.started.elapsed(),
            _kept: Some(self.kept),
        });
        let output = ended.stdout.total() + ended.stderr.total();
        audit::finish(&self.session, ticket, &audit::of_command(&ended));
        self.command.phase.send_replace(CommandPhase::Done(ended));
        log.push(LogEvent::Done);
        self.session.command_ended(&self.command, output);
    }

    /// Writes output into the log. If the budget has no room for it, the log becomes shorter.
    fn push(&mut self, text: String, event: fn(OutputText) -> LogEvent) {
        if text.is_empty() {
            return;
        }
        let log = &self.command.log;
        let kept = log.push(event(OutputText::Utf8(text.into())));
        let more = kept.saturating_sub(self.log_bytes);
        if self.kept.grow(more as u64) {
            self.log_bytes += more;
        } else {
            log.shorten();
        }
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

/// Keeps output. Returns false if the budget has no room for all of it.
fn keep(stream: &mut HeadTail, kept: &mut KeptBytes, bytes: &[u8]) -> bool {
    let growth = stream.growth(bytes.len());
    let may_keep = growth == 0 || kept.grow(growth as u64);
    if !may_keep {
        stream.seal();
    }
    stream.push(bytes);
    may_keep
}
