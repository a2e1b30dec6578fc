//! A token bucket: an allowance that refills with time.

use std::time::{Duration, Instant};

/// The longest wait that a refusal announces.
const RETRY_SECONDS_MAX: f64 = 3600.0;

/// A token bucket. Its level falls below zero when an amount is known only after it was used.
#[derive(Debug)]
pub(super) struct Bucket {
    level: f64,
    capacity: f64,
    per_second: f64,
    refilled: Instant,
}

impl Bucket {
    pub(super) fn new(capacity: f64, per_second: f64, now: Instant) -> Self {
        Self { level: capacity, capacity, per_second, refilled: now }
    }

    pub(super) fn per_minute(capacity: u64, now: Instant) -> Self {
        Self::new(capacity as f64, capacity as f64 / 60.0, now)
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.refilled).as_secs_f64();
        self.level = (self.level + passed * self.per_second).min(self.capacity);
        self.refilled = now;
    }

    /// Takes an amount, or returns how long it takes until the bucket holds it.
    pub(super) fn take(&mut self, amount: f64, now: Instant) -> Result<(), Duration> {
        self.refill(now);
        if self.level >= amount {
            self.level -= amount;
            return Ok(());
        }
        let seconds = (amount - self.level) / self.per_second.max(f64::MIN_POSITIVE);
        Err(Duration::from_secs_f64(seconds.min(RETRY_SECONDS_MAX)))
    }

    /// Takes an amount ahead of time if the bucket holds it within `patience`; returns the delay until then. Otherwise
    /// returns how long it takes until the bucket holds it.
    pub(super) fn take_soon(
        &mut self,
        amount: f64,
        patience: Duration,
        now: Instant,
    ) -> Result<Duration, Duration> {
        match self.take(amount, now) {
            Ok(()) => Ok(Duration::ZERO),
            Err(delay) if delay <= patience => {
                self.level -= amount;
                Ok(delay)
            }
            Err(delay) => Err(delay),
        }
    }

    /// Returns how much was taken and is not refilled yet.
    pub(super) fn taken(&mut self, now: Instant) -> f64 {
        self.refill(now);
        self.capacity - self.level
    }

    /// Takes an amount that has been used already.
    pub(super) fn charge(&mut self, amount: f64, now: Instant) {
        self.refill(now);
        self.level -= amount;
    }
}
