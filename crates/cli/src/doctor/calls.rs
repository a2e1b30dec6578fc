//! `silica doctor --calls`: the answer of the seccomp filter to every system call, from its rules.
//!
//! The attack suite makes every call in a real sandbox and compares the answers with this table.

use anyhow::Result;
use serde_json::{Value, json};
use silica_engine::jail_host::seccomp::{
    CallAction, CallRule, ENTERING_ONLY, HIGHEST_KNOWN, RULES,
};

use crate::show;

/// Prints every call that a rule names, and the answer to all others.
pub(crate) fn print() -> Result<()> {
    let mut rows: Vec<Value> = RULES.iter().flat_map(rows).collect();
    rows.sort_by_key(|row| row["number"].as_u64());
    let table = json!({
        "calls": rows,
        "others": {"known_max": HIGHEST_KNOWN, "known": "EPERM", "unknown": "ENOSYS"},
    });
    show::line(serde_json::to_string_pretty(&table)?)
}

fn rows(rule: &CallRule) -> impl Iterator<Item = Value> {
    rule.calls.iter().map(|&(name, number)| {
        json!({"number": number, "name": name, "answer": answer(rule.action, number), "reason": rule.reason})
    })
}

fn answer(action: CallAction, number: u32) -> &'static str {
    match action {
        CallAction::Allow if ENTERING_ONLY.contains(&number) => "EPERM",
        CallAction::Allow => "allowed",
        CallAction::When(_) => "by argument",
        CallAction::NoSuchCall => "ENOSYS",
    }
}
