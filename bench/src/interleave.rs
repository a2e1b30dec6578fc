//! Takes samples of several things in turn, so that whatever disturbs the machine disturbs all.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::results::{Absent, Better, Row, Table};
use crate::statistics::Samples;

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) warm_ups: usize,
    pub(crate) samples: usize,
    /// A lane that has used this up takes no more samples, once it has the least.
    pub(crate) lane: Duration,
    pub(crate) samples_least: usize,
    /// Samples that a lane takes one after the other when it is its turn.
    pub(crate) in_a_row: usize,
}

/// One of the things that take turns.
pub(crate) struct Lane<'a> {
    pub(crate) who: String,
    pub(crate) ours: bool,
    act: Box<dyn FnMut() -> Result<Duration> + 'a>,
    samples: Samples,
    spent: Duration,
    failed: Option<String>,
}

impl<'a> Lane<'a> {
    /// A lane whose action does the thing once and says how long it took.
    pub(crate) fn new(
        who: impl Into<String>,
        ours: bool,
        act: impl FnMut() -> Result<Duration> + 'a,
    ) -> Self {
        Self {
            who: who.into(),
            ours,
            act: Box::new(act),
            samples: Samples::default(),
            spent: Duration::ZERO,
            failed: None,
        }
    }

    fn once(&mut self) -> Option<Duration> {
        let started = Instant::now();
        let done = (self.act)();
        self.spent += started.elapsed();
        done.map_err(|error| self.failed = Some(first_line(&error))).ok()
    }

    fn wants_more(&self, effort: Effort) -> bool {
        let enough = self.samples.len() >= effort.samples_least && self.spent >= effort.lane;
        self.failed.is_none() && self.samples.len() < effort.samples && !enough
    }
}

/// Goes round the lanes. One that fails is left out from then on and says why; the others go on.
pub(crate) fn interleave(name: &str, mut lanes: Vec<Lane<'_>>, effort: Effort) -> Table {
    for lane in &mut lanes {
        for _ in 0..effort.warm_ups {
            if lane.once().is_none() || lane.spent >= effort.lane {
                break;
            }
        }
        lane.spent = Duration::ZERO;
    }
    while lanes.iter().any(|lane| lane.wants_more(effort)) {
        for lane in &mut lanes {
            for _ in 0..effort.in_a_row {
                if !lane.wants_more(effort) {
                    break;
                }
                if let Some(time) = lane.once() {
                    lane.samples.push(time);
                }
            }
        }
    }
    let mut table = Table::new(name, "ms", Better::Less);
    for lane in lanes {
        match (lane.failed, lane.samples.summary()) {
            (None, Some(summary)) => {
                table.rows.push(Row { who: lane.who, ours: lane.ours, summary });
            }
            (failed, _) => {
                let reason = failed.unwrap_or_else(|| "no sample".to_owned());
                table.absent.push(Absent { who: lane.who, reason });
            }
        }
    }
    table
}

/// Returns the first line of an error, for a table, without the paths of the bench on this machine.
pub(crate) fn first_line(error: &anyhow::Error) -> String {
    const LENGTH_MAX: usize = 200;
    let mut text = format!("{error:#}");
    if let Ok(place) = std::env::current_dir() {
        text = text.replace(&*place.to_string_lossy(), "…");
    }
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason");
    line.chars().take(LENGTH_MAX).collect()
}

/// How often clients beside each other do something within a time. Each is made by `client`.
pub(crate) fn count_beside<W>(
    clients: usize,
    time: Duration,
    client: impl Fn() -> Result<W> + Sync,
) -> Result<u64>
where
    W: FnMut() -> Result<()>,
{
    let started = Instant::now();
    let work = || -> Result<u64> {
        let (mut act, mut count) = (client()?, 0);
        while started.elapsed() < time {
            act()?;
            count += 1;
        }
        Ok(count)
    };
    let counts: Result<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a client panicked")).collect()
    });
    Ok(counts?.into_iter().sum())
}
