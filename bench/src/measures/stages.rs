//! The time of a create, by request and by step.
//!
//! The steps are timed by making a create fail at each of them: the time of the failure is that of
//! reaching the step, and the difference between two steps is the cost of the first. This needs no
//! tracing in the hot path and no right to trace the kernel.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use silica_engine::{CreateOptions, Created, Faults};
use silica_jail::enclosure;

use super::{Bench, PRINT};
use crate::interleave::{Lane, interleave};
use crate::results::{Better, Row, Table};
use crate::silica::{Client, Library, cell};
use crate::statistics::Samples;

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    calls(bench)?;
    let library = Library::start(&bench.silica.home, &bench.silica.template)?;
    engine(bench, &library)?;
    steps(bench, &library);
    Ok(())
}

/// Measures each request of a client, without a pool.
fn calls(bench: &mut Bench) -> Result<()> {
    let served = bench.serve(0)?;
    let mut client = served.client()?;
    let names =
        ["an empty request", "create", "the first print(1)", "the second print(1)", "delete"];
    let mut samples: [Samples; 5] = std::array::from_fn(|_| Samples::default());
    for _ in 0..bench.effort().samples {
        for (samples, time) in samples.iter_mut().zip(one_life(&mut client)?) {
            samples.push(time);
        }
    }
    let table = table("stages-calls", names.into_iter().zip(samples));
    bench.results.tables.push(table);
    Ok(())
}

fn one_life(client: &mut Client) -> Result<[Duration; 5]> {
    let mut sandbox = String::new();
    let mut timed = |act: &mut dyn FnMut(&mut Client) -> Result<()>| -> Result<Duration> {
        let started = Instant::now();
        act(client)?;
        Ok(started.elapsed())
    };
    let empty = timed(&mut |client| client.request("GET", "/healthz", &[]).map(drop))?;
    let create = timed(&mut |client| {
        sandbox = client.create(&json!({}))?;
        Ok(())
    })?;
    let mut print = |client: &mut Client| {
        let printed = client.cell(&sandbox, PRINT)?;
        ensure!(printed == "1\n", "it printed {printed:?}");
        Ok(())
    };
    let (first, second) = (timed(&mut print)?, timed(&mut print)?);
    let delete = timed(&mut |client| client.delete(&sandbox))?;
    Ok([empty, create, first, second, delete])
}

/// Measures the corresponding calls of the library.
fn engine(bench: &mut Bench, library: &Library) -> Result<()> {
    let names = ["create", "until the interpreter says hello", "the first print(1)", "destroy"];
    let mut samples: [Samples; 4] = std::array::from_fn(|_| Samples::default());
    for _ in 0..bench.effort().samples {
        let times = library.runtime.block_on(async {
            let mut marks = [Instant::now(); 5];
            let Created { sandbox, mut kernel, .. } =
                library.engine.create(&library.options).await?;
            marks[1] = Instant::now();
            kernel.ready().await?;
            marks[2] = Instant::now();
            cell(&mut kernel, PRINT).await?;
            marks[3] = Instant::now();
            sandbox.destroy().await?;
            marks[4] = Instant::now();
            anyhow::Ok([0, 1, 2, 3].map(|at| marks[at + 1].duration_since(marks[at])))
        })?;
        for (samples, time) in samples.iter_mut().zip(times) {
            samples.push(time);
        }
    }
    let table = table("stages-engine", names.into_iter().zip(samples));
    bench.results.tables.push(table);
    Ok(())
}

fn table<'a>(name: &str, stages: impl Iterator<Item = (&'a str, Samples)>) -> Table {
    let mut table = Table::new(name, "ms", Better::Less);
    for (who, samples) in stages {
        if let Some(summary) = samples.summary() {
            table.rows.push(Row { who: who.to_owned(), ours: true, summary });
        }
    }
    table
}

/// Measures the time to reach each step, in turn.
fn steps(bench: &mut Bench, library: &Library) {
    let enclosure = enclosure::Step::ALL
        .map(|step| (step.name(), Faults { enclosure_step: step as u32, enter_step: 0 }));
    let enter = silica_gate::Step::ALL
        .map(|step| (step.name(), Faults { enclosure_step: 0, enter_step: step as u32 }));
    for (name, steps) in [("steps-enclosure", enclosure.to_vec()), ("steps-enter", enter.to_vec())]
    {
        let mut lanes: Vec<Lane<'_>> = steps
            .into_iter()
            .map(|(who, faults)| Lane::new(who, true, move || until(library, faults)))
            .collect();
        lanes.push(Lane::new("nothing fails", true, || until(library, Faults::default())));
        bench.results.tables.push(interleave(name, lanes, bench.effort()));
    }
}

/// Returns the time until a create fails at a step, or until its interpreter is ready.
fn until(library: &Library, faults: Faults) -> Result<Duration> {
    let options = CreateOptions { faults, ..library.options.clone() };
    library.runtime.block_on(async {
        let started = Instant::now();
        let made = match library.engine.create(&options).await {
            Ok(mut created) => {
                let ready = created.kernel.ready().await;
                let took = started.elapsed();
                created.sandbox.destroy().await?;
                ready.map(|()| took).map_err(|_| took)
            }
            Err(_) => Err(started.elapsed()),
        };
        match (faults == Faults::default(), made) {
            (true, Ok(took)) | (false, Err(took)) => Ok(took),
            (true, Err(_)) => anyhow::bail!("it failed although nothing was to"),
            (false, Ok(_)) => anyhow::bail!("it did not fail where it should"),
        }
    })
}
