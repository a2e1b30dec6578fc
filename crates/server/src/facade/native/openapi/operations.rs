//! Every operation: its request, its responses and its errors.

use schemars::JsonSchema;
use serde_json::json;

use super::parts::{Operation, flag, moment, number, operation, text, whole};
use crate::facade::native::wire::{
    self, account, approval, cell, command, event, file, sandbox, service,
};
use crate::facade::native::{
    approvals, cells, commands, files, interpret, kernels, keys, run, sandboxes,
};
use crate::http::problem::Code;

/// Every operation, group by group.
pub(super) fn all() -> Vec<Operation> {
    let groups = [
        ("Run once", run()),
        ("Interpret", interpret()),
        ("Sandboxes", sandboxes()),
        ("Kernels", kernels()),
        ("Cells", cells()),
        ("Commands", commands()),
        ("Files", files()),
        ("Files", more_files()),
        ("Files", links()),
        ("Approvals", approvals()),
        ("Account", account()),
        ("Administration", administration()),
        ("Service", service()),
    ];
    let tagged = |(tag, group): (&'static str, Vec<Operation>)| {
        group.into_iter().map(move |operation| operation.under(tag))
    };
    groups.into_iter().flat_map(tagged).collect()
}

/// The errors of creating a sandbox.
pub(super) const MAKING: [Code; 5] = [
    Code::BadLimit,
    Code::TemplateNotFound,
    Code::QuotaExceeded,
    Code::ShuttingDown,
    Code::CannotCreate,
];

fn run() -> Vec<Operation> {
    let files = [Code::BadPath, Code::NotAFile, Code::Refused, Code::DiskFull, Code::QueueFull];
    vec![
        operation("post", "/v1/run", "run", "Run code in a sandbox of its own")
            .about(
                "Makes a sandbox, writes the files, runs the code, reads the outputs and ends the \
                 sandbox. Code that fails is an answer and not an error: look at `outcome`.",
            )
            .body::<run::RunBody>()
            .answers::<cell::RunReport>(200, "The result")
            .fails(&MAKING)
            .fails(&files)
            .fails(&[Code::PolicyBlocked]),
    ]
}

/// The errors of asking a model.
const ASKING: [Code; 9] = [
    Code::PromptTooLong,
    Code::ModelNotFound,
    Code::BudgetSpent,
    Code::ModelFailed,
    Code::ModelNotConfigured,
    Code::ModelBusy,
    Code::ModelSlow,
    Code::QueueFull,
    Code::SandboxEnded,
];

fn interpret() -> Vec<Operation> {
    vec![
        operation("post", "/interpret", "prompt", "Answer a prompt")
            .about(
                "A model writes a program, the program is checked and run in a sandbox of its own, and \
                 what it printed comes back. What goes wrong is sent back to the model a few times.",
            )
            .body::<interpret::PromptBody>()
            .answers::<wire::interpret::Interpretation>(200, "The result")
            .fails(&MAKING)
            .fails(&ASKING),
        operation("post", "/v1/interpret", "interpret", "Answer a prompt, with files and options")
            .about(
                "Like `/interpret`, with files, limits, a policy, a preset and a conversation. With \
                 `Accept: text/event-stream` every stage is an event. A client that disconnects \
                 stops the model and the code.",
            )
            .header("Accept", text("`text/event-stream` for a stream of events"))
            .body::<interpret::InterpretBody>()
            .answers::<wire::interpret::Interpretation>(200, "The answer, or its events")
            .or_events::<wire::interpret::InterpretEventStream>(200)
            .fails(&MAKING)
            .fails(&ASKING)
            .fails(&[Code::ConversationNotFound, Code::ConversationBusy, Code::BadPath])
            .fails(&[Code::NotAFile, Code::Refused, Code::DiskFull]),
    ]
}

fn sandboxes() -> Vec<Operation> {
    let (all, one) = ("/v1/sandboxes", "/v1/sandboxes/{sandbox}");
    let state = text("`running` (if left out), `ended`, `lost`, or several with commas");
    let limit = json!({
        "type": "integer", "minimum": 1, "maximum": 100, "default": 100,
        "description": "How many at most",
    });
    let metadata = json!({
        "name": "metadata", "in": "query", "style": "form", "explode": true,
        "description": "`metadata.KEY=VALUE`: only those with this metadata; can be given again",
        "schema": {
            "type": "object",
            "patternProperties": {"^metadata\\.": {"type": "string"}},
            "additionalProperties": false,
        },
    });
    vec![
        operation("get", all, "listSandboxes", "List own sandboxes")
            .query("state", state)
            .query("template", text("Only those of this template"))
            .query("limit", limit)
            .query("page", text("From `next_page` of the page before"))
            .raw_parameter(metadata)
            .answers::<sandbox::SandboxList>(200, "A page of them, without `containment`"),
        operation("post", all, "createSandbox", "Create a sandbox")
            .body::<sandboxes::CreateSandboxBody>()
            .answers::<sandbox::Sandbox>(201, "The sandbox")
            .fails(&MAKING),
        operation("get", one, "getSandbox", "Look at a sandbox")
            .answers::<sandbox::Sandbox>(200, "The sandbox; also one that has ended"),
        operation("delete", one, "deleteSandbox", "End a sandbox").empty("Every process in it has been killed and its id is unknown; its record and its audit log stay"),
        operation("post", "/v1/sandboxes/{sandbox}/extend", "extendSandbox", "Extend its lifetime")
            .body::<sandboxes::ExtendSandboxBody>()
            .answers::<sandbox::Sandbox>(200, "The sandbox"),
        operation("get", "/v1/sandboxes/{sandbox}/usage", "getUsage", "Get its usage")
            .answers::<sandbox::UsageReport>(200, "Now, and over the last hour"),
    ]
}

fn kernels() -> Vec<Operation> {
    let (all, one) =
        ("/v1/sandboxes/{sandbox}/kernels", "/v1/sandboxes/{sandbox}/kernels/{kernel}");
    let interrupt = "/v1/sandboxes/{sandbox}/kernels/{kernel}/interrupt";
    let restart = "/v1/sandboxes/{sandbox}/kernels/{kernel}/restart";
    vec![
        operation("get", all, "listKernels", "List kernels")
            .answers::<sandbox::KernelList>(200, "The kernels"),
        operation("post", all, "createKernel", "Create a kernel")
            .body::<kernels::CreateKernelBody>()
            .answers::<sandbox::Kernel>(201, "The kernel")
            .fails(&[Code::QuotaExceeded, Code::CannotCreate]),
        operation("get", one, "getKernel", "Look at a kernel")
            .answers::<sandbox::Kernel>(200, "The object"),
        operation("delete", one, "deleteKernel", "End a kernel").empty("The kernel has ended"),
        operation("post", interrupt, "interruptKernel", "Interrupt the cell that it runs")
            .empty("The interrupt was sent, if it runs a cell"),
        operation("post", restart, "restartKernel", "Start its interpreter again")
            .about("Variables are lost, files stay. Answers once the new interpreter is ready.")
            .answers::<sandbox::Kernel>(200, "The kernel"),
    ]
}

fn cells() -> Vec<Operation> {
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
            .fails(&[Code::CellEnded]),
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

fn commands() -> Vec<Operation> {
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

const BYTES: &str = "application/octet-stream";
const TAR: &str = "application/x-tar";

fn files() -> Vec<Operation> {
    let files = "/v1/sandboxes/{sandbox}/files";
    vec![
        operation("get", files, "listFiles", "List a directory")
            .on_path("The directory", "/workspace")
            .query("depth", whole("How many levels; 1 if left out"))
            .answers::<file::Listing>(200, "What is in it")
            .fails(&[Code::FileNotFound, Code::NotADirectory, Code::TooLarge]),
        operation("delete", files, "removeFile", "Remove a file or a whole directory")
            .on_path("The file or directory", "data.csv")
            .empty("It is gone")
            .fails(&[Code::FileNotFound, Code::Conflict, Code::TooLarge]),
        operation("get", "/v1/sandboxes/{sandbox}/files/stat", "statFile", "Look at one")
            .on_path("The file or directory", "data.csv")
            .answers::<file::Entry>(200, "The object")
            .fails(&[Code::FileNotFound]),
        download(operation(
            "get",
            "/v1/sandboxes/{sandbox}/files/content",
            "readFile",
            "Read a file",
        ))
        .on_path("The file", "data.csv"),
        upload(operation(
            "put",
            "/v1/sandboxes/{sandbox}/files/content",
            "writeFile",
            "Write a file",
        ))
        .on_path("Where; parents are made", "data.csv")
        .query(
            "mode",
            json!({
                "type": "string", "pattern": "^[0-7]{1,4}$", "default": "644",
                "description": "Its permissions, octal, at most 777",
            }),
        ),
    ]
}

fn more_files() -> Vec<Operation> {
    let written = [Code::NotAFile, Code::NotADirectory, Code::TooLarge, Code::DiskFull];
    vec![
        operation(
            "post",
            "/v1/sandboxes/{sandbox}/files/directory",
            "makeDirectory",
            "Make a directory",
        )
        .body::<files::DirectoryBody>()
        .answers::<file::Entry>(200, "It existed")
        .answers::<file::Entry>(201, "It is made")
        .fails(&[Code::BadPath, Code::Refused, Code::Conflict])
        .fails(&written),
        operation(
            "post",
            "/v1/sandboxes/{sandbox}/files/move",
            "moveFile",
            "Move a file or directory",
        )
        .body::<files::MoveBody>()
        .answers::<file::Entry>(200, "It, where it is now")
        .fails(&[Code::BadPath, Code::FileNotFound, Code::Refused, Code::Conflict])
        .fails(&written),
        operation(
            "get",
            "/v1/sandboxes/{sandbox}/files/archive",
            "readArchive",
            "Read a directory as a tar archive",
        )
        .on_path("The directory", "/workspace")
        .sends(200, "The archive", TAR)
        .fails(&[Code::FileNotFound, Code::NotADirectory]),
        operation(
            "put",
            "/v1/sandboxes/{sandbox}/files/archive",
            "unpackArchive",
            "Unpack a tar archive into a directory",
        )
        .on_path("The directory", "/workspace")
        .raw_body(TAR, "The archive, not compressed")
        .answers::<file::Unpacked>(200, "What was unpacked")
        .fails(&[Code::Conflict])
        .fails(&written),
        operation(
            "post",
            "/v1/sandboxes/{sandbox}/files/link",
            "makeLink",
            "Make a link to a file that works without a key",
        )
        .body::<files::LinkBody>()
        .answers::<file::LinkCreated>(200, "The link")
        .fails(&[Code::BadPath]),
    ]
}

fn download(operation: Operation) -> Operation {
    operation
        .header("Range", text("One range of bytes, for example `bytes=0-99`"))
        .sends(200, "The bytes", BYTES)
        .sends(206, "The bytes of the range", BYTES)
        .fails(&[Code::FileNotFound, Code::NotAFile, Code::Refused, Code::BadRange])
}

fn upload(operation: Operation) -> Operation {
    operation
        .about("The body becomes the file when it is complete; until then nothing changes.")
        .raw_body(BYTES, "The bytes")
        .answers::<file::Entry>(200, "It existed and is replaced")
        .answers::<file::Entry>(201, "It is new")
        .fails(&[Code::NotAFile, Code::NotADirectory, Code::Refused])
        .fails(&[Code::TooLarge, Code::DiskFull])
}

fn links() -> Vec<Operation> {
    let link = "/v1/links/{token}";
    let lost =
        [Code::SandboxNotFound, Code::SandboxEnded, Code::RateLimited, Code::StoreUnavailable];
    vec![
        download(operation("get", link, "readLink", "Read the file of a link")).open().fails(&lost),
        upload(operation("put", link, "writeLink", "Write the file of a link")).open().fails(&lost),
    ]
}

fn approvals() -> Vec<Operation> {
    let one = "/v1/approvals/{approval}";
    let approve = "/v1/approvals/{approval}/approve";
    let deny = "/v1/approvals/{approval}/deny";
    let state = text("`pending` (if left out), `approved`, `denied`, `expired` or `all`");
    vec![
        operation("get", "/v1/approvals", "listApprovals", "List approvals")
            .about("All for a key that may approve, otherwise its own; the newest 100.")
            .query("state", state)
            .answers::<approval::ApprovalList>(200, "Newest first"),
        operation("get", one, "getApproval", "Look at one").answers::<approval::Approval>(200, "The object"),
        operation("post", approve, "approve", "Approve")
            .about(
                "For a key that may approve. What runs is the code of this digest and nothing \
                 else. A key cannot approve what it asked for itself, unless the operator allows it.",
            )
            .body::<approvals::DecisionBody>()
            .answers::<approval::Approval>(200, "The code runs")
            .fails(&[Code::Forbidden, Code::OwnApproval, Code::AlreadyDecided, Code::Conflict])
            .fails(&[Code::SandboxEnded, Code::QueueFull, Code::QuotaExceeded]),
        operation("post", deny, "deny", "Deny")
            .about("For a key that may approve.")
            .body::<approvals::DecisionBody>()
            .answers::<approval::Approval>(200, "The code does not run")
            .fails(&[Code::Forbidden, Code::AlreadyDecided, Code::Conflict]),
    ]
}

fn account() -> Vec<Operation> {
    let limit = json!({
        "type": "integer", "minimum": 0, "default": 100,
        "description": "How many at most; never more than 1000",
    });
    vec![
        operation("get", "/v1/templates", "listTemplates", "List templates")
            .answers::<account::TemplateList<'_>>(200, "What sandboxes can start from"),
        operation("get", "/v1/templates/{name}", "getTemplate", "Look at a template")
            .answers::<account::TemplateShown<'_>>(200, "The object"),
        operation("get", "/v1/stats", "getStats", "Get own numbers and quota")
            .answers::<account::Stats>(200, "Numbers"),
        operation("get", "/v1/audit", "searchAudit", "Search the audit log")
            .about("An admin key sees the executions of all keys.")
            .query("sandbox", text("In this sandbox"))
            .query("outcome", text("With this outcome, or `unfinished`"))
            .query("text", text("With this text in the code"))
            .query("since", moment("Begun then or later"))
            .query("until", moment("Begun before"))
            .query("limit", limit)
            .answers::<account::ExecutionList>(200, "Executions, newest first"),
    ]
}

fn administration() -> Vec<Operation> {
    vec![
        operation("get", "/v1/audit/verify", "verifyAudit", "Check the audit log's chain")
            .answers::<account::AuditCheck>(200, "Whether it is whole"),
        operation("get", "/v1/keys", "listKeys", "List keys")
            .answers::<account::KeyList>(200, "Every key"),
        operation("post", "/v1/keys", "createKey", "Make a key")
            .body::<keys::CreateKeyBody>()
            .answers::<account::KeyCreated>(201, "The key and its secret, this once"),
        operation("delete", "/v1/keys/{id}", "revokeKey", "Revoke a key")
            .empty("The key is revoked"),
        operation("get", "/v1/admin/sandboxes", "watchSandboxes", "List every live sandbox")
            .about("Those of all keys, with owners and usage. `silica top` shows it.")
            .answers::<sandbox::WatchedSandboxList>(200, "The sandboxes"),
    ]
    .into_iter()
    .map(Operation::admin)
    .collect()
}

fn service() -> Vec<Operation> {
    let broken = [Code::ShuttingDown, Code::CannotCreate, Code::StoreUnavailable];
    let metrics = "application/openmetrics-text";
    vec![
        operation("get", "/healthz", "isAlive", "Check that the server is alive")
            .answers::<service::Alive>(200, "It is"),
        operation("get", "/readyz", "isReady", "Check that the server can create sandboxes")
            .answers::<service::Ready>(200, "It can")
            .fails(&broken),
        operation("get", "/metrics", "getMetrics", "Numbers for Prometheus")
            .sends(200, "Numbers", metrics),
        operation("get", "/openapi.json", "getDocument", "This document").sends(
            200,
            "OpenAPI 3.1",
            "application/json",
        ),
        operation("get", "/docs", "getPage", "This document as a page").sends(
            200,
            "HTML",
            "text/html",
        ),
    ]
    .into_iter()
    .map(Operation::open)
    .collect()
}
