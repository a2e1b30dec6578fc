//! A log with a given number of records, written the way a server writes it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use silica_store::audit::{Activity, Begin, Finish};
use silica_store::{Access, DATABASE_NAME, ExecutionId, Store, StoreOptions, Tenant};

/// The number of executions that are written concurrently, so that they share commits.
const AT_ONCE: usize = 256;

/// The longest time for writing records; a slower machine is measured with fewer.
const FILL_PATIENCE: Duration = Duration::from_secs(90);

/// Writes executions, of two records each, up to a number of records; returns the number reached.
pub(super) fn fill(home: &Path, records: usize) -> Result<usize> {
    if records == 0 {
        return Ok(0);
    }
    let deadline = Instant::now() + FILL_PATIENCE;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let store = Store::open(&home.join(DATABASE_NAME), StoreOptions::new(Access::Tool))?;
    let each = records / 2 / AT_ONCE;
    let executions = runtime.block_on(async {
        let start = |writer| tokio::spawn(write(store.clone(), writer, each, deadline));
        let tasks: Vec<_> = (0..AT_ONCE).map(start).collect();
        let mut written = 0;
        for task in tasks {
            written += task.await??;
        }
        anyhow::Ok(written)
    })?;
    store.close_wait();
    Ok(executions * 2)
}

/// Writes executions until `deadline` at the latest; returns how many.
async fn write(store: Store, writer: usize, count: usize, deadline: Instant) -> Result<usize> {
    let tenant = Tenant::parse("bench")?;
    for number in 0..count {
        if Instant::now() >= deadline {
            return Ok(number);
        }
        let execution = ExecutionId::parse(&format!("x{writer}-{number}"))?;
        let code = Some("print(1)".to_owned());
        let begin = Begin { code, ..Begin::new(execution, tenant.clone(), Activity::Cell) };
        let ticket = store.audit().begin(&begin).await?;
        store.audit().finish(ticket, &Finish::new("ok")).await?;
    }
    Ok(count)
}
