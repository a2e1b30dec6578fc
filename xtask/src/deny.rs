//! `cargo xtask deny`: licences, duplicates, bans and sources of every dependency, by `deny.toml`.
//!
//! Reads the part of cargo-deny's file format that the project uses, and refuses any other key, so
//! that nothing in the file is ignored. Advisories are not checked here: see `./setup advisories`.

mod bans;
mod config;
mod graph;
mod licences;
mod sources;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use config::{Config, Level};
use graph::Graph;

/// The manifests whose lock files are checked.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "tests/fuzz/Cargo.toml"];

/// What the checks have found in one lock file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    /// Each of these fails the check.
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Findings {
    fn add(&mut self, level: Level, message: String) {
        match level {
            Level::Deny => self.errors.push(message),
            Level::Warn => self.warnings.push(message),
            Level::Allow => {}
        }
    }
}

/// Checks both lock files and prints what is wrong; true if nothing is.
pub(crate) fn run() -> Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let path = root.join("deny.toml");
    let text = std::fs::read_to_string(&path).context("cannot read deny.toml")?;
    let config = Config::parse(&text)?;
    let mut graphs = Vec::new();
    for manifest in MANIFESTS {
        let metadata = metadata(&root.join(manifest), &config)?;
        graphs.push((manifest, Graph::parse(&metadata)?));
    }
    let mut failed = false;
    for (manifest, graph) in &graphs {
        let findings = check(&config, graph);
        for warning in &findings.warnings {
            println!("warning: {manifest}: {warning}");
        }
        for error in &findings.errors {
            println!("error: {manifest}: {error}");
        }
        failed |= !findings.errors.is_empty();
        println!("deny: {manifest}: {} crates, {} errors", graph.len(), findings.errors.len());
    }
    let graphs: Vec<&Graph> = graphs.iter().map(|(_, graph)| graph).collect();
    for entry in config.unused(&graphs) {
        println!("warning: deny.toml: {entry} matches no crate; remove it");
    }
    Ok(!failed)
}

/// Everything that `deny.toml` says about one lock file.
fn check(config: &Config, graph: &Graph) -> Findings {
    let mut findings = Findings::default();
    licences::check(&config.licenses, graph, &mut findings);
    bans::check(&config.bans, graph, &mut findings);
    sources::check(&config.sources, graph, &mut findings);
    findings
}

/// Asks cargo for the crates of a lock file, on the platforms that are built for.
fn metadata(manifest: &Path, config: &Config) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--locked", "--format-version", "1", "--manifest-path"]);
    command.arg(manifest);
    for target in &config.graph.targets {
        command.args(["--filter-platform", target]);
    }
    let output = command.output().context("cannot start cargo")?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("cargo metadata failed for {}:\n{words}", manifest.display());
    }
    String::from_utf8(output.stdout).context("cargo metadata printed something other than text")
}
