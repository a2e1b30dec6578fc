//! A steady load for a given time: no resource grows and no request fails.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Bench, POOL_SIZE, PRINT};
use crate::peers::Contender as _;
use crate::results::{Better, Table};
use crate::silica::Served;

const WORKERS: usize = 4;

/// Who asks, and for how long, to find out how many sandboxes a second there can be. Half of that
/// is kept up.
const CLIENTS_AT_BEST: usize = 16;
const BEST_TIME: Duration = Duration::from_secs(10);

/// The time for the server to reach its stable size.
const WARM_UP_MAX: Duration = Duration::from_secs(30);

/// The time for ended sandboxes to be removed and pools to be filled.
const SETTLE: Duration = Duration::from_secs(5);

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let mut served = bench.serve(POOL_SIZE)?;
    let rate = served.rate(CLIENTS_AT_BEST, BEST_TIME, PRINT)? / 2.0;
    steady(&served, rate, WARM_UP_MAX.min(bench.soak / 4))?;
    std::thread::sleep(SETTLE);
    let before = served.footprint();
    let count = steady(&served, rate, bench.soak)?;
    std::thread::sleep(SETTLE);
    for (grown, unit) in served.footprint().growth_since(&before) {
        bench.results.promise("P21", grown, unit);
    }
    let mut table = Table::new("soak", "/s", Better::More);
    let minutes = bench.soak.as_secs_f64() / 60.0;
    let who = format!("{count} made, used and ended in {minutes:.0} minutes");
    table.add(&who, true, count as f64 / bench.soak.as_secs_f64());
    bench.results.tables.push(table);
    Ok(())
}

fn steady(served: &Served, rate: f64, time: Duration) -> Result<u64> {
    let pause = Duration::from_secs_f64(WORKERS as f64 / rate);
    let until = Instant::now() + time;
    let work = || -> Result<u64> {
        let (mut client, mut count) = (served.client()?, 0);
        while Instant::now() < until {
            let next = Instant::now() + pause;
            client.whole(PRINT)?;
            count += 1;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        Ok(count)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a client panicked")).sum()
    })
}
