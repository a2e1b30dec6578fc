//! Output of a running command on its way into the command's log, and its timeout.

use std::sync::Arc;
use std::time::{Duration, Instant};

use silica_engine::{CommandEvent, HeadTail};
use silica_store::audit::Ticket;

use super::{Command, CommandEnded, CommandOutcome, CommandPhase};
use crate::audit;
use crate::event_log::{Decoder, Event, EventLog, Text};
use crate::session::Session;

/// SIGTERM and SIGKILL, the same on every Linux.
const TERM: i32 = 15;
const KILL: i32 = 9;

/// How long a command that has run out of time may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// Carries what a command says into its log until it has ended.
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
    pub(super) async fn run(mut self, mut process: silica_engine::Command, ticket: Ticket) {
        let log = Arc::clone(&self.command.log);
        let (mut out, mut err) = (Decoder::default(), Decoder::default());
        let end = loop {
            let event = tokio::select! {
                biased;
                () = expired(self.deadline) => {
                    self.stop().await;
                    continue;
                }
                // A client that reads slowly slows the command down, and nobody else.
                event = next(&log, &mut process) => event,
            };
            match event {
                Some(CommandEvent::Stdout(bytes)) => {
                    self.stdout.push(&bytes);
                    say(&log, out.text(&bytes), Event::Stdout);
                }
                Some(CommandEvent::Stderr(bytes)) => {
                    self.stderr.push(&bytes);
                    say(&log, err.text(&bytes), Event::Stderr);
                }
                Some(CommandEvent::Ended(end)) => break end,
                None => break process.handle().wait().await,
            }
        };
        say(&log, out.finish(), Event::Stdout);
        say(&log, err.finish(), Event::Stderr);
        let ended = Arc::new(CommandEnded {
            outcome: CommandOutcome::of(end, self.timed_out),
            stdout: self.stdout,
            stderr: self.stderr,
            duration: self.started.elapsed(),
        });
        let output = ended.stdout.total() + ended.stderr.total();
        audit::finish(self.session.store(), ticket, &audit::of_command(&ended));
        self.command.phase.send_replace(CommandPhase::Done(ended));
        log.push(Event::Done);
        self.session.command_ended(output);
    }

    /// Time is up: asked to end first, killed when it comes to that again.
    async fn stop(&mut self) {
        let signal = if self.timed_out { KILL } else { TERM };
        // It may have ended meanwhile, which is what is wanted.
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

/// How often it is looked whether a reader has given up.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

async fn next(log: &EventLog, process: &mut silica_engine::Command) -> Option<CommandEvent> {
    while !log.has_room() {
        let room = std::future::poll_fn(|context| log.poll_room(context));
        // Asked again after a while, because nobody tells when a reader has given up.
        let _ = tokio::time::timeout(LOOK_AGAIN, room).await;
    }
    process.next().await
}

fn say(log: &EventLog, text: String, event: fn(Text) -> Event) {
    if !text.is_empty() {
        log.push(event(Text::Utf8(text.into())));
    }
}
