//! Daily budgets of keys for models.
//!
//! Days are UTC. What was spent is kept in one small file, replaced by rename, so that a restart does not renew a
//! budget. The cost of an answer is known after it and charged then: a key can exceed its budget by one answer.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use silica_store::Tenant;

use crate::model::{Cost, Tokens};

/// The most keys in the ledger; the store has no more.
const KEYS_MAX: usize = 10_000;

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

const DAY: Duration = Duration::from_hours(24);

/// What one key may spend in a day; `None` for any amount.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DailyBudget {
    /// Tokens read and written.
    pub tokens: Option<u64>,
    /// Money. A model without a price counts nothing.
    pub cost: Option<Cost>,
}

/// A budget is used up.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the budget of this key for today is used up: {what}")]
pub struct Spent {
    /// The budget.
    pub what: String,
    /// When the next day begins.
    pub retry_after: Duration,
}

/// What a key spent on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spending {
    /// The day, counted from 1970-01-01.
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
    /// Returns the cost of the models with a known price.
    pub fn cost(&self) -> Cost {
        self.cost
    }
}

/// What all keys have spent.
#[derive(Debug)]
pub struct Ledger {
    budget: DailyBudget,
    file: Option<PathBuf>,
    book: Mutex<Book>,
    /// The version in the file. Its lock is held while the file is written.
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
    /// Creates a ledger in memory only.
    pub fn in_memory(budget: DailyBudget) -> Self {
        Self { budget, file: None, book: Mutex::default(), written: Arc::default() }
    }

    /// Opens the ledger of a file, which need not exist. A file that cannot be read is an error: an empty ledger
    /// in its place would renew all budgets.
    pub fn open(budget: DailyBudget, file: PathBuf) -> std::io::Result<Self> {
        let keys = match std::fs::metadata(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
            Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
                return Err(std::io::Error::other(
                    "the file with the spending on models is too large",
                ));
            }
            Ok(_) => serde_json::from_slice(&std::fs::read(&file)?)?,
        };
        let book = Mutex::new(Book { keys, version: 0 });
        Ok(Self { budget, file: Some(file), book, written: Arc::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        // Numbers only: a panic while the lock is held leaves no broken invariant.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what a key has spent today.
    pub fn today(&self, tenant: &Tenant) -> Spending {
        self.lock().today(tenant)
    }

    /// Fails if the budget of a key is used up.
    pub fn check(&self, tenant: &Tenant) -> Result<(), Spent> {
        let spent = self.today(tenant);
        let (_, retry_after) = today();
        let refused = |what: String| Err(Spent { what, retry_after });
        let tokens = spent.input_tokens.saturating_add(spent.output_tokens);
        match self.budget {
            DailyBudget { tokens: Some(most), .. } if tokens >= most => {
                refused(format!("{most} tokens"))
            }
            DailyBudget { cost: Some(most), .. } if spent.cost >= most => {
                refused(format!("{} dollars", most.as_dollars()))
            }
            DailyBudget { .. } => Ok(()),
        }
    }

    /// Adds the tokens and the cost of a request.
    pub fn spend(&self, tenant: &Tenant, tokens: Tokens, cost: Cost) {
        let mut book = self.lock();
        let mut spending = book.today(tenant);
        spending.requests += 1;
        spending.input_tokens = spending.input_tokens.saturating_add(tokens.input);
        spending.output_tokens = spending.output_tokens.saturating_add(tokens.output);
        spending.cost.add(cost);
        if book.keys.len() >= KEYS_MAX {
            // Earlier days do not count any more.
            book.keys.retain(|_, other| other.day == spending.day);
        }
        book.keys.insert(tenant.as_str().to_owned(), spending);
        book.version += 1;
        let Some(file) = self.file.clone() else { return };
        let version = book.version;
        let keys = book.keys.clone();
        drop(book);
        let written = Arc::clone(&self.written);
        let write = move || save(&written, version, &keys, &file);
        match tokio::runtime::Handle::try_current() {
            // In the background: a crash loses the last request at most.
            Ok(runtime) => drop(runtime.spawn_blocking(write)),
            Err(_) => write(),
        }
    }
}

/// Writes the file, unless a later version is written already.
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
            tracing::error!(error, "the spending on models could not be saved");
        }
    }
}

/// Returns the number of this day, and the time until the next.
fn today() -> (u64, Duration) {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let day = since.as_secs() / DAY.as_secs();
    (day, DAY.saturating_sub(Duration::from_secs(since.as_secs() % DAY.as_secs())))
}
