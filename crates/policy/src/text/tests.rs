//! Encodings that are declared, and places in the text.

use super::{Lines, bidirectional, cookie};

#[test]
fn encodings_other_than_utf8_are_found_where_python_looks_for_them() {
    let found = |code| cookie(code).map(|cookie| (cookie.encoding, cookie.offset));
    assert_eq!(found("# -*- coding: utf-7 -*-\nprint(1)"), Some(("utf-7", 14)));
    assert_eq!(
        found("#!/usr/bin/python\n# vim: set fileencoding=latin-1 :\n"),
        Some(("latin-1", 42))
    );
    assert_eq!(found("\r\n#coding=rot13"), Some(("rot13", 10)));
    assert_eq!(found("\u{feff}# coding: cp1252"), Some(("cp1252", 13)));
    assert_eq!(found("\u{c}# coding: big5"), Some(("big5", 11)));
}

#[test]
fn utf8_and_everything_that_is_no_declaration_pass() {
    for code in [
        "# -*- coding: utf-8 -*-",
        "# coding=UTF8",
        "# coding: utf_8_sig",
        "x = 1\ny = 2\n# coding: utf-7",
        "\n\n# coding: utf-7",
        "# coding is fun",
        "# encoding",
        "print('# coding: utf-7')",
        "",
    ] {
        assert!(cookie(code).is_none(), "{code}");
    }
}

#[test]
fn places_are_counted_in_characters_whatever_ends_the_lines() {
    let lines = Lines::new("añb\r\ncd\re\nf");
    assert_eq!(lines.place(3.into()), (1, 3));
    assert_eq!(lines.place(7.into()), (2, 2));
    assert_eq!(lines.place(9.into()), (3, 1));
    assert_eq!(lines.place(11.into()), (4, 1));
    assert_eq!(lines.place(4_000.into()), (4, 2));
    assert_eq!(lines.place(2.into()), (1, 2), "inside a character is at it");
}

#[test]
fn characters_that_turn_a_line_around_are_found() {
    assert_eq!(bidirectional("a = 'x\u{202e}y'"), Some(6));
    assert_eq!(bidirectional("a = 'é'"), None);
}
