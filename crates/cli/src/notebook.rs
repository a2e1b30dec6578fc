//! Jupyter notebooks: the cells of a file, and a file with what the cells printed and showed.
//!
//! Outputs come from the guest. They are written by a serializer and never as text, so they cannot
//! break out of their place in the file.

#[cfg(test)]
mod tests;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use silica_domain::{Bundle, CellError, Payload};

/// The largest notebook that is read.
pub(crate) const NOTEBOOK_BYTES_MAX: usize = 64 << 20;

/// A notebook of format 4.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Notebook {
    document: Map<String, Value>,
    cells: Vec<Map<String, Value>>,
}

/// Everything that a cell printed and showed, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CellOutputs(Vec<Value>);

/// A cell of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeCell {
    /// Its place among all cells, from 0.
    pub(crate) index: usize,
    pub(crate) code: String,
    /// Whether its author expects it to fail (the tag `raises-exception`).
    pub(crate) may_fail: bool,
}

impl Notebook {
    /// Returns a notebook with one cell.
    pub(crate) fn of_code(code: &str) -> Self {
        let document = json!({
            "cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
        });
        let cell = json!({
            "cell_type": "code", "execution_count": null, "id": "cell-1", "metadata": {},
            "outputs": [], "source": code,
        });
        let object = |value: Value| match value {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        Self { document: object(document), cells: vec![object(cell)] }
    }

    /// Parses a notebook file. `name` is for messages.
    pub(crate) fn parse(bytes: &[u8], name: &str) -> Result<Self> {
        let document: Value = serde_json::from_slice(bytes)
            .with_context(|| format!("{name} is not a notebook: it is not JSON"))?;
        let Value::Object(mut document) = document else {
            bail!("{name} is not a notebook: it is not a JSON object");
        };
        let version = document.get("nbformat").and_then(Value::as_u64);
        ensure!(
            version == Some(4),
            "{name} is not a notebook of format 4; convert it with: jupyter nbconvert --to notebook"
        );
        // The format wants metadata; a file made by hand may have none.
        let named = |part: &str, field: &str| document.get("metadata")?[part][field].as_str();
        let language = named("kernelspec", "language")
            .or_else(|| named("language_info", "name"))
            .unwrap_or("python");
        ensure!(
            language.eq_ignore_ascii_case("python"),
            "{name} is a notebook for {language:?}; Silica runs Python"
        );
        let emptied = document.insert("cells".to_owned(), Value::Array(Vec::new()));
        let Some(Value::Array(cells)) = emptied else {
            bail!("{name} is not a notebook: it has no list of cells");
        };
        let cells = cells.into_iter().map(|cell| match cell {
            Value::Object(cell) => Ok(cell),
            _ => bail!("{name} is not a notebook: a cell is not an object"),
        });
        Ok(Self { document, cells: cells.collect::<Result<_>>()? })
    }

    /// Returns the cells of code that are not empty, in order.
    pub(crate) fn code_cells(&self) -> Vec<CodeCell> {
        let is_code = |cell: &Map<String, Value>| cell.get("cell_type") == Some(&json!("code"));
        let cells = self.cells.iter().enumerate().filter(|(_, cell)| is_code(cell));
        let cells = cells.map(|(index, cell)| CodeCell {
            index,
            code: text(cell.get("source")),
            may_fail: has_tag(cell, "raises-exception"),
        });
        cells.filter(|cell| !cell.code.trim().is_empty()).collect()
    }

    /// Forgets what the cells of code printed and showed before.
    pub(crate) fn clear(&mut self) {
        for cell in &mut self.cells {
            if cell.get("cell_type") == Some(&json!("code")) {
                cell.insert("outputs".to_owned(), json!([]));
                cell.insert("execution_count".to_owned(), Value::Null);
            }
        }
    }

    /// Sets what a cell printed and showed, as the `count`th cell that ran.
    pub(crate) fn set_outputs(&mut self, index: usize, count: u64, outputs: CellOutputs) {
        let Some(cell) = self.cells.get_mut(index) else { return };
        let mut outputs = outputs.0;
        for output in &mut outputs {
            if output["output_type"] == "execute_result" {
                output["execution_count"] = count.into();
            }
        }
        cell.insert("outputs".to_owned(), outputs.into());
        cell.insert("execution_count".to_owned(), count.into());
    }

    /// Writes the notebook: to a file beside first, which then takes the name, so that a reader
    /// never sees half of it.
    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let mut document = self.document.clone();
        document.insert("cells".to_owned(), self.cells.clone().into());
        let failed = || format!("cannot write {}", path.display());
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut file = tempfile::Builder::new()
            .prefix(".silica-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(directory)
            .with_context(failed)?;
        serde_json::to_writer_pretty(&mut file, &document).with_context(failed)?;
        file.write_all(b"\n").with_context(failed)?;
        file.persist(path).with_context(failed)?;
        Ok(())
    }
}

impl CellOutputs {
    /// Adds bytes of a stream, `stdout` or `stderr`; joins them with those before.
    pub(crate) fn stream(&mut self, name: &str, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let added = String::from_utf8_lossy(bytes);
        if let Some(last) = self.0.last_mut().filter(|last| last["name"] == name)
            && let Value::String(text) = &mut last["text"]
        {
            text.push_str(&added);
            return;
        }
        self.0.push(json!({"output_type": "stream", "name": name, "text": added}));
    }

    /// Adds a result.
    pub(crate) fn result(&mut self, bundle: &Bundle) {
        let data: Map<String, Value> =
            bundle.payloads.iter().map(|payload| (payload.mime.clone(), value(payload))).collect();
        let metadata: Map<String, Value> =
            serde_json::from_str(&bundle.metadata).unwrap_or_default();
        let kind = if bundle.main { "execute_result" } else { "display_data" };
        let mut output = json!({"output_type": kind, "data": data, "metadata": metadata});
        if bundle.main {
            output["execution_count"] = Value::Null;
        }
        self.0.push(output);
    }

    /// Adds the exception that ended the cell.
    pub(crate) fn error(&mut self, error: &CellError) {
        self.0.push(json!({
            "output_type": "error", "ename": error.name, "evalue": error.value,
            "traceback": error.traceback,
        }));
    }
}

/// Returns one representation as the format wants it: JSON as JSON, text as text, others in base 64.
fn value(payload: &Payload) -> Value {
    if !payload.is_textual() {
        return STANDARD.encode(&payload.data).into();
    }
    let is_json = payload.mime == "application/json" || payload.mime.ends_with("+json");
    let parsed = is_json.then(|| serde_json::from_slice(&payload.data).ok()).flatten();
    parsed.unwrap_or_else(|| String::from_utf8_lossy(&payload.data).into())
}

/// Returns a text that is written as one string or as a list of lines.
fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

fn has_tag(cell: &Map<String, Value>, tag: &str) -> bool {
    let tags = cell.get("metadata").map(|metadata| &metadata["tags"]);
    tags.and_then(Value::as_array).is_some_and(|tags| tags.iter().any(|other| other == tag))
}
