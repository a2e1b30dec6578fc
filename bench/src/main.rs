//! Measures what `SPECIFICATION.md` promises, side by side with plain Python in one run.
//!
//! Every measure is interleaved with its baseline, sample by sample, because machines are shared and
//! noisy: ratios survive that, absolute times do not. Prints a table, and one JSON object with
//! `--json`. `--check` fails when a promise is missed.

mod e2b;
mod http;
mod jobs;
mod measure;
mod plain;
mod policy;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

/// The first argument with which the engine starts this program as a zone.
const ZONE_ARGUMENT: &str = "__zone";

/// Measures Silica against plain Python.
#[derive(Debug, Parser)]
struct Arguments {
    /// Samples of each measure
    #[arg(long, default_value_t = 60)]
    samples: usize,
    /// Sandboxes made and ended by the leak measure
    #[arg(long, default_value_t = 5000)]
    churn: usize,
    /// The template to measure with
    #[arg(long, default_value = "code-interpreter")]
    template: String,
    /// Only measures whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// The silica binary, for the whole-process measure
    #[arg(long)]
    silica: Option<std::path::PathBuf>,
    /// A Python with E2B's SDK installed, for its measure; there is none without it
    #[arg(long)]
    e2b_python: Option<std::path::PathBuf>,
    /// Seconds of the soak of the server; none unless asked for
    #[arg(long, default_value_t = 0)]
    soak: u64,
    /// Sandboxes a second of the soak
    #[arg(long, default_value_t = 50.0)]
    soak_rate: f64,
    /// Print one JSON object and no table
    #[arg(long)]
    json: bool,
    /// Fail when a promise is missed
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == ZONE_ARGUMENT) {
        return ExitCode::from(silica_jail::run_zone() as u8);
    }
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let is_http = |only: &String| only.starts_with("http");
    let is_e2b = |only: &String| only.starts_with("e2b");
    let is_policy = |only: &String| only.starts_with("policy");
    let mut rows = Vec::new();
    if arguments.only.as_ref().is_none_or(is_policy) {
        rows.extend(policy::run_all(arguments.samples));
    }
    let apart = |only: &String| is_http(only) || is_e2b(only) || is_policy(only);
    if !arguments.only.as_ref().is_some_and(apart) {
        rows.extend(runtime.block_on(jobs::run_all(arguments))?);
    }
    if arguments.only.as_ref().is_none_or(is_http) {
        let home = std::env::var_os("SILICA_HOME").context("set SILICA_HOME")?;
        rows.extend(http::run_all(arguments, home.as_ref())?);
    }
    if let (true, Some(python)) =
        (arguments.only.as_ref().is_none_or(is_e2b), &arguments.e2b_python)
    {
        let home = std::env::var_os("SILICA_HOME").context("set SILICA_HOME")?;
        rows.extend(e2b::run_all(arguments, home.as_ref(), python)?);
    }
    let kept = rows.iter().all(measure::Row::is_kept);
    if arguments.json {
        println!("{}", measure::to_json(&rows));
    } else {
        measure::print_table(&rows);
    }
    Ok(kept || !arguments.check)
}
