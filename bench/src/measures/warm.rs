//! `print(1)` in a session that lives: there and back.

use anyhow::Result;

use super::{Bench, Opened, POOL_SIZE, PRINT, SILICA, open_all};
use crate::interleave::{Effort, Lane, interleave};
use crate::peers::{Contender, IPYKERNEL, PLAIN, Sessions};
use crate::results::Absent;

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
    let mut lanes = vec![Lane::new(SILICA, true, || served.run(session, PRINT)?.printing("1"))];
    lanes.extend(opened.iter_mut().map(|opened| {
        opened.lane(|contender, session| contender.run(session, PRINT)?.printing("1"))
    }));
    let mut table = interleave("warm", lanes, effort);
    opened.into_iter().for_each(Opened::close);
    table.absent.extend(absent);
    if let Some(row) = table.row(SILICA) {
        bench.results.promise("P11", row.summary.p50, "ms");
        if let Some(pipe) = table.row(PLAIN) {
            bench.results.promise("P11", row.summary.p50 / pipe.summary.p50, "×");
        }
        bench.results.promise("P12", row.summary.p99, "ms");
        if let Some(jupyter) = table.row(IPYKERNEL) {
            bench.results.promise("P13", row.summary.p50 / jupyter.summary.p50, "×");
        }
    }
    bench.results.tables.push(table);
    Ok(())
}
