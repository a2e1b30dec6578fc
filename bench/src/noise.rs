//! Whether the machine is quiet enough for a comparison.
//!
//! It is judged by the load average, and by how evenly a fixed loop runs. A virtual machine may be
//! idle by its load and still share its host with others, which only the loop shows.

#[cfg(test)]
mod tests;

use std::hint::black_box;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::statistics::{Samples, Summary};

/// Rounds of the loop; one takes about a millisecond.
const ROUNDS: usize = 400;

/// The work of one round, sized so that a timer's tick does not fill it.
const STEPS: u64 = 1_600_000;

/// How much longer than the median one round in ten may take.
const SPREAD_MAX: f64 = 1.25;

/// Processes ready to run on each processor, averaged over a minute, beside our own.
const LOAD_PER_PROCESSOR_MAX: f64 = 0.5;

/// How the machine was at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quiet {
    /// The load averages of 1, 5 and 15 minutes.
    pub(crate) load: [f64; 3],
    pub(crate) processors: usize,
    /// The fixed loop, in milliseconds.
    pub(crate) rounds: Summary,
}

impl Quiet {
    /// Measures now. The loop runs on one processor and takes half a second.
    pub(crate) fn look() -> Self {
        Self::look_at(ROUNDS)
    }

    fn look_at(rounds: usize) -> Self {
        let mut samples = Samples::default();
        for _ in 0..rounds {
            let started = Instant::now();
            // In registers: through memory it took now 1.1 and now 2.6 ms on a quiet machine.
            black_box((0..STEPS).fold(black_box(1_u64), |sum, step| sum.rotate_left(5) ^ step));
            samples.push(started.elapsed());
        }
        let rounds = samples.summary().expect("rounds were run");
        Self { load: load(), processors: processors(), rounds }
    }

    /// The ninth decile of a round over its median.
    pub(crate) fn spread(&self) -> f64 {
        self.rounds.p90 / self.rounds.p50
    }

    /// Returns why the machine is too noisy to compare, if it is.
    pub(crate) fn complaint(&self) -> Option<String> {
        let allowed = LOAD_PER_PROCESSOR_MAX * self.processors as f64;
        if self.load[0] > allowed {
            let load = self.load[0];
            return Some(format!("the load is {load:.2}, more than {allowed:.2}"));
        }
        let spread = self.spread();
        (spread > SPREAD_MAX).then(|| {
            format!("one in ten rounds of a fixed loop takes {spread:.2} times the median, more than {SPREAD_MAX}")
        })
    }
}

/// How the machine was before a run and after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Noise {
    pub(crate) before: Quiet,
    /// The load of a run's own work is in here, so only the spread counts.
    pub(crate) after: Option<Quiet>,
    /// Why the figures are not fit for comparing, if they are not.
    pub(crate) complaint: Option<String>,
}

impl Noise {
    pub(crate) fn began(before: Quiet) -> Self {
        let complaint = before.complaint().map(|words| format!("before the run {words}"));
        Self { before, after: None, complaint }
    }

    pub(crate) fn ended(&mut self, after: Quiet) {
        let spread = after.spread();
        if self.complaint.is_none() && spread > SPREAD_MAX {
            let words = format!(
                "after the run one in ten rounds of a fixed loop took {spread:.2} times the median"
            );
            self.complaint = Some(words);
        }
        self.after = Some(after);
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn load() -> [f64; 3] {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut fields = text.split(' ').map(|field| field.parse().unwrap_or(0.0));
    std::array::from_fn(|_| fields.next().unwrap_or(0.0))
}
