//! The system call filter: the rules as data, and the compiler from rules to BPF.
//!
//! A call that no rule names fails with EPERM. A call that is newer than this build fails with
//! ENOSYS, on which libraries fall back to an older one. Only a call of another architecture kills
//! the process: killing on every unexpected call would end honest programs.
//!
//! Tests: `tests/it/jail/containment.rs`.

mod compile;
mod rules;
#[cfg(test)]
mod tests;

pub use compile::compile;
pub use rules::{
    ArgumentCheck, CallAction, CallRule, CallVerdict, ENTERING_ONLY, HIGHEST_KNOWN, RULES, verdict,
};

/// The rules of an enclosure's init, which only reaps.
pub(crate) const INIT_RULES: &[CallRule] = rules::INIT_RULES;
