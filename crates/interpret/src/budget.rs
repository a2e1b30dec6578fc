//! What each key has spent on models today, and whether it may spend more.
//!
//! Days are days of UTC. The book is kept in one small file, written anew by rename, so that a restart
//! gives nobody a second budget. What is only known afterwards is charged afterwards: a key can go over
//! its budget by one answer, and no further.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use silica_store::Tenant;

use crate::model::{Cost, Tokens};

/// Keys in the book; the store has no more.
const KEYS_MAX: usize = 10_000;

/// The largest book that is read.
const BOOK_BYTES_MAX: u64 = 16 * 1024 * 1024;

const DAY: Duration = Duration::from_hours(24);

/// What one key may spend in a day.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    /// Tokens read and written; `None` for any number.
    pub tokens: Option<u64>,
    /// Money; `None` for any amount. What models without a price cost is not known and counts nothing.
    pub cost: Option<Cost>,
}

/// A budget that is used up.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("this key has used its {what} for today")]
pub struct Spent {
    /// Of what, with the number.
    pub what: String,
    /// When there is more.
    pub retry_after: Duration,
}

/// What was spent on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spending {
    /// The day, counted from 1970.
    day: u64,
    /// Requests to models.
    pub requests: u64,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Money, in the unit of [`Cost`].
    cost: Cost,
}

impl Spending {
    /// What it cost, as far as prices are known.
    pub fn cost(&self) -> Cost {
        self.cost
    }
}

/// The book.
#[derive(Debug)]
pub struct Ledger {
    budget: Budget,
    file: Option<PathBuf>,
    book: Mutex<Book>,
    /// The version that was written last; whoever holds this writes.
    written: Arc<Mutex<u64>>,
}

#[derive(Debug, Default)]
struct Book {
    keys: BTreeMap<String, Spending>,
    version: u64,
}

impl Book {
    fn today(&self, tenant: &Tenant) -> Spending {
        let (day, _) = today();
        let found = self.keys.get(tenant.as_str()).filter(|spending| spending.day == day);
        found.copied().unwrap_or(Spending { day, ..Spending::default() })
    }
}

impl Ledger {
    /// A book in memory only.
    pub fn in_memory(budget: Budget) -> Self {
        Self { budget, file: None, book: Mutex::default(), written: Arc::default() }
    }

    /// Opens the book in a file, which need not be there. One that cannot be read is an error: an
    /// empty one in its place would be a gift.
    pub fn open(budget: Budget, file: PathBuf) -> std::io::Result<Self> {
        let keys = match std::fs::metadata(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
            Ok(metadata) if metadata.len() > BOOK_BYTES_MAX => {
                return Err(std::io::Error::other("the book of what was spent is too large"));
            }
            Ok(_) => serde_json::from_slice(&std::fs::read(&file)?)?,
        };
        let book = Mutex::new(Book { keys, version: 0 });
        Ok(Self { budget, file: Some(file), book, written: Arc::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        // Numbers only; a panic elsewhere leaves nothing halfway.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a key has spent today.
    pub fn today(&self, tenant: &Tenant) -> Spending {
        self.lock().today(tenant)
    }

    /// Refuses if nothing is left.
    pub fn check(&self, tenant: &Tenant) -> Result<(), Spent> {
        let (spent, (_, retry_after)) = (self.today(tenant), today());
        let refused = |what: String| Err(Spent { what, retry_after });
        let tokens = spent.input_tokens.saturating_add(spent.output_tokens);
        match self.budget {
            Budget { tokens: Some(most), .. } if tokens >= most => {
                refused(format!("{most} tokens of models"))
            }
            Budget { cost: Some(most), .. } if spent.cost >= most => {
                refused(format!("{} dollars for models", most.as_dollars()))
            }
            Budget { .. } => Ok(()),
        }
    }

    /// Writes down what a request took.
    pub fn spend(&self, tenant: &Tenant, tokens: Tokens, cost: Cost) {
        let mut book = self.lock();
        let mut spending = book.today(tenant);
        spending.requests += 1;
        spending.input_tokens = spending.input_tokens.saturating_add(tokens.input);
        spending.output_tokens = spending.output_tokens.saturating_add(tokens.output);
        spending.cost.add(cost);
        if book.keys.len() >= KEYS_MAX {
            // Only today counts.
            book.keys.retain(|_, other| other.day == spending.day);
        }
        book.keys.insert(tenant.as_str().to_owned(), spending);
        book.version += 1;
        let Some(file) = self.file.clone() else { return };
        let (version, keys) = (book.version, book.keys.clone());
        drop(book);
        let written = Arc::clone(&self.written);
        let write = move || save(&written, version, &keys, &file);
        match tokio::runtime::Handle::try_current() {
            // Nobody waits for it: what a crash loses is the last request.
            Ok(runtime) => drop(runtime.spawn_blocking(write)),
            Err(_) => write(),
        }
    }
}

/// Writes the book unless a later one has been written already.
fn save(written: &Mutex<u64>, version: u64, keys: &BTreeMap<String, Spending>, file: &PathBuf) {
    let mut last = written.lock().unwrap_or_else(PoisonError::into_inner);
    if *last >= version {
        return;
    }
    let saved = || -> std::io::Result<()> {
        let new = file.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(keys)?)?;
        std::fs::rename(&new, file)
    };
    match saved() {
        Ok(()) => *last = version,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "what was spent on models could not be written down");
        }
    }
}

/// The number of this day, and how long it still lasts.
fn today() -> (u64, Duration) {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let day = since.as_secs() / DAY.as_secs();
    (day, DAY.saturating_sub(Duration::from_secs(since.as_secs() % DAY.as_secs())))
}
