//! Rules for every text file, and for the opening of Python files.

use super::source::has_word;
use super::{Problem, SourceFile};

/// Marks of unfinished work. Written in pieces, or this file would be one of its own findings.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Words that leave open which person, process or caller is meant. Written in pieces, too.
const VAGUE_WORDS: [&str; 2] = [concat!("who", "ever"), concat!("some", "body")];

/// Where comments, documents and messages must be free of them, in Rust and in Python.
const PLAIN_FOLDERS: [&str; 3] = ["crates/", "guest/", "sdk/"];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 8] =
    ["util", "utils", "helper", "helpers", "common", "misc", "manager", "managers"];

pub(super) fn check(file: &SourceFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, line) in file.text.split('\n').enumerate() {
        let mut note =
            |message: String| problems.push(Problem::new(&file.path, index + 1, message));
        if line.contains('\t') {
            note("a tab; indent with spaces".to_owned());
        }
        if line.trim_end() != line {
            note("white space at the end of the line".to_owned());
        }
        for mark in MARKS {
            if has_word(line, mark) {
                note(format!("`{mark}`: finish it or describe it where plans are kept"));
            }
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        let lines = file.text.lines().count();
        problems.push(Problem::new(&file.path, lines, "the last line does not end"));
    }
    problems.extend(vague_words(file));
    problems.extend(empty_name(file));
    problems.extend(python_opening(file));
    problems
}

fn vague_words(file: &SourceFile) -> Vec<Problem> {
    let is_code = file.has_ending("rs") || file.has_ending("py");
    let is_plain = PLAIN_FOLDERS.iter().any(|folder| file.path.starts_with(folder));
    let mut problems = Vec::new();
    if !is_code || !is_plain {
        return problems;
    }
    for (index, line) in file.text.lines().enumerate() {
        let line = line.to_lowercase();
        for word in VAGUE_WORDS.iter().filter(|word| has_word(&line, word)) {
            let message = format!("`{word}`: name the person, process or caller that is meant");
            problems.push(Problem::new(&file.path, index + 1, message));
        }
    }
    problems
}

fn empty_name(file: &SourceFile) -> Option<Problem> {
    if !file.has_ending("rs") && !file.has_ending("py") {
        return None;
    }
    let stem = |part: &str| part.split('.').next().unwrap_or_default().to_owned();
    let found = file.path.split('/').map(stem).find(|part| EMPTY_NAMES.contains(&part.as_str()))?;
    let message =
        format!("`{found}` says nothing about what is inside; name it after what it owns");
    Some(Problem::new(&file.path, 1, message))
}

/// The guest's files open with a docstring; scripts for the host may open with a comment.
fn python_opening(file: &SourceFile) -> Option<Problem> {
    let of_guest = file.path.starts_with("guest/");
    let opens_well = file.text.starts_with("\"\"\"") || (!of_guest && file.text.starts_with("# "));
    let wrong = file.has_ending("py") && !file.text.is_empty() && !opens_well;
    wrong.then(|| {
        let message = "a Python file opens with a docstring: what it is and what it owns";
        Problem::new(&file.path, 1, message)
    })
}
