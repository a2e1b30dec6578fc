//! Names of public types: one name has one meaning in the workspace.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::rust::is_test;
use super::source::code_only;
use super::{Problem, SourceFile};

/// Names that every module may use for a type of its own, since readers take them as local.
const LOCAL_NAMES: [&str; 4] = ["Error", "Inner", "State", "Step"];

/// The words that begin a type's definition.
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Finds names of public types that are defined in more than one place.
pub(super) fn check(files: &[SourceFile]) -> Vec<Problem> {
    let mut places: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_library(file)) {
        for (line, name) in public_types(&file.text) {
            places.entry(name).or_default().push((&file.path, line));
        }
    }
    places.retain(|name, places| places.len() > 1 && !LOCAL_NAMES.contains(&name.as_str()));
    places.iter().flat_map(|(name, places)| report(name, places)).collect()
}

/// One problem for each place, which names all the others.
fn report(name: &str, places: &[(&str, usize)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, &(path, line)) in places.iter().enumerate() {
        let others: Vec<String> = places
            .iter()
            .enumerate()
            .filter(|&(other, _)| other != index)
            .map(|(_, (path, line))| format!("{path}:{line}"))
            .collect();
        let message = format!(
            "the public type `{name}` is also defined at {}; give each meaning its own name",
            others.join(", ")
        );
        problems.push(Problem::new(path, line, message));
    }
    problems
}

/// The source of our crates, without their tests.
pub(super) fn is_library(file: &SourceFile) -> bool {
    let path = &file.path;
    let of_crate = path.starts_with("crates/") && path.contains("/src/");
    of_crate && file.has_ending("rs") && !is_test(path)
}

/// The types with visibility `pub`, not `pub(crate)` or narrower, by line and name.
fn public_types(text: &str) -> Vec<(usize, String)> {
    let code = code_only(text);
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        if let Some(name) = public_type(line) {
            found.push((index + 1, name));
        }
    }
    found
}

fn public_type(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let visibility = words.next()?;
    let keyword = words.find(|&word| word != "unsafe" && word != "auto")?;
    let rest = words.next()?;
    let part_of_name = |character: &char| character.is_alphanumeric() || *character == '_';
    let name: String = rest.chars().take_while(part_of_name).collect();
    let found = visibility == "pub" && KEYWORDS.contains(&keyword) && !name.is_empty();
    found.then_some(name)
}
