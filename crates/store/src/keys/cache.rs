//! The cache of keys: all keys in memory, by the digest of their secret.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{KeyRecord, changes, load};
use crate::reader::Readers;
use crate::{Digest, StoreError, Tenant};

/// The age at which the cache is compared with the file, which another process may have changed.
pub const KEYS_AGE_MAX: Duration = Duration::from_millis(500);

/// The age at which the cache is compared with the file for a secret that it does not hold: another
/// process may just have made the key. However many unknown secrets come, the file is read once in
/// this time, by one lookup.
pub const UNKNOWN_AGE_MAX: Duration = Duration::from_millis(50);

/// The key of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyMatch {
    /// A key that may be used.
    Active(Arc<KeyRecord>),
    /// A revoked key: the request is refused like one with an unknown key, and logged.
    Revoked(Arc<KeyRecord>),
    /// There was no key with this secret when the file was last read, which is too short a time ago
    /// to read it again. A lookup after this time decides.
    Unseen(Duration),
    /// There is no key with this secret.
    Unknown,
}

/// The keys, at most [`KEYS_AGE_MAX`] old.
#[derive(Debug, Default)]
pub(crate) struct KeyCache {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    keys: HashMap<Digest, Arc<KeyRecord>>,
    /// The ids of those that are revoked.
    revoked: HashSet<String>,
    /// The counter of changes when they were read; `None` if they have never been.
    changes: Option<i64>,
    checked: Option<Instant>,
}

impl KeyCache {
    /// Has the next lookup compare the cache with the file.
    pub(super) fn invalidate(&self) {
        self.lock().checked = None;
    }

    /// Finds a key by the digest of its secret. It need not take constant time: the time could only
    /// show how much of the digest matches, and that says nothing about the secret.
    /// A key that was made before `asked` is found, by whatever process.
    pub(super) fn find(
        &self,
        readers: &Readers,
        digest: &Digest,
        asked: Instant,
    ) -> Result<KeyMatch, StoreError> {
        let mut known = self.fresh(readers)?;
        let is_older = known.checked.is_none_or(|checked| checked < asked);
        if is_older && !known.keys.contains_key(digest) {
            let age = known.age().unwrap_or(UNKNOWN_AGE_MAX);
            if let Some(rest) = UNKNOWN_AGE_MAX.checked_sub(age).filter(|rest| !rest.is_zero()) {
                return Ok(KeyMatch::Unseen(rest));
            }
            known.refresh(readers)?;
        }
        Ok(match known.keys.get(digest) {
            None => KeyMatch::Unknown,
            Some(record) if record.revoked_at.is_some() => KeyMatch::Revoked(Arc::clone(record)),
            Some(record) => KeyMatch::Active(Arc::clone(record)),
        })
    }

    /// Whether the key of a tenant is revoked.
    pub(super) fn is_revoked(
        &self,
        readers: &Readers,
        tenant: &Tenant,
    ) -> Result<bool, StoreError> {
        Ok(self.fresh(readers)?.revoked.contains(tenant.as_str()))
    }

    /// Returns the key of a tenant.
    pub(super) fn record(
        &self,
        readers: &Readers,
        tenant: &Tenant,
    ) -> Result<Option<Arc<KeyRecord>>, StoreError> {
        let known = self.fresh(readers)?;
        let own = known.keys.values().find(|record| record.id.as_str() == tenant.as_str());
        Ok(own.cloned())
    }

    fn fresh(&self, readers: &Readers) -> Result<MutexGuard<'_, Known>, StoreError> {
        let mut known = self.lock();
        if known.age().is_none_or(|age| age >= KEYS_AGE_MAX) {
            known.refresh(readers)?;
        }
        Ok(known)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // A panic while it is held leaves keys that are complete and at worst a little old.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Returns for how long the keys have not been compared with the file.
    fn age(&self) -> Option<Duration> {
        self.checked.map(|checked| checked.elapsed())
    }

    fn refresh(&mut self, readers: &Readers) -> Result<(), StoreError> {
        let before = self.changes;
        // Before the file is read: what is written meanwhile may not be seen.
        let now = Instant::now();
        let (count, loaded) = readers.read(|connection| {
            let count = changes(connection)?;
            let loaded = if before == Some(count) { None } else { Some(load(connection)?) };
            Ok((count, loaded))
        })?;
        if let Some(loaded) = loaded {
            let revoked = loaded.iter().filter(|(_, record)| record.revoked_at.is_some());
            self.revoked = revoked.map(|(_, record)| record.id.to_string()).collect();
            self.keys =
                loaded.into_iter().map(|(digest, record)| (digest, Arc::new(record))).collect();
            self.changes = Some(count);
        }
        self.checked = Some(now);
        Ok(())
    }
}
