//! What is kept by the store, shown to people: tables on stdout, and nothing in them that a terminal
//! would obey.

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use anyhow::{Error, Result};
use silica_store::Timestamp;

/// Writes one line of data.
pub(crate) fn line(text: impl std::fmt::Display) -> Result<()> {
    writeln!(io::stdout().lock(), "{text}")?;
    Ok(())
}

/// Writes data that ends in a line's end itself.
pub(crate) fn text(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

/// Whether a command failed only because nobody reads its output any more.
pub(crate) fn is_broken_pipe(error: &Error) -> bool {
    let is_pipe = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_pipe))
}

/// A moment to the second.
pub(crate) fn moment(time: Timestamp) -> String {
    let text = time.to_string();
    match text.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => text,
    }
}

/// A text from outside on one line, shortened, with everything written out that would act on a
/// terminal or turn the line around.
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

/// Control characters, and those that change the direction of text (Unicode, UAX #9).
pub(crate) fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{061c}')
        || ('\u{202a}'..='\u{202e}').contains(&character)
        || ('\u{2066}'..='\u{2069}').contains(&character)
}
