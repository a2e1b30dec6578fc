//! Pages of records. A page begins after the last record of the page before, by time of creation
//! and id. So records that are added or deleted meanwhile make no other record appear twice or not
//! at all.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, params_from_iter};

use super::{COLUMNS, SandboxMetadata, SandboxRecord, State, record};
use crate::error::Failure;
use crate::{IdError, SandboxId, StoreError, Tenant, Timestamp};

/// The most records on a page.
pub const PAGE_MAX: usize = 1000;
/// The most metadata pairs of a filter.
const PAIRS_MAX: usize = 16;

/// The order of a list, by time of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The newest record first.
    NewestFirst,
    /// The oldest record first.
    OldestFirst,
}

/// Which records a list has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Of this owner; `None` for all.
    pub tenant: Option<Tenant>,
    /// In one of these states; empty for all.
    pub states: BTreeSet<State>,
    /// Made from this template; `None` for all.
    pub template: Option<String>,
    /// With all of these metadata pairs.
    pub metadata: SandboxMetadata,
    /// Created at this time or later.
    pub created_from: Option<Timestamp>,
    /// The order.
    pub order: Order,
    /// The most records: 1 to [`PAGE_MAX`].
    pub limit: usize,
    /// After the page that returned this token.
    pub after: Option<PageToken>,
}

impl Default for Filter {
    /// Returns a filter for all records, newest first.
    fn default() -> Self {
        Self {
            tenant: None,
            states: BTreeSet::new(),
            template: None,
            metadata: SandboxMetadata::new(),
            created_from: None,
            order: Order::NewestFirst,
            limit: PAGE_MAX,
            after: None,
        }
    }
}

/// Some records, and where the next page begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The records.
    pub records: Vec<SandboxRecord>,
    /// For [`Filter::after`]; `None` if these were the last.
    pub next: Option<PageToken>,
}

/// Where a page ended. Clients get it as text and may change it: it is only a position in the
/// order, and the filter still decides which records are returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken {
    created_at: Timestamp,
    id: SandboxId,
}

impl fmt::Display for PageToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.created_at.as_micros(), self.id)
    }
}

impl FromStr for PageToken {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || {
            let (micros, id) = text.split_once('.')?;
            let created_at = Timestamp::from_micros(micros.parse().ok()?);
            Some(Self { created_at, id: id.parse().ok()? })
        };
        parse().ok_or_else(|| IdError::new("page token", text))
    }
}

pub(super) fn list(connection: &Connection, filter: &Filter) -> Result<Page, Failure> {
    StoreError::check_size("the number of metadata pairs", filter.metadata.len(), PAIRS_MAX)?;
    let limit = filter.limit.clamp(1, PAGE_MAX);
    let (statement, values) = statement(filter, limit);
    let mut statement = connection.prepare_cached(&statement)?;
    let rows = statement.query_map(params_from_iter(values), record)?;
    let mut records = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    // One more than wanted was asked for, to know whether there are more.
    let more = records.len() > limit;
    records.truncate(limit);
    let next = records
        .last()
        .filter(|_| more)
        .map(|last| PageToken { created_at: last.created_at, id: last.id.clone() });
    Ok(Page { records, next })
}

fn statement(filter: &Filter, limit: usize) -> (String, Vec<SqlValue>) {
    let mut conditions = vec!["1".to_owned()];
    let mut values: Vec<SqlValue> = Vec::new();
    let mut add = |condition: &str, new: &[&str]| {
        conditions.push(condition.to_owned());
        values.extend(new.iter().map(|&text| SqlValue::from(text.to_owned())));
    };
    if let Some(tenant) = &filter.tenant {
        add("tenant = ?", &[tenant.as_str()]);
    }
    if !filter.states.is_empty() {
        let names: Vec<&str> = filter.states.iter().map(|state| state.name()).collect();
        let marks = vec!["?"; names.len()].join(", ");
        add(&format!("state IN ({marks})"), &names);
    }
    if let Some(template) = &filter.template {
        add("template = ?", &[template]);
    }
    for (key, value) in &filter.metadata {
        let pair = "EXISTS (SELECT 1 FROM json_each(metadata) AS pair \
                    WHERE pair.key = ? AND pair.value = ?)";
        add(pair, &[key, value]);
    }
    let (direction, comparison) = match filter.order {
        Order::NewestFirst => ("DESC", "<"),
        Order::OldestFirst => ("ASC", ">"),
    };
    if let Some(from) = filter.created_from {
        conditions.push("created_at >= ?".to_owned());
        values.push(from.as_micros().into());
    }
    if let Some(after) = &filter.after {
        conditions.push(format!("(created_at, id) {comparison} (?, ?)"));
        values.push(after.created_at.as_micros().into());
        values.push(after.id.as_str().to_owned().into());
    }
    values.push((limit as i64 + 1).into());
    let conditions = conditions.join(" AND ");
    let statement = format!(
        "SELECT {COLUMNS} FROM sandbox WHERE {conditions} \
         ORDER BY created_at {direction}, id {direction} LIMIT ?"
    );
    (statement, values)
}
