//! The arguments of the tools, as models write them.

use schemars::JsonSchema;
use serde::Deserialize;

/// Arguments of `run_python`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunPython {
    /// Python code. The value of the last expression is shown, as in a notebook.
    pub(crate) code: String,
    /// The session to run in. Leave it out for the session of this connection.
    pub(crate) session_id: Option<String>,
    /// The wall-clock time that the code may take, in seconds.
    pub(crate) timeout_seconds: Option<f64>,
}

/// A language of `run_code`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Language {
    Python,
    Bash,
    Javascript,
}

/// Arguments of `run_code`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunCode {
    /// The language. Variables live on between calls in Python only; others run in a new process.
    pub(crate) language: Language,
    /// The code.
    pub(crate) code: String,
    /// The session to run in. Leave it out for the session of this connection.
    pub(crate) session_id: Option<String>,
    /// The wall-clock time that the code may take, in seconds.
    pub(crate) timeout_seconds: Option<f64>,
}

/// Arguments of `list_files`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListFiles {
    /// The directory; /workspace if left out.
    pub(crate) path: Option<String>,
    /// The session. Leave it out for the session of this connection.
    pub(crate) session_id: Option<String>,
}

/// Arguments of `read_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadFile {
    /// The path, absolute or relative to /workspace.
    pub(crate) path: String,
    /// The session. Leave it out for the session of this connection.
    pub(crate) session_id: Option<String>,
}

/// How the content of a file is written in JSON.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum FileEncoding {
    #[default]
    Text,
    Base64,
}

/// Arguments of `write_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteFile {
    /// The path, absolute or relative to /workspace. Missing directories are made.
    pub(crate) path: String,
    /// The content. It replaces the file.
    pub(crate) content: String,
    /// `text`, or `base64` for bytes.
    #[serde(default)]
    pub(crate) encoding: FileEncoding,
    /// The session. Leave it out for the session of this connection.
    pub(crate) session_id: Option<String>,
}

/// Arguments of `close_session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CloseSession {
    /// The session. Leave it out for the session of this connection.
    pub(crate) session_id: Option<String>,
}

/// Arguments of `approval_status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovalStatus {
    /// The id that a run reported.
    pub(crate) approval_id: String,
}
