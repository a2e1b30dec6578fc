//! The wheels a lock names: which apply here, which are at hand, and fetching the others.
//!
//! Wheels are fetched a few at a time and kept as soon as each batch is whole, so a download that
//! breaks goes on from there, whatever the package index thinks of caching.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::command::first_line;
use super::digest::sha256_of_file;
use super::job::Job;
use super::lock::{Locked, canonical};
use super::packages::{self, Share};
use super::{Progress, StepError, tree};

/// How many packages are fetched before what came is kept.
const BATCH_PACKAGES: usize = 8;
/// How long the question for markers may take.
const MARKERS_WALL_MAX: Duration = Duration::from_mins(1);

const MARKERS: &str = include_str!("host/markers.py");

/// Returns the entries of a lock whose markers hold for the build's interpreter.
pub(super) fn applicable<'lock>(
    job: &Job<'_>,
    entries: &'lock [Locked],
) -> Result<Vec<&'lock Locked>, StepError> {
    let doing = "evaluating the lock's markers";
    let path = job.scratch().join("markers.json");
    let markers: Vec<_> = entries.iter().map(|entry| &entry.marker).collect();
    let json = serde_json::to_vec(&markers).map_err(|_| StepError::Answer { doing })?;
    tree::file(&path, &json)?;
    // pip's own `packaging` evaluates the markers, so that it and this build agree on them.
    let mut command = Command::new(job.python.executable());
    command.args(["-I", "-B", "-c", MARKERS]);
    command.arg(job.python.pip()).arg(&path);
    job.options.apply_environment(&mut command);
    let line = first_line("python", command, MARKERS_WALL_MAX)
        .map_err(|source| StepError::Pip { doing: "choose among", source })?;
    match serde_json::from_str::<Vec<bool>>(&line) {
        // A shorter answer would silently leave packages out.
        Ok(holds) if holds.len() == entries.len() => {
            let chosen = entries.iter().zip(holds);
            Ok(chosen.filter_map(|(entry, holds)| holds.then_some(entry)).collect())
        }
        Ok(_) | Err(_) => Err(StepError::Answer { doing }),
    }
}

/// Makes sure that the cache holds a wheel for each of `entries`, and returns the cache's folder.
pub(super) fn fetch(
    job: &Job<'_>,
    entries: &[&Locked],
    progress: &mut dyn Progress,
    share: Share,
) -> Result<PathBuf, StepError> {
    let cache = job.home.wheels(job.python.abi());
    tree::folder(&cache)?;
    let missing = missing(&cache, entries)?;
    let at_hand = entries.len() - missing.len();
    if at_hand > 0 {
        progress.message(&format!("{at_hand} packages are in the cache"));
    }
    let staging = job.scratch().join("wheels");
    for (number, batch) in missing.chunks(BATCH_PACKAGES).enumerate() {
        // Half a wheel from a download that broke must not be moved into the cache.
        tree::remove(&staging)?;
        tree::folder(&staging)?;
        let before = at_hand + number * BATCH_PACKAGES;
        download(job, batch, &staging, &mut |fetched| match fetched {
            Fetched::Package(name, count) => {
                let number = before + count + 1;
                progress.message(&format!("fetching {name} ({number} of {})", entries.len()));
                progress.fraction(share.of(before + count, entries.len()));
            }
            Fetched::Wheel(wheel) => progress.message(wheel),
        })?;
        for path in tree::children(&staging)? {
            let place = cache.join(path.file_name().unwrap_or_default());
            // In one step, because another build may be reading the cache.
            fs::rename(&path, &place).map_err(tree::io("keep", &place))?;
        }
    }
    Ok(cache)
}

/// What pip says while it downloads.
enum Fetched<'line> {
    /// A package begins, after so many others of the batch.
    Package(&'line str, usize),
    /// A wheel and its size.
    Wheel(&'line str),
}

fn download(
    job: &Job<'_>,
    batch: &[&Locked],
    staging: &Path,
    on_progress: &mut dyn FnMut(Fetched<'_>),
) -> Result<(), StepError> {
    let list = packages::write_requirements(job, "fetch.txt", batch)?;
    let mut command = packages::pip(job, "download");
    // The lock names everything, so pip has nothing to resolve.
    command.args(["--no-deps", "--require-hashes", "--no-cache-dir", "--dest"]);
    command.arg(staging).arg("--requirement").arg(&list);
    let mut count = 0;
    packages::run_pip("download", command, &mut |line| {
        if let Some(package) = line.strip_prefix("Collecting ") {
            on_progress(Fetched::Package(packages::first_word(package), count));
            count += 1;
        } else if let Some(wheel) = packages::downloading(line) {
            on_progress(Fetched::Wheel(&wheel));
        }
    })
}

/// Returns the entries for which the cache has no file with one of the right hashes.
fn missing<'lock>(
    cache: &Path,
    entries: &[&'lock Locked],
) -> Result<Vec<&'lock Locked>, StepError> {
    let files = tree::children(cache)?;
    let mut missing = Vec::new();
    for entry in entries {
        let prefix = entry.pin.wheel_prefix();
        let mut found = false;
        for path in files.iter().filter(|path| is_named(path, &prefix)) {
            // Hashed on each build and never trusted by its name: the cache may be damaged.
            let sum = sha256_of_file(path).map_err(tree::io("read", path))?;
            found = found || entry.sha256.contains(&sum);
        }
        if !found {
            missing.push(*entry);
        }
    }
    Ok(missing)
}

/// Returns whether a wheel's file name begins with a package's name, in any of its spellings.
fn is_named(path: &Path, prefix: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let package = name.split('-').next().unwrap_or_default();
    format!("{}-", canonical(package)) == prefix
}
