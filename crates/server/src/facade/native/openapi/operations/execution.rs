//! Operations on cells and commands.

use schemars::JsonSchema;

use crate::facade::native::openapi::parts::{Operation, flag, number, operation, text, whole};
use crate::facade::native::wire::{cell, command, event};
use crate::facade::native::{cells, commands};
use crate::http::problem::Code;

pub(super) fn cells() -> Vec<Operation> {
    let (all, one) = ("/v1/sandboxes/{sandbox}/cells", "/v1/sandboxes/{sandbox}/cells/{cell}");
    let interrupt = "/v1/sandboxes/{sandbox}/cells/{cell}/interrupt";
    let extend = "/v1/sandboxes/{sandbox}/cells/{cell}/extend";
    vec![
        operation("get", all, "listCells", "List the last cells")
            .answers::<cell::CellList>(200, "Cells"),
        operation("post", all, "createCell", "Run code in a kernel")
            .about(
                "Waits for the end; with `Accept: text/event-stream` streams events; with \
                 `background` answers at once. Code that fails is an answer and not an error: look \
                 at `outcome`.",
            )
            .header("Accept", text("`text/event-stream` for a stream of events"))
            .body::<cells::CellBody>()
            .answers::<cell::Cell>(200, "The cell when it is done, or its events")
            .or_events::<event::CellEventStream>(200)
            .answers::<cell::Cell>(
                202,
                "The cell, which runs in the background or waits for a person",
            )
            .fails(&[
                Code::PolicyBlocked,
                Code::KernelNotFound,
                Code::QueueFull,
                Code::QuotaExceeded,
            ])
            .fails(&[Code::ShuttingDown]),
        operation("get", one, "getCell", "Look at a cell")
            .query("wait", number("Wait so many seconds for its end, at most 300"))
            .answers::<cell::Cell>(200, "Its present state"),
        events::<event::CellEventStream>(
            "/v1/sandboxes/{sandbox}/cells/{cell}/events",
            "watchCell",
        ),
        operation("post", interrupt, "interruptCell", "Interrupt a cell")
            .about("`KeyboardInterrupt` in that cell and no other.")
            .empty("The interrupt was sent")
            .fails(&[Code::CellEnded]),
        operation("post", extend, "extendCell", "Give a cell more time")
            .body::<cells::ExtendCellBody>()
            .answers::<cell::CellExtended>(200, "Its timeout")
            .fails(&[Code::CellEnded]),        operation("post", "/v1/sandboxes/{sandbox}/cells/{cell}/input", "answerCell", "Give it a line of input")
            .about("For a cell with `input`, after its event `input`. A line that it has not asked for is dropped.")
            .body::<cells::InputBody>()
            .empty("The line was sent")
            .fails(&[Code::CellEnded]),
    ]
}

pub(super) fn commands() -> Vec<Operation> {
    let all = "/v1/sandboxes/{sandbox}/commands";
    let one = "/v1/sandboxes/{sandbox}/commands/{command}";
    let stdin = "/v1/sandboxes/{sandbox}/commands/{command}/stdin";
    let signal = "/v1/sandboxes/{sandbox}/commands/{command}/signal";
    let resize = "/v1/sandboxes/{sandbox}/commands/{command}/resize";
    vec![
        operation("get", all, "listCommands", "List commands")
            .answers::<command::CommandList>(200, "Commands"),
        operation("post", all, "createCommand", "Run a command")
            .about(
                "Waits for the end; with `Accept: text/event-stream` streams events; with \
                 `background` answers at once.",
            )
            .header("Accept", text("`text/event-stream` for a stream of events"))
            .body::<commands::CommandBody>()
            .answers::<command::Command>(200, "The command when it is done, or its events")
            .or_events::<event::CommandEventStream>(200)
            .answers::<command::Command>(202, "The command, which runs in the background")
            .fails(&[Code::NotApprovable, Code::CannotStart, Code::QueueFull, Code::QuotaExceeded])
            .fails(&[Code::CannotCreate, Code::ShuttingDown]),
        operation("get", one, "getCommand", "Look at a command")
            .query("wait", number("Wait so many seconds for its end, at most 300"))
            .answers::<command::Command>(200, "Its present state"),
        events::<event::CommandEventStream>(
            "/v1/sandboxes/{sandbox}/commands/{command}/events",
            "watchCommand",
        ),
        operation("post", stdin, "writeStdin", "Write to its input")
            .query("close", flag("Close the input after this"))
            .raw_body("application/octet-stream", "What it reads, as it is")
            .empty("It is written")
            .fails(&[Code::CommandEnded]),
        operation("post", signal, "signalCommand", "Send a signal to its process group")
            .body::<commands::SignalBody>()
            .empty("It is sent")
            .fails(&[Code::CommandEnded]),
        operation("post", resize, "resizeTerminal", "Change the size of its terminal")
            .body::<commands::TerminalBody>()
            .empty("It is changed")
            .fails(&[Code::CommandEnded]),
    ]
}

fn events<T: JsonSchema>(path: &'static str, id: &'static str) -> Operation {
    operation("get", path, id, "Stream events from the start")
        .about("The stream ends with the cell or command.")
        .header("Last-Event-ID", whole("The last event that has been seen"))
        .query(
            "after",
            whole("The last event that has been seen, for clients that cannot set the header"),
        )
        .streams::<T>(200, "Events")
}
