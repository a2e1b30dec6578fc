//! Paths of requests, and patterns of them.
//!
//! A path is compared in its decoded form. Forms that another program could read in a second way
//! are refused rather than rewritten, so that what was judged is what the far side receives.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use super::error::{NetworkError, excerpt};

/// The longest path that is compared with patterns.
const PATH_BYTES_MAX: usize = 8192;

/// The most stars of a pattern.
const STARS_MAX: usize = 8;

/// The longest pattern.
const PATTERN_BYTES_MAX: usize = 256;

/// A pattern of decoded paths, in which `*` stands for any bytes, `/` included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathPattern(String);

impl PathPattern {
    /// Tells whether a path from [`decoded_path`] is meant.
    pub fn matches(&self, path: &str) -> bool {
        glob(&self.0, path)
    }

    /// Returns the pattern's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for PathPattern {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let refuse = |why| Err(NetworkError::PathPattern { pattern: excerpt(text), why });
        if !text.starts_with('/') {
            return refuse("it does not begin with `/`");
        }
        if text.len() > PATTERN_BYTES_MAX {
            return refuse("it has more than 256 bytes");
        }
        if text.contains(['%', '?', '#', '\\', ';']) || text.chars().any(char::is_control) {
            return refuse("it has a character that no decoded path has");
        }
        if text.matches('*').count() > STARS_MAX {
            return refuse("it has more than 8 stars");
        }
        if text.split('/').skip(1).any(|segment| segment == "." || segment == "..") {
            return refuse("it has a segment of dots");
        }
        Ok(Self(text.to_owned()))
    }
}

/// Finds the pieces between stars one after the other, each as early as possible. The time is
/// linear in the path for each piece, whatever pattern and path are.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let Some((middle, last)) = rest.rsplit_once('*') else {
        return text.ends_with(rest);
    };
    for piece in middle.split('*') {
        match text.find(piece) {
            Some(at) => text = &text[at + piece.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

/// Decodes the path of a request, without its query, for comparison with patterns.
///
/// Refused are forms on which servers disagree: encoded separators, NUL and percent signs, `\`,
/// `;`, empty segments and segments of dots, and what is not UTF-8.
pub fn decoded_path(path: &str) -> Result<String, NetworkError> {
    let refuse = |why| Err(NetworkError::Path(why));
    if path.len() > PATH_BYTES_MAX {
        return refuse("it has more than 8192 bytes");
    }
    if !path.starts_with('/') {
        return refuse("it does not begin with `/`");
    }
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        let plain = match byte {
            b'%' => {
                let (value, behind) = hexadecimal(rest)?;
                rest = behind;
                match value {
                    b'/' | b'\\' => return refuse("a separator is percent-encoded"),
                    b'%' => return refuse("it is percent-encoded twice"),
                    b';' => return refuse("it has `;`"),
                    0..0x20 | 0x7f => return refuse("a control byte is percent-encoded"),
                    other => other,
                }
            }
            b'\\' => return refuse("it has `\\`"),
            b';' => return refuse("it has `;`"),
            b'?' | b'#' => return refuse("it has a query or a fragment"),
            0..=0x20 | 0x7f.. => return refuse("it has a byte that must be percent-encoded"),
            other => other,
        };
        decoded.push(plain);
    }
    let Ok(decoded) = String::from_utf8(decoded) else {
        return refuse("it is not UTF-8 when decoded");
    };
    let segments = decoded[1..].split('/');
    let last = segments.clone().count() - 1;
    for (index, segment) in segments.enumerate() {
        match segment {
            "." | ".." => return refuse("it has a segment of dots"),
            "" if index != last => return refuse("it has an empty segment"),
            _ => {}
        }
    }
    Ok(decoded)
}

fn hexadecimal(rest: &[u8]) -> Result<(u8, &[u8]), NetworkError> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    match rest {
        [high, low, behind @ ..] => match (digit(*high), digit(*low)) {
            (Some(high), Some(low)) => Ok(((high * 16 + low) as u8, behind)),
            _ => Err(NetworkError::Path("`%` has no two digits behind it")),
        },
        _ => Err(NetworkError::Path("`%` has no two digits behind it")),
    }
}
