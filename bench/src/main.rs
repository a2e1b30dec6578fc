//! The benchmark: compares Silica with plain Python and its peers in one run on this machine.
//!
//! It writes `bench/results/<date>.json`; from that file alone it makes `docs/evidence/performance.md` with
//! its pictures, and checks the promises of `SPECIFICATION.md`. Contenders are sampled in turn,
//! because machines are shared and noisy: ratios of such samples are stable, absolute times are
//! not.

mod footprint;
mod interleave;
mod machine;
mod measures;
mod noise;
mod peers;
mod plain;
mod reaper;
mod report;
mod results;
mod run;
mod silica;
mod specification;
mod statistics;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use results::Results;
use specification::Verdict;

/// The first argument with which the engine starts this program as a zone.
pub(crate) const ZONE_ARGUMENT: &str = "__zone";

/// Exit codes: a promise is missed or a measure failed; the machine is too noisy to compare.
const MISSED: u8 = 1;
const TOO_NOISY: u8 = 3;

/// Measures Silica and its peers.
#[derive(Debug, Parser)]
#[command(name = "bench/run")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Task>,
    /// Few samples, to check that everything works; about four minutes
    #[arg(long)]
    quick: bool,
    /// Only measures whose names contain one of these; separate them by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these peers, by parts of their names; plain python3 is always there
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// Install nothing: what is missing is left out
    #[arg(long)]
    no_install: bool,
    /// Compare even if the machine is noisy; the document says so
    #[arg(long)]
    even_if_noisy: bool,
    /// Also measure a steady load for this many minutes
    #[arg(long, default_value_t = 0)]
    soak: u64,
    /// The template to measure with
    #[arg(long, default_value = "code-interpreter")]
    template: String,
    /// Where peers are installed and templates built
    #[arg(long, default_value = "target/bench", hide = true)]
    place: PathBuf,
    /// The data directory whose templates are used; one of its own if not given
    #[arg(long)]
    home: Option<PathBuf>,
    /// Where the results go; `bench/results/<date>.json` if not given
    #[arg(long)]
    output: Option<PathBuf>,
    /// The root of the repository
    #[arg(long, default_value = ".", hide = true)]
    root: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Makes the document and its pictures from results, without measuring
    Page {
        /// The results; the newest if not given
        results: Option<PathBuf>,
    },
    /// Compares results with the promises, and fails when one is missed
    Check {
        /// The results; the newest if not given
        results: Option<PathBuf>,
    },
    /// Lists what can be measured, for `--only`
    List,
}

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let is_measuring = match words.get(1).and_then(|word| word.to_str()) {
        Some(ZONE_ARGUMENT) => return ExitCode::from(silica_jail::run_zone() as u8),
        Some(peers::spawn::ARGUMENT) => return peers::spawn::serve(),
        Some(reaper::ARGUMENT) => true,
        _ => false,
    };
    if is_measuring {
        words.remove(1);
    }
    let arguments = Arguments::parse_from(&words);
    let done = match &arguments.command {
        None if is_measuring => run::run(&arguments),
        None => reaper::run(&words[1..]),
        Some(Task::Page { results }) => page(&arguments, results.as_deref()),
        Some(Task::Check { results }) => check(&arguments, results.as_deref()),
        Some(Task::List) => {
            for (name, _) in measures::MEASURES.iter().chain([&measures::SOAK]) {
                println!("{name}");
            }
            Ok(ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("bench: {error:#}");
        ExitCode::FAILURE
    })
}

/// The results that were named, or the newest.
fn chosen(arguments: &Arguments, path: Option<&Path>) -> Result<(PathBuf, Results)> {
    let path = match path {
        Some(path) => path.to_owned(),
        None => results::newest(&arguments.root.join("bench/results"))?,
    };
    let results = Results::load(&path)?;
    Ok((path, results))
}

fn promises(arguments: &Arguments) -> Result<Vec<specification::Promise>> {
    let path = arguments.root.join("SPECIFICATION.md");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    specification::parse(&text)
}

fn page(arguments: &Arguments, path: Option<&Path>) -> Result<ExitCode> {
    let (path, results) = chosen(arguments, path)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    report::page::write(
        &arguments.root.join("docs/evidence"),
        &name,
        &results,
        &promises(arguments)?,
    )?;
    println!("docs/evidence/performance.md is made from {}", path.display());
    Ok(ExitCode::SUCCESS)
}

fn check(arguments: &Arguments, path: Option<&Path>) -> Result<ExitCode> {
    let (path, results) = chosen(arguments, path)?;
    println!("{} of {}", path.display(), results.began);
    if let (Some(complaint), false) = (&results.noise.complaint, arguments.even_if_noisy) {
        println!("These results are not fit for comparing: {complaint}.");
        println!("Measure again on a quiet machine, or add --even-if-noisy.");
        return Ok(ExitCode::from(TOO_NOISY));
    }
    let mut missed = 0;
    for promise in promises(arguments)? {
        let (word, shown) = match promise.judge(&results.promises)? {
            Verdict::Kept(shown) => ("kept", shown),
            Verdict::Missed(shown) => {
                missed += 1;
                ("MISSED", shown)
            }
            Verdict::NotMeasured => ("not measured", String::new()),
        };
        let (number, words, bar) = (promise.number, promise.words, promise.bar);
        println!("{number:<4} {word:<13} {shown:<28} bar {bar:<30} {words}");
    }
    println!("{missed} missed");
    Ok(if missed == 0 { ExitCode::SUCCESS } else { ExitCode::from(MISSED) })
}
