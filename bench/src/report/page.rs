//! `docs/evidence/performance.md`: every figure in it comes from the results.

mod compare;
mod sections;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use crate::report::words::amount;
use crate::results::Results;
use crate::specification::{Promise, Verdict};

#[cfg(test)]
pub(crate) use tests::example;

/// Where the pictures are, beside the document.
const PICTURES: &str = "performance";

/// The document and its pictures, by name.
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) pictures: Vec<(String, String)>,
}

/// Writes the document and its pictures below a directory, and removes pictures it has no more.
pub(crate) fn write(
    docs: &Path,
    source: &str,
    results: &Results,
    promises: &[Promise],
) -> Result<()> {
    let page = make(source, results, promises)?;
    let pictures = docs.join(PICTURES);
    let failed = || format!("cannot write to {}", docs.display());
    std::fs::create_dir_all(&pictures).with_context(failed)?;
    for entry in std::fs::read_dir(&pictures)?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            std::fs::remove_file(path)?;
        }
    }
    for (name, picture) in &page.pictures {
        std::fs::write(pictures.join(name), picture).with_context(failed)?;
    }
    std::fs::write(docs.join("performance.md"), &page.text).with_context(failed)
}

/// Makes the document and its pictures from results.
pub(crate) fn make(source: &str, results: &Results, promises: &[Promise]) -> Result<Page> {
    let mut page = Page { text: String::new(), pictures: Vec::new() };
    opening(&mut page.text, source, results);
    compare::glance(&mut page.text, results);
    compare::ahead(&mut page.text, results);
    sections::all(&mut page, results);
    kept(&mut page.text, results, promises)?;
    peers(&mut page.text, results);
    method(&mut page.text, results);
    while page.text.ends_with("\n\n") {
        page.text.pop();
    }
    Ok(page)
}

fn opening(text: &mut String, source: &str, results: &Results) {
    let machine = &results.machine;
    let day = results.began.split('T').next().unwrap_or_default();
    let _ = write!(
        text,
        "# Performance\n\n\
         Made by `bench/run page` from [{source}](../../bench/results/{source}); no figure here was typed.\n\
         Measured on {day} at commit {}, on {} ({} processors, {} GB, Linux {}). Run `bench/run` to see what\n\
         your machine says.\n\n",
        results.commit,
        machine.processor,
        machine.processors,
        machine.memory_bytes / 1_000_000_000,
        machine.kernel,
    );
    if results.quick {
        text.push_str(
            "**A quick run: few samples, good for nothing but seeing that everything works.**\n\n",
        );
    }
    if let Some(complaint) = &results.noise.complaint {
        let _ = write!(
            text,
            "**The machine was too noisy for a comparison: {complaint}. Ratios may hold, times do not.**\n\n"
        );
    }
}

/// The promises of the specification and what became of them.
fn kept(text: &mut String, results: &Results, promises: &[Promise]) -> Result<()> {
    text.push_str(
        "## What is promised\n\n\
         Each promise of [SPECIFICATION.md](../../SPECIFICATION.md) with its bar; `bench/run check` fails when one is missed.\n\n\
         | | promise | bar | measured | |\n|---|---|---|---|---|\n",
    );
    for promise in promises {
        let (measured, word) = match promise.judge(&results.promises)? {
            Verdict::Kept(measured) => (measured, "kept"),
            Verdict::Missed(measured) => (measured, "**missed**"),
            Verdict::NotMeasured => (String::new(), "not measured"),
        };
        let Promise { number, words, bar, .. } = promise;
        let _ = writeln!(text, "| {number} | {words} | {bar} | {measured} | {word} |");
    }
    text.push('\n');
    Ok(())
}

fn peers(text: &mut String, results: &Results) {
    text.push_str("## Who was compared\n\n| | what it is | version |\n|---|---|---|\n");
    for peer in &results.peers {
        let version = match &peer.absent {
            None => peer.version.clone(),
            Some(reason) => format!("does not run here: {}", cell(reason)),
        };
        let _ = writeln!(text, "| {} | {} | {version} |", peer.name, peer.what);
    }
    text.push('\n');
    if !results.failures.is_empty() {
        text.push_str("Measures that failed in this run:\n\n");
        for failure in &results.failures {
            let _ = writeln!(text, "- {}: {}", failure.measure, failure.reason);
        }
        text.push('\n');
    }
}

fn method(text: &mut String, results: &Results) {
    let (machine, noise) = (&results.machine, &results.noise);
    text.push_str(
        "## How it was measured\n\n\
         - Contenders take turns, sample by sample, after warming up; a slow one takes fewer samples. Quantiles are\n  \
         values that were measured, none is interpolated.\n\
         - All run the same CPython with the same packages, that of Silica's template, unless they bring their own.\n\
         - Silica is `silica serve`, another process, over HTTP/1.1 on loopback, with its log, its limits and its audit\n  \
         trail; *from the pool* with some sandboxes kept ready, *on demand* with none. Every peer keeps its own time, so\n  \
         the way between it and the bench is not counted.\n",
    );
    let _ = writeln!(
        text,
        "- The machine: {}, {} processors, {} GB of memory, {}, Linux {}; {}; control groups {}.",
        machine.processor,
        machine.processors,
        machine.memory_bytes / 1_000_000_000,
        machine.system,
        machine.kernel,
        match machine.virtualisation.as_str() {
            "none" => "no virtual machine".to_owned(),
            kind => kind.to_owned(),
        },
        machine.groups,
    );
    let look = |quiet: &crate::noise::Quiet| {
        format!("load {:.2}, a fixed loop's p90 {:.2} × its median", quiet.load[0], quiet.spread())
    };
    let after = noise.after.as_ref().map_or("not looked".to_owned(), look);
    let _ = writeln!(text, "- Noise before: {}. After: {after}.", look(&noise.before));
    let _ = writeln!(text, "- The whole run took {}.", amount(results.seconds * 1e3, "ms"));
}

/// Returns text that is safe in a cell of a table.
fn cell(words: &str) -> String {
    let plain = words.replace('|', "/").replace('\n', " ");
    format!("`{}`", plain.replace('`', "'"))
}
