//! Tests of `crates/sessions` through a running server: lifetimes, fair use, approvals, records.

mod approvals;
mod audit;
mod clock;
mod fairness;
mod full_disk;
mod lives;
mod revoking;
mod stopping;
mod storm;
