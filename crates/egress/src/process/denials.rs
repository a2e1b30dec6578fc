//! Refusals of one sandbox: the first of each host and port at once, the others as a count.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::connection::now_ms;
use super::refusal::Refusal;
use super::world::lock;
use crate::events::{ConnectionKind, DenialRecord};

/// How often counts are reported.
const COUNT_EVERY: Duration = Duration::from_secs(10);

/// The most different hosts and ports that are kept apart; further ones are counted as one.
const HOSTS_MAX: usize = 1024;

/// The host under which refusals beyond `HOSTS_MAX` are counted.
const OTHERS: &str = "*";

/// The longest host in a record.
const HOST_BYTES_MAX: usize = 255;

#[derive(Default)]
pub(super) struct Denials {
    counts: Mutex<HashMap<(String, u16), Count>>,
    total: AtomicU64,
}

struct Count {
    /// What was refused since the last report.
    unreported: Option<DenialRecord>,
    reported: Instant,
}

impl Denials {
    /// Counts a refusal. Returns the record if it is the first of its host and port.
    pub(super) fn note(
        &self,
        host: &str,
        port: u16,
        kind: ConnectionKind,
        refusal: &Refusal,
    ) -> Option<DenialRecord> {
        self.total.fetch_add(1, Ordering::Relaxed);
        let mut counts = lock(&self.counts);
        let host: String = host.chars().take(HOST_BYTES_MAX).collect();
        let known = counts.contains_key(&(host.clone(), port));
        let full = !known && counts.len() >= HOSTS_MAX;
        let (host, port) = if full { (OTHERS.to_owned(), 0) } else { (host, port) };
        let record = DenialRecord {
            host: host.clone(),
            port,
            kind,
            code: refusal.code.to_owned(),
            message: refusal.message.clone(),
            count: 1,
            first_at_ms: now_ms(),
        };
        match counts.get_mut(&(host.clone(), port)) {
            None => {
                counts.insert((host, port), Count { unreported: None, reported: Instant::now() });
                Some(record)
            }
            Some(count) => {
                let unreported =
                    count.unreported.get_or_insert(DenialRecord { count: 0, ..record });
                unreported.count += 1;
                None
            }
        }
    }

    /// Returns the counts that are due.
    pub(super) fn due(&self) -> Vec<DenialRecord> {
        let mut due = Vec::new();
        for count in lock(&self.counts).values_mut() {
            if count.reported.elapsed() >= COUNT_EVERY
                && let Some(record) = count.unreported.take()
            {
                count.reported = Instant::now();
                due.push(record);
            }
        }
        due
    }

    /// Returns all counts that were not reported.
    pub(super) fn rest(&self) -> Vec<DenialRecord> {
        lock(&self.counts).values_mut().filter_map(|count| count.unreported.take()).collect()
    }

    pub(super) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}
