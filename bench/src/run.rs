//! A whole run: the machine, the peers, one measure after the other, and saving after each.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Result;
use silica_store::Timestamp;
use silica_templates::Home;

use crate::interleave::first_line;
use crate::machine::Machine;
use crate::measures::{Bench, MEASURES, SOAK};
use crate::noise::{Noise, Quiet};
use crate::peers::{self, Missing, PLAIN, Place};
use crate::plain::Plain;
use crate::reaper;
use crate::results::{FORMAT, Failure, Results};
use crate::silica::{Library, Silica};
use crate::{Arguments, MISSED, TOO_NOISY};

/// Measures what was asked for.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let started = Instant::now();
    let missing = if arguments.no_install { Missing::LeaveOut } else { Missing::Install };
    let place = Place::new(&arguments.place, missing)?;
    reaper::end_with_reaper()?;
    let silica = silica(arguments, &place)?;
    let template = Library::template(&Home::new(&silica.home), &silica.template)?;
    let plain = Plain::new(&template);
    let wanted = |name: &str| {
        name == PLAIN
            || arguments.peers.is_empty()
            || arguments.peers.iter().any(|part| name.contains(part.as_str()))
    };
    let (peers, states) = peers::gather(&place, &plain, &wanted);
    let Some(noise) = look(arguments) else { return Ok(ExitCode::from(TOO_NOISY)) };
    let began = Timestamp::now().to_string();
    let output = output(arguments, &place, &began);
    let results = Results {
        format: FORMAT,
        began,
        seconds: 0.0,
        commit: commit(&arguments.root),
        quick: arguments.quick,
        machine: Machine::describe(),
        noise,
        peers: states,
        tables: Vec::new(),
        curves: Vec::new(),
        promises: BTreeMap::new(),
        failures: Vec::new(),
    };
    let soak = Duration::from_secs(arguments.soak * 60);
    let mut bench = Bench { silica, plain, place, peers, quick: arguments.quick, soak, results };
    measure_all(arguments, &mut bench, &output, started)?;
    bench.results.noise.ended(Quiet::look());
    bench.results.seconds = started.elapsed().as_secs_f64();
    bench.results.save(&output)?;
    println!("{} after {:.0} s", output.display(), bench.results.seconds);
    if let Some(complaint) = &bench.results.noise.complaint {
        println!("These results are not fit for comparing: {complaint}.");
    }
    Ok(if bench.results.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(MISSED) })
}

/// Measures the noise of the machine; returns `None` if it is too high and `--even-if-noisy` is not
/// set.
fn look(arguments: &Arguments) -> Option<Noise> {
    let noise = Noise::began(Quiet::look());
    if let Some(complaint) = &noise.complaint {
        println!("This machine is too noisy to compare: {complaint}.");
        if !arguments.even_if_noisy {
            println!("Wait until it is quiet, or add --even-if-noisy: the results then say so.");
            return None;
        }
    }
    Some(noise)
}

fn measure_all(
    arguments: &Arguments,
    bench: &mut Bench,
    output: &Path,
    started: Instant,
) -> Result<()> {
    let wanted = |name: &str| {
        arguments.only.is_empty() || arguments.only.iter().any(|part| name.contains(part.as_str()))
    };
    let soak = (!bench.soak.is_zero()).then_some(SOAK);
    for (name, measure) in MEASURES.into_iter().chain(soak).filter(|(name, _)| wanted(name)) {
        let began = Instant::now();
        eprintln!("bench: {name}");
        // A measure that panics counts as failed.
        let done = catch_unwind(AssertUnwindSafe(|| measure(bench)))
            .unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked")));
        if let Err(error) = done {
            eprintln!("bench: {name} failed: {error:#}");
            let failure = Failure { measure: name.to_owned(), reason: first_line(&error) };
            bench.results.failures.push(failure);
        }
        bench.peers.iter_mut().for_each(|peer| peer.contender.start_over());
        eprintln!("bench: {name} took {:.1} s", began.elapsed().as_secs_f64());
        bench.results.seconds = started.elapsed().as_secs_f64();
        bench.results.save(output)?;
    }
    Ok(())
}

/// Only whole runs are kept in the repository; others would take the place of one of the same day.
fn output(arguments: &Arguments, place: &Place, began: &str) -> PathBuf {
    let whole = !arguments.quick && arguments.only.is_empty() && arguments.peers.is_empty();
    let day = began.split('T').next().unwrap_or(began);
    match &arguments.output {
        Some(path) => path.clone(),
        None if whole => arguments.root.join(format!("bench/results/{day}.json")),
        None => place.path().join(format!("{day}-part.json")),
    }
}

/// The binary beside this one, and a data directory.
fn silica(arguments: &Arguments, place: &Place) -> Result<Silica> {
    let home = arguments.home.clone().unwrap_or_else(|| place.path().join("home"));
    std::fs::create_dir_all(&home)?;
    let binary: PathBuf = std::env::current_exe()?.with_file_name("silica");
    Ok(Silica { binary, home: home.canonicalize()?, template: arguments.template.clone() })
}

/// The commit, with a mark if something was changed since.
fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&text).trim().to_owned()
    };
    let (head, changed) =
        (git(&["rev-parse", "--short=12", "HEAD"]), git(&["status", "--porcelain"]));
    match (head.is_empty(), changed.is_empty()) {
        (true, _) => "unknown".to_owned(),
        (false, true) => head,
        (false, false) => format!("{head} and changes"),
    }
}
