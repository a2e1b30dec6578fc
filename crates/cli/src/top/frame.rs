//! One report of a server: its sandboxes, and their usage since the report before.

use std::cmp::Reverse;

use anyhow::{Context, Result};
use serde_json::Value;
use silica_store::Timestamp;

use super::Sort;

/// The sandboxes of a server at one time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) at: Timestamp,
    pub(super) budgets: Vec<BudgetUse>,
    pub(super) rows: Vec<Row>,
}

/// What all keys together hold of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BudgetUse {
    /// The name of the resource, unchanged from the server and untrusted.
    pub(super) resource: String,
    pub(super) held: u64,
    /// `None` if only each key has a bound.
    pub(super) most: Option<u64>,
}

/// A sandbox. Texts are unchanged from the server and untrusted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) id: String,
    /// The id of the owner's key.
    pub(super) owner: String,
    /// The name of that key.
    pub(super) owner_name: Option<String>,
    pub(super) template: String,
    pub(super) state: State,
    pub(super) cells_run: u64,
    /// The usage of one processor since the report before; `None` if the sandbox was not in it.
    pub(super) cpu_percent: Option<f64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) age_seconds: u64,
    /// The time until the sandbox expires.
    pub(super) expires_seconds: Option<u64>,
    /// The total processor time in milliseconds, and when it was measured.
    cpu: Option<(u64, Timestamp)>,
}

/// The activity of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A cell or a command is running.
    Busy,
    /// Neither a cell nor a command is running.
    Idle,
    Ending,
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Idle => "idle",
            Self::Ending => "ending",
        }
    }
}

impl Frame {
    /// Parses an answer of the server. Missing fields of a sandbox are not errors.
    pub(super) fn read(body: &[u8], before: Option<&Self>) -> Result<Self> {
        let answer: Value = serde_json::from_slice(body).context("the answer is not JSON")?;
        let at = moment(&answer["at"]).context("the answer has no time")?;
        let sandboxes = answer["sandboxes"].as_array().context("the answer has no sandboxes")?;
        let rows = sandboxes.iter().map(|sandbox| {
            let row = Row::read(sandbox, at);
            let old = before.and_then(|before| before.rows.iter().find(|old| old.id == row.id));
            Row { cpu_percent: old.and_then(|old| percent(old.cpu?, row.cpu?)), ..row }
        });
        Ok(Self { at, budgets: budgets(&answer["budgets"]), rows: rows.collect() })
    }

    pub(super) fn sort(&mut self, sort: Sort) {
        let rows = &mut self.rows;
        rows.sort_by(|one, other| one.id.cmp(&other.id));
        match sort {
            Sort::Cpu => rows.sort_by(|one, other| {
                let one = one.cpu_percent.unwrap_or(-1.0);
                let other = other.cpu_percent.unwrap_or(-1.0);
                other.total_cmp(&one)
            }),
            Sort::Memory => rows.sort_by_key(|row| Reverse(row.memory_bytes)),
            Sort::Cells => rows.sort_by_key(|row| Reverse(row.cells_run)),
            Sort::Age => rows.sort_by_key(|row| Reverse(row.age_seconds)),
            Sort::Expires => rows.sort_by_key(|row| row.expires_seconds.unwrap_or(u64::MAX)),
            Sort::Owner => rows.sort_by(|one, other| one.shown_owner().cmp(other.shown_owner())),
            Sort::Id => {}
        }
    }
}

impl Row {
    fn read(sandbox: &Value, at: Timestamp) -> Self {
        let text = |name: &str| sandbox[name].as_str().unwrap_or_default().to_owned();
        let usage = &sandbox["usage"];
        let kernels = sandbox["kernels"].as_array();
        let busy = kernels.is_some_and(|all| all.iter().any(|kernel| kernel["state"] == "busy"));
        let commands = sandbox["commands_running"].as_u64().unwrap_or(0);
        let state = match sandbox["state"].as_str() {
            Some("running") if busy || commands > 0 => State::Busy,
            Some("running") => State::Idle,
            _ => State::Ending,
        };
        Self {
            id: text("id"),
            owner: text("owner"),
            owner_name: sandbox["owner_name"].as_str().map(str::to_owned),
            template: text("template"),
            state,
            cells_run: sandbox["cells_run"].as_u64().unwrap_or(0),
            cpu_percent: None,
            memory_bytes: usage["memory_bytes"].as_u64(),
            age_seconds: moment(&sandbox["created_at"]).map_or(0, |made| between(made, at)),
            expires_seconds: moment(&sandbox["expires_at"]).map(|end| between(at, end)),
            cpu: usage["cpu_ms"].as_u64().zip(moment(&usage["at"])),
        }
    }

    pub(super) fn shown_owner(&self) -> &str {
        self.owner_name.as_deref().unwrap_or(&self.owner)
    }
}

fn budgets(value: &Value) -> Vec<BudgetUse> {
    let amount = |value: &Value| value.as_u64().unwrap_or(0);
    let budget = |(resource, used): (&String, &Value)| BudgetUse {
        resource: resource.clone(),
        held: amount(&used["held"]),
        most: used["most"].as_u64(),
    };
    value.as_object().map(|all| all.iter().map(budget).collect()).unwrap_or_default()
}

fn moment(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Returns the whole seconds from one time to a later one.
fn between(first: Timestamp, second: Timestamp) -> u64 {
    let micros = second.as_micros().saturating_sub(first.as_micros());
    u64::try_from(micros).unwrap_or(0) / 1_000_000
}

/// Returns the usage of one processor between two reports, in percent.
fn percent((ms_before, before): (u64, Timestamp), (ms, at): (u64, Timestamp)) -> Option<f64> {
    let micros = at.as_micros().saturating_sub(before.as_micros());
    let used_micros = ms.saturating_sub(ms_before) as f64 * 1000.0;
    (micros > 0).then(|| used_micros * 100.0 / micros as f64)
}
