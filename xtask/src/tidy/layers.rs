//! Layers: which files of our crates may name a crate that others must reach through them.

use super::rust::is_test;
use super::source::has_word;

/// A crate, and the files that may name it. A folder ends in `/` and stands for all that is in it.
struct Layer {
    package: &'static str,
    users: &'static [&'static str],
    reason: &'static str,
}

const LAYERS: [Layer; 1] = [Layer {
    package: "silica_jail",
    users: &["crates/jail/", "crates/engine/src/tier/jail.rs", "crates/engine/src/tier/jail/"],
    reason: "the jail is one tier of several; go through the trait of crates/engine/src/tier.rs",
}];

/// Names a crate that this file may not use. Tests and programs beside the crates may use all.
pub(super) fn check_line(path: &str, line: &str) -> Option<String> {
    if !path.starts_with("crates/") || is_test(path) {
        return None;
    }
    let is_breached = |layer: &&Layer| {
        has_word(line, layer.package) && !layer.users.iter().any(|user| path.starts_with(user))
    };
    let layer = LAYERS.iter().find(is_breached)?;
    Some(format!("`{}` here: {}", layer.package, layer.reason))
}
