//! The system call filter: the rules as data, and the compiler from rules to BPF.
//!
//! Everything not named answers EPERM, unknown newer calls ENOSYS so that libraries fall back, and
//! only a call of a foreign architecture kills: killing on every surprise loses honest runs.
//! Tests: `tests/it/jail/containment.rs`.

mod compile;
mod rules;
#[cfg(test)]
mod tests;

pub use compile::compile;
pub use rules::{Action, Check, ENTERING_ONLY, HIGHEST_KNOWN, RULES, Rule, Verdict, verdict};

/// The filter of the enclosure's init, which only ever reaps.
pub(crate) const INIT_RULES: &[Rule] = rules::INIT_RULES;
