//! The lines of a cell that are IPython's syntax and not Python's.
//!
//! A cell that begins with `%%name` belongs to that magic. Some of them run the rest as Python, and
//! then it is read as such; for the others it is not Python at all.

use std::borrow::Cow;

/// How many `%%` lines may follow each other.
const STACKED_MAX: usize = 8;

/// Cell magics that run what follows as Python in the same kernel.
const RUN_BODY: [&str; 6] = ["time", "timeit", "prun", "capture", "memit", "mprun"];
/// Line magics whose argument is Python.
const RUN_LINE: [&str; 5] = ["time", "timeit", "prun", "memit", "mprun"];
/// Magics that start another program.
const START_PROGRAM: [&str; 16] = [
    "!", "bash", "sh", "script", "system", "sx", "sc", "cmd", "perl", "ruby", "python", "python2",
    "python3", "pypy", "alias", "rehashx",
];

/// One `%%` line.
pub(crate) struct CellMagic<'a> {
    pub(crate) name: &'a str,
    pub(crate) offset: usize,
    pub(crate) length: usize,
    /// Python on the line itself, which `%%timeit` runs before it measures.
    pub(crate) code: &'a str,
}

/// A cell, divided into its `%%` lines and the rest.
pub(crate) struct SplitCell<'a> {
    pub(crate) magics: Vec<CellMagic<'a>>,
    /// The rest if it is Python, with every character at its original offset.
    pub(crate) python: Option<Cow<'a, str>>,
}

/// Splits the `%%` lines off the beginning of a cell.
pub(crate) fn split(code: &str) -> SplitCell<'_> {
    let mut magics = Vec::new();
    let mut place = 0;
    while magics.len() < STACKED_MAX {
        let rest = &code[place..];
        let offset = place + (rest.len() - rest.trim_start().len());
        let line = code[offset..].split(['\n', '\r']).next().unwrap_or_default();
        let Some(text) = line.strip_prefix("%%") else { break };
        let name = text.split_whitespace().next().unwrap_or_default();
        let code_after = text.trim_start().strip_prefix(name).unwrap_or_default().trim();
        let runs = RUN_BODY.contains(&name);
        let line_code = if runs { without_options(code_after) } else { "" };
        magics.push(CellMagic { name, offset, length: line.len(), code: line_code });
        if !runs {
            return SplitCell { magics, python: None };
        }
        place = offset + line.len();
    }
    let python = if magics.is_empty() {
        Cow::Borrowed(code)
    } else {
        Cow::Owned(" ".repeat(place) + &code[place..])
    };
    SplitCell { magics, python: Some(python) }
}

/// Whether a magic of this name starts another program.
pub(crate) fn starts_program(name: &str) -> bool {
    START_PROGRAM.contains(&name)
}

/// Divides a `%` line into the magic's name and the Python it will run.
pub(crate) fn line(value: &str) -> (&str, &str) {
    let value = value.trim();
    let (name, rest) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
    if RUN_LINE.contains(&name) { (name, without_options(rest.trim())) } else { (name, "") }
}

/// Strips options such as `-n 5 -r3` off the beginning.
fn without_options(mut text: &str) -> &str {
    while let Some(option) = text.strip_prefix('-') {
        let is_option = option.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_option {
            break;
        }
        let (_, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim_start();
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        text = if digits > 0 { rest[digits..].trim_start() } else { rest };
    }
    text
}

#[cfg(test)]
mod tests;
