//! All keys in memory, by the digest of their secret.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{KeyRecord, changes, load};
use crate::reader::Readers;
use crate::{Digest, StoreError, Tenant};

/// How old what is in memory may be before the file is asked whether another process changed it.
pub const KEYS_AGE_MAX: Duration = Duration::from_millis(500);

/// Who presented a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyMatch {
    /// A key that may be used.
    Active(Arc<KeyRecord>),
    /// A key that was revoked: to be refused like an unknown one, and logged.
    Revoked(Arc<KeyRecord>),
    /// Nobody.
    Unknown,
}

/// The keys as they were a moment ago.
#[derive(Debug, Default)]
pub(crate) struct KeyCache {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    keys: HashMap<Digest, Arc<KeyRecord>>,
    /// The counter of changes that belongs to them; nothing if they have to be read again.
    changes: Option<i64>,
    checked: Option<Instant>,
}

impl KeyCache {
    /// Has the file asked at the next look-up.
    pub(super) fn forget(&self) {
        self.lock().checked = None;
    }

    /// Looks a digest up. Equal time for every secret is not needed: a digest tells nothing of how
    /// near a wrong secret was.
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
        // A panic while it is held leaves keys that are whole and at worst a little old.
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
