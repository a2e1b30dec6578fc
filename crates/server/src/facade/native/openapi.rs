//! The API as an OpenAPI 3.1 document, and as a page to read.
//!
//! The document is generated from the list of operations (`operations`), the types that handlers parse
//! and serialise (`schemas`) and the error codes (`errors`). Tests hold it to the router's table of
//! routes and to the parsers. A copy of it is kept in `openapi.json` beside the crate's manifest, so
//! that a change of the API is seen in review.

pub(crate) mod errors;
mod operations;
mod page;
mod parts;
mod schemas;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::wire::problem::ProblemBody;
use schemas::{Schemas, schema_of};

/// Returns the text of the document.
pub(crate) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| document().to_string());
    &TEXT
}

/// Returns the text of the page.
pub(crate) fn page() -> &'static str {
    static PAGE: LazyLock<String> = LazyLock::new(|| page::write(&document()));
    &PAGE
}

/// The groups of operations, in the order in which they are shown.
const TAGS: [(&str, &str); 14] = [
    ("Run once", "Code in, everything out, sandbox gone."),
    ("Interpret", "A prompt in, an answer out: a model writes code, which is checked and run."),
    ("Sandboxes", "Isolated places with their files, processes, limits and end."),
    (
        "Kernels",
        "Live interpreters in a sandbox. It starts with `k1`; each has variables of its own, files \
         are common.",
    ),
    (
        "Cells",
        "Pieces of code run in a kernel, one after the other. Wait for one, stream its events with \
         `Accept: text/event-stream`, or run it in the background and fetch it.",
    ),
    ("Network", "What a sandbox may reach, and what it has reached."),
    ("Secrets", "Values that code in sandboxes uses and never sees; they never come back."),
    ("Commands", "Processes run in a sandbox, with their input, signals and terminals."),
    (
        "Files",
        "Paths are absolute or relative to `/workspace`. Files are changed in `/workspace`, \
         `/home/user` and `/tmp`, where no link is followed. Any other path can be listed and \
         read: a process in the sandbox does it, with its rights.",
    ),
    (
        "Ports",
        "Servers in a sandbox. Any method of `/v1/sandboxes/{sandbox}/ports/{port}/…` is passed on to \
         the server that listens on that port, and its answer comes back; WebSocket works too.",
    ),
    ("Approvals", "Code that waits for a person before it runs, and decisions on it."),
    ("Account", "What a key can use, and what was done with it."),
    ("Administration", "For admin keys: keys, the sandboxes of all keys, the audit log's chain."),
    ("Service", "Without a key: liveness, readiness, metrics and this document."),
];

const ABOUT: &str = "\
Everything below `/v1` needs a key, in `X-API-Key` or `Authorization: Bearer`; what is made with a \
key belongs to it and does not exist for any other. Bodies are JSON unless something else is said; \
no body means `{}`, and an unknown field is an error. Every error is \
`application/problem+json` with a stable `code`. Every answer carries `X-Request-Id`.";

/// Builds the document, which is the same on every server of a version.
pub(crate) fn document() -> Value {
    let tags = TAGS.map(|(name, description)| json!({"name": name, "description": description}));
    let operations = operations::all();
    let mut schemas = Schemas::new();
    let paths = paths(&operations, &mut schemas);
    // Errors are in the components' responses, which refer to the schema by its name.
    schemas.response(schema_of::<ProblemBody<'_>>());
    let (mut requests, responses) = schemas.finish();
    requests.extend(responses);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Silica",
            "summary": "A code interpreter you own",
            "description": ABOUT,
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The server this document comes from"}],
        "security": [{"key": []}, {"bearer": []}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": requests,
            "responses": errors::components(&operations),
            "securitySchemes": {
                "key": {
                    "type": "apiKey", "in": "header", "name": "X-API-Key",
                    "description": "`silica_` and 40 hexadecimal digits",
                },
                "bearer": {
                    "type": "http", "scheme": "bearer", "description": "The same key",
                },
            },
        },
    })
}

fn paths(operations: &[parts::Operation], schemas: &mut Schemas) -> Value {
    let mut paths = Map::new();
    for operation in operations {
        let item = paths.entry(operation.path).or_insert_with(|| json!({}));
        item[operation.method] = operation.render(schemas);
    }
    paths.into()
}
