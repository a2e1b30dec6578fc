//! What a sandbox uses, now and over the last hour.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use silica_store::Timestamp;

use super::Session;

/// The most samples that are kept: one hour of them, one every ten seconds.
const SAMPLES_MAX: usize = 360;

/// What a sandbox used at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageSample {
    /// When it was measured.
    pub at: Timestamp,
    /// Processor time since the sandbox was created; `None` where it is not measured.
    pub cpu_ms: Option<u64>,
    /// Memory of processes and files; `None` where it is not measured.
    pub memory_bytes: Option<u64>,
    /// The highest memory since the sandbox was created; `None` where it is not measured.
    pub memory_peak_bytes: Option<u64>,
    /// Bytes in files.
    pub disk_bytes: u64,
    /// Number of files and directories.
    pub files: u64,
}

/// The newest samples of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Samples(VecDeque<UsageSample>);

impl Samples {
    fn push(&mut self, sample: UsageSample) {
        if self.0.len() == SAMPLES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(sample);
    }
}

impl Session {
    /// Measures what it uses now.
    pub fn usage(&self) -> UsageSample {
        let usage = self.sandbox.usage();
        let (disk_bytes, files) = self.sandbox.files().space();
        UsageSample {
            at: Timestamp::now(),
            cpu_ms: usage.cpu_us.map(|cpu| cpu / 1000),
            memory_bytes: usage.memory_bytes,
            memory_peak_bytes: usage.memory_peak_bytes,
            disk_bytes,
            files,
        }
    }

    /// Returns the samples of the last hour, oldest first.
    pub fn samples(&self) -> Vec<UsageSample> {
        self.lock().samples.0.iter().copied().collect()
    }

    /// Takes a sample if the newest is at least `pause` old.
    pub(crate) fn sample(&self, pause: Duration) {
        if self.lock().sampled.elapsed() < pause {
            return;
        }
        let sample = self.usage();
        let mut items = self.lock();
        items.sampled = Instant::now();
        items.samples.push(sample);
    }
}
