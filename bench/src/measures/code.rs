//! The cost of containment for running code: equal code inside and outside.
//!
//! The code measures its own time, so neither startup nor output is included. Every contender runs
//! it in a new sandbox. The promise is measured more precisely, in live sandboxes and live
//! interpreters on one processor, by many short samples in turn, so that a drift of the machine's
//! speed and unequal processors affect both sides alike. There are several of each, and each sample
//! has its frames and integers at other addresses: a loop at a fixed address may be faster or
//! slower by a tenth because of its alignment alone (on an AMD processor even by half).

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::CpuSet;

use super::{Bench, POOL_SIZE, SILICA, fresh_lanes};
use crate::footprint::descendants;
use crate::interleave::{Effort, Lane, interleave};
use crate::peers::{Contender, PLAIN, Run};

/// How many short samples a long one consists of.
const ROUNDS: usize = 8;

/// How many live sandboxes, each of a zygote of its own, and how many interpreters.
const PLACES: usize = 7;

/// Something to run. Its preparation makes a function `work` that takes some tens of milliseconds.
struct Code {
    name: &'static str,
    prepare: &'static str,
    promise: Option<&'static str>,
}

const CODES: [Code; 3] = [
    Code { name: "cpu", prepare: PROCESSOR, promise: Some("P7") },
    Code { name: "pandas", prepare: PANDAS, promise: Some("P8") },
    Code { name: "io", prepare: FILES_AND_PIPES, promise: None },
];

const PROCESSOR: &str = "\
def work():
    s = 0
    for i in range(300_000):
        s += i * i % 7
";

const PANDAS: &str = "\
import numpy as np, pandas as pd
d = pd.DataFrame({'k': np.arange(100_000) % 1000, 'v': np.arange(100_000.)})
d.groupby('k').v.sum()
def work():
    d.groupby('k').v.agg(['sum', 'mean', 'std'])
    d.sort_values('v', ascending=False)
    d.merge(d.head(1000), on='k')
";

/// Small files and pipes, in memory everywhere: what is measured is the way to the kernel and back.
const FILES_AND_PIPES: &str = "\
import os
place = next(p for p in ('/dev/shm', '/tmp') if os.access(p, os.W_OK))
def work():
    path = f'{place}/bench-{os.getpid()}'
    for _ in range(60):
        with open(path, 'wb') as f:
            f.write(b'x' * 4096)
        os.stat(path)
        with open(path, 'rb') as f:
            f.read()
        os.remove(path)
    r, w = os.pipe()
    for _ in range(600):
        os.write(w, b'x' * 64)
        os.read(r, 64)
    os.close(r)
    os.close(w)
";

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    for code in &CODES {
        in_new_places(bench, code)?;
        in_live_ones(bench, code)?;
    }
    Ok(())
}

fn in_new_places(bench: &mut Bench, code: &Code) -> Result<()> {
    let effort = bench.effort();
    let effort = Effort { warm_ups: 0, samples: effort.samples / 2, ..effort };
    let whole = &format!("{}{}", code.prepare, timed(ROUNDS));
    let mut served = bench.serve(POOL_SIZE)?;
    let mut lanes = vec![Lane::new(SILICA, true, || own_time(&served.fresh(whole)?))];
    lanes.extend(fresh_lanes(&mut bench.peers, move |peer| own_time(&peer.fresh(whole)?)));
    let table = interleave(&format!("inside-{}", code.name), lanes, effort);
    bench.results.tables.push(table);
    Ok(())
}

fn in_live_ones(bench: &mut Bench, code: &Code) -> Result<()> {
    let effort = bench.effort();
    let effort = Effort { warm_ups: 10, samples: effort.samples * 3, ..effort };
    let places = bench.pick(1, PLACES);
    let mut inside = Vec::new();
    for _ in 0..places {
        let mut server = bench.serve(0)?;
        let session = prepared(&mut server, code)?;
        inside.push((server, session));
    }
    let mut processes: Vec<u32> =
        inside.iter().filter_map(|(server, _)| server.process()).collect();
    let mut turn = (0..places).cycle();
    let mut lanes = vec![Lane::new(SILICA, true, || {
        let (server, session) = &mut inside[turn.next().unwrap_or(0)];
        own_time(&server.run(*session, ELSEWHERE)?)
    })];
    if let Some(plain) = bench.peers.iter_mut().find(|peer| peer.name == PLAIN) {
        let contender = &mut *plain.contender;
        let sessions: Result<Vec<u64>> = (0..places).map(|_| prepared(contender, code)).collect();
        let mut sessions = sessions?.into_iter().cycle();
        processes.extend(contender.process());
        lanes.push(Lane::new(PLAIN, false, move || {
            own_time(&contender.run(sessions.next().unwrap_or(0), ELSEWHERE)?)
        }));
    }
    share_a_processor(processes.into_iter())?;
    let table = interleave(&format!("live-{}", code.name), lanes, effort);
    let medians = (table.row(SILICA), table.row(PLAIN));
    if let (Some(number), (Some(inside), Some(outside))) = (code.promise, medians) {
        bench.results.promise(number, inside.summary.p50 / outside.summary.p50, "×");
    }
    bench.results.tables.push(table);
    Ok(())
}

/// A session in which the work can begin.
fn prepared(contender: &mut dyn Contender, code: &Code) -> Result<u64> {
    let session = contender.open()?;
    contender.run(session, code.prepare)?;
    Ok(session)
}

/// Puts all that runs below these on one processor.
fn share_a_processor(processes: impl Iterator<Item = u32>) -> Result<()> {
    let own = rustix::thread::sched_getaffinity(None)?;
    let last = (0..CpuSet::MAX_CPU).rfind(|&processor| own.is_set(processor));
    let mut one = CpuSet::new();
    one.set(last.context("this process may use no processor")?);
    for pid in processes.flat_map(descendants) {
        // One that has ended meanwhile is none that is measured.
        let _ = rustix::thread::sched_setaffinity(Pid::from_raw(pid.cast_signed()), &one);
    }
    Ok(())
}

/// Code that does the work once, at a random stack depth and beside a random number of
/// integers, and prints how long it took.
const ELSEWHERE: &str = "\
import random, time
def timed():
    t = time.perf_counter()
    work()
    return time.perf_counter() - t
def deep(n):
    return deep(n - 1) if n else timed()
kept = [k << 20 for k in range(1, random.randrange(2, 1000))]
print(deep(random.randrange(64)))
";

/// Does the work so often, and prints how long it took.
fn timed(rounds: usize) -> String {
    format!(
        "import time\nt = time.perf_counter()\nfor _ in range({rounds}):\n    work()\nprint(time.perf_counter() - t)\n"
    )
}

/// The number of seconds that the code has printed.
fn own_time(run: &Run) -> Result<Duration> {
    let seconds: f64 = run.output.trim().parse().context("it printed no time")?;
    Ok(Duration::try_from_secs_f64(seconds)?)
}
