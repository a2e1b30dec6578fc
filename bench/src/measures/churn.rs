//! Creates and ends many sandboxes, and measures the resources that remain in use.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Bench, PRINT};
use crate::footprint::{Footprint, children, descendants};
use crate::results::{Better, Table};
use crate::silica::{Library, join_all};

const WARM_UP: usize = 200;
const AT_ONCE: usize = 4;

/// The time for the zone to fill its pool of idle inits again.
const SETTLE: Duration = Duration::from_secs(1);

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
    for (grown, unit) in after.growth_since(&before) {
        bench.results.promise("P10", grown, unit);
    }
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

/// That of this process, in which the engine is, and of the zone. The launcher's only child is the
/// master.
fn footprint(library: &Library) -> Footprint {
    let (own, launcher) = (std::process::id(), library.engine.zone_process_id());
    let family = [&[own, launcher], descendants(launcher).as_slice()].concat();
    Footprint::of(&family, &[&[own, launcher], children(launcher).as_slice()].concat())
}
