//! The same code inside and outside: what it costs to be contained while running.
//!
//! The code keeps its own time, so neither the start nor the way of its output is in it.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{Bench, POOL_SIZE, SILICA, fresh_lanes};
use crate::interleave::{Effort, Lane, interleave};
use crate::peers::{Contender, PLAIN, Run};

const CPU_BOUND: &str = "import time\nt = time.perf_counter()\ns = 0\nfor i in range(3_000_000):\n    s += i * i % 7\nprint(time.perf_counter() - t)";
const PANDAS_BOUND: &str = "import time\nimport numpy as np, pandas as pd\nd = pd.DataFrame({'k': np.arange(300_000) % 1000, 'v': np.arange(300_000.)})\nd.groupby('k').v.sum()\nt = time.perf_counter()\nfor _ in range(8):\n    d.groupby('k').v.agg(['sum', 'mean', 'std']); d.sort_values('v', ascending=False); d.merge(d.head(1000), on='k').shape\nprint(time.perf_counter() - t)";
/// Small files and pipes, in memory everywhere: what is measured is the way to the kernel and back.
const IO_BOUND: &str = "\
import os, time
place = next(p for p in ('/dev/shm', '/tmp') if os.access(p, os.W_OK))
place = f'{place}/bench-{os.getpid()}'
os.mkdir(place)
t = time.perf_counter()
for n in range(500):
    with open(f'{place}/{n}', 'wb') as f:
        f.write(b'x' * 4096)
    os.stat(f'{place}/{n}')
    with open(f'{place}/{n}', 'rb') as f:
        f.read()
    os.remove(f'{place}/{n}')
r, w = os.pipe()
for n in range(5000):
    os.write(w, b'x' * 64)
    os.read(r, 64)
took = time.perf_counter() - t
os.rmdir(place)
print(took)
";

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    for (name, code, number) in [
        ("inside-cpu", CPU_BOUND, Some("P7")),
        ("inside-pandas", PANDAS_BOUND, Some("P8")),
        ("inside-io", IO_BOUND, None),
    ] {
        let effort = bench.effort();
        let effort = Effort { warm_ups: 0, samples: effort.samples / 2, ..effort };
        let mut served = bench.serve(POOL_SIZE)?;
        let mut lanes = vec![Lane::new(SILICA, true, || own_time(&served.fresh(code)?))];
        lanes.extend(fresh_lanes(&mut bench.peers, move |peer| own_time(&peer.fresh(code)?)));
        let table = interleave(name, lanes, effort);
        let medians = (table.row(SILICA), table.row(PLAIN));
        if let (Some(number), (Some(ours), Some(plain))) = (number, medians) {
            let ratio = ours.summary.p50 / plain.summary.p50;
            bench.results.promise(number, ratio, "×");
        }
        bench.results.tables.push(table);
    }
    Ok(())
}

/// The number of seconds that the code has printed.
fn own_time(run: &Run) -> Result<Duration> {
    let seconds: f64 = run.output.trim().parse().context("it printed no time")?;
    Ok(Duration::try_from_secs_f64(seconds)?)
}
