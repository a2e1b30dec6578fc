//! What the tools are called, what they do and what they take.

use rmcp::model::{Tool, ToolAnnotations};

use crate::arguments::{
    ApprovalStatus, CloseSession, ListFiles, ReadFile, RunCode, RunPython, WriteFile,
};
use crate::render::RunOutput;

/// What a client tells its model about this server.
pub(crate) const INSTRUCTIONS: &str = "Runs code in an isolated sandbox. Variables and files live on between \
    calls of one session. Without session_id a session is made; its id is in the result. If a result names \
    a session_id, pass it on to continue there. Files are below /workspace. Show plots with matplotlib: they \
    come back as images. Code that a policy blocks is not run; the result says which line and what to write \
    instead.";

/// Returns the tools, in the order in which they are listed.
pub(crate) fn all() -> Vec<Tool> {
    let hints = ToolAnnotations::new;
    let tool = |name: &'static str, description: &'static str, annotations: ToolAnnotations| {
        Tool::new(name, description, serde_json::Map::new()).with_annotations(annotations)
    };
    let runs = || hints().read_only(false).destructive(false).open_world(false);
    let reads = || hints().read_only(true).open_world(false);
    vec![
        tool(
            "run_python",
            "Run Python in a sandbox and return what it prints, shows and raises. Variables, imports and \
             files live on for the next call.",
            runs(),
        )
        .with_title("Run Python")
        .with_input_schema::<RunPython>()
        .with_output_schema::<RunOutput>(),
        tool(
            "run_code",
            "Run code in Python, Bash or JavaScript in a sandbox. Languages other than Python need their \
             program in the template of the sandbox.",
            runs(),
        )
        .with_title("Run code")
        .with_input_schema::<RunCode>()
        .with_output_schema::<RunOutput>(),
        tool("list_files", "List a directory of the sandbox.", reads())
            .with_title("List files")
            .with_input_schema::<ListFiles>(),
        tool(
            "read_file",
            "Read a file of the sandbox: text as text, pictures as images, all else in base 64.",
            reads(),
        )
        .with_title("Read a file")
        .with_input_schema::<ReadFile>(),
        tool(
            "write_file",
            "Write a file in the sandbox, for code to read.",
            runs().destructive(true).idempotent(true),
        )
        .with_title("Write a file")
        .with_input_schema::<WriteFile>(),
        tool(
            "close_session",
            "End a session: its variables and files are gone.",
            runs().destructive(true).idempotent(true),
        )
        .with_title("Close a session")
        .with_input_schema::<CloseSession>(),
        tool(
            "approval_status",
            "Say whether a person has approved code that was waiting, and return its result if it has run.",
            reads(),
        )
        .with_title("Status of an approval")
        .with_input_schema::<ApprovalStatus>(),
    ]
}
