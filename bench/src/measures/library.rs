//! The engine as a library, compared with plain Python, without the cost of a server.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Bench, DESCRIBE, PRINT};
use crate::interleave::{Effort, Lane, interleave};
use crate::peers::PLAIN;
use crate::results::{Results, Table};
use crate::silica::{Library, join_all};

const POOL_SIZE: usize = 4;
const SAMPLES_LEAST: usize = 50;

const MADE: &str = "created on demand";
const TAKEN: &str = "taken from the pool";
const SHELL: &str = "a shell alone";
const MANY_SHELLS: &str = "made and ended, each of 64 at once";

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let effort = thorough(bench);
    let library = Library::start(&bench.silica.home, &bench.silica.template)?;
    for (name, code, number) in [("library-print", PRINT, "P2"), ("library-pandas", DESCRIBE, "P3")]
    {
        let lanes = vec![
            Lane::new(MADE, true, || library.once(code)),
            Lane::new(PLAIN, false, || bench.plain.run(code)),
        ];
        let table = interleave(name, lanes, effort);
        promise(&mut bench.results, number, &table, MADE);
        bench.results.tables.push(table);
    }
    let lanes = vec![
        Lane::new(SHELL, true, || one_shell(&library)),
        Lane::new(PLAIN, false, || bench.plain.run(PRINT)),
    ];
    let mut table = interleave("library-shell", lanes, effort);
    // Not in turn with the others, since it uses up everything that was made ahead.
    let many = Lane::new(MANY_SHELLS, true, || many_shells(&library));
    table.rows.extend(interleave("", vec![many], effort).rows);
    if let Some(row) = table.row(SHELL) {
        bench.results.promise("P4", row.summary.p50, "ms");
    }
    promise(&mut bench.results, "P4", &table, SHELL);
    bench.results.tables.push(table);
    let table = from_the_pool(bench, &library)?;
    promise(&mut bench.results, "P1", &table, TAKEN);
    bench.results.tables.push(table);
    Ok(())
}

/// Enough samples of each for a median, although plain Python with pandas is slow.
fn thorough(bench: &Bench) -> Effort {
    let effort = bench.effort();
    Effort { samples_least: effort.samples.min(SAMPLES_LEAST), ..effort }
}

/// One shell, until it can be entered. Most of it is made ahead.
fn one_shell(library: &Library) -> Result<Duration> {
    Ok(library.runtime.block_on(library.engine.time_enclosure(&library.options))?)
}

/// Many at once, more than are ever made ahead, and their ends; what each comes to.
fn many_shells(library: &Library) -> Result<Duration> {
    const COUNT: u32 = 64;
    let started = Instant::now();
    let shells =
        (0..COUNT).map(|_| async { Ok(library.engine.time_enclosure(&library.options).await?) });
    library.runtime.block_on(join_all(shells))?;
    Ok(started.elapsed() / COUNT)
}

/// Last, because the pool stays.
fn from_the_pool(bench: &Bench, library: &Library) -> Result<Table> {
    library.runtime.block_on(async { library.engine.keep_ready(&library.options, POOL_SIZE) })?;
    let taken = || {
        library.runtime.block_on(async {
            while library.engine.ready_count() < POOL_SIZE {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            library.make_and_run(PRINT).await
        })
    };
    let lanes =
        vec![Lane::new(TAKEN, true, taken), Lane::new(PLAIN, false, || bench.plain.run(PRINT))];
    Ok(interleave("library-pool", lanes, thorough(bench)))
}

fn promise(results: &mut Results, number: &str, table: &Table, ours: &str) {
    if let (Some(ours), Some(plain)) = (table.row(ours), table.row(PLAIN)) {
        results.promise(number, ours.summary.p50 / plain.summary.p50, "×");
    }
}
