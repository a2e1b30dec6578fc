//! The time from the start to the first output, with a new sandbox for each sample.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{Bench, DESCRIBE, ON_DEMAND, POOL, POOL_SIZE, PRINT, fresh_lanes};
use crate::interleave::{Lane, interleave};
use crate::peers::{Contender, PLAIN, Run};
use crate::results::Row;

/// Runs `silica run` for one piece of code.
const WHOLE: &str = "silica run";

pub(super) fn print(bench: &mut Bench) -> Result<()> {
    measure(bench, "start-print", PRINT, |run| run.printing("1"))?;
    let table = bench.results.table("start-print").context("it was just measured")?;
    let median = |row: Option<&Row>| row.map(|row| row.summary.p50);
    if let (Some(whole), Some(plain)) = (median(table.row(WHOLE)), median(table.row(PLAIN))) {
        bench.results.promise("P9", whole / plain, "×");
    }
    Ok(())
}

pub(super) fn pandas(bench: &mut Bench) -> Result<()> {
    measure(bench, "start-pandas", DESCRIBE, |run| {
        ensure!(run.output.contains("49.5"), "it printed {:?}", run.output);
        Ok(run.took)
    })
}

fn measure(
    bench: &mut Bench,
    name: &str,
    code: &'static str,
    right: fn(Run) -> Result<Duration>,
) -> Result<()> {
    let effort = bench.effort();
    let (mut pool, mut on_demand) = (bench.serve(POOL_SIZE)?, bench.serve(0)?);
    let silica = bench.silica.clone();
    let mut lanes = vec![
        Lane::new(POOL, true, || {
            pool.wait_for_pool()?;
            right(pool.fresh(code)?)
        }),
        Lane::new(ON_DEMAND, true, || right(on_demand.fresh(code)?)),
        Lane::new(WHOLE, true, move || {
            let started = Instant::now();
            let output = Command::new(&silica.binary)
                .args(["run", "--template", &silica.template, "-c", code])
                .env("SILICA_HOME", &silica.home)
                .output()
                .with_context(|| format!("cannot start {}", silica.binary.display()))?;
            let took = started.elapsed();
            right(Run { took, output: String::from_utf8_lossy(&output.stdout).into_owned() })
        }),
    ];
    lanes.extend(fresh_lanes(&mut bench.peers, |peer| right(peer.fresh(code)?)));
    let table = interleave(name, lanes, effort);
    bench.results.tables.push(table);
    Ok(())
}
