//! Crates that are not allowed at all, and crates that are there in several versions.

use super::Findings;
use super::config::{Bans, Level};
use super::graph::{Graph, Package};

pub(super) fn check(bans: &Bans, graph: &Graph, findings: &mut Findings) {
    for package in graph.packages() {
        for ban in bans.deny.iter().filter(|ban| ban.spec.matches(package)) {
            let message = format!("{} is banned: {}", package.name, ban.reason);
            findings.add(Level::Deny, message);
        }
    }
    for versions in graph.by_name() {
        duplicates(bans, versions, findings);
    }
}

/// Several versions of one crate are a finding unless all but one of them are skipped.
fn duplicates(bans: &Bans, versions: &[Package], findings: &mut Findings) {
    let is_skipped = |package: &Package| bans.skip.iter().any(|skip| skip.spec.matches(package));
    let counted = versions.iter().filter(|package| !is_skipped(package)).count();
    if counted < 2 {
        return;
    }
    let listed: Vec<&str> = versions.iter().map(|package| package.version.as_str()).collect();
    let message = format!(
        "{} is there in several versions: {}; unify them, or name all but one in bans.skip with the \
         reason",
        versions[0].name,
        listed.join(", ")
    );
    findings.add(bans.multiple_versions, message);
}
