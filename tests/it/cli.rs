//! Tests of `crates/cli`: one file per command of `silica`.

mod ask;
mod audit;
mod check;
mod config;
mod keys;
mod run;
mod top;
