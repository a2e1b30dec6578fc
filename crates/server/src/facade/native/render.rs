//! Domain types as the JSON that clients see.

pub(crate) mod interpret;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use silica_domain::{Bundle, CellError, Containment, Enforcement, Limit};
use silica_engine::{ChangedFile, Changes, HeadTail};
use silica_sessions::{
    Cell, CellEnd, CellPhase, Command, CommandPhase, KernelInfo, Sample, SessionInfo,
};
use silica_store::Tenant;
use silica_store::approvals::ApprovalRecord;
use silica_store::sandboxes::SandboxRecord;

/// A result: text as text, everything else in base 64.
pub(crate) fn bundle(bundle: &Bundle) -> Value {
    let mut data = Map::new();
    for payload in &bundle.payloads {
        let value = match std::str::from_utf8(&payload.data) {
            Ok(text) if payload.is_textual() && payload.mime.ends_with("json") => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
            }
            Ok(text) if payload.is_textual() => Value::String(text.to_owned()),
            _ => Value::String(STANDARD.encode(&payload.data)),
        };
        data.insert(payload.mime.clone(), value);
    }
    let metadata = serde_json::from_str(&bundle.metadata).unwrap_or_else(|_| json!({}));
    json!({"main": bundle.main, "data": data, "metadata": metadata})
}

/// The containment report, measure by measure.
pub fn containment(containment: &Containment) -> Value {
    let mut measures = Map::new();
    for measure in &containment.measures {
        let (state, detail) = match &measure.enforcement {
            Enforcement::Full(detail) => ("full", detail),
            Enforcement::Partial(detail) => ("partial", detail),
            Enforcement::Missing(detail) => ("missing", detail),
        };
        measures.insert(measure.name.to_owned(), json!({"state": state, "detail": detail}));
    }
    json!({"tier": containment.tier.name(), "measures": measures})
}

pub(crate) fn error(error: &CellError) -> Value {
    json!({"name": error.name, "value": error.value, "traceback": error.traceback})
}

fn text(stream: &HeadTail) -> String {
    String::from_utf8_lossy(&stream.clone().into_bytes()).into_owned()
}

pub(crate) fn millis(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

fn files(changes: &Changes) -> Value {
    let list = |files: &[ChangedFile]| -> Vec<Value> {
        files.iter().map(|file| json!({"path": file.path, "size": file.size})).collect()
    };
    json!({
        "created": list(&changes.created),
        "changed": list(&changes.changed),
        "removed": list(&changes.removed),
        "truncated": changes.truncated,
    })
}

/// How much of a cell is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Everything.
    Full,
    /// Without what was streamed or would make a list long.
    Brief,
}

pub(crate) fn cell(cell: &Cell, detail: Detail) -> Value {
    let end = match cell.phase() {
        CellPhase::AwaitingApproval => return head(cell, "awaiting_approval"),
        CellPhase::Queued => None,
        CellPhase::Running => return head(cell, "running"),
        CellPhase::Done(end) => Some(end),
    };
    match end {
        None => head(cell, "queued"),
        Some(end) => {
            let mut value = head(cell, "done");
            if let Value::Object(map) = &mut value {
                map.extend(ended(&end, detail));
            }
            value
        }
    }
}

fn head(cell: &Cell, state: &str) -> Value {
    let mut value = json!({
        "id": cell.id,
        "kernel": cell.kernel,
        "state": state,
        "created_at": cell.created_at.to_string(),
    });
    if !cell.checked.report.findings.is_empty() {
        value["policy"] = cell.checked.policy.clone().into();
        value["findings"] = cell.checked.findings();
    }
    if let Some(record) = cell.approval() {
        value["approval"] = approval(&record);
    }
    value
}

/// What a cell says of the approval that it waits or waited for.
pub(crate) fn approval(record: &ApprovalRecord) -> Value {
    json!({
        "id": record.id.as_str(),
        "state": record.state.name(),
        "sha256": record.sha256.to_string(),
        "expires_at": record.expires_at.to_string(),
        "decided_by": record.decided_by.as_ref().map(Tenant::as_str),
        "reason": record.reason,
    })
}

/// All of an approval but its code.
pub(crate) fn approval_record(record: &ApprovalRecord) -> Value {
    let mut value = approval(record);
    value["owner"] = record.tenant.as_str().into();
    value["sandbox"] = record.sandbox.as_str().into();
    value["cell"] = record.cell.clone().into();
    value["policy"] = record.policy.clone().into();
    value["findings"] = record.findings.clone();
    value["created_at"] = record.created_at.to_string().into();
    value["decided_at"] = record.decided_at.map(|at| at.to_string()).into();
    value
}

fn ended(end: &CellEnd, detail: Detail) -> Map<String, Value> {
    let report = &end.report;
    let mut map = Map::new();
    map.insert("outcome".into(), report.outcome.name().into());
    map.insert("exit_code".into(), report.outcome.exit_code().into());
    map.insert("message".into(), report.outcome.explain(&end.limits, Limit::field).into());
    if detail == Detail::Full {
        map.insert("stdout".into(), text(&report.stdout).into());
        map.insert("stderr".into(), text(&report.stderr).into());
        let results: Vec<Value> = report.results.iter().map(|result| bundle(result)).collect();
        map.insert("results".into(), results.into());
    }
    let main = report.results.iter().find(|result| result.main);
    let main = main.and_then(|main| main.get("text/plain"));
    map.insert("text".into(), main.map(String::from_utf8_lossy).into());
    map.insert("error".into(), report.error.as_ref().map(error).into());
    map.insert("files".into(), files(&end.files));
    map.insert("duration_ms".into(), millis(report.duration).into());
    let hit = report.limits_hit.iter();
    let hit = hit
        .map(|hit| json!({"limit": hit.limit.name(), "message": hit.message(hit.limit.field())}));
    map.insert("limits_hit".into(), hit.collect::<Vec<_>>().into());
    let truncated = json!({
        "stdout": report.stdout.left_out(),
        "stderr": report.stderr.left_out(),
        "results": report.results_left_out,
    });
    map.insert("truncated".into(), truncated);
    let usage = json!({
        "cpu_ms": report.cpu.map(millis),
        "memory_peak_bytes": report.memory_peak_bytes,
    });
    map.insert("usage".into(), usage);
    map.insert("kernel_state".into(), end.kernel.name().into());
    map.insert("lost".into(), end.lost.clone().into());
    map
}

pub(crate) fn command(command: &Command, detail: Detail) -> Value {
    let mut value = json!({
        "id": command.id,
        "command": command.shown,
        "process_id": command.process_id(),
        "created_at": command.created_at.to_string(),
        "state": "running",
    });
    if let (CommandPhase::Done(end), Value::Object(map)) = (command.phase(), &mut value) {
        map.insert("state".into(), "done".into());
        map.insert("outcome".into(), end.outcome.name().into());
        map.insert("exit_code".into(), end.outcome.exit_code().into());
        map.insert("signal".into(), end.outcome.signal().into());
        map.insert("duration_ms".into(), millis(end.duration).into());
        if detail == Detail::Full {
            map.insert("stdout".into(), text(&end.stdout).into());
            map.insert("stderr".into(), text(&end.stderr).into());
        }
        let truncated = json!({"stdout": end.stdout.left_out(), "stderr": end.stderr.left_out()});
        map.insert("truncated".into(), truncated);
    }
    value
}

pub(crate) fn kernel(kernel: &KernelInfo) -> Value {
    json!({
        "id": kernel.id,
        "state": kernel.phase.name(),
        "cell": kernel.cell,
        "cells_run": kernel.cells_run,
        "restarts": kernel.restarts,
        "created_at": kernel.created_at.to_string(),
    })
}

pub(crate) fn sandbox(info: &SessionInfo, enforced: Option<&Containment>) -> Value {
    json!({
        "id": info.id.as_str(),
        "state": if info.ended.is_some() { "ended" } else { "running" },
        "template": info.template,
        "metadata": info.metadata,
        "limits": silica_sessions::limits_json(&info.limits),
        "created_at": info.created_at.to_string(),
        "expires_at": info.expires_at.to_string(),
        "idle_seconds": info.idle.map(|idle| idle.as_secs()),
        "max_cells": info.max_cells,
        "cells_run": info.cells_run,
        "kernels": info.kernels.iter().map(kernel).collect::<Vec<_>>(),
        "end_reason": info.ended.map(silica_sessions::EndReason::name),
        "ended_at": null,
        "containment": enforced.map(containment),
    })
}

/// A sandbox of which there is only a record.
pub(crate) fn record(record: &SandboxRecord) -> Value {
    json!({
        "id": record.id.as_str(),
        "state": record.state.name(),
        "template": record.template,
        "metadata": record.metadata,
        "limits": record.limits,
        "created_at": record.created_at.to_string(),
        "expires_at": record.expires_at.map(|at| at.to_string()),
        "end_reason": record.end_reason,
        "ended_at": record.ended_at.map(|at| at.to_string()),
        "usage": record.usage,
        "kernels": [],
    })
}

pub(crate) fn sample(sample: &Sample) -> Value {
    json!({
        "at": sample.at.to_string(),
        "cpu_ms": sample.cpu_ms,
        "memory_bytes": sample.memory_bytes,
        "memory_peak_bytes": sample.memory_peak_bytes,
        "disk_bytes": sample.disk_bytes,
        "files": sample.files,
    })
}
