//! What reaches the terminal of guest text, however it is cut into pieces.

use proptest::prelude::*;

use super::{GuestText, SEQUENCE_CHARS_MAX, without_colours};

fn whole(text: &[u8]) -> String {
    let mut filter = GuestText::default();
    let shown = filter.next(text);
    shown + filter.finish()
}

#[test]
fn colours_stay_and_nothing_else_acts() {
    let cases: [(&[u8], &str); 22] = [
        (b"plain \xc3\xa4 \xe6\x97\xa5\n\ttab\rback", "plain ä 日\n\ttab\rback"),
        (b"\x1b[1;31mred\x1b[0m", "\u{1b}[1;31mred\u{1b}[0m"),
        (b"\x1b[38;2;1;2;3mdeep\x1b[m", "\u{1b}[38;2;1;2;3mdeep\u{1b}[m"),
        (b"\x1b[31mnot ended", "\u{1b}[31mnot ended\u{1b}[0m"),
        (b"a\x1b]0;title\x07b", "ab"),
        (b"a\x1b]52;c;c2VjcmV0\x1b\\b", "ab"),
        (b"a\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
        (b"a\x1bP+q544e\x1b\\b\x1b_Gf=100\x1b\\c\x1b^x\x1b\\d\x1bXy\x1b\\e", "abcde"),
        (b"a\x1b[2J\x1b[H\x1b[1Ab\x1b[?25lc\x1b[6nd", "abcd"),
        (b"a\x1b[>4;2mb", "ab"),
        (b"a\x1b[!pb\x1bcc\x1b7d\x1b(Be\x1b#8f", "abcdef"),
        (b"a\x08\x08b\x07\x00\x7f\x0ec\x0bd", "abcd"),
        // C1 controls, as characters and as bytes.
        ("a\u{9b}2Jb\u{9d}0;title\u{9c}c\u{85}d".as_bytes(), "abcd"),
        (b"a\x9b2Jb\x9d0;x\x07c", "a\u{fffd}2Jb\u{fffd}0;xc"),
        (b"a\xff\xc3", "a\u{fffd}"),
        // An escape inside of another.
        (b"a\x1b[3\x1b]0;t\x071mb", "a1mb"),
        (b"a\x1b[31\nmb", "a\nmb"),
        (b"a\x1b]0;one\x1b[31mtwo\x07b", "ab"),
        (b"a\x1b", "a"),
        (b"a\x1b[31", "a"),
        (b"a\x1b]0;never ends\nb", "a"),
        (b"", ""),
    ];
    for (text, expected) in cases {
        assert_eq!(whole(text), expected, "{:?}", String::from_utf8_lossy(text));
    }
}

#[test]
fn sequence_without_an_end_hides_no_more_than_its_bound() {
    let hidden = format!("\u{1b}]0;{}after", "x".repeat(2 * SEQUENCE_CHARS_MAX));
    let shown = whole(hidden.as_bytes());
    assert!(shown.ends_with("after") && shown.len() < SEQUENCE_CHARS_MAX + 100, "{}", shown.len());
    let long = format!("\u{1b}[{}mafter", "1;".repeat(100));
    assert_eq!(whole(long.as_bytes()), "after");
}

#[test]
fn colours_can_be_left_out() {
    assert_eq!(without_colours(&whole(b"a\x1b[1;31mred\x1b[0m \x1b[32mb")), "ared b");
}

proptest! {
    #[test]
    fn pieces_make_no_difference(
        text in prop::collection::vec(prop_oneof![
            Just(b"\x1b".to_vec()), Just(b"[".to_vec()), Just(b"]0;".to_vec()), Just(b"\x07".to_vec()),
            Just(b"31m".to_vec()), Just(b"\xc2".to_vec()), Just(b"\x9b".to_vec()), Just(b"\\".to_vec()),
            prop::collection::vec(any::<u8>(), 0..4),
        ], 0..30),
        cut in any::<prop::sample::Index>(),
    ) {
        let text = text.concat();
        let cut = cut.index(text.len() + 1);
        let mut filter = GuestText::default();
        let pieces = filter.next(&text[..cut]) + &filter.next(&text[cut..]) + filter.finish();
        prop_assert_eq!(&pieces, &whole(&text));
        // Only colours are left of what acts.
        for part in pieces.split('\u{1b}').skip(1) {
            let (parameters, _) = part.strip_prefix('[').unwrap().split_once('m').unwrap();
            prop_assert!(parameters.chars().all(|it| it.is_ascii_digit() || ";:".contains(it)));
        }
        let acts = |it: char| it.is_control() && !"\n\t\r\u{1b}".contains(it);
        prop_assert!(!pieces.contains(acts), "{:?}", pieces);
    }
}
