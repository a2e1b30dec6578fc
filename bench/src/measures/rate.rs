//! How many sandboxes are created, used and ended in a second, by one client and by several.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Bench, POOL_SIZE, PRINT, SILICA};
use crate::interleave::{Lane, first_line, interleave};
use crate::peers::{Contender, PLAIN};
use crate::results::{Better, Row, Table};
use crate::silica::Served;
use crate::statistics::Samples;

const CLIENTS: [usize; 3] = [1, 4, 16];

/// A contender that took longer than this with fewer clients is not measured with more.
const ROUND_PATIENCE: Duration = Duration::from_secs(6);

/// The number of clients of the promise.
const PROMISED: usize = 16;

/// A contender whose samples are taken in turn with others.
struct Entrant<'a> {
    who: &'static str,
    ours: bool,
    contender: &'a mut dyn Contender,
    samples: Samples,
    spent: Duration,
    longest: Duration,
    failed: Option<String>,
}

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let mut served = bench.serve(POOL_SIZE)?;
    single(bench, &mut served);
    let mut slow = Vec::new();
    for clients in CLIENTS {
        let table = with(bench, &mut served, clients, &mut slow);
        let rows = (table.row(SILICA), table.row(PLAIN));
        if let (PROMISED, (Some(ours), Some(plain))) = (clients, rows) {
            bench.results.promise("P15", ours.summary.p50 / plain.summary.p50, "×");
        }
        bench.results.tables.push(table);
    }
    Ok(())
}

/// Measures sandboxes one after the other with a full pool, with their end, in turn with plain
/// Python.
fn single(bench: &mut Bench, served: &mut Served) {
    let whole = || {
        served.wait_for_pool()?;
        let started = Instant::now();
        served.shared()?.whole(PRINT)?;
        Ok(started.elapsed())
    };
    let lanes =
        vec![Lane::new(SILICA, true, whole), Lane::new(PLAIN, false, || bench.plain.run(PRINT))];
    let table = interleave("whole-life", lanes, bench.effort());
    if let (Some(ours), Some(plain)) = (table.row(SILICA), table.row(PLAIN)) {
        bench.results.promise("P14", ours.summary.p50, "ms");
        bench.results.promise("P14", ours.summary.p50 / plain.summary.p50, "×");
    }
    bench.results.tables.push(table);
}

fn with(
    bench: &mut Bench,
    served: &mut Served,
    clients: usize,
    slow: &mut Vec<&'static str>,
) -> Table {
    let (rounds, time) = bench.pick((1, Duration::from_millis(500)), (3, Duration::from_secs(1)));
    let entrant = |who, ours, contender| {
        let (spent, longest) = (Duration::ZERO, Duration::ZERO);
        Entrant { who, ours, contender, samples: Samples::default(), spent, longest, failed: None }
    };
    let mut entrants = vec![entrant(SILICA, true, served as &mut dyn Contender)];
    let mut table = Table::new(&format!("rate-{clients}"), "/s", Better::More);
    for peer in &mut bench.peers {
        if slow.contains(&peer.name) {
            table.add_absent(peer.name, "not tried: it took too long with fewer clients");
        } else {
            entrants.push(entrant(peer.name, false, peer.contender.as_mut()));
        }
    }
    // For a contender that takes much longer than `time`, one round is enough.
    let enough = time * rounds * 2;
    for _ in 0..rounds {
        for entrant in &mut entrants {
            if entrant.failed.is_none() && entrant.spent < enough {
                entrant.take(clients, time);
            }
        }
    }
    for entrant in entrants {
        if entrant.longest > ROUND_PATIENCE {
            slow.push(entrant.who);
        }
        match (entrant.failed, entrant.samples.summary()) {
            (None, Some(summary)) => {
                table.rows.push(Row { who: entrant.who.to_owned(), ours: entrant.ours, summary });
            }
            (reason, _) => table.add_absent(entrant.who, &reason.unwrap_or_default()),
        }
    }
    table
}

impl Entrant<'_> {
    fn take(&mut self, clients: usize, time: Duration) {
        let started = Instant::now();
        match self.contender.rate(clients, time, PRINT) {
            Ok(rate) => self.samples.push_value(rate),
            Err(error) => self.failed = Some(first_line(&error)),
        }
        self.spent += started.elapsed();
        self.longest = self.longest.max(started.elapsed());
    }
}
