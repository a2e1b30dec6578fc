//! The binary and the engine against the real kernel: what is enforced, what fails, what is left.
//!
//! Every test has a data directory of its own over templates that are built once (`ground`). What
//! is left behind is looked for in /proc and in the control groups of the host.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asking;
mod audit;
mod checking;
mod command;
mod commands;
mod config;
mod containment;
mod entering;
mod failing;
mod files;
mod forks;
mod ground;
mod inputs;
mod keys;
mod leftovers;
mod limits;
mod misbehaving;
mod openapi;
mod ordinary_user;
mod outputs;
mod served;
mod server;
mod stock;
mod terminals;
mod top;
mod work;
