//! What reaches a terminal.

use std::io;

use silica_store::Timestamp;

use super::{is_broken_pipe, moment, plain};

#[test]
fn nothing_that_acts_reaches_the_terminal() {
    let table = [
        ("print('ü')", "print('ü')"),
        ("a\nb\tc", "a⏎b c"),
        ("\u{1b}[2J", "\\u{1b}[2J"),
        ("\r\u{7f}\u{9b}", "\\u{d}\\u{7f}\\u{9b}"),
        ("user\u{202e}nimda", "user\\u{202e}nimda"),
        ("0123456789", "01234567…"),
    ];
    for (text, expected) in table {
        let width = if text.len() == 10 && expected.len() > 10 { 8 } else { 100 };
        assert_eq!(plain(text, width), expected);
    }
}

#[test]
fn moments_are_shown_to_the_second() {
    assert_eq!(moment(Timestamp::from_micros(1_794_735_001_999_999)), "2026-11-15T09:30:01Z");
    assert_eq!(moment(Timestamp::from_micros(-1)), "-1us");
}

#[test]
fn only_a_closed_pipe_is_one() {
    let error = |kind: io::ErrorKind| anyhow::Error::from(io::Error::from(kind)).context("x");
    assert!(is_broken_pipe(&error(io::ErrorKind::BrokenPipe)));
    assert!(!is_broken_pipe(&error(io::ErrorKind::StorageFull)));
}
