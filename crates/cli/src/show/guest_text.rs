//! Text of a guest on its way to a terminal: colours stay, everything else that a terminal obeys is left out. A
//! title, the clipboard, the cursor and the rest of the screen belong to the user and not to the code.

#[cfg(test)]
mod tests;

use std::io::{IsTerminal, Write};

/// The longest parameters of a colour; a longer sequence is left out.
const PARAMETERS_MAX: usize = 64;

/// The longest sequence that is left out. What follows is shown again, so that one without an end hides little.
const SEQUENCE_CHARS_MAX: usize = 4096;

/// The sequence that ends all colours.
const PLAIN: &str = "\u{1b}[0m";

/// A stream of a guest that is shown piece by piece; a character or a sequence may be split between two pieces.
#[derive(Debug, Default)]
pub(crate) struct GuestText {
    /// The beginning of a character in UTF-8.
    partial: Vec<u8>,
    state: State,
    /// Whether a colour was shown and not ended.
    coloured: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate character, such as in `ESC ( B`.
    Intermediate,
    /// After ESC [, with the parameters so far.
    Control(String),
    /// After ESC [ and what no colour has.
    OtherControl,
    /// In a text for the terminal, such as a title (OSC), with the characters so far.
    Message(usize),
    /// After ESC in such a text.
    MessageEscape(usize),
}

impl GuestText {
    /// Returns a filter if the stream leads to a terminal; a file or a pipe gets the bytes as they are.
    pub(crate) fn for_terminal(stream: &impl IsTerminal) -> Option<Self> {
        stream.is_terminal().then(Self::default)
    }

    /// Returns what is shown of the next piece.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> String {
        let mut shown = String::with_capacity(bytes.len());
        let mut rest = std::mem::take(&mut self.partial);
        rest.extend_from_slice(bytes);
        let mut rest = rest.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    text.chars().for_each(|character| self.one(character, &mut shown));
                    return shown;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    let valid = std::str::from_utf8(valid).unwrap_or_default();
                    valid.chars().for_each(|character| self.one(character, &mut shown));
                    let Some(length) = error.error_len() else {
                        self.partial = after.to_vec();
                        return shown;
                    };
                    self.one(char::REPLACEMENT_CHARACTER, &mut shown);
                    rest = &after[length..];
                }
            }
        }
    }

    /// Returns what ends the colours of the stream, after its last piece.
    pub(crate) fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.coloured) { PLAIN } else { "" }
    }

    fn one(&mut self, character: char, shown: &mut String) {
        self.state = match (std::mem::take(&mut self.state), character) {
            (State::Message(_), '\u{7}' | '\u{9c}') | (State::MessageEscape(_), '\\') => {
                State::Text
            }
            (State::Message(length), '\u{1b}') => State::MessageEscape(length),
            (State::Message(length) | State::MessageEscape(length), _)
                if length < SEQUENCE_CHARS_MAX =>
            {
                State::Message(length + 1)
            }
            (State::Control(parameters), '0'..='9' | ';' | ':')
                if parameters.len() < PARAMETERS_MAX =>
            {
                State::Control(parameters + character.encode_utf8(&mut [0; 4]))
            }
            (State::Control(parameters), 'm') => {
                shown.push_str("\u{1b}[");
                shown.push_str(&parameters);
                shown.push('m');
                self.coloured = !matches!(parameters.as_str(), "" | "0");
                State::Text
            }
            (State::Control(_) | State::OtherControl, ' '..='?') => State::OtherControl,
            (State::Escape, '[') => State::Control(String::new()),
            (State::Escape, ']' | 'P' | 'X' | '^' | '_') => State::Message(0),
            (State::Escape | State::Intermediate, ' '..='/') => State::Intermediate,
            (State::Control(_) | State::OtherControl, '@'..='~')
            | (State::Escape | State::Intermediate, '0'..='~') => State::Text,
            // Anything else ends a sequence, and is text.
            (_, character) => text(character, shown),
        };
    }
}

/// Shows a character outside a sequence; returns the state after it.
fn text(character: char, shown: &mut String) -> State {
    match character {
        '\u{1b}' => State::Escape,
        '\u{9b}' => State::Control(String::new()),
        '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => State::Message(0),
        '\n' | '\t' | '\r' => {
            shown.push(character);
            State::Text
        }
        _ if character.is_control() => State::Text,
        _ => {
            shown.push(character);
            State::Text
        }
    }
}

/// Returns text of a guest that this program prints among its own words, on a stream that may be a terminal: with
/// colours there, and without them elsewhere.
pub(crate) fn quoted(text: &str, stream: &impl IsTerminal) -> String {
    let mut filter = GuestText::default();
    let shown = filter.next(text.as_bytes()) + filter.finish();
    if stream.is_terminal() { shown } else { without_colours(&shown) }
}

/// Removes the colours from text that has nothing else to obey.
fn without_colours(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// Writes bytes of a guest to a stream, through a filter if there is one. A reader that has gone
/// (`silica run … | head`) is no reason to fail.
pub(crate) fn write(stream: &mut impl Write, filter: Option<&mut GuestText>, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let _ = match filter {
        Some(filter) => stream.write_all(filter.next(bytes).as_bytes()),
        None => stream.write_all(bytes),
    };
    let _ = stream.flush();
}
