//! The JSON of the native API: one type per response.
//!
//! A response is serialised from its type, and its schema in the OpenAPI document is derived from the
//! same type: doc comments become descriptions. Field names and their order are the contract.

pub(crate) mod account;
pub(crate) mod approval;
pub(crate) mod branching;
pub(crate) mod cell;
pub(crate) mod command;
pub(crate) mod event;
pub(crate) mod file;
pub(crate) mod finding;
pub(crate) mod interpret;
pub(crate) mod network;
pub(crate) mod port;
pub(crate) mod problem;
pub(crate) mod question;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod service;

use std::borrow::Cow;
use std::time::Duration;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use silica_domain::{Limit, Limits};
use silica_engine::{CellReport, Changes};
use silica_interpret::PromptAnswer;
use silica_policy::Policy;
use silica_store::Timestamp;

/// A point in time, as RFC 3339 writes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl JsonSchema for Moment {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Moment".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

/// Bytes in base 64.
#[derive(Clone, Debug)]
pub(crate) struct Base64(pub(crate) Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(&self.0, &STANDARD))
    }
}

impl JsonSchema for Base64 {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Base64".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "contentEncoding": "base64"})
    }
}

/// How much of a cell or command is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Everything.
    Full,
    /// Without output and results, which a stream has sent already and which make a list long.
    Brief,
}

/// Makes the schema of a response promise these properties and no other. Some responses contain more
/// than the contract promises.
pub(crate) fn promised(names: &'static [&'static str]) -> impl FnMut(&mut Schema) {
    move |schema| {
        schema.insert("required".to_owned(), names.into());
    }
}

/// Milliseconds, to the microsecond.
pub(crate) fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// A single run without a server.
#[derive(Debug)]
pub struct EngineRun<'a> {
    /// When it began.
    pub created_at: Timestamp,
    /// How the code ended.
    pub report: &'a CellReport,
    /// The limits it ran under.
    pub limits: &'a Limits,
    /// The name of a limit in messages.
    pub setting: fn(Limit) -> &'static str,
    /// The files that the code created, changed and removed.
    pub files: &'a Changes,
    /// The files that were copied to the host, by path: their sizes, or why not.
    pub outputs: &'a [(String, Result<u64, String>)],
    /// The containment of the sandbox.
    pub containment: &'a silica_domain::Containment,
}

/// Renders the object of `silica run --json`, the same as that of `POST /v1/run`.
pub fn run_report(run: &EngineRun<'_>) -> impl Serialize + use<> {
    run::RunReport::of_engine(run)
}

/// Renders the object of `silica check --json`.
pub fn check_report(policy: &Policy, report: &silica_policy::Report) -> impl Serialize + use<> {
    finding::CheckReport::new(policy, report)
}

/// Renders the object of `silica ask --json`, the same as that of `POST /v1/interpret`.
pub fn interpretation(answered: &PromptAnswer) -> impl Serialize + use<> {
    interpret::Interpretation::from(answered)
}
