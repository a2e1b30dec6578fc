//! Responses of the native API as content for models: text, pictures, links, and one structured value.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::calls::{CallError, encoded, is_id};

/// The most files of one run that are linked.
const LINKS_MAX: usize = 20;

/// The most findings of a policy that are listed.
const FINDINGS_MAX: usize = 10;

/// The pictures that clients show.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The forms of a result that are shown as text, best first.
const TEXTS: [&str; 4] = ["text/plain", "text/markdown", "text/latex", "text/html"];

/// The form of a table as data.
const TABLE: &str = "application/vnd.silica.data+json";

/// What a run did
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct RunOutput {
    /// The session; pass it on to continue with its variables and files
    pub(crate) session_id: String,
    /// How the code ended: `ok`, `raised`, `exited`, `timed_out`, …; `awaiting_approval` if it has not run
    pub(crate) outcome: String,
    /// The exit status that a shell would show
    pub(crate) exit_code: i64,
    /// Standard output
    pub(crate) stdout: String,
    /// Standard error
    pub(crate) stderr: String,
    /// What the code showed, in order
    pub(crate) results: Vec<ResultOutput>,
    /// The exception that ended the code
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ErrorOutput>,
    /// What else is to be known: limits that were reached, what was lost
    pub(crate) notes: Vec<String>,
    /// Files that the code created or changed
    pub(crate) files: Vec<FileOutput>,
    /// Wall-clock time
    pub(crate) duration_ms: f64,
    /// The approval that the code waits for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approval_id: Option<String>,
}

/// Something that the code showed
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResultOutput {
    /// Its MIME types
    types: Vec<String>,
    /// Its text
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// A table as data
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<Value>,
}

/// An exception
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ErrorOutput {
    /// Its class
    name: String,
    /// Its message
    value: String,
    /// Its traceback
    traceback: String,
}

/// A file
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FileOutput {
    /// Its path
    path: String,
    /// Its size in bytes
    size: u64,
    /// Its address as a resource
    uri: String,
}

/// Returns a text as a failed result.
pub(crate) fn failure(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// Returns the address of a file as a resource.
pub(crate) fn uri(session: &str, path: &str) -> String {
    format!("sandbox://{session}/{}", encoded(path.trim_start_matches('/')))
}

/// Returns the session and the path in the address of a file.
pub(crate) fn parse_uri(uri: &str) -> Option<(String, String)> {
    let (session, path) = uri.strip_prefix("sandbox://")?.split_once('/')?;
    let path = decoded(path)?;
    is_id(session).then(|| (session.to_owned(), format!("/{path}")))
}

/// Decodes percent signs; `None` for what is not UTF-8 or not encoded rightly.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first == b'%' {
            let (pair, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Returns what the API says about a refusal, with the findings of a policy line by line.
pub(crate) fn refusal(error: &CallError) -> CallToolResult {
    let problem = match error {
        CallError::Refused(problem) => problem,
        CallError::Failed(text) => return failure(text.clone()),
    };
    let mut text = string(&problem["detail"]);
    let findings = problem["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
    for finding in findings.iter().take(FINDINGS_MAX) {
        let code = string(&finding["code"]);
        // Writing to a string cannot fail.
        let _ = write!(text, "\n- line {}: {code}: {}", finding["line"], string(&finding["why"]));
        if let Some(instead) = finding["instead"].as_str() {
            let _ = write!(text, " Instead: {instead}");
        }
    }
    if problem["code"] == "policy_blocked" {
        text.push_str("\nThe code was not run. Change it and try again.");
    }
    let mut result = failure(text);
    result.structured_content = Some((**problem).clone());
    result
}

/// Renders a cell that has ended.
pub(crate) fn cell(session: &str, cell: &Value) -> CallToolResult {
    let mut output = RunOutput {
        session_id: session.to_owned(),
        outcome: string(&cell["outcome"]),
        exit_code: cell["exit_code"].as_i64().unwrap_or_default(),
        stdout: string(&cell["stdout"]),
        stderr: string(&cell["stderr"]),
        error: error(&cell["error"]),
        notes: notes(cell),
        duration_ms: cell["duration_ms"].as_f64().unwrap_or_default(),
        ..RunOutput::default()
    };
    let mut shown = Vec::new();
    for result in array(&cell["results"]) {
        let text = text_of(&result["data"]);
        shown.extend(picture(&result["data"]).or_else(|| text.clone().map(ContentBlock::text)));
        output.results.push(ResultOutput {
            types: result["data"]
                .as_object()
                .into_iter()
                .flat_map(|data| data.keys().cloned())
                .collect(),
            text,
            table: result["data"].get(TABLE).cloned(),
        });
    }
    for file in array(&cell["files"]["created"]).iter().chain(array(&cell["files"]["changed"])) {
        let path = string(&file["path"]);
        let uri = uri(session, &path);
        output.files.push(FileOutput {
            size: file["size"].as_u64().unwrap_or_default(),
            uri,
            path,
        });
    }
    finish(output, shown)
}

/// Renders a command that has ended.
pub(crate) fn command(session: &str, command: &Value) -> CallToolResult {
    let exit_code = command["exit_code"].as_i64().unwrap_or_default();
    let outcome = match string(&command["outcome"]) {
        outcome if outcome == "exited" && exit_code == 0 => "ok".to_owned(),
        outcome => outcome,
    };
    let output = RunOutput {
        session_id: session.to_owned(),
        outcome,
        exit_code,
        stdout: string(&command["stdout"]),
        stderr: string(&command["stderr"]),
        duration_ms: command["duration_ms"].as_f64().unwrap_or_default(),
        ..RunOutput::default()
    };
    finish(output, Vec::new())
}

/// Renders a cell that waits for a person.
pub(crate) fn waiting(session: &str, approval: &str) -> CallToolResult {
    let text = format!(
        "A person has to approve this code before it runs. The approval is {approval}. Call approval_status \
         with it later to get the result; do not send the code again."
    );
    let output = RunOutput {
        session_id: session.to_owned(),
        outcome: "awaiting_approval".to_owned(),
        approval_id: Some(approval.to_owned()),
        ..RunOutput::default()
    };
    let mut result = failure(text);
    result.structured_content = serde_json::to_value(output).ok();
    result
}

/// Puts the parts of a result in the order in which a person would read them.
fn finish(output: RunOutput, shown: Vec<ContentBlock>) -> CallToolResult {
    let mut content = Vec::new();
    if !output.stdout.is_empty() {
        content.push(ContentBlock::text(output.stdout.clone()));
    }
    if !output.stderr.is_empty() {
        content.push(ContentBlock::text(format!("stderr:\n{}", output.stderr)));
    }
    content.extend(shown);
    if let Some(error) = &output.error {
        content.push(ContentBlock::text(error.traceback.clone()));
    }
    for note in &output.notes {
        content.push(ContentBlock::text(note.clone()));
    }
    if content.is_empty() {
        content.push(ContentBlock::text(format!("{}, without output", output.outcome)));
    }
    content.push(ContentBlock::text(format!("session_id: {}", output.session_id)));
    for file in output.files.iter().take(LINKS_MAX) {
        let name = file.path.rsplit('/').next().unwrap_or(&file.path);
        let mut link = Resource::new(file.uri.clone(), name).with_size(file.size);
        if let Some(mime) = mime_of(&file.path) {
            link = link.with_mime_type(mime);
        }
        content.push(ContentBlock::resource_link(link));
    }
    let failed = output.outcome != "ok" && !(output.outcome == "exited" && output.exit_code == 0);
    let mut result =
        if failed { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = serde_json::to_value(output).ok();
    result
}

/// Renders a directory.
pub(crate) fn listing(listing: &Value) -> CallToolResult {
    let mut text = String::new();
    for entry in array(&listing["entries"]) {
        let kind = string(&entry["kind"]);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:>12} {kind:9} {}", entry["size"], string(&entry["path"]));
    }
    if text.is_empty() {
        text.push_str("the directory is empty");
    }
    if listing["truncated"] == true {
        text.push_str("there are more files than are listed\n");
    }
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(listing.clone());
    result
}

/// Renders the content of a file.
pub(crate) fn file(session: &str, path: &str, bytes: Vec<u8>) -> CallToolResult {
    let mime = mime_of(path);
    if let Some(mime) = mime.filter(|mime| PICTURES.contains(mime)) {
        let picture = ContentBlock::image(STANDARD.encode(bytes), mime);
        return CallToolResult::success(vec![picture]);
    }
    let content = match String::from_utf8(bytes) {
        Ok(text) => ContentBlock::text(text),
        Err(error) => ContentBlock::resource(contents(session, path, error.into_bytes())),
    };
    CallToolResult::success(vec![content])
}

/// Returns the content of a file as a resource.
pub(crate) fn contents(session: &str, path: &str, bytes: Vec<u8>) -> ResourceContents {
    let uri = uri(session, path);
    let contents = match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, uri),
        Err(error) => ResourceContents::blob(STANDARD.encode(error.as_bytes()), uri)
            .with_mime_type("application/octet-stream"),
    };
    match mime_of(path) {
        Some(mime) => contents.with_mime_type(mime),
        None => contents,
    }
}

/// Returns the MIME type that the name of a file stands for.
fn mime_of(path: &str) -> Option<&'static str> {
    let (_, ending) = path.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "pdf" => "application/pdf",
        "csv" => "text/csv",
        "json" => "application/json",
        "html" | "htm" => "text/html",
        "md" => "text/markdown",
        "txt" | "log" => "text/plain",
        "py" => "text/x-python",
        _ => return None,
    })
}

fn picture(data: &Value) -> Option<ContentBlock> {
    let mime = PICTURES.into_iter().find(|mime| data.get(*mime).is_some_and(Value::is_string))?;
    let base64 = data[mime].as_str()?;
    Some(ContentBlock::image(base64.split_whitespace().collect::<String>(), mime))
}

fn text_of(data: &Value) -> Option<String> {
    TEXTS.iter().find_map(|mime| data.get(*mime).and_then(Value::as_str)).map(str::to_owned)
}

fn error(error: &Value) -> Option<ErrorOutput> {
    let lines = error.get("traceback")?.as_array()?;
    let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
    Some(ErrorOutput {
        name: string(&error["name"]),
        value: string(&error["value"]),
        traceback: lines.join("\n"),
    })
}

fn notes(cell: &Value) -> Vec<String> {
    let hits = array(&cell["limits_hit"]).iter().map(|hit| &hit["message"]);
    let mut notes: Vec<String> = Vec::new();
    for note in [&cell["message"], &cell["lost"]].into_iter().chain(hits) {
        if let Some(note) = note.as_str().filter(|note| !notes.iter().any(|known| known == note)) {
            notes.push(note.to_owned());
        }
    }
    notes
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
