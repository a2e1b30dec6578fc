//! `print(1)` in a session that lives: there and back.

use anyhow::Result;

use super::{Bench, Opened, POOL_SIZE, PRINT, SILICA, open_all};
use crate::interleave::{Effort, Lane, interleave};
use crate::peers::{Contender, IPYKERNEL, PLAIN, Sessions};
use crate::results::{Absent, Results};

/// Cells in a row: a session is used cell after cell. One cell alone between nine other programs is in
/// the table of its own, where the processor has nothing left of any of them.
const IN_A_ROW: usize = 10;

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let effort = bench.effort();
    let effort = Effort { warm_ups: 20, samples: effort.samples * 5, ..effort };
    let mut served = bench.serve(POOL_SIZE)?;
    let session = served.open()?;
    let (others, without): (Vec<_>, Vec<_>) =
        bench.peers.iter_mut().partition(|peer| peer.sessions != Sessions::None);
    let (mut opened, mut absent) = open_all(others.into_iter());
    absent.extend(without.iter().map(|peer| Absent {
        who: peer.name.to_owned(),
        reason: "it has no sessions of its own".to_owned(),
    }));
    for (name, in_a_row) in [("warm", IN_A_ROW), ("warm-alone", 1)] {
        let mut lanes = vec![Lane::new(SILICA, true, || served.run(session, PRINT)?.printing("1"))];
        lanes.extend(opened.iter_mut().map(|opened| {
            opened.lane(|contender, session| contender.run(session, PRINT)?.printing("1"))
        }));
        let mut table = interleave(name, lanes, Effort { in_a_row, ..effort });
        table.absent.extend(absent.iter().cloned());
        bench.results.tables.push(table);
    }
    opened.into_iter().for_each(Opened::close);
    promise(&mut bench.results);
    Ok(())
}

fn promise(results: &mut Results) {
    let figures = |who| {
        let row = results.table("warm")?.row(who)?;
        Some((row.summary.p50, row.summary.p99))
    };
    let (ours, pipe, jupyter) = (figures(SILICA), figures(PLAIN), figures(IPYKERNEL));
    let Some((p50, p99)) = ours else { return };
    results.promise("P11", p50, "ms");
    results.promise("P12", p99, "ms");
    if let Some((pipe_p50, pipe_p99)) = pipe {
        results.promise("P11", p50 / pipe_p50, "×");
        results.promise("P12", p99 / pipe_p99, "×");
    }
    if let Some((jupyter, _)) = jupyter {
        results.promise("P13", p50 / jupyter, "×");
    }
}
