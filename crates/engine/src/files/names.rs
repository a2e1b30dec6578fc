//! Names as text. A name in a sandbox is any bytes; a path in a request is text.
//!
//! A byte that is no part of valid UTF-8 becomes one of 128 characters of Unicode's private use
//! area, U+EF80 to U+EFFF. Such a character that is itself in a name becomes three of them, one for
//! each of its bytes. So every name has a text that leads back to it, and a name without such
//! characters is its own text.

use std::borrow::Cow;

/// The character for the byte 0, which is never escaped: only bytes above 0x7f are.
const ESCAPES: u32 = 0xef00;

/// Returns the text of a name or a path.
pub(super) fn to_text(name: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(name)
        && !text.contains(is_escape)
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_escape(character) {
                let mut bytes = [0; 4];
                text.extend(character.encode_utf8(&mut bytes).bytes().map(escape));
            } else {
                text.push(character);
            }
        }
        text.extend(chunk.invalid().iter().copied().map(escape));
    }
    Cow::Owned(text)
}

/// Returns the bytes of a text.
pub(super) fn to_bytes(text: &str) -> Cow<'_, [u8]> {
    if !text.contains(is_escape) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut name = Vec::with_capacity(text.len());
    for character in text.chars() {
        if is_escape(character) {
            name.push((u32::from(character) - ESCAPES) as u8);
        } else {
            name.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Cow::Owned(name)
}

fn is_escape(character: char) -> bool {
    ('\u{ef80}'..='\u{efff}').contains(&character)
}

fn escape(byte: u8) -> char {
    char::from_u32(ESCAPES + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}
