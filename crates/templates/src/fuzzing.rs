//! Entry points for `tests/fuzz`: every parser of a template's description.
//!
//! Compiled only with the feature `fuzzing`; no other code may use it.

use crate::spec::read_alone;
use crate::{Packages, TemplateName, VersionSpec};

/// Parses a text as everything that a template is described by.
pub fn description(text: &str) {
    read_alone(text);
    drop(TemplateName::new(text));
    drop(VersionSpec::parse(text));
    drop(Packages::locked(text));
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    drop(Packages::pinned(&lines));
}
