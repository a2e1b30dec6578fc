//! Where crates come from: registries and repositories that are named, and this repository itself.

use super::Findings;
use super::config::{Level, Sources};
use super::graph::{Graph, Package};

pub(super) fn check(sources: &Sources, graph: &Graph, findings: &mut Findings) {
    for package in graph.packages() {
        if let Some(source) = &package.source {
            check_one(sources, package, source, findings);
        }
    }
}

fn check_one(sources: &Sources, package: &Package, source: &str, findings: &mut Findings) {
    let (kind, address) = source.split_once('+').unwrap_or(("unknown", source));
    let (allowed, level) = match kind {
        "registry" | "sparse" => (&sources.allow_registry, sources.unknown_registry),
        "git" => (&sources.allow_git, sources.unknown_git),
        _ => {
            let message = format!("{} has a source of an unknown kind: {source}", package.name);
            findings.add(Level::Deny, message);
            return;
        }
    };
    // What follows the address of a repository is a branch or a commit.
    let address = address.split(['?', '#']).next().unwrap_or_default();
    if !allowed.iter().any(|one| one == address) {
        let message = format!(
            "{} {} comes from {address}, which is not allowed",
            package.name, package.version
        );
        findings.add(level, message);
    }
}
