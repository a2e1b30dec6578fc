//! How costs grow: with sandboxes, with what a zygote holds, with cells, with the log.

mod ballast;
mod log;

use std::time::Instant;

use anyhow::Result;

use super::{Bench, PRINT};
use crate::peers::Contender;
use crate::results::{Curve, Line};
use crate::silica::{Library, Served};
use crate::statistics::Samples;

/// How many live when it is looked at.
const SANDBOXES: [usize; 6] = [1, 10, 100, 250, 500, 1000];

/// How many cells a kernel has run when it is looked at.
const CELLS: [usize; 6] = [1, 10, 100, 1_000, 10_000, 100_000];

/// How many records there are when it is looked at.
const RECORDS: [usize; 4] = [0, 10_000, 100_000, 1_000_000];

/// What a zygote holds beside its modules, in MB.
const HEAPS: [usize; 4] = [50, 125, 250, 500];

/// Samples at each point.
const SAMPLES: usize = 30;

pub(super) fn sandboxes(bench: &mut Bench) -> Result<()> {
    let most = bench.pick(100, 1000);
    let mut served = bench.serve(0)?;
    let mut sessions = Vec::new();
    let (mut making, mut running) = (Vec::new(), Vec::new());
    for count in SANDBOXES.into_iter().filter(|count| *count <= most) {
        while sessions.len() < count {
            sessions.push(served.open()?);
        }
        let (mut made, mut ran) = (Samples::default(), Samples::default());
        for _ in 0..bench.pick(5, SAMPLES) {
            made.push(served.fresh(PRINT)?.printing("1")?);
            ran.push(served.run(sessions[0], PRINT)?.printing("1")?);
        }
        push_median(&mut making, count, &made);
        push_median(&mut running, count, &ran);
    }
    let lines = [("create + print(1)", making), ("print(1)", running)];
    add(bench, "growth-sandboxes", "ms", lines);
    Ok(())
}

pub(super) fn heap(bench: &mut Bench) -> Result<()> {
    let most = bench.pick(50, 500);
    let mut making = Vec::new();
    for megabytes in HEAPS.into_iter().filter(|megabytes| *megabytes <= most) {
        let template = ballast::template(bench, megabytes)?;
        let library = Library::start(&bench.silica.home, &template)?;
        library.once(PRINT)?;
        let mut made = Samples::default();
        for _ in 0..bench.pick(5, SAMPLES) {
            made.push(library.once(PRINT)?);
        }
        push_median(&mut making, megabytes, &made);
    }
    add(bench, "growth-heap", "ms", [("create + print(1)", making)]);
    Ok(())
}

pub(super) fn cells(bench: &mut Bench) -> Result<()> {
    let most = bench.pick(1_000, 100_000);
    let mut served = Served::start(&bench.silica, 0, &["sandboxes.max_cells=1000000"])?;
    let session = served.open()?;
    let (mut running, mut memory) = (Vec::new(), Vec::new());
    let mut done = 0;
    for count in CELLS.into_iter().filter(|count| *count <= most) {
        // The last ones before a mark are its samples.
        let mut samples = Samples::default();
        while done < count {
            let took = served.run(session, PRINT)?.took;
            done += 1;
            if done + SAMPLES > count {
                samples.push(took);
            }
        }
        push_median(&mut running, count, &samples);
        memory.push((count as f64, served.memory()));
    }
    add(bench, "growth-cells", "ms", [("print(1)", running)]);
    add(bench, "growth-cells-memory", "MB", [("the server", memory)]);
    Ok(())
}

pub(super) fn audit(bench: &mut Bench) -> Result<()> {
    let most = bench.pick(10_000, 1_000_000);
    let (mut starting, mut running, mut asking) = (Vec::new(), Vec::new(), Vec::new());
    for count in RECORDS.into_iter().filter(|count| *count <= most) {
        let home = tempfile::tempdir()?;
        let count = log::fill(home.path(), count)?;
        let started = Instant::now();
        let mut served = Served::start_in(home, &bench.silica, 0, &[])?;
        // A logarithmic axis has no zero; it is drawn as one.
        let at = count.max(1);
        starting.push((at as f64, started.elapsed().as_secs_f64() * 1e3));
        let session = served.open()?;
        let (mut ran, mut asked) = (Samples::default(), Samples::default());
        for _ in 0..bench.pick(5, SAMPLES) {
            ran.push(served.run(session, PRINT)?.printing("1")?);
            let started = Instant::now();
            served.shared()?.request("GET", "/v1/audit?limit=50", &[])?;
            asked.push(started.elapsed());
        }
        push_median(&mut running, at, &ran);
        push_median(&mut asking, at, &asked);
    }
    let lines =
        [("start of the server", starting), ("the 50 newest", asking), ("print(1)", running)];
    add(bench, "growth-audit", "ms", lines);
    Ok(())
}

fn push_median(points: &mut Vec<(f64, f64)>, at: usize, samples: &Samples) {
    if let Some(summary) = samples.summary() {
        points.push((at as f64, summary.p50));
    }
}

fn add<const N: usize>(
    bench: &mut Bench,
    name: &str,
    unit: &str,
    lines: [(&str, Vec<(f64, f64)>); N],
) {
    let line = |(label, points): (&str, Vec<(f64, f64)>)| Line { label: label.to_owned(), points };
    let lines = lines.into_iter().map(line).collect();
    bench.results.curves.push(Curve { name: name.to_owned(), unit: unit.to_owned(), lines });
}
