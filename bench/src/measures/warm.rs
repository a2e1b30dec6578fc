//! The round trip of `print(1)` in a live session.

use std::time::Instant;

use anyhow::Result;

use super::{Bench, Opened, POOL_SIZE, PRINT, SILICA, open_all};
use crate::interleave::{Effort, Lane, interleave};
use crate::peers::{Contender, IPYKERNEL, PLAIN, Sessions};
use crate::results::{Absent, Results, Table};
use crate::silica::Served;

/// Cells in a row, as sessions are used. Another table has single cells in turn with nine other
/// programs, which leave nothing of a session in the processor's caches.
const IN_A_ROW: usize = 10;

/// The name of the measure of the parts of a round trip.
const PARTS: &str = "warm-parts";
const REQUEST: &str = "an empty request";

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
    let parts = parts(bench, &mut served, session, effort)?;
    bench.results.tables.push(parts);
    promise(&mut bench.results);
    Ok(())
}

/// A round trip beside the two things that it holds: a request that asks for nothing, and a line
/// through a pipe to a bare interpreter.
fn parts(bench: &mut Bench, served: &mut Served, session: u64, effort: Effort) -> Result<Table> {
    let (mut opened, _) = open_all(bench.peers.iter_mut().filter(|peer| peer.name == PLAIN));
    let mut asking = served.client()?;
    let ask = || {
        let started = Instant::now();
        asking.request("GET", "/healthz", &[])?;
        Ok(started.elapsed())
    };
    let mut lanes = vec![
        Lane::new(SILICA, true, || served.run(session, PRINT)?.printing("1")),
        Lane::new(REQUEST, true, ask),
    ];
    lanes.extend(opened.iter_mut().map(|opened| {
        opened.lane(|contender, session| contender.run(session, PRINT)?.printing("1"))
    }));
    let table = interleave(PARTS, lanes, Effort { in_a_row: IN_A_ROW, ..effort });
    opened.into_iter().for_each(Opened::close);
    Ok(table)
}

fn promise(results: &mut Results) {
    let figures = |table, who| {
        let row = results.table(table)?.row(who)?;
        Some((row.summary.p50, row.summary.p99))
    };
    let Some((p50, p99)) = figures("warm", SILICA) else { return };
    let jupyter = figures("warm", IPYKERNEL);
    let parts = [SILICA, REQUEST, PLAIN].map(|who| figures(PARTS, who));
    results.promise("P11", p50, "ms");
    results.promise("P12", p99, "ms");
    if let [Some(whole), Some(request), Some(pipe)] = parts {
        results.promise("P11", whole.0 / (request.0 + pipe.0), "×");
        results.promise("P12", whole.1 / (request.1 + pipe.1), "×");
    }
    if let Some((jupyter, _)) = jupyter {
        results.promise("P13", p50 / jupyter, "×");
    }
}
