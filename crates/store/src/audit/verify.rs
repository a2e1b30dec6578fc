//! Walks the chain and tells whether it is as it was written. The same walk serves the table and
//! exported files.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use rusqlite::Connection;
use serde::Serialize;

use super::chain::{Anchor, ChainKey, Head, stored_anchor, stored_head};
use super::record::{Kind, Record, each};
use crate::error::Failure;
use crate::{Digest, IdError};

/// How far from where it stands the old place of a record is looked for.
const REACH_MAX: u64 = 10_000;
/// How many unfinished executions are named; the others are counted.
const NAMED_MAX: usize = 100;

/// A head that somebody noted elsewhere, written `SEQ:HASH`.
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

/// What a walk came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything is as it was written.
    Whole(Summary),
    /// The first thing that is not.
    Broken(Fault),
}

/// What there is in a chain that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many records.
    pub records: u64,
    /// The number of the first one, if there is one.
    pub first: Option<u64>,
    /// The last one, to be noted elsewhere.
    pub head: Head,
    /// Executions that were begun and not finished: how many.
    pub unfinished: u64,
    /// The first of them, by id.
    pub unfinished_ids: Vec<String>,
    /// What was pruned before the first one.
    pub anchor: Option<Anchor>,
    /// What became of the head that was noted elsewhere.
    pub noted: Option<Noted>,
}

/// Where a head that was noted elsewhere is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// In the chain, and the same.
    Found,
    /// Pruned with others of its age, so nothing can be said about it.
    Pruned,
}

/// How a chain is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// It cannot be checked with this key.
    #[error("the log was not written with this audit.key")]
    WrongKey,
    /// A record does not say what it said.
    #[error("record {seq} was changed")]
    Changed {
        /// Its number.
        seq: u64,
    },
    /// A record is not there.
    #[error("record {seq} is missing")]
    Missing {
        /// Its number.
        seq: u64,
    },
    /// A record stands where another one stood.
    #[error("record {seq} was moved: it was written as record {written_as}")]
    Moved {
        /// Where it stands.
        seq: u64,
        /// Where it was written.
        written_as: u64,
    },
    /// A record was written after another one than the one before it.
    #[error(
        "record {seq} does not follow the one before it: it comes from another copy of the log"
    )]
    Unlinked {
        /// Its number.
        seq: u64,
    },
    /// The last records are not there.
    #[error("records {first} to {last} were cut off at the end")]
    TailCut {
        /// The first that is missing.
        first: u64,
        /// The last that is missing.
        last: u64,
    },
    /// There are records behind the last one.
    #[error("the head says that record {head} is the last one, but record {seq} is there")]
    BeyondHead {
        /// The last one by the head.
        head: u64,
        /// One that is there.
        seq: u64,
    },
    /// The note of the last record is not there.
    #[error("the head is missing: records may have been cut off at the end")]
    HeadMissing,
    /// The note of the last record was changed.
    #[error("the head was changed: records may have been cut off at the end")]
    HeadChanged,
    /// The note of what was pruned was changed.
    #[error(
        "the note of what was pruned was changed: records may have been cut off at the beginning"
    )]
    AnchorChanged,
    /// The log ends before a head that was noted elsewhere.
    #[error(
        "the log ends at record {last}, but record {noted} was noted: it was put back to an older state"
    )]
    RolledBack {
        /// The last record.
        last: u64,
        /// The one that was noted.
        noted: u64,
    },
    /// The log has another record than the one that was noted elsewhere.
    #[error("record {seq} is not the one that was noted: the log was replaced by another")]
    Replaced {
        /// Its number.
        seq: u64,
    },
}

/// A fault, or a failure to look.
pub(super) enum Stop {
    Fault(Fault),
    Failure(Failure),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Failure> for Stop {
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
        Err(Stop::Fault(fault)) => Ok(Verdict::Broken(fault)),
        Err(Stop::Failure(failure)) => Err(failure),
    }
}

fn walk_table(
    connection: &Connection,
    key: &ChainKey,
    noted: Option<NotedHead>,
) -> Result<Summary, Stop> {
    let (head, head_mac) = stored_head(connection)?.ok_or(Fault::HeadMissing)?;
    if !key.made(connection)? {
        return Err(Fault::WrongKey.into());
    }
    let anchor = stored_anchor(connection)?;
    let mut walk = Walk::new(key, anchor, noted)?;
    each(connection, |record| {
        let record = record.map_err(|_| Fault::Changed { seq: walk.next() })?;
        walk.step(&record).map_err(Stop::from)
    })?;
    Ok(walk.end(head, head_mac)?)
}

/// The state of a walk: what the next record has to be.
pub(super) struct Walk<'key> {
    key: &'key ChainKey,
    anchor: Option<Anchor>,
    noted: Option<NotedHead>,
    /// The record before the next one.
    last: Head,
    records: u64,
    unfinished: HashSet<String>,
}

impl<'key> Walk<'key> {
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

    /// The number of the next record.
    pub(super) fn next(&self) -> u64 {
        self.last.seq + 1
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

    /// Finds out whether a record that is wrong here would be right elsewhere.
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
            (Kind::Begin, Some(execution)) => {
                self.unfinished.insert(execution.clone());
            }
            (Kind::Finish, Some(execution)) => {
                self.unfinished.remove(execution);
            }
            _ => {}
        }
    }

    /// Compares what was walked with what the head says.
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
            // The walk has compared it on its way.
            _ => Ok(Noted::Found),
        }
    }
}
