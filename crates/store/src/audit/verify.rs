//! Checks the chain: walks over all records and finds the first one that is not as it was written.
//! The same walk is used for the table and for exported files.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use rusqlite::Connection;
use serde::Serialize;

use super::chain::{Anchor, ChainKey, Head, stored_anchor, stored_head};
use super::record::{Record, RecordKind, each};
use crate::error::Failure;
use crate::{Digest, IdError};

/// How far from its number the original number of a moved record is searched.
const REACH_MAX: u64 = 10_000;
/// How many unfinished executions are listed; the others are counted.
const NAMED_MAX: usize = 100;

/// A head that was recorded outside of the store, written `SEQ:HASH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotedHead(pub Head);

impl FromStr for NotedHead {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || {
            let (seq, hash) = text.split_once(':')?;
            Some(Self(Head { seq: seq.parse().ok()?, hash: hash.parse().ok()? }))
        };
        parse().ok_or_else(|| IdError::new("head (SEQ:HASH)", text))
    }
}

impl fmt::Display for Head {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.seq, self.hash)
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All records are as they were written.
    Whole(Summary),
    /// The first fault.
    Broken(Fault),
}

/// The contents of a chain without faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The number of records.
    pub records: u64,
    /// The number of the first one, if there is one.
    pub first: Option<u64>,
    /// The head, to be recorded outside of the store.
    pub head: Head,
    /// How many executions have no end.
    pub unfinished: u64,
    /// The first of them, in the order of their ids.
    pub unfinished_ids: Vec<String>,
    /// What was pruned before the first record.
    pub anchor: Option<Anchor>,
    /// Where the head that was recorded outside of the store is.
    pub noted: Option<Noted>,
}

/// Where a head that was recorded outside of the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// In the chain, unchanged.
    Found,
    /// It was pruned, so it cannot be compared.
    Pruned,
}

/// How a chain differs from what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// The key is not that of the log.
    #[error("the log was not written with this audit.key")]
    WrongKey,
    /// A record was changed.
    #[error("record {seq} was changed")]
    Changed {
        /// Its number.
        seq: u64,
    },
    /// A record is missing.
    #[error("record {seq} is missing")]
    Missing {
        /// Its number.
        seq: u64,
    },
    /// A record has another number than it was written with.
    #[error("record {seq} was moved: it was written as record {written_as}")]
    Moved {
        /// Its number.
        seq: u64,
        /// The number it was written with.
        written_as: u64,
    },
    /// A record was written after another record than the one before it.
    #[error(
        "record {seq} does not follow the one before it: it comes from another copy of the log"
    )]
    Unlinked {
        /// Its number.
        seq: u64,
    },
    /// The last records are missing.
    #[error("records {first} to {last} were cut off at the end")]
    TailCut {
        /// The first that is missing.
        first: u64,
        /// The last that is missing.
        last: u64,
    },
    /// There are records after the head.
    #[error("the head says that record {head} is the last one, but record {seq} is there")]
    BeyondHead {
        /// The number of the head.
        head: u64,
        /// The number of a record after it.
        seq: u64,
    },
    /// The head is missing.
    #[error("the head is missing: records may have been cut off at the end")]
    HeadMissing,
    /// The head was changed.
    #[error("the head was changed: records may have been cut off at the end")]
    HeadChanged,
    /// The anchor was changed.
    #[error(
        "the anchor, which records what was pruned, was changed: records may have been cut off \
         at the beginning"
    )]
    AnchorChanged,
    /// The log ends before a head that was recorded outside of the store.
    #[error(
        "the log ends at record {last}, but the given head is record {noted}: the log was \
         replaced by an older copy"
    )]
    RolledBack {
        /// The last record.
        last: u64,
        /// The number of the given head.
        noted: u64,
    },
    /// The log has another record than the head that was recorded outside of the store.
    #[error("record {seq} is not the given head: the log was replaced by another one")]
    Replaced {
        /// Its number.
        seq: u64,
    },
}

/// Why a walk ended early: a fault of the log, or an error.
pub(super) enum WalkStop {
    Fault(Fault),
    Failure(Failure),
}

impl From<Fault> for WalkStop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Failure> for WalkStop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

pub(super) fn verify(
    connection: &Connection,
    key: &ChainKey,
    noted: Option<NotedHead>,
) -> Result<Verdict, Failure> {
    match walk_table(connection, key, noted) {
        Ok(summary) => Ok(Verdict::Whole(summary)),
        Err(WalkStop::Fault(fault)) => Ok(Verdict::Broken(fault)),
        Err(WalkStop::Failure(failure)) => Err(failure),
    }
}

fn walk_table(
    connection: &Connection,
    key: &ChainKey,
    noted: Option<NotedHead>,
) -> Result<Summary, WalkStop> {
    let (head, head_mac) = stored_head(connection)?.ok_or(Fault::HeadMissing)?;
    if !key.made(connection)? {
        return Err(Fault::WrongKey.into());
    }
    let anchor = stored_anchor(connection)?;
    let mut walk = ChainWalk::new(key, anchor, noted)?;
    each(connection, |record| {
        let record = record.map_err(|_| Fault::Changed { seq: walk.next() })?;
        walk.step(&record).map_err(WalkStop::from)
    })?;
    Ok(walk.end(head, head_mac)?)
}

/// The state of a walk over the records.
pub(super) struct ChainWalk<'key> {
    key: &'key ChainKey,
    anchor: Option<Anchor>,
    noted: Option<NotedHead>,
    /// The number and the code of the record before the next one.
    last: Head,
    records: u64,
    unfinished: HashSet<String>,
}

impl<'key> ChainWalk<'key> {
    pub(super) fn new(
        key: &'key ChainKey,
        anchor: Option<(Anchor, Digest)>,
        noted: Option<NotedHead>,
    ) -> Result<Self, Fault> {
        if anchor.is_some_and(|(anchor, mac)| key.anchor_mac(&anchor) != mac) {
            return Err(Fault::AnchorChanged);
        }
        let anchor = anchor.map(|(anchor, _)| anchor);
        let last = match anchor {
            Some(anchor) => Head { seq: anchor.seq, hash: anchor.hash },
            None => Head { seq: 0, hash: Digest::ZERO },
        };
        Ok(Self { key, anchor, noted, last, records: 0, unfinished: HashSet::new() })
    }

    /// Returns the number of the next record.
    pub(super) fn next(&self) -> u64 {
        self.last.seq + 1
    }

    /// Returns the number and the code of the record before the next one.
    pub(super) fn last(&self) -> Head {
        self.last
    }

    pub(super) fn step(&mut self, record: &Record) -> Result<(), Fault> {
        let seq = self.next();
        if record.seq > seq {
            return Err(Fault::Missing { seq });
        }
        if record.seq < seq {
            return Err(Fault::Moved { seq, written_as: record.seq });
        }
        if self.key.hash(seq, &record.previous, &record.entry()) != record.hash {
            return Err(self.moved(record).unwrap_or(Fault::Changed { seq }));
        }
        if record.previous != self.last.hash {
            return Err(Fault::Unlinked { seq });
        }
        self.last = Head { seq, hash: record.hash };
        self.records += 1;
        self.check_noted()?;
        self.count(record);
        Ok(())
    }

    /// Finds the number with which a record that does not fit its code was written.
    fn moved(&self, record: &Record) -> Option<Fault> {
        let seq = record.seq;
        let entry = record.entry();
        let fits = |other: &u64| self.key.hash(*other, &record.previous, &entry) == record.hash;
        let near = (1..=REACH_MAX).flat_map(|distance| {
            [seq.checked_sub(distance), seq.checked_add(distance)].into_iter().flatten()
        });
        near.into_iter().find(fits).map(|written_as| Fault::Moved { seq, written_as })
    }

    fn check_noted(&self) -> Result<(), Fault> {
        match self.noted {
            Some(NotedHead(noted))
                if noted.seq == self.last.seq && noted.hash != self.last.hash =>
            {
                Err(Fault::Replaced { seq: noted.seq })
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, record: &Record) {
        match (record.kind, &record.execution) {
            (RecordKind::Begin, Some(execution)) => {
                self.unfinished.insert(execution.clone());
            }
            (RecordKind::Finish, Some(execution)) => {
                self.unfinished.remove(execution);
            }
            _ => {}
        }
    }

    /// Compares the last record with the head, and ends the walk.
    pub(super) fn end(self, head: Head, head_mac: Digest) -> Result<Summary, Fault> {
        if self.key.head_mac(&head) != head_mac {
            return Err(Fault::HeadChanged);
        }
        if head.seq > self.last.seq {
            return Err(Fault::TailCut { first: self.next(), last: head.seq });
        }
        if head.seq < self.last.seq {
            return Err(Fault::BeyondHead { head: head.seq, seq: self.last.seq });
        }
        if head.hash != self.last.hash {
            return Err(Fault::HeadChanged);
        }
        let noted = self.noted.map(|NotedHead(noted)| self.find_noted(noted)).transpose()?;
        let mut unfinished_ids: Vec<String> = self.unfinished.into_iter().collect();
        let unfinished = unfinished_ids.len() as u64;
        unfinished_ids.sort_unstable();
        unfinished_ids.truncate(NAMED_MAX);
        Ok(Summary {
            records: self.records,
            first: (self.records > 0).then(|| head.seq + 1 - self.records),
            head,
            unfinished,
            unfinished_ids,
            anchor: self.anchor,
            noted,
        })
    }

    fn find_noted(&self, noted: Head) -> Result<Noted, Fault> {
        if noted.seq > self.last.seq {
            return Err(Fault::RolledBack { last: self.last.seq, noted: noted.seq });
        }
        match self.anchor {
            Some(anchor) if noted.seq < anchor.seq => Ok(Noted::Pruned),
            Some(anchor) if noted.seq == anchor.seq && noted.hash != anchor.hash => {
                Err(Fault::Replaced { seq: noted.seq })
            }
            // The walk has compared it.
            _ => Ok(Noted::Found),
        }
    }
}
