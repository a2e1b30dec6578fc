//! The lower bound of a sandbox's cost: an empty sandbox, a forked interpreter, three requests,
//! each alone.
//!
//! All processors only create and end empty sandboxes (namespaces, control groups, mounts), then
//! only fork a warm interpreter that prints and ends, then only answer empty requests. A whole
//! sandbox needs all of these; entering the jail, seccomp filters and the audit log come on top. A
//! minimal program (`floor.c`) makes the empty sandboxes, and the modules of the zygote the
//! interpreters, so the figures are the cost of the kernel and CPython alone. Whole sandboxes of
//! our server are counted in turn with these, under equal conditions.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};

use super::{Bench, POOL_SIZE, PRINT, SILICA};
use crate::interleave::count_beside;
use crate::peers::Contender as _;
use crate::results::{Better, Row, Table};
use crate::silica::Served;
use crate::statistics::Samples;

const NAMESPACES: &str = "an empty process in namespaces of its own";
const PLACE: &str = "an empty sandbox: namespaces, control groups and mounts";
const INTERPRETER: &str = "a warm interpreter: forked, print(1), ended";
const REQUESTS: &str = "three empty requests over HTTP";
const ALL: &str = "all three, one after the other";

/// The names of the driver and of the program that it uses.
const DRIVER: &str = "floor.py";
const SOURCE: &str = "floor.c";

/// The duration of each count, as an argument of the driver.
const SECONDS: &str = "1";

/// How long whole sandboxes and empty requests of our server are counted.
const LIVES_TIME: Duration = Duration::from_secs(2);
const REQUESTS_TIME: Duration = Duration::from_secs(1);

/// The number of clients.
const CLIENTS: usize = 16;
/// Create, run and delete.
const REQUESTS_OF_A_LIFE: f64 = 3.0;

/// The time for the kernel to free the resources of ended processes.
const SETTLE: Duration = Duration::from_millis(500);

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let rounds = bench.pick(1, 7);
    let mut rows = [SILICA, NAMESPACES, PLACE, INTERPRETER, REQUESTS, ALL]
        .map(|who| (who, Samples::default()));
    let mut served = bench.serve(POOL_SIZE)?;
    let guest = newest_guest(served.home())?;
    let (guest, modules) = (guest.display().to_string(), bench.plain.preload().join(","));
    let scratch = bench.place.path().join("floor").display().to_string();
    let program = compile(bench)?;
    for _ in 0..rounds {
        served.wait_for_pool()?;
        let lives = served.rate(CLIENTS, LIVES_TIME, PRINT)?;
        std::thread::sleep(SETTLE);
        let requests = ask_for_nothing(&served)?;
        let namespaces = count(bench, &["namespaces", SECONDS, &program])?;
        let place = count(bench, &["place", SECONDS, &program, &scratch])?;
        let interpreter = count(bench, &["interpreter", SECONDS, &guest, &modules])?;
        let all = 1.0 / [place, interpreter, requests].map(f64::recip).iter().sum::<f64>();
        let values = [lives, namespaces, place, interpreter, requests, all];
        rows.iter_mut().zip(values).for_each(|((_, samples), value)| samples.push_value(value));
    }
    let mut table = Table::new("floor", "/s", Better::More);
    for (who, samples) in rows {
        let summary = samples.summary().context("nothing was counted")?;
        table.rows.push(Row { who: who.to_owned(), ours: who == SILICA, summary });
    }
    if let Some(ours) = table.row(SILICA) {
        bench.results.promise("P15", ours.summary.p50, "a second");
    }
    bench.results.tables.push(table);
    Ok(())
}

/// Sends empty requests, as many for each life as a sandbox needs; returns the lives a second.
fn ask_for_nothing(served: &Served) -> Result<f64> {
    let requests = count_beside(CLIENTS, REQUESTS_TIME, || {
        let mut client = served.client()?;
        Ok(move || client.request("GET", "/healthz", &[]).map(drop))
    })?;
    Ok(requests as f64 / REQUESTS_OF_A_LIFE / REQUESTS_TIME.as_secs_f64())
}

/// Compiles the program with the C compiler that Rust uses for linking.
fn compile(bench: &Bench) -> Result<String> {
    let source = bench.place.driver(SOURCE)?;
    let program = source.with_extension("");
    let output = Command::new("cc").arg("-O2").arg("-o").args([&program, &source]).output();
    let output = output.context("cc, the compiler of floor.c, does not start")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(program.display().to_string())
}

/// Returns how many lives of one kind the driver counts in a second.
fn count(bench: &Bench, arguments: &[&str]) -> Result<f64> {
    let driver = bench.place.driver(DRIVER)?;
    let output = bench.plain.script(&driver).args(arguments).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout)?;
    printed.trim().parse().context("the driver printed no number")
}

/// Returns the directory of the guest modules that the engine installed last.
fn newest_guest(home: &Path) -> Result<PathBuf> {
    let age = |path: &PathBuf| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
    let layers = std::fs::read_dir(home.join("guest"))?.flatten().map(|entry| entry.path());
    let newest = layers.max_by_key(age).context("no guest has been put down yet")?;
    Ok(newest.join("opt/silica/guest"))
}
