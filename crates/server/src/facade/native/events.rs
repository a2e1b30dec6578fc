//! Event logs of cells and commands as server-sent events.

use std::io;
use std::sync::Arc;

use serde::Serialize;
use silica_sessions::{Cell, Command, InterruptOnDrop, LogEvent, LogRead};

use super::wire::approval::CellApproval;
use super::wire::cell::{Bundle, CellError};
use super::wire::event::{
    CellStarted, ClearEvent, CommEvent, CommandStarted, GapEvent, InputEvent, OutputEvent,
};
use super::wire::{self, Detail};
use crate::http::stream::{EventSource, event};

/// The events of a cell.
#[derive(Debug)]
pub(super) struct CellEvents {
    cell: Arc<Cell>,
    _interrupt: Option<InterruptOnDrop>,
}

impl CellEvents {
    /// Streams a cell; `interrupt` is dropped with the stream.
    pub(super) fn new(cell: Arc<Cell>, interrupt: Option<InterruptOnDrop>) -> Self {
        Self { cell, _interrupt: interrupt }
    }
}

impl EventSource for CellEvents {
    fn write(&self, into: &mut dyn io::Write, read: &LogRead) -> io::Result<()> {
        let start =
            || CellStarted { cell: self.cell.id.to_string(), kernel: self.cell.kernel.to_string() };
        let done = || wire::cell::Cell::new(&self.cell, Detail::Brief);
        write(into, read, start, done)
    }
}

/// The events of a command.
#[derive(Debug)]
pub(super) struct CommandEvents(pub(super) Arc<Command>);

impl EventSource for CommandEvents {
    fn write(&self, into: &mut dyn io::Write, read: &LogRead) -> io::Result<()> {
        let start =
            || CommandStarted { command: self.0.id.to_string(), process_id: self.0.process_id() };
        let done = || wire::command::Command::of(&self.0, Detail::Brief);
        write(into, read, start, done)
    }
}

fn write<S: Serialize, D: Serialize>(
    into: &mut dyn io::Write,
    read: &LogRead,
    start: impl FnOnce() -> S,
    done: impl FnOnce() -> D,
) -> io::Result<()> {
    let (id, happened) = match read {
        LogRead::Gap(events) => return event(into, None, "gap", &GapEvent { events: *events }),
        LogRead::Event(id, happened) => (Some(*id), happened),
    };
    match happened {
        LogEvent::Approval(record) => event(into, id, "approval", &CellApproval::from(&**record)),
        LogEvent::Start => event(into, id, "start", &start()),
        LogEvent::Stdout(text) => event(into, id, "stdout", &OutputEvent::from(text)),
        LogEvent::Stderr(text) => event(into, id, "stderr", &OutputEvent::from(text)),
        LogEvent::Result(bundle) => event(into, id, "result", &Bundle::from(bundle)),
        LogEvent::Error(error) => event(into, id, "error", &CellError::from(&**error)),
        LogEvent::Input { prompt, password } => event(
            into,
            id,
            "input",
            &InputEvent { prompt: prompt.to_string(), password: *password },
        ),
        LogEvent::Clear { wait } => event(into, id, "clear", &ClearEvent { wait: *wait }),
        LogEvent::Comm(comm) => event(into, id, "comm", &CommEvent::from(&**comm)),
        LogEvent::Done => event(into, id, "done", &done()),
    }
}
