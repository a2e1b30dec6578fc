//! Two hundred idle sandboxes: their processor time, and their effect on one more.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Bench, PRINT};
use crate::interleave::{Lane, interleave};
use crate::peers::Contender;

/// The time for new sandboxes to become idle.
const SETTLE: Duration = Duration::from_secs(2);

const ALONE: &str = "the only sandbox";
const LAST: &str = "one beside idle ones";

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let (count, watch) = bench.pick((20, Duration::from_secs(3)), (200, Duration::from_secs(20)));
    let mut crowded = bench.serve(0)?;
    for _ in 0..count {
        crowded.open()?;
    }
    let last = crowded.open()?;
    std::thread::sleep(SETTLE);
    let (used, started) = (crowded.processor_seconds(), Instant::now());
    std::thread::sleep(watch);
    let share = (crowded.processor_seconds() - used) / started.elapsed().as_secs_f64() * 100.0;
    let mut empty = bench.serve(0)?;
    let alone = empty.open()?;
    let lanes = vec![
        Lane::new(ALONE, true, || empty.run(alone, PRINT)?.printing("1")),
        Lane::new(LAST, true, || crowded.run(last, PRINT)?.printing("1")),
    ];
    let table = interleave("idle", lanes, bench.effort());
    bench.results.promise("P20", share, "% of a core");
    if let (Some(alone), Some(last)) = (table.row(ALONE), table.row(LAST)) {
        bench.results.promise("P20", last.summary.p50 / alone.summary.p50, "×");
    }
    bench.results.tables.push(table);
    Ok(())
}
