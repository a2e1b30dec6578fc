//! What the two dearest parts of a life cost without a server: namespaces and an interpreter of its own.
//!
//! All processors do nothing but fork into new namespaces, and then nothing but fork a warm
//! interpreter that prints and ends. A life needs both, so both counts together say how many lives a
//! second this way comes to. Mounts, control groups, the way into the jail, HTTP and the audit log are
//! not in it. It is no proof of a limit: the counting program is Python's, and forks more than it must.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};

use super::Bench;
use crate::results::{Better, Row, Table};
use crate::statistics::Samples;

const NAMESPACES: &str = "an empty process in namespaces of its own";
const INTERPRETER: &str = "a warm interpreter: forked, print(1), ended";
const BOTH: &str = "both, one after the other";

/// What the program is called that counts.
const DRIVER: &str = "floor.py";

/// What each count takes, as the driver wants it.
const SECONDS: &str = "1";

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let rounds = bench.pick(1, 5);
    let mut counts: [Samples; 3] = std::array::from_fn(|_| Samples::default());
    let guest = newest_guest(&bench.silica.home)?;
    let (guest, modules) = (guest.display().to_string(), bench.plain.preload().join(","));
    for _ in 0..rounds {
        let namespaces = count(bench, &["namespaces", SECONDS])?;
        let interpreter = count(bench, &["interpreter", SECONDS, &guest, &modules])?;
        let both = 1.0 / (1.0 / namespaces + 1.0 / interpreter);
        for (samples, value) in counts.iter_mut().zip([namespaces, interpreter, both]) {
            samples.push_value(value);
        }
    }
    let mut table = Table::new("floor", "/s", Better::More);
    for (who, samples) in [NAMESPACES, INTERPRETER, BOTH].into_iter().zip(counts) {
        let summary = samples.summary().context("nothing was counted")?;
        table.rows.push(Row { who: who.to_owned(), ours: false, summary });
    }
    bench.results.tables.push(table);
    Ok(())
}

fn count(bench: &Bench, arguments: &[&str]) -> Result<f64> {
    let driver = bench.place.driver(DRIVER)?;
    let output = bench.plain.script(&driver).args(arguments).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)?.trim().parse().context("it printed no number")
}

/// Our own modules as the engine has put them down for its zygotes; the last are those in use.
fn newest_guest(home: &Path) -> Result<PathBuf> {
    let age = |path: &PathBuf| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
    let layers = std::fs::read_dir(home.join("guest"))?.flatten().map(|entry| entry.path());
    let newest = layers.max_by_key(age).context("no guest has been put down yet")?;
    Ok(newest.join("opt/silica/guest"))
}
