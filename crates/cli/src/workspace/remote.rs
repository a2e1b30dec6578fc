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

use super::{CellEnding, CellSummary, WorkspaceOptions, input_parts};
use crate::client::{Client, Streamed};
use crate::show;

/// The most bytes of all inputs together; a request has a limit on the server, too.
const INPUTS_BYTES_MAX: u64 = 20 << 20;

/// A sandbox of a server.
#[derive(Debug)]
pub(crate) struct RemoteWorkspace {
    client: Client,
    /// `/v1/sandboxes/ID`
    path: String,
}

impl RemoteWorkspace {
    /// Asks for a sandbox.
    pub(super) async fn open(options: &WorkspaceOptions<'_>, client: Client) -> Result<Self> {
        let body = json!({
            "template": options.template,
            "limits": options.limits.to_json(),
            "env": options.environment.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "inputs": inputs(options.inputs)?,
        });
        let made = client.post_slowly("/v1/sandboxes", &body.to_string()).await?;
        let made = made.json(201, &client)?;
        let id = made["id"].as_str().filter(|id| is_id(id));
        let id = id.context("the server answered without a valid id of the sandbox")?;
        Ok(Self { path: format!("/v1/sandboxes/{id}"), client })
    }

    pub(super) async fn run(
        &mut self,
        code: &str,
        setup: CellSetup,
        watcher: &mut dyn Watcher,
        controls: &mut mpsc::Receiver<Control>,
    ) -> Result<CellSummary> {
        let mut body = json!({"code": code, "env": setup.environment});
        if let Some(filename) = setup.filename {
            body["filename"] = filename.into();
        }
        if let Some(arguments) = setup.arguments {
            body["arguments"] = arguments.into_iter().skip(1).collect();
        }
        let path = format!("{}/cells", self.path);
        let mut stream = self.client.stream(&path, &body.to_string()).await?;
        let mut reader = EventReader::default();
        let mut cell = None;
        loop {
            tokio::select! {
                chunk = stream.chunk(&self.client) => {
                    let chunk = chunk?.context("the server ended the cell's stream early")?;
                    reader.push(&chunk)?;
                }
                Some(control) = controls.recv() => self.control(control, cell.as_deref()).await,
            }
            while let Some(ServerEvent { name, data }) = reader.next_event()? {
                match name.as_str() {
                    "start" => cell = data["cell"].as_str().map(str::to_owned),
                    "stdout" => watcher.stdout(&output(&data)),
                    "stderr" => watcher.stderr(&output(&data)),
                    "result" => watcher.result(&Arc::new(bundle(&data))),
                    "error" => watcher.error(&error(&data)),
                    "approval" if data["state"] == "pending" => {
                        let id = show::plain(data["id"].as_str().unwrap_or_default(), 100);
                        say!("silica: a person has to approve the code; the approval is {id}");
                    }
                    "gap" => say!("silica: some output was lost, because it was read too slowly"),
                    "done" => return Ok(summary(&data)),
                    _ => {}
                }
            }
        }
    }

    /// Interrupts the cell, or ends the sandbox around it.
    async fn control(&self, control: Control, cell: Option<&str>) {
        // The end of the cell tells what came of it.
        let _ = match (control, cell) {
            (Control::Interrupt, Some(cell)) if is_id(cell) => {
                let path = format!("{}/cells/{cell}/interrupt", self.path);
                self.client.post(&path, "").await
            }
            (Control::Kill | Control::Interrupt, _) => self.client.delete(&self.path).await,
            (Control::Extend(_) | Control::Input(_), _) => return,
        };
    }

    pub(super) async fn copy_out(&self, guest: &GuestPath, host: &Path) -> Result<u64> {
        let path = format!("{}/files/content?path={}", self.path, encoded(&guest.to_string()));
        let Streamed { mut body, .. } = self.client.download(&path).await?;
        let failed = || format!("cannot write {}", host.display());
        let mut file = std::fs::File::create(host).with_context(failed)?;
        let mut bytes = 0;
        while let Some(chunk) = self.client.explained(body.chunk().await)? {
            file.write_all(&chunk).with_context(failed)?;
            bytes += chunk.len() as u64;
        }
        Ok(bytes)
    }

    /// Ends the sandbox; if that fails, its time does.
    pub(crate) async fn close(self) {
        let _ = self.client.delete(&self.path).await;
    }
}

/// Returns whether a text from the server can be part of a path as it is.
fn is_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.len() <= 100 && text.bytes().all(plain)
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
pub(crate) fn inputs(texts: &[String]) -> Result<Vec<Value>> {
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
