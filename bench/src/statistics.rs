//! Samples and what is said about them.
//!
//! Quantiles are by nearest rank: every reported figure is a measured value, none is interpolated.

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Values of one thing, sorted. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds a time.
    pub(crate) fn push(&mut self, time: Duration) {
        self.push_value(time.as_secs_f64() * 1e3);
    }

    /// Adds a value; one that is no number is left out, because no order holds for it.
    pub(crate) fn push_value(&mut self, value: f64) {
        if value.is_finite() {
            let at = self.0.partition_point(|&other| other < value);
            self.0.insert(at, value);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest value that this share of the samples does not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).copied()
    }

    /// What is kept of them; nothing if there are none.
    pub(crate) fn summary(&self) -> Option<Summary> {
        Some(Summary {
            count: self.0.len(),
            min: self.quantile(0.0)?,
            p50: self.quantile(0.5)?,
            p90: self.quantile(0.9)?,
            p99: self.quantile(0.99)?,
        })
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut samples = Self::default();
        for value in values {
            samples.push_value(value);
        }
        samples
    }
}

/// What is kept of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) count: usize,
    pub(crate) min: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
}

impl Summary {
    /// Of a thing that was measured once.
    pub(crate) fn once(value: f64) -> Self {
        Self { count: 1, min: value, p50: value, p90: value, p99: value }
    }
}
