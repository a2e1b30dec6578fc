//! The binary and the engine against the real kernel: what is enforced, what fails, what is left.
//!
//! One directory per crate that is tested, one file per subject. The tests are in one binary of the
//! package `silica` because only its program can be a zone. Every test has a data directory of its
//! own over templates that are built once (`harness`). What is left behind is looked for in /proc
//! and in the control groups of the host.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cli;
mod engine;
mod harness;
mod jail;
mod server;
mod sessions;
