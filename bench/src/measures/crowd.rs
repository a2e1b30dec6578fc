//! A hundred at once, until all have printed.

use std::time::Duration;

use anyhow::{Result, bail};

use super::{Bench, POOL_SIZE, PRINT, SILICA, fresh_lanes};
use crate::interleave::{Effort, Lane, interleave};
use crate::peers::{Contender, PLAIN};
use crate::silica::{Library, cell, join_all};

const CROWD: usize = 100;

/// The longest estimated time for a crowd; a slower contender is listed with the estimate instead.
const CROWD_PATIENCE: Duration = Duration::from_secs(30);

const LIBRARY: &str = "Silica, as a library";

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let patience = bench.pick(CROWD_PATIENCE / 5, CROWD_PATIENCE);
    let samples = bench.pick(1, 5);
    let effort = Effort { warm_ups: 0, samples, lane: patience / 2, samples_least: 1, in_a_row: 1 };
    let mut served = bench.serve(POOL_SIZE)?;
    let library = Library::start(&bench.silica.home, &bench.silica.template)?;
    let mut lanes = vec![
        Lane::new(SILICA, true, || served.crowd(CROWD, PRINT)),
        Lane::new(LIBRARY, true, || in_library(&library)),
    ];
    lanes.extend(fresh_lanes(&mut bench.peers, move |peer| crowd_of(peer, patience)));
    let table = interleave("crowd", lanes, effort);
    if let (Some(ours), Some(plain)) = (table.row(LIBRARY), table.row(PLAIN)) {
        bench.results.promise("P5", ours.summary.p50, "ms");
        bench.results.promise("P5", ours.summary.p50 / plain.summary.p50, "×");
    }
    bench.results.tables.push(table);
    Ok(())
}

/// Measures one first, because a hundred that take seconds each would take minutes.
fn crowd_of(peer: &mut dyn Contender, patience: Duration) -> Result<Duration> {
    let one = peer.fresh(PRINT)?.took;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let estimate = one.mul_f64(CROWD as f64 / processors as f64);
    if estimate > patience {
        let seconds = estimate.as_secs();
        bail!("not tried: {CROWD} would take about {seconds} s, going by one");
    }
    peer.crowd(CROWD, PRINT)
}

fn in_library(library: &Library) -> Result<Duration> {
    library.runtime.block_on(async {
        let started = std::time::Instant::now();
        let runs = (0..CROWD).map(|_| async {
            let mut created = library.engine.create(&library.options).await?;
            cell(&mut created.kernel, PRINT).await?;
            anyhow::Ok(created)
        });
        let sandboxes = join_all(runs).await?;
        let took = started.elapsed();
        for created in sandboxes {
            created.sandbox.destroy().await?;
        }
        Ok(took)
    })
}
