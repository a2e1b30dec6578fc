//! A log with a given number of records, written the way a server writes it.

use std::path::Path;

use anyhow::Result;
use silica_store::audit::{Activity, Begin, Finish};
use silica_store::{Access, DATABASE_NAME, ExecutionId, Store, StoreOptions, Tenant};

/// Executions that are written at once, so that they share commits.
const AT_ONCE: usize = 256;

/// Writes executions until there are so many records, two for each.
pub(super) fn fill(home: &Path, records: usize) -> Result<()> {
    if records == 0 {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let store = Store::open(&home.join(DATABASE_NAME), StoreOptions::new(Access::Tool))?;
    let each = records / 2 / AT_ONCE;
    runtime.block_on(async {
        let tasks: Vec<_> =
            (0..AT_ONCE).map(|writer| tokio::spawn(write(store.clone(), writer, each))).collect();
        for task in tasks {
            task.await??;
        }
        anyhow::Ok(())
    })?;
    store.close_wait();
    Ok(())
}

async fn write(store: Store, writer: usize, count: usize) -> Result<()> {
    let tenant = Tenant::parse("somebody")?;
    for number in 0..count {
        let execution = ExecutionId::parse(&format!("x{writer}-{number}"))?;
        let code = Some("print(1)".to_owned());
        let begin = Begin { code, ..Begin::new(execution, tenant.clone(), Activity::Cell) };
        let ticket = store.audit().begin(&begin).await?;
        store.audit().finish(ticket, &Finish::new("ok")).await?;
    }
    Ok(())
}
