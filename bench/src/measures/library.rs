//! The engine as a library, beside plain Python: what a server would add is left out.

use std::time::Duration;

use anyhow::Result;

use super::{Bench, DESCRIBE, PRINT};
use crate::interleave::{Lane, interleave};
use crate::peers::PLAIN;
use crate::results::{Results, Table};
use crate::silica::Library;

const POOL_SIZE: usize = 4;

const MADE: &str = "created on demand";
const TAKEN: &str = "taken from the pool";
const SHELL: &str = "a shell alone";

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let effort = bench.effort();
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
    let shell = || Ok(library.runtime.block_on(library.engine.time_shell(&library.options))?);
    let table = interleave("library-shell", vec![Lane::new(SHELL, true, shell)], effort);
    if let Some(row) = table.row(SHELL) {
        bench.results.promise("P4", row.summary.p50, "ms");
    }
    bench.results.tables.push(table);
    let table = from_the_pool(bench, &library)?;
    promise(&mut bench.results, "P1", &table, TAKEN);
    bench.results.tables.push(table);
    Ok(())
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
    Ok(interleave("library-pool", lanes, bench.effort()))
}

fn promise(results: &mut Results, number: &str, table: &Table, ours: &str) {
    if let (Some(ours), Some(plain)) = (table.row(ours), table.row(PLAIN)) {
        results.promise(number, ours.summary.p50 / plain.summary.p50, "×");
    }
}
