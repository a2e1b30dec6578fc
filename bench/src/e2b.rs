//! E2B's own Python SDK against our server, interleaved with the same calls to a bare one on loopback.
//!
//! `e2b.py` does the calls, under an interpreter in which the SDK is installed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::Arguments;
use crate::http::Served;
use crate::measure::{Promise, Row, Samples};

const PROGRAM: &str = include_str!("e2b.py");

/// What is promised of each call, in milliseconds.
const RUN_CODE_MS: f64 = 5.0;
const CREATE_MS: f64 = 15.0;

/// Both measures.
pub(crate) fn run_all(arguments: &Arguments, home: &Path, python: &Path) -> Result<Vec<Row>> {
    let served = Served::start(arguments, home)?;
    let (url, key) = served.url_and_key();
    let output = Command::new(python)
        .args(["-c", PROGRAM, &url, &key, &arguments.samples.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", python.display()))?;
    ensure!(output.status.success(), "the SDK's program failed");
    let times: Value = serde_json::from_slice(&output.stdout).context("it gave no times")?;
    Ok(vec![
        row("e2b: run_code('print(1)') by its SDK", &times, "run_code", RUN_CODE_MS),
        row("e2b: Sandbox.create() by its SDK", &times, "create", CREATE_MS),
    ])
}

fn row(name: &'static str, times: &Value, what: &str, bar: f64) -> Row {
    let (ours, bare) = (samples(&times[what]), samples(&times[format!("{what}_bare")]));
    let note = format!("{:.2} times a bare call of the same client", ours.p50() / bare.p50());
    let promise = Promise { value: ours.p50(), bar, unit: "ms" };
    Row { name, ours: Some(ours), baseline: Some(bare), promise, note }
}

fn samples(seconds: &Value) -> Samples {
    let mut samples = Samples::default();
    for second in seconds.as_array().into_iter().flatten().filter_map(Value::as_f64) {
        samples.push(Duration::from_secs_f64(second));
    }
    samples
}
