//! What a life cannot do without, without a server: an empty sandbox, and an interpreter of its own.
//!
//! All processors do nothing but make and end empty sandboxes (namespaces, control groups, mounts), and
//! then nothing but fork a warm interpreter that prints and ends. A life needs both, so both counts
//! together say how many lives a second this way comes to. The way into the jail, system call filters,
//! HTTP and the audit log are not in it. The counting program is Python's, and a leaner one would count
//! more; but none has more than the processors' time over what the kernel takes for the two and the
//! interpreter for its own code.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};

use super::Bench;
use crate::results::{Better, Row, Table};
use crate::statistics::Samples;

const NAMESPACES: &str = "an empty process in namespaces of its own";
const PLACE: &str = "an empty sandbox: namespaces, control groups and mounts";
const INTERPRETER: &str = "a warm interpreter: forked, print(1), ended";
const BOTH: &str = "an empty sandbox and an interpreter, one after the other";
const BOUND: &str = "both, if nothing took time but the kernel and the interpreter's own code";

/// What the program is called that counts.
const DRIVER: &str = "floor.py";

/// What each count takes, as the driver wants it.
const SECONDS: &str = "1";

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let rounds = bench.pick(1, 5);
    let mut rows =
        [NAMESPACES, PLACE, INTERPRETER, BOTH, BOUND].map(|who| (who, Samples::default()));
    let processors = std::thread::available_parallelism()?.get() as f64;
    let guest = newest_guest(&bench.silica.home)?;
    let (guest, modules) = (guest.display().to_string(), bench.plain.preload().join(","));
    let scratch = bench.place.path().join("floor").display().to_string();
    for _ in 0..rounds {
        let namespaces = count(bench, &["namespaces", SECONDS])?;
        let place = count(bench, &["place", SECONDS, &scratch])?;
        let interpreter = count(bench, &["interpreter", SECONDS, &guest, &modules])?;
        let both = 1.0 / (1.0 / place.rate + 1.0 / interpreter.rate);
        let needed = place.in_kernel + interpreter.in_kernel + interpreter.own;
        let values = [namespaces.rate, place.rate, interpreter.rate, both, processors / needed];
        rows.iter_mut().zip(values).for_each(|((_, samples), value)| samples.push_value(value));
    }
    let mut table = Table::new("floor", "/s", Better::More);
    for (who, samples) in rows {
        let summary = samples.summary().context("nothing was counted")?;
        table.rows.push(Row { who: who.to_owned(), ours: false, summary });
    }
    bench.results.tables.push(table);
    Ok(())
}

/// Lives of one kind.
struct Count {
    /// How many in a second.
    rate: f64,
    /// How many seconds the kernel worked for each, what it clears away later included.
    in_kernel: f64,
    /// How many seconds each worked itself.
    own: f64,
}

fn count(bench: &Bench, arguments: &[&str]) -> Result<Count> {
    let driver = bench.place.driver(DRIVER)?;
    let output = bench.plain.script(&driver).args(arguments).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout)?;
    let numbers: Result<Vec<f64>, _> = told.split_whitespace().map(str::parse).collect();
    let [rate, in_kernel, own] = numbers?.try_into().ok().context("it printed no three numbers")?;
    Ok(Count { rate, in_kernel, own })
}

/// Our own modules as the engine has put them down for its zygotes; the last are those in use.
fn newest_guest(home: &Path) -> Result<PathBuf> {
    let age = |path: &PathBuf| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
    let layers = std::fs::read_dir(home.join("guest"))?.flatten().map(|entry| entry.path());
    let newest = layers.max_by_key(age).context("no guest has been put down yet")?;
    Ok(newest.join("opt/silica/guest"))
}
