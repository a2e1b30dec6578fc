//! Every operation: its request, its responses and its errors.

mod account;
mod execution;
mod files;

use serde_json::json;

use super::parts::{Operation, operation, text};
use crate::facade::native::wire::{self, sandbox};
use crate::facade::native::{branching, interpret, kernels, network, run, sandboxes};
use crate::http::problem::Code;

/// Every operation, group by group.
pub(super) fn all() -> Vec<Operation> {
    let groups = [
        ("Run once", run()),
        ("Interpret", interpret()),
        ("Sandboxes", sandboxes()),
        ("Network", network()),
        ("Secrets", account::secrets()),
        ("Kernels", kernels()),
        ("Cells", execution::cells()),
        ("Commands", execution::commands()),
        ("Files", files::files()),
        ("Files", files::more_files()),
        ("Files", files::links()),
        ("Ports", files::ports()),
        ("Approvals", account::approvals()),
        ("Account", account::account()),
        ("Administration", account::administration()),
        ("Service", account::service()),
    ];
    let tagged = |(tag, group): (&'static str, Vec<Operation>)| {
        group.into_iter().map(move |operation| operation.under(tag))
    };
    groups.into_iter().flat_map(tagged).collect()
}

/// The errors of asking for a network.
const NETWORK: [Code; 3] = [Code::BadNetwork, Code::NetworkNotOffered, Code::SecretNotFound];

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
                 sandbox. Code that fails is an answer and not an error: look at `outcome`. Code that \
                 a person must approve is waited for 20 seconds. Then the answer is 202 with the \
                 approval and, in `Location`, the cell: fetch it with `wait`, and files from the \
                 sandbox, until five minutes after its end.",
            )
            .body::<run::RunBody>()
            .answers::<wire::run::RunReport>(200, "The result")
            .answers::<wire::run::RunReport>(202, "The run, which waits for a person")
            .fails(&MAKING)
            .fails(&NETWORK)
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
            .fails(&MAKING)
            .fails(&NETWORK),
        operation("get", one, "getSandbox", "Look at a sandbox")
            .answers::<sandbox::Sandbox>(200, "The sandbox; also one that has ended"),
        operation("delete", one, "deleteSandbox", "End a sandbox").empty("Every process in it has been killed and its id is unknown; its record and its audit log stay"),
        operation("post", "/v1/sandboxes/{sandbox}/extend", "extendSandbox", "Extend its lifetime")
            .body::<sandboxes::ExtendSandboxBody>()
            .answers::<sandbox::Sandbox>(200, "The sandbox"),
        operation("post", "/v1/sandboxes/{sandbox}/fork", "forkSandbox", "Copy a live sandbox")
            .about(
                "Makes sandboxes that go on from the same variables and files, between two cells. \
                 What cannot come along is listed; what would make a copy wrong is refused.",
            )
            .body::<branching::ForkSandboxBody>()
            .answers::<wire::branching::ForkedSandboxes>(201, "The copies, and what they lack")
            .fails(&MAKING)
            .fails(&[Code::CannotFork, Code::Conflict, Code::TooLarge, Code::DiskFull]),
        operation("post", "/v1/sandboxes/{sandbox}/snapshots", "createSnapshot", "Keep its state")
            .about("The snapshot outlives the sandbox, in memory; new sandboxes can start from it.")
            .body::<branching::SnapshotBody>()
            .answers::<wire::branching::Snapshot>(201, "The snapshot")
            .fails(&MAKING)
            .fails(&[Code::CannotFork, Code::Conflict, Code::TooLarge, Code::DiskFull]),
        operation("post", "/v1/sandboxes/{sandbox}/marks", "createMark", "Mark its state")
            .about("The sandbox can be set back to it; the last eight marks are kept.")
            .answers::<wire::branching::Mark>(201, "The mark")
            .fails(&MAKING)
            .fails(&[Code::CannotFork, Code::Conflict, Code::TooLarge, Code::DiskFull]),
        operation("post", "/v1/sandboxes/{sandbox}/undo", "undo", "Set it back to a mark")
            .about("Variables and files are those of the mark; newer marks are forgotten.")
            .body::<branching::UndoBody>()
            .answers::<wire::branching::Mark>(200, "The mark that it was set back to")
            .fails(&MAKING)
            .fails(&[Code::NotFound, Code::Conflict, Code::TooLarge, Code::DiskFull]),
        operation("get", "/v1/snapshots", "listSnapshots", "List own snapshots")
            .answers::<wire::branching::SnapshotList>(200, "All of them"),
        operation("get", "/v1/snapshots/{snapshot}", "getSnapshot", "Look at a snapshot")
            .answers::<wire::branching::Snapshot>(200, "The snapshot"),
        operation("delete", "/v1/snapshots/{snapshot}", "deleteSnapshot", "Delete a snapshot")
            .empty("It is gone; sandboxes that started from it go on"),
        operation("get", "/v1/sandboxes/{sandbox}/usage", "getUsage", "Get its usage")
            .answers::<sandbox::UsageReport>(200, "Now, and over the last hour"),
    ]
}

fn network() -> Vec<Operation> {
    let place = "/v1/sandboxes/{sandbox}/network";
    let check = "/v1/sandboxes/{sandbox}/network/check";
    let connections = "/v1/sandboxes/{sandbox}/network/connections";
    vec![
        operation("get", place, "getNetwork", "Look at its network")
            .answers::<wire::network::Network>(200, "The rules in force, and whose they are"),
        operation("put", place, "setNetwork", "Replace its network")
            .about(
                "Connections that the new rules do not allow are closed before the answer. Processes \
                 that run keep their variables.",
            )
            .body::<network::NetworkBody>()
            .empty("It has the new network")
            .fails(&NETWORK)
            .fails(&[Code::CannotCreate]),
        operation("post", check, "checkNetwork", "Ask whether a connection would be allowed")
            .about("Opens nothing and looks nothing up.")
            .body::<network::CheckBody>()
            .answers::<wire::network::NetworkCheck>(200, "What the rules say")
            .fails(&[Code::BadNetwork]),
        operation("get", connections, "listConnections", "List its connections")
            .answers::<wire::network::ConnectionList>(200, "Open ones and the last that ended")
            .fails(&[Code::CannotCreate]),
    ]
}

fn kernels() -> Vec<Operation> {
    let (all, one) =
        ("/v1/sandboxes/{sandbox}/kernels", "/v1/sandboxes/{sandbox}/kernels/{kernel}");
    let interrupt = "/v1/sandboxes/{sandbox}/kernels/{kernel}/interrupt";
    let restart = "/v1/sandboxes/{sandbox}/kernels/{kernel}/restart";
    let complete = "/v1/sandboxes/{sandbox}/kernels/{kernel}/complete";
    let inspect = "/v1/sandboxes/{sandbox}/kernels/{kernel}/inspect";
    let check = "/v1/sandboxes/{sandbox}/kernels/{kernel}/check";
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
        asking(complete, "completeCode", "Complete a name")
            .about("Names that can follow the code before a cursor. Waits for the cell that runs.")
            .answers::<wire::question::CompletionList>(200, "The names"),
        asking(inspect, "inspectName", "Look a name up")
            .about("Signature and documentation of the name at a cursor. Waits for the cell that runs.")
            .answers::<wire::question::Inspection>(200, "What it is"),
        asking(check, "checkCode", "Say whether code is complete")
            .about("For editors that read code line by line. Waits for the cell that runs.")
            .answers::<wire::question::CodeCheck>(200, "Whether it is"),
    ]
}

/// A question about code that is not run.
fn asking(path: &'static str, id: &'static str, title: &'static str) -> Operation {
    operation("post", path, id, title).body::<kernels::QuestionBody>().fails(&[
        Code::QuotaExceeded,
        Code::ShuttingDown,
        Code::CannotCreate,
    ])
}
