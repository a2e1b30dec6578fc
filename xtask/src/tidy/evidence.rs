//! Tests that design pages name: each must exist, so that a page does not promise what nothing keeps.

use std::collections::BTreeSet;

use super::{Problem, SourceFile};

/// Where design pages are.
const PAGES: &str = "docs/design/";

/// The heading of the section that names tests.
const SECTION: &str = "## Kept by";

/// Names with fewer underscores are modules and crates; those of tests are sentences.
const UNDERSCORES_MIN: usize = 2;

/// Finds names of tests, in the section [`SECTION`] of each page, that no file defines.
pub(super) fn check(files: &[SourceFile]) -> Vec<Problem> {
    let defined = definitions(files);
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.path.starts_with(PAGES)) {
        for (line, name) in named(&file.text) {
            if !defined.contains(name) {
                let message = format!("no test is called `{name}`");
                problems.push(Problem::new(&file.path, line, message));
            }
        }
    }
    problems
}

/// The names of all functions, in Rust and in Python.
fn definitions(files: &[SourceFile]) -> BTreeSet<&str> {
    let code = files.iter().filter(|file| file.has_ending("rs") || file.has_ending("py"));
    let mut found = BTreeSet::new();
    for line in code.flat_map(|file| file.text.lines()) {
        let after = ["fn ", "def "].iter().find_map(|keyword| line.split_once(keyword));
        if let Some((_, rest)) = after {
            let end = rest.find(|one: char| !is_part_of_name(one)).unwrap_or(rest.len());
            found.insert(&rest[..end]);
        }
    }
    found
}

/// The names of tests in a page, with their lines.
fn named(text: &str) -> Vec<(usize, &str)> {
    let mut in_section = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('#') {
            in_section = line == SECTION;
        }
        if in_section {
            let quoted = line.split('`').skip(1).step_by(2);
            let names = quoted.map(|span| span.rsplit("::").next().unwrap_or_default());
            found.extend(names.filter(|name| is_test_name(name)).map(|name| (index + 1, name)));
        }
    }
    found
}

fn is_test_name(name: &str) -> bool {
    name.chars().all(is_part_of_name) && name.matches('_').count() >= UNDERSCORES_MIN
}

fn is_part_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}
