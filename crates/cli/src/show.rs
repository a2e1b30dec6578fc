//! Output of all commands: lines on stdout, and untrusted text without terminal control characters.

pub(crate) mod guest_text;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

use anyhow::{Error, Result};
use silica_store::Timestamp;

/// Writes one line to stdout.
pub(crate) fn line(text: impl std::fmt::Display) -> Result<()> {
    writeln!(io::stdout().lock(), "{text}")?;
    Ok(())
}

/// Writes one object of JSON on a line of stdout.
pub(crate) fn json(object: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string(object)?;
    if io::stdout().is_terminal() { line(inert(&text)) } else { line(text) }
}

/// Returns JSON in which no character acts on a terminal. JSON itself escapes only some control characters.
fn inert(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if acts(character) {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\u{:04x}", u32::from(character));
        } else {
            text.push(character);
        }
    }
    text
}

/// Writes text to stdout without adding a newline.
pub(crate) fn text(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

/// Returns whether a command failed because the reader of its output closed the pipe.
pub(crate) fn is_broken_pipe(error: &Error) -> bool {
    let is_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_pipe))
}

/// Formats a time with a precision of seconds.
pub(crate) fn moment(time: Timestamp) -> String {
    let text = time.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

/// Returns untrusted text as one line of at most `chars_max` characters, with terminal control and
/// bidirectional characters escaped.
pub(crate) fn plain(text: &str, chars_max: usize) -> String {
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == chars_max {
            shown.push('…');
            break;
        }
        match character {
            '\n' => shown.push('⏎'),
            '\t' => shown.push(' '),
            _ if acts(character) => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
    }
    shown
}

/// Returns whether a character is a control character or changes the direction of text (UAX #9).
pub(crate) fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{061c}')
        || ('\u{202a}'..='\u{202e}').contains(&character)
        || ('\u{2066}'..='\u{2069}').contains(&character)
}
