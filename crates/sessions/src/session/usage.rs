//! What a sandbox uses, now and over the last hour.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use silica_store::Timestamp;

use super::Session;

/// Samples that are kept: an hour of them.
pub(crate) const SAMPLES_MAX: usize = 360;

/// What a sandbox used at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Timestamp,
    /// Processor time so far, where it is measured.
    pub cpu_ms: Option<u64>,
    /// Memory, files included, where it is measured.
    pub memory_bytes: Option<u64>,
    /// The most memory so far, where it is measured.
    pub memory_peak_bytes: Option<u64>,
    /// Bytes in files.
    pub disk_bytes: u64,
    /// Number of files and directories.
    pub files: u64,
}

/// The samples of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Samples(VecDeque<Sample>);

impl Samples {
    pub(crate) fn add(&mut self, sample: Sample) {
        if self.0.len() == SAMPLES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(sample);
    }

    pub(crate) fn all(&self) -> Vec<Sample> {
        self.0.iter().copied().collect()
    }
}

impl Session {
    /// What it uses now.
    pub fn usage(&self) -> Sample {
        let usage = self.sandbox.usage();
        let (disk_bytes, files) = self.sandbox.files().space();
        Sample {
            at: Timestamp::now(),
            cpu_ms: usage.cpu_us.map(|cpu| cpu / 1000),
            memory_bytes: usage.memory_bytes,
            memory_peak_bytes: usage.memory_peak_bytes,
            disk_bytes,
            files,
        }
    }

    /// What it used over the last hour.
    pub fn samples(&self) -> Vec<Sample> {
        self.lock().samples.all()
    }

    /// Takes a sample if the last is older than `pause`.
    pub(crate) fn sample(&self, pause: Duration) {
        if self.lock().sampled.elapsed() < pause {
            return;
        }
        let sample = self.usage();
        let mut inner = self.lock();
        inner.sampled = Instant::now();
        inner.samples.add(sample);
    }
}
