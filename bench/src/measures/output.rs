//! The throughput of output, and the memory of the server while it streams.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::{Bench, Opened, SILICA, open_all};
use crate::interleave::{Effort, Lane, interleave};
use crate::peers::PLAIN;
use crate::results::{Better, Row, Table};
use crate::silica::Served;
use crate::statistics::Summary;

const MEGABYTE: usize = 1_000_000;

/// The size of the output of each contender, whose driver answers in one line.
const PRINTED_MB: usize = 5;

/// The size of the output that is streamed for the promise.
const STREAMED_MB: usize = 50;

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    promised(bench)?;
    let effort = bench.effort();
    let effort = Effort { warm_ups: 1, samples: effort.samples.min(10), ..effort };
    let served = bench.serve(0)?;
    let mut client = served.client()?;
    let sandbox = client.create(&json!({}))?;
    let code = printing(PRINTED_MB);
    let (mut opened, absent) = open_all(bench.peers.iter_mut());
    let mut lanes = vec![Lane::new(SILICA, true, || {
        let started = Instant::now();
        let received = stream(&mut client, &sandbox, &code, |_| ())?;
        ensure!(received >= PRINTED_MB * MEGABYTE, "only {received} bytes arrived");
        Ok(started.elapsed())
    })];
    let code = &code;
    lanes.extend(opened.iter_mut().map(|opened| {
        opened.lane(move |contender, session| {
            let run = contender.run(session, code)?;
            let length = run.output.len();
            ensure!(length >= PRINTED_MB * MEGABYTE, "only {length} bytes arrived");
            Ok(run.took)
        })
    }));
    let mut table = as_rates(interleave("stdout", lanes, effort));
    opened.into_iter().for_each(Opened::close);
    table.absent.extend(absent);
    if let (Some(ours), Some(plain)) = (table.row(SILICA), table.row(PLAIN)) {
        bench.results.promise("P17", ours.summary.p50 / plain.summary.p50, "×");
    }
    bench.results.tables.push(table);
    Ok(())
}

fn printing(megabytes: usize) -> String {
    let lines = megabytes * MEGABYTE / 1000;
    format!("import sys\nline = 'x' * 999 + '\\n'\nfor _ in range({lines}): sys.stdout.write(line)")
}

/// Runs code and hands over what it prints; how many bytes came, events around them included.
fn stream(
    client: &mut crate::silica::Client,
    sandbox: &str,
    code: &str,
    mut look: impl FnMut(usize),
) -> Result<usize> {
    let mut received = 0;
    let path = format!("/v1/sandboxes/{sandbox}/cells");
    client.stream(&path, &json!({"code": code}), |chunk| {
        received += chunk.len();
        look(received);
    })?;
    Ok(received)
}

/// Times of so many megabytes as megabytes a second. The order turns round: a long time is a low
/// rate.
fn as_rates(times: Table) -> Table {
    let rate = |milliseconds: f64| PRINTED_MB as f64 / (milliseconds / 1e3);
    let turned = |row: Row| {
        let Summary { count, min, p50, p90, p99 } = row.summary;
        let [min, p50, p90, p99] = [min, p50, p90, p99].map(rate);
        Row { summary: Summary { count, min, p50, p90, p99 }, ..row }
    };
    let rows = times.rows.into_iter().map(turned).collect();
    Table { unit: "MB/s".to_owned(), better: Better::More, rows, ..times }
}

fn promised(bench: &mut Bench) -> Result<()> {
    /// How often the memory of the server is sampled while it streams.
    const LOOK_EVERY: usize = 5 * MEGABYTE;
    let served: Served = bench.serve(0)?;
    let mut client = served.client()?;
    let sandbox = client.create(&json!({}))?;
    let before = served.memory();
    let (mut most, mut looked) = (before, 0);
    let started = Instant::now();
    let received = stream(&mut client, &sandbox, &printing(STREAMED_MB), |received| {
        if received / LOOK_EVERY != looked {
            looked = received / LOOK_EVERY;
            most = most.max(served.memory());
        }
    })?;
    let took: Duration = started.elapsed();
    ensure!(received >= STREAMED_MB * MEGABYTE, "only {received} bytes arrived");
    bench.results.promise("P16", most - before, "MB");
    bench.results.promise("P16", (most - before) / STREAMED_MB as f64, "×");
    bench.results.promise("P17", STREAMED_MB as f64 / took.as_secs_f64(), "MB/s");
    Ok(())
}
