//! Tests of `crates/cli`: one file per command of `silica`.

mod ask;
mod audit;
mod check;
mod config;
mod first_start;
mod install;
mod keys;
mod network;
mod program;
mod repl;
mod run;
mod template;
mod top;
mod upgrade;
