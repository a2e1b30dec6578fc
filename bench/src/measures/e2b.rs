//! E2B's own Python SDK against our server, interleaved with the same calls to a bare one on
//! loopback.
//!
//! `drivers/e2b.py` does the calls, under an interpreter in which the SDK is installed.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Bench, POOL_SIZE};
use crate::peers::e2b_python;
use crate::results::{Better, Row, Table};
use crate::statistics::Samples;

const PROGRAM: &str = include_str!("../../drivers/e2b.py");

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let python = e2b_python(&bench.place, &bench.plain)?;
    let served = bench.serve(POOL_SIZE)?;
    let (url, key) = served.url_and_key();
    let output = Command::new(&python)
        .args(["-c", PROGRAM, &url, &key, &bench.effort().samples.to_string()])
        .env("LD_LIBRARY_PATH", bench.plain.libraries())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", python.display()))?;
    ensure!(output.status.success(), "the SDK's program failed");
    let times: Value = serde_json::from_slice(&output.stdout).context("it gave no times")?;
    let mut table = Table::new("e2b", "ms", Better::Less);
    for (what, name, number) in
        [("run_code", "run_code('print(1)')", "P24"), ("create", "Sandbox.create()", "P25")]
    {
        let summary = |list: &str| samples(&times[list]).summary().context("it gave no times");
        let (ours, bare) = (summary(what)?, summary(&format!("{what}_bare"))?);
        bench.results.promise(number, ours.p50, "ms");
        bench.results.promise(number, ours.p50 / bare.p50, "×");
        for (place, ours, summary) in [("Silica", true, ours), ("a bare server", false, bare)] {
            table.rows.push(Row { who: format!("{name} on {place}"), ours, summary });
        }
    }
    bench.results.tables.push(table);
    Ok(())
}

/// Seconds as milliseconds.
fn samples(seconds: &Value) -> Samples {
    let values = seconds.as_array().into_iter().flatten().filter_map(Value::as_f64);
    values.map(|seconds| seconds * 1e3).collect()
}
