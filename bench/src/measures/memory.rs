//! What an idle place costs in memory: its own, and with its share of what is common.
//!
//! Everything below this process is summed up before and after, so a peer's servers and monitors
//! count too. The process is made a reaper of orphans for that, or some would leave its family.

use std::time::Duration;

use anyhow::Result;

use super::{Bench, SILICA};
use crate::footprint::{Memory, descendants};
use crate::interleave::first_line;
use crate::peers::Contender;
use crate::results::{Better, Curve, Line, Table};

/// How long what is not needed any more may take to go.
const SETTLE: Duration = Duration::from_millis(500);

/// At how many sandboxes the growth is looked at.
const STEPS: [usize; 7] = [1, 10, 50, 100, 200, 350, 500];

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let (count, ours_count) = bench.pick((3, 10), (10, 50));
    let mut private = Table::new("memory-private", "MB", Better::Less);
    let mut proportional = Table::new("memory-pss", "MB", Better::Less);
    let mut note = |who: &str, ours: bool, found: Result<Memory>, count: usize| match found {
        Ok(memory) => {
            private.add(who, ours, per(memory.private_bytes, count));
            proportional.add(who, ours, per(memory.proportional_bytes, count));
        }
        Err(error) => private.add_absent(who, &first_line(&error)),
    };
    let mut served = bench.serve(0)?;
    let found = of_sessions(&mut served, ours_count);
    if let Ok(memory) = found {
        bench.results.promise("P6", per(memory.private_bytes, ours_count), "MB");
    }
    note(SILICA, true, found, ours_count);
    drop(served);
    for peer in &mut bench.peers {
        note(peer.name, false, of_sessions(peer.contender.as_mut(), count), count);
    }
    bench.results.tables.extend([private, proportional]);
    growth(bench)
}

fn per(bytes: u64, count: usize) -> f64 {
    bytes as f64 / count as f64 / 1e6
}

fn family() -> Memory {
    Memory::of(descendants(std::process::id()))
}

/// What several more sessions cost, after one has paid for what all share.
fn of_sessions(contender: &mut dyn Contender, count: usize) -> Result<Memory> {
    let mut sessions = vec![contender.open()?];
    std::thread::sleep(SETTLE);
    let before = family();
    for _ in 0..count {
        sessions.push(contender.open()?);
    }
    std::thread::sleep(SETTLE);
    let after = family();
    for session in sessions {
        contender.close(session)?;
    }
    Ok(Memory {
        private_bytes: after.private_bytes.saturating_sub(before.private_bytes),
        proportional_bytes: after.proportional_bytes.saturating_sub(before.proportional_bytes),
    })
}

fn growth(bench: &mut Bench) -> Result<()> {
    let mut served = bench.serve(0)?;
    let last = served.open()?;
    std::thread::sleep(SETTLE);
    let before = family();
    let (mut private, mut proportional) = (Vec::new(), Vec::new());
    let mut sessions = vec![last];
    for step in STEPS.into_iter().filter(|step| *step <= bench.pick(50, 500)) {
        while sessions.len() <= step {
            sessions.push(served.open()?);
        }
        std::thread::sleep(SETTLE);
        let now = family();
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
