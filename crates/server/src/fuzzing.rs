//! The entry points of `tests/fuzz`: bodies and queries of requests, and frames of WebSockets.
//!
//! Only there with the feature `fuzzing`; no other code may use it.

use axum::extract::Query;
use axum::http::Uri;
use serde::de::DeserializeOwned;
use silica_domain::{LimitValues, LimitsMax};
use silica_store::Timestamp;

use crate::facade::limits::LimitsBody;
use crate::facade::native::{
    approvals, audit, cells, commands, files, interpret, kernels, keys, run, sandboxes,
};
use crate::http::json;
use crate::links::LinkKey;

/// Reads bytes as each type of request, as a body and as a query.
pub fn request(data: &[u8]) {
    body::<sandboxes::CreateSandboxBody>(data);
    body::<sandboxes::ExtendSandboxBody>(data);
    body::<run::RunBody>(data);
    body::<cells::CellBody>(data);
    body::<cells::ExtendCellBody>(data);
    body::<cells::InputBody>(data);
    body::<commands::CommandBody>(data);
    body::<commands::SignalBody>(data);
    body::<files::DirectoryBody>(data);
    body::<files::MoveBody>(data);
    body::<files::LinkBody>(data);
    body::<keys::CreateKeyBody>(data);
    body::<kernels::CreateKernelBody>(data);
    body::<kernels::QuestionBody>(data);
    body::<interpret::PromptBody>(data);
    body::<interpret::InterpretBody>(data);
    limits(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    query::<approvals::ListQuery>(text);
    query::<audit::SearchQuery>(text);
    query::<files::PathQuery>(text);
    query::<cells::After>(text);
    let key = LinkKey::random().expect("there is randomness");
    let opened = key.open(text, Timestamp::from_micros(0));
    assert!(opened.is_none(), "{text:?} opens a link without a valid seal");
}

/// Reads bytes as a frame of a Jupyter client, in both framings.
pub fn kernel_message(data: &[u8]) {
    crate::facade::jupyter::framing::fuzz(data);
}

fn body<T: DeserializeOwned>(data: &[u8]) {
    drop(json::parse::<T>(data));
}

fn query<T: DeserializeOwned>(text: &str) {
    if let Ok(uri) = Uri::try_from(format!("/?{text}")) {
        drop(Query::<T>::try_from_uri(&uri));
    }
}

/// Limits that are accepted are within what the operator allows.
fn limits(data: &[u8]) {
    let (default, max) = (LimitValues::default(), LimitsMax::default());
    let asked = json::parse::<LimitsBody>(data).and_then(|body| body.over(&default));
    if let Ok(asked) = asked
        && let Ok(checked) = asked.checked(&max)
    {
        let within = checked.memory_bytes <= max.0.memory_bytes && checked.wall <= max.0.wall;
        assert!(within, "{checked:?}");
    }
}
