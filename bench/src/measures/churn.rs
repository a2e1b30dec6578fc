//! Makes and ends many sandboxes and looks what stays.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Bench, PRINT};
use crate::footprint::{self, Memory, descendants};
use crate::results::{Better, Table};
use crate::silica::{Library, join_all};

const WARM_UP: usize = 200;
const AT_ONCE: usize = 4;

/// Until the zone has filled its stock again.
const SETTLE: Duration = Duration::from_secs(1);

/// What must not grow.
#[derive(Clone, Copy, Debug)]
struct Footprint {
    processes: usize,
    mounts: usize,
    groups: usize,
    descriptors: usize,
    memory: Memory,
}

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let count = bench.pick(200, 5000);
    let library = Library::start(&bench.silica.home, &bench.silica.template)?;
    rounds(&library, WARM_UP)?;
    std::thread::sleep(SETTLE);
    let before = footprint(&library);
    let started = Instant::now();
    rounds(&library, count)?;
    let rate = count as f64 / started.elapsed().as_secs_f64();
    std::thread::sleep(SETTLE);
    let after = footprint(&library);
    let grown = |before: usize, after: usize| after as f64 - before as f64;
    for (before, after, unit) in [
        (before.processes, after.processes, "processes"),
        (before.mounts, after.mounts, "mounts"),
        (before.groups, after.groups, "groups"),
        (before.descriptors, after.descriptors, "descriptors"),
    ] {
        bench.results.promise("P10", grown(before, after), unit);
    }
    let bytes = grown(before.memory.private_bytes as usize, after.memory.private_bytes as usize);
    bench.results.promise("P10", bytes / 1e6, "MB");
    let mut table = Table::new("churn", "/s", Better::More);
    table.add(&format!("{count} made, used and ended"), true, rate);
    bench.results.tables.push(table);
    Ok(())
}

fn rounds(library: &Library, count: usize) -> Result<()> {
    library.runtime.block_on(async {
        let one = |_| async {
            for _ in 0..count / AT_ONCE {
                library.make_and_run(PRINT).await?;
            }
            Ok(())
        };
        join_all((0..AT_ONCE).map(one)).await.map(drop)
    })
}

fn footprint(library: &Library) -> Footprint {
    let own = std::process::id();
    let zone = library.engine.zone_process_id();
    let family: Vec<u32> = [own, zone].into_iter().chain(descendants(zone)).collect();
    Footprint {
        processes: family.len(),
        mounts: std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines().count(),
        groups: footprint::groups(),
        descriptors: family.iter().map(|&pid| footprint::descriptors(pid)).sum(),
        memory: Memory::of(family.iter().copied()),
    }
}
