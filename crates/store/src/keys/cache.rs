//! The cache of keys: all keys in memory, by the digest of their secret.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{KeyRecord, changes, load};
use crate::reader::Readers;
use crate::{Digest, StoreError, Tenant};

/// The age at which the cache is compared with the file, which another process may have changed.
pub const KEYS_AGE_MAX: Duration = Duration::from_millis(500);

/// The key of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyMatch {
    /// A key that may be used.
    Active(Arc<KeyRecord>),
    /// A revoked key: the request is refused like one with an unknown key, and logged.
    Revoked(Arc<KeyRecord>),
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
    pub(super) fn find(&self, readers: &Readers, digest: &Digest) -> Result<KeyMatch, StoreError> {
        let known = self.fresh(readers)?;
        Ok(match known.keys.get(digest) {
            None => KeyMatch::Unknown,
            Some(record) if record.revoked_at.is_some() => KeyMatch::Revoked(Arc::clone(record)),
            Some(record) => KeyMatch::Active(Arc::clone(record)),
        })
    }

    /// Whether the key of a tenant may still be used.
    pub(super) fn is_active(&self, readers: &Readers, tenant: &Tenant) -> Result<bool, StoreError> {
        let known = self.fresh(readers)?;
        let own = known.keys.values().find(|record| record.id.as_str() == tenant.as_str());
        Ok(own.is_some_and(|record| record.revoked_at.is_none()))
    }

    fn fresh(&self, readers: &Readers) -> Result<MutexGuard<'_, Known>, StoreError> {
        let mut known = self.lock();
        if known.checked.is_none_or(|checked| checked.elapsed() >= KEYS_AGE_MAX) {
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
    fn refresh(&mut self, readers: &Readers) -> Result<(), StoreError> {
        let before = self.changes;
        let (count, loaded) = readers.read(|connection| {
            let count = changes(connection)?;
            let loaded = if before == Some(count) { None } else { Some(load(connection)?) };
            Ok((count, loaded))
        })?;
        if let Some(loaded) = loaded {
            self.keys =
                loaded.into_iter().map(|(digest, record)| (digest, Arc::new(record))).collect();
            self.changes = Some(count);
        }
        self.checked = Some(Instant::now());
        Ok(())
    }
}
