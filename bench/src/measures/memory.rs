//! The memory of an idle sandbox: private, and with its share of shared memory.
//!
//! The memory of all descendants of this process, without other contenders, is summed before and
//! after, so that the servers and monitors of a peer count too. The reaper keeps orphans among the
//! descendants.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;

use super::{Bench, SILICA};
use crate::footprint::{Memory, descendants};
use crate::interleave::first_line;
use crate::peers::{Contender, PLAIN};
use crate::reaper;
use crate::results::{Better, Curve, Line, Table};

/// How long what is not needed any more may take to go, looked at so often.
const SETTLE_STEP: Duration = Duration::from_millis(300);
const SETTLE_STEPS_MAX: usize = 20;

/// A change smaller than this counts as stable.
const REST_BYTES: u64 = 200_000;

/// The numbers of sandboxes at which memory is measured.
const STEPS: [usize; 7] = [1, 10, 50, 100, 200, 350, 500];

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let (count, ours_count) = bench.pick((3, 10), (10, 50));
    let mut private = Table::new("memory-private", "MB", Better::Less);
    let mut proportional = Table::new("memory-pss", "MB", Better::Less);
    let mut pandas = Table::new("memory-pandas", "MB", Better::Less);
    let contenders: Vec<u32> =
        bench.peers.iter().filter_map(|peer| peer.contender.process()).collect();
    let mut served = bench.serve(0)?;
    let mut note = |who: &str, ours: bool, contender: &mut dyn Contender, count: usize| {
        let own = contender.process();
        let others: Vec<u32> =
            contenders.iter().copied().filter(|process| Some(*process) != own).collect();
        let megabytes = |bytes: u64| bytes as f64 / count as f64 / 1e6;
        match of_sessions(contender, &others, count, "pass") {
            Ok(memory) => {
                private.add(who, ours, megabytes(memory.private_bytes));
                proportional.add(who, ours, megabytes(memory.proportional_bytes));
            }
            Err(error) => private.add_absent(who, &first_line(&error)),
        }
        match of_sessions(contender, &others, count, "import pandas") {
            Ok(memory) => pandas.add(who, ours, megabytes(memory.private_bytes)),
            Err(error) => pandas.add_absent(who, &first_line(&error)),
        }
    };
    note(SILICA, true, &mut served, ours_count);
    drop(served);
    for peer in &mut bench.peers {
        note(peer.name, false, peer.contender.as_mut(), count);
    }
    if let (Some(ours), Some(plain)) = (private.row(SILICA), private.row(PLAIN)) {
        bench.results.promise("P6", ours.summary.p50, "MB");
        bench.results.promise("P6", ours.summary.p50 / plain.summary.p50, "×");
    }
    bench.results.tables.extend([private, proportional, pandas]);
    growth(bench, &contenders)
}

/// Returns the memory of all descendants of the reaper except those of `others`, once it is stable.
fn family(others: &[u32]) -> Memory {
    let look = || {
        let theirs: HashSet<u32> = others
            .iter()
            .flat_map(|&other| [other].into_iter().chain(descendants(other)))
            .collect();
        let all = descendants(reaper::id());
        Memory::of(all.into_iter().filter(|process| !theirs.contains(process)))
    };
    let mut last = look();
    for _ in 0..SETTLE_STEPS_MAX {
        std::thread::sleep(SETTLE_STEP);
        let now = look();
        if now.private_bytes.abs_diff(last.private_bytes) < REST_BYTES {
            return now;
        }
        last = now;
    }
    last
}

/// Measures the memory of several more sessions, after the first have loaded what all share.
fn of_sessions(
    contender: &mut dyn Contender,
    others: &[u32],
    count: usize,
    code: &str,
) -> Result<Memory> {
    let mut sessions = Vec::new();
    let found = hold(contender, others, count, code, &mut sessions);
    for session in sessions {
        contender.close(session)?;
    }
    found
}

fn hold(
    contender: &mut dyn Contender,
    others: &[u32],
    count: usize,
    code: &str,
    sessions: &mut Vec<u64>,
) -> Result<Memory> {
    let mut open = |contender: &mut dyn Contender| -> Result<()> {
        let session = contender.open()?;
        sessions.push(session);
        contender.run(session, code).map(drop)
    };
    // With only one process, the pages that all map from files would count as private.
    for _ in 0..2 {
        open(contender)?;
    }
    let before = family(others);
    for _ in 0..count {
        open(contender)?;
    }
    let after = family(others);
    Ok(Memory {
        private_bytes: after.private_bytes.saturating_sub(before.private_bytes),
        proportional_bytes: after.proportional_bytes.saturating_sub(before.proportional_bytes),
    })
}

fn growth(bench: &mut Bench, others: &[u32]) -> Result<()> {
    let mut served = bench.serve(0)?;
    let last = served.open()?;
    let before = family(others);
    let (mut private, mut proportional) = (Vec::new(), Vec::new());
    let mut sessions = vec![last];
    for step in STEPS.into_iter().filter(|step| *step <= bench.pick(50, 500)) {
        while sessions.len() <= step {
            sessions.push(served.open()?);
        }
        let now = family(others);
        let grown = |now: u64, before: u64| now.saturating_sub(before) as f64 / 1e6;
        private.push((step as f64, grown(now.private_bytes, before.private_bytes)));
        proportional.push((step as f64, grown(now.proportional_bytes, before.proportional_bytes)));
    }
    let line = |label: &str, points| Line { label: label.to_owned(), points };
    bench.results.curves.push(Curve {
        name: "memory-growth".to_owned(),
        unit: "MB".to_owned(),
        lines: vec![line("private", private), line("PSS", proportional)],
    });
    Ok(())
}
