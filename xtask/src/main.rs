//! Project chores: `cargo xtask tidy` and `cargo xtask deny`.

mod deny;
mod tidy;

use std::process::ExitCode;

use anyhow::{Result, bail};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the chore that was asked for; false if it found something wrong.
fn run() -> Result<bool> {
    let chores: Vec<String> = std::env::args().skip(1).collect();
    match chores.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy::run(),
        ["deny"] => deny::run(),
        _ => bail!("usage: cargo xtask tidy | cargo xtask deny"),
    }
}
