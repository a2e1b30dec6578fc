//! The text before it is parsed: its length, its encoding, and the offsets of its lines.

use ruff_text_size::TextSize;

/// The longest text that is checked; also the longest cell.
pub const CODE_BYTES_MAX: usize = 1 << 20;

/// Characters that change the order in which a line is shown and not the order in which it runs.
const BIDIRECTIONAL: [char; 9] = [
    '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}',
    '\u{2069}',
];

/// An encoding declared in one of the first two lines that is not UTF-8: Python would read other
/// characters from a file than those that are checked here.
pub(crate) struct Cookie<'a> {
    pub(crate) encoding: &'a str,
    pub(crate) offset: usize,
}

/// Finds a declared encoding other than UTF-8, as PEP 263 looks for it.
pub(crate) fn cookie(code: &str) -> Option<Cookie<'_>> {
    let mut start = 0;
    for _ in 0..2 {
        let rest = &code[start..];
        let end = rest.find(['\n', '\r']).unwrap_or(rest.len());
        let line = &rest[..end];
        let text = line.trim_start_matches([' ', '\t', '\u{c}', '\u{feff}']);
        if let Some(comment) = text.strip_prefix('#')
            && let Some(encoding) = declared(comment)
            && !is_utf8(encoding)
        {
            let offset = start + (encoding.as_ptr() as usize - line.as_ptr() as usize);
            return Some(Cookie { encoding, offset });
        }
        let newline = if rest[end..].starts_with("\r\n") { 2 } else { 1 };
        start = (start + end + newline).min(code.len());
    }
    None
}

fn declared(comment: &str) -> Option<&str> {
    let (_, after) = comment
        .match_indices("coding")
        .map(|(place, word)| comment.split_at(place + word.len()))
        .find(|(_, after)| after.starts_with([':', '=']))?;
    let value = after[1..].trim_start_matches([' ', '\t']);
    let end = value
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
        .unwrap_or(value.len());
    (end > 0).then(|| &value[..end])
}

fn is_utf8(encoding: &str) -> bool {
    let plain: String =
        encoding.chars().map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect();
    plain == "utf8" || plain == "utf-8" || plain.starts_with("utf-8-")
}

/// Finds the first character that makes a line look other than it is.
pub(crate) fn bidirectional(code: &str) -> Option<usize> {
    if code.is_ascii() {
        return None;
    }
    code.find(BIDIRECTIONAL)
}

/// Where lines begin, to turn offsets into lines and columns.
pub(crate) struct Lines<'a> {
    code: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(code: &'a str) -> Self {
        let bytes = code.as_bytes();
        let mut starts = vec![0];
        for (place, byte) in bytes.iter().enumerate() {
            let ends = match byte {
                b'\n' => true,
                b'\r' => bytes.get(place + 1) != Some(&b'\n'),
                _ => false,
            };
            if ends {
                starts.push(place + 1);
            }
        }
        Self { code, starts }
    }

    /// Returns the line and the column of an offset, both counted from 1, columns in characters.
    pub(crate) fn place(&self, offset: TextSize) -> (u32, u32) {
        let offset = self.floor(offset.to_usize());
        let line = self.starts.partition_point(|start| *start <= offset) - 1;
        let before = &self.code[self.starts[line]..offset];
        let column = before.chars().filter(|c| *c != '\u{feff}').count();
        (line as u32 + 1, column as u32 + 1)
    }

    /// Returns the text between two offsets, no further than to the end of the line.
    pub(crate) fn slice(&self, start: TextSize, end: TextSize) -> &'a str {
        let start = self.floor(start.to_usize());
        let end = self.floor(end.to_usize()).max(start);
        let text = &self.code[start..end];
        text.split(['\n', '\r']).next().unwrap_or_default()
    }

    fn floor(&self, offset: usize) -> usize {
        self.code.floor_char_boundary(offset.min(self.code.len()))
    }
}

#[cfg(test)]
mod tests;
