//! Tests of `crates/engine`: cells, commands, files and limits of a sandbox.

pub(crate) mod branching;
pub(crate) mod commands;
mod files;
mod inputs;
mod inside;
mod limits;
mod misbehaving;
mod outputs;
pub(crate) mod sockets;
mod terminals;
mod work;
