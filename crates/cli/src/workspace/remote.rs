//! A sandbox on a server, through its API.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use silica_domain::{Bundle, CellError, Payload};
use silica_engine::{CellSetup, Control, GuestPath, Watcher};
use silica_mcp::{EventReader, ServerEvent};
use tokio::sync::mpsc;

use super::network::Refusals;
use super::{CellEnding, CellSummary, WorkspaceOptions, input_parts};
use crate::client::Client;
use crate::show;

/// The most bytes of all inputs together; a request has a limit on the server, too.
const INPUTS_BYTES_MAX: u64 = 20 << 20;

/// A sandbox of a server.
#[derive(Debug)]
pub(crate) struct RemoteWorkspace {
    client: Client,
    /// `/v1/sandboxes/ID`
    path: String,
    /// What the server says it enforces.
    containment: Value,
    /// What its network refused.
    refusals: Refusals,
}

/// The kernel that every sandbox starts with.
const FIRST_KERNEL: &str = "k1";

/// How long one request waits for the end of a cell; less than a request may take.
const END_PATIENCE_SECONDS: u64 = 5;

impl RemoteWorkspace {
    /// Asks for a sandbox.
    pub(super) async fn open(options: &WorkspaceOptions<'_>, client: Client) -> Result<Self> {
        let mut body = json!({
            "template": options.template,
            "limits": options.limits.to_json(),
            "env": options.environment.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "inputs": inputs(options.inputs)?,
        });
        if let Some(network) = options.network.to_json()? {
            body["network"] = network;
        }
        let made = client.post_slowly("/v1/sandboxes", &body.to_string()).await?;
        let made = made.json(201, &client)?;
        let id = made["id"].as_str().filter(|id| is_id(id));
        let id = id.context("the server answered without a valid id of the sandbox")?;
        let path = format!("/v1/sandboxes/{id}");
        let containment = made["containment"].clone();
        Ok(Self { path, containment, client, refusals: Refusals::default() })
    }

    pub(super) async fn run(
        &mut self,
        code: &str,
        setup: CellSetup,
        watcher: &mut dyn Watcher,
        controls: &mut mpsc::Receiver<Control>,
    ) -> Result<CellSummary> {
        let body = cell_request(code, setup);
        let path = format!("{}/cells", self.path);
        let mut stream = self.client.stream(&path, &body.to_string()).await?;
        let cell = stream.located_id().filter(|id| is_id(id)).map(str::to_owned);
        let cell = cell.context("the server answered without a valid id of the cell")?;
        let mut reader = EventReader::default();
        let mut state = CellState::Waiting;
        loop {
            tokio::select! {
                chunk = stream.chunk(&self.client) => {
                    let chunk = chunk?.context("the server ended the cell's stream early")?;
                    reader.push(&chunk)?;
                }
                Some(control) = controls.recv() => self.control(control, &cell, state).await,
            }
            while let Some(ServerEvent { name, data }) = reader.next_event()? {
                match name.as_str() {
                    "start" => state = CellState::Running,
                    "stdout" => watcher.stdout(&output(&data)),
                    "stderr" => watcher.stderr(&output(&data)),
                    "result" => watcher.result(&Arc::new(bundle(&data))),
                    "error" => watcher.error(&error(&data)),
                    "approval" if data["state"] == "pending" => tell_approval(&data),
                    "gap" => say!("silica: some output was lost, because it was read too slowly"),
                    "done" => {
                        self.refusals.add_cell(&data);
                        return Ok(summary(&data));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Runs a cell and returns it as the server reports it, with what contained it.
    pub(crate) async fn report(
        &mut self,
        code: &str,
        setup: CellSetup,
        controls: &mut mpsc::Receiver<Control>,
    ) -> Result<Value> {
        let mut body = cell_request(code, setup);
        body["background"] = true.into();
        let path = format!("{}/cells", self.path);
        let answer = self.client.post(&path, &body.to_string()).await?;
        let mut report = answer.json(202, &self.client)?;
        let cell = report["id"].as_str().filter(|id| is_id(id)).map(str::to_owned);
        let cell = cell.context("the server answered without a valid id of the cell")?;
        if report["state"] == "awaiting_approval" {
            tell_approval(&report["approval"]);
        }
        // The server's limits end the cell, and the end of an approval one that waits.
        while report["state"] != "done" {
            let path = format!("{path}/{cell}?wait={END_PATIENCE_SECONDS}");
            tokio::select! {
                answer = self.client.get(&path) => report = answer?.json(200, &self.client)?,
                Some(control) = controls.recv() => {
                    let is_running = report["state"] == "running";
                    let state = if is_running { CellState::Running } else { CellState::Waiting };
                    self.control(control, &cell, state).await;
                }
            }
        }
        self.refusals.add_cell(&report);
        report["containment"] = self.containment.clone();
        Ok(report)
    }

    /// Interrupts the cell, or ends its interpreter; the sandbox too if the cell has yet to start.
    async fn control(&self, control: Control, cell: &str, state: CellState) {
        // The end of the cell tells what came of it.
        let _ = match (control, state) {
            (Control::Interrupt, _) => {
                self.client.post(&format!("{}/cells/{cell}/interrupt", self.path), "").await
            }
            (Control::Kill, CellState::Running) => {
                let path = format!("{}/kernels/{FIRST_KERNEL}/restart", self.path);
                self.client.post(&path, "").await
            }
            (Control::Kill, CellState::Waiting) => self.client.delete(&self.path).await,
            (Control::Extend(_) | Control::Input(_), _) => return,
        };
    }

    /// Fails if the sandbox ended with the interpreter, which the server has replaced otherwise.
    pub(super) async fn check_interpreter(&self) -> Result<()> {
        let sandbox = self.client.get(&self.path).await?.json(200, &self.client)?;
        ensure!(sandbox["state"] == "running", "the whole sandbox ended, with its files");
        Ok(())
    }

    pub(crate) async fn copy_out(&self, guest: &GuestPath, host: &Path) -> Result<u64> {
        let path = format!("{}/files/content?path={}", self.path, encoded(&guest.to_string()));
        let mut stream = self.client.download(&path).await?;
        let failed = || format!("cannot write {}", host.display());
        let mut file = std::fs::File::create(host).with_context(failed)?;
        let mut bytes = 0;
        while let Some(chunk) = stream.chunk(&self.client).await? {
            file.write_all(&chunk).with_context(failed)?;
            bytes += chunk.len() as u64;
        }
        Ok(bytes)
    }

    /// Ends the sandbox; if that fails, its time does.
    pub(crate) async fn close(self) {
        let _ = self.client.delete(&self.path).await;
        self.refusals.tell();
    }
}

/// Whether a cell runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellState {
    /// For its interpreter, or for a person.
    Waiting,
    Running,
}

fn cell_request(code: &str, setup: CellSetup) -> Value {
    let mut body = json!({"code": code, "env": setup.environment});
    if let Some(filename) = setup.filename {
        body["filename"] = filename.into();
    }
    if let Some(arguments) = setup.arguments {
        body["arguments"] = arguments.into_iter().skip(1).collect();
    }
    body
}

fn tell_approval(approval: &Value) {
    let id = show::plain(approval["id"].as_str().unwrap_or_default(), ID_CHARS_MAX);
    say!("silica: a person has to approve the code; the approval is {id}");
}

/// The longest id of the server that is used or shown.
const ID_CHARS_MAX: usize = 100;

/// Returns whether a text from the server can be part of a path as it is.
fn is_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.len() <= ID_CHARS_MAX && text.bytes().all(plain)
}

/// Encodes a text for a query (RFC 3986).
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            encoded.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Reads the files that are sent along.
fn inputs(texts: &[String]) -> Result<Vec<Value>> {
    let mut left = INPUTS_BYTES_MAX;
    let read = |text: &String| {
        let (host, name) = input_parts(text);
        let words = || format!("cannot use {} as an input", host.display());
        let metadata = std::fs::metadata(host).with_context(words)?;
        if metadata.is_dir() {
            bail!("{}: with --url, --in takes files and no directories", host.display());
        }
        ensure!(
            metadata.is_file() && metadata.len() <= left,
            "{}: with --url, all inputs together must have at most {INPUTS_BYTES_MAX} bytes",
            host.display()
        );
        left -= metadata.len();
        let name = name.or_else(|| host.file_name().and_then(|name| name.to_str()));
        let content = std::fs::read(host).with_context(words)?;
        Ok(json!({"name": name, "content_base64": STANDARD.encode(content)}))
    };
    texts.iter().map(read).collect()
}

fn output(data: &Value) -> Vec<u8> {
    match (data["text"].as_str(), data["base64"].as_str()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(base64)) => STANDARD.decode(base64).unwrap_or_default(),
        (None, None) => Vec::new(),
    }
}

fn bundle(data: &Value) -> Bundle {
    let payloads = data["data"].as_object().into_iter().flatten().map(|(mime, value)| {
        let mut payload = Payload { mime: mime.clone(), data: Vec::new() };
        payload.data = match value {
            Value::String(text) if payload.is_textual() => text.as_bytes().to_vec(),
            Value::String(base64) => STANDARD.decode(base64).unwrap_or_default(),
            json => json.to_string().into_bytes(),
        };
        payload
    });
    let metadata = match &data["metadata"] {
        Value::Object(fields) if !fields.is_empty() => data["metadata"].to_string(),
        _ => String::new(),
    };
    Bundle { main: data["main"] == true, payloads: payloads.collect(), metadata, display: None }
}

fn error(data: &Value) -> CellError {
    let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
    let lines = data["traceback"].as_array().into_iter().flatten();
    CellError {
        name: text("name"),
        value: text("value"),
        traceback: lines.filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

/// Reads the cell that the last event carries.
fn summary(cell: &Value) -> CellSummary {
    let outcome = cell["outcome"].as_str().unwrap_or_default();
    let mut notes: Vec<String> = Vec::new();
    let hits = cell["limits_hit"].as_array().into_iter().flatten().map(|hit| &hit["message"]);
    for message in [&cell["message"], &cell["lost"]].into_iter().chain(hits) {
        if let Some(message) = message.as_str().map(|text| show::plain(text, 500))
            && !notes.contains(&message)
        {
            notes.push(message);
        }
    }
    let end = match outcome {
        "exited" => CellEnding::Exited,
        _ if cell["kernel_state"] != "ready" => CellEnding::Lost,
        "ok" => CellEnding::Fine,
        _ => CellEnding::Failed,
    };
    let error =
        (!cell["error"].is_null() && outcome != "interrupted").then(|| error(&cell["error"]));
    let exit_code = cell["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok());
    CellSummary { end, exit_code: exit_code.unwrap_or(1), error, notes }
}
