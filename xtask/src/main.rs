//! Project chores: `cargo xtask tidy`, `cargo xtask deny` and `cargo xtask dist`.

mod deny;
mod dist;
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
        ["dist"] => dist::run(dist::Chore::Everything),
        ["dist", "--binary"] => dist::run(dist::Chore::Binary),
        ["dist", "--packages"] => dist::run(dist::Chore::Packages),
        ["dist", "--check"] => dist::run(dist::Chore::Check),
        _ => bail!(
            "usage: cargo xtask tidy | cargo xtask deny | \
             cargo xtask dist [--binary | --packages | --check]"
        ),
    }
}
