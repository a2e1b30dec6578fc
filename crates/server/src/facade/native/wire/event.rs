//! Events of cells and commands, as server-sent events carry them.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value};
use silica_domain::CommMessage;
use silica_sessions::OutputText;

use super::Base64;
use super::approval::CellApproval;
use super::cell::{Bundle, Cell, CellError};
use super::command::Command;
use crate::http::payload::JsonText;

/// Output as it was printed; bytes that are not UTF-8 in base 64
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(transform = either)]
pub(crate) enum OutputEvent<'a> {
    Text { text: &'a str },
    Bytes { base64: Base64 },
}

/// Describes both forms of output as one object.
fn either(schema: &mut Schema) {
    schema.remove("anyOf");
    schema.insert("type".to_owned(), "object".into());
    schema.insert(
        "properties".to_owned(),
        serde_json::json!({
            "text": {"type": "string"},
            "base64": {"type": "string", "contentEncoding": "base64"},
        }),
    );
}

impl<'a> From<&'a OutputText> for OutputEvent<'a> {
    fn from(text: &'a OutputText) -> Self {
        match text {
            OutputText::Utf8(text) => Self::Text { text },
            OutputText::Bytes(bytes) => Self::Bytes { base64: Base64(bytes.to_vec()) },
        }
    }
}

/// Events that are missing
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GapEvent {
    /// How many were dropped before the next one, because the client read too slowly
    pub(crate) events: u64,
}

/// The code waits for a line of input
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct InputEvent {
    /// What it asks
    pub(crate) prompt: String,
    /// Whether the line must not be shown
    pub(crate) password: bool,
}

/// What was shown before is to be removed
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct ClearEvent {
    /// Whether to wait until something else is shown
    pub(crate) wait: bool,
}

/// A message of a comm, as widgets send it
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct CommEvent<'a> {
    /// What it does
    #[schemars(extend("enum" = ["open", "message", "close"]))]
    kind: &'static str,
    /// The comm
    id: &'a str,
    /// What a new comm is for
    target: &'a str,
    /// Its data
    #[schemars(with = "Value")]
    data: JsonText<'a>,
    /// Its buffers
    #[schemars(with = "Vec<String>")]
    buffers: Vec<Base64>,
}

impl<'a> From<&'a CommMessage> for CommEvent<'a> {
    fn from(comm: &'a CommMessage) -> Self {
        Self {
            kind: comm.kind.name(),
            id: &comm.id,
            target: &comm.target,
            data: JsonText(&comm.data),
            buffers: comm.buffers.iter().map(|buffer| Base64(buffer.clone())).collect(),
        }
    }
}

/// The cell was recorded and begins
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct CellStarted {
    /// The cell's id
    pub(crate) cell: String,
    /// Its kernel
    pub(crate) kernel: String,
}

/// The command has started
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, transform = super::promised(&["command"]))]
pub(crate) struct CommandStarted {
    /// The command's id
    pub(crate) command: String,
    /// Its process, as the sandbox sees it
    #[schemars(with = "Option<u32>")]
    pub(crate) process_id: u32,
}

/// A stream of events. OpenAPI 3.1 cannot describe one, so the kinds of events are in `x-events`.
pub(crate) fn stream(about: &str, events: &Map<String, Value>) -> Schema {
    json_schema!({"type": "string", "description": about, "x-events": events})
}

const ABOUT: &str = "Server-sent events, numbered from 1; a client that reconnects sends \
                     Last-Event-ID. The last one is `done`.";

/// The events of a cell. Only its schema is used.
#[derive(Debug)]
pub(crate) enum CellEventStream {}

impl JsonSchema for CellEventStream {
    fn schema_name() -> Cow<'static, str> {
        "CellEvents".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut events = Map::new();
        let mut add =
            |name: &str, schema: Schema| events.insert(name.to_owned(), schema.to_value());
        add("approval", generator.subschema_for::<CellApproval>());
        add("start", generator.subschema_for::<CellStarted>());
        add("stdout", generator.subschema_for::<OutputEvent<'_>>());
        add("stderr", generator.subschema_for::<OutputEvent<'_>>());
        add("result", generator.subschema_for::<Bundle>());
        add("error", generator.subschema_for::<CellError>());
        add("input", generator.subschema_for::<InputEvent>());
        add("clear", generator.subschema_for::<ClearEvent>());
        add("comm", generator.subschema_for::<CommEvent<'_>>());
        add("gap", generator.subschema_for::<GapEvent>());
        add("done", generator.subschema_for::<Cell>());
        stream(ABOUT, &events)
    }
}

/// The events of a command. Only its schema is used.
#[derive(Debug)]
pub(crate) enum CommandEventStream {}

impl JsonSchema for CommandEventStream {
    fn schema_name() -> Cow<'static, str> {
        "CommandEvents".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut events = Map::new();
        let mut add =
            |name: &str, schema: Schema| events.insert(name.to_owned(), schema.to_value());
        add("start", generator.subschema_for::<CommandStarted>());
        add("stdout", generator.subschema_for::<OutputEvent<'_>>());
        add("stderr", generator.subschema_for::<OutputEvent<'_>>());
        add("gap", generator.subschema_for::<GapEvent>());
        add("done", generator.subschema_for::<Command>());
        stream(ABOUT, &events)
    }
}
