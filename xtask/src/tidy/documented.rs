//! Public items carry documentation. Fields and variants may speak for themselves, which the compiler's
//! own lint does not allow.

#[cfg(test)]
mod tests;

use super::names::is_library;
use super::source::code_only;
use super::{Problem, SourceFile};

/// The words that begin an item that needs documentation. A module's is in its own file.
const KEYWORDS: [&str; 7] = ["fn", "struct", "enum", "trait", "type", "const", "static"];

/// Words that may come before the keyword.
const QUALIFIERS: [&str; 3] = ["async", "unsafe", "extern"];

/// Finds public items without documentation.
pub(super) fn check(file: &SourceFile) -> Vec<Problem> {
    if !is_library(file) {
        return Vec::new();
    }
    let code = code_only(&file.text);
    let text: Vec<&str> = file.text.lines().collect();
    let mut problems = Vec::new();
    for (index, line) in code.lines().enumerate() {
        if is_public_item(line) && !is_documented(&text[..index]) {
            problems.push(Problem::new(&file.path, index + 1, "a public item says what it is for"));
        }
    }
    problems
}

fn is_public_item(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let visibility = words.next();
    let keyword = words.find(|word| !QUALIFIERS.contains(word));
    visibility == Some("pub") && keyword.is_some_and(|keyword| KEYWORDS.contains(&keyword))
}

/// Whether the lines above an item end in documentation, with attributes between.
fn is_documented(above: &[&str]) -> bool {
    let mut in_attribute = false;
    for line in above.iter().rev().map(|line| line.trim()) {
        if ["///", "#[doc", "$(#["].iter().any(|start| line.starts_with(start)) {
            return true;
        }
        in_attribute |= line.ends_with(")]");
        if line.starts_with("#[") {
            in_attribute = false;
        } else if !in_attribute {
            return false;
        }
    }
    false
}
