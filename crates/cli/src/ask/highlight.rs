//! Colours Python for a terminal, line by line as it arrives.
//!
//! It recognises strings, comments, numbers and keywords, and keeps between lines whether it is in
//! a triple-quoted string. It only affects the display, not the code that runs.

#[cfg(test)]
mod tests;

const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

const KEYWORD: &str = "\x1b[35m";
const STRING: &str = "\x1b[32m";
const COMMENT: &str = "\x1b[90m";
const NUMBER: &str = "\x1b[36m";
const PLAIN: &str = "\x1b[0m";

/// Colours lines of Python.
#[derive(Debug, Default)]
pub(super) struct Highlighter {
    /// The quotes that end the current triple-quoted string.
    inside: Option<&'static str>,
}

impl Highlighter {
    /// Returns a line with colour sequences.
    pub(super) fn line(&mut self, line: &str) -> String {
        let mut shown = String::new();
        let mut rest = line;
        while !rest.is_empty() {
            let (length, colour) = match self.inside {
                Some(quotes) => (self.long(rest, 0, quotes), STRING),
                None => self.token(rest),
            };
            let (token, after) = rest.split_at(length);
            if colour.is_empty() {
                shown.push_str(token);
            } else {
                shown.extend([colour, token, PLAIN]);
            }
            rest = after;
        }
        shown
    }

    /// Returns the length of a triple-quoted string on this line; it may continue on the next.
    fn long(&mut self, text: &str, opening: usize, quotes: &'static str) -> usize {
        if let Some(end) = text[opening..].find(quotes) {
            self.inside = None;
            opening + end + quotes.len()
        } else {
            self.inside = Some(quotes);
            text.len()
        }
    }

    fn token(&mut self, text: &str) -> (usize, &'static str) {
        let Some(first) = text.chars().next() else { return (0, "") };
        match first {
            '#' => (text.len(), COMMENT),
            '"' if text.starts_with("\"\"\"") => (self.long(text, 3, "\"\"\""), STRING),
            '\'' if text.starts_with("'''") => (self.long(text, 3, "'''"), STRING),
            '"' | '\'' => (short(text, first), STRING),
            _ if first.is_ascii_digit() => {
                let in_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
                (text.find(|c| !in_number(c)).unwrap_or(text.len()), NUMBER)
            }
            _ if first.is_alphabetic() || first == '_' => {
                let in_word = |c: char| c.is_alphanumeric() || c == '_';
                let length = text.find(|c| !in_word(c)).unwrap_or(text.len());
                (length, if KEYWORDS.contains(&&text[..length]) { KEYWORD } else { "" })
            }
            _ => (first.len_utf8(), ""),
        }
    }
}

/// Returns the length of a string on one line, with its quotes.
fn short(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (index, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return index + 1,
            _ => {}
        }
    }
    text.len()
}
