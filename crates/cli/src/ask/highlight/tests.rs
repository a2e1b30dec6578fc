//! What gets which colour, and that nothing else changes.

use proptest::prelude::*;

use super::Highlighter;

/// Colours as words, so that they can be read.
fn shown(lines: &[&str]) -> Vec<String> {
    let mut highlighter = Highlighter::default();
    let words = [
        ("\x1b[35m", "<k>"),
        ("\x1b[32m", "<s>"),
        ("\x1b[90m", "<c>"),
        ("\x1b[36m", "<n>"),
        ("\x1b[0m", "</>"),
    ];
    let line = |line: &&str| {
        words.iter().fold(highlighter.line(line), |text, (code, word)| text.replace(code, word))
    };
    lines.iter().map(line).collect()
}

#[test]
fn words_strings_numbers_and_comments() {
    assert_eq!(
        shown(&["for x in y: # 'no'", "print('a\\'b', 1.5e3, format)"]),
        ["<k>for</> x <k>in</> y: <c># 'no'</>", "print(<s>'a\\'b'</>, <n>1.5e3</>, format)"]
    );
}

#[test]
fn long_strings_go_on() {
    assert_eq!(
        shown(&["x = \"\"\"a", "if", "b\"\"\" + 1"]),
        ["x = <s>\"\"\"a</>", "<s>if</>", "<s>b\"\"\"</> + <n>1</>"]
    );
}

proptest! {
    #[test]
    fn only_colours_are_added(line in "[a-z0-9\u{e4} '\"#=()\\\\.]{0,60}") {
        let shown = Highlighter::default().line(&line);
        let codes = ["\x1b[35m", "\x1b[32m", "\x1b[90m", "\x1b[36m", "\x1b[0m"];
        let plain = codes.iter().fold(shown, |text, code| text.replace(code, ""));
        prop_assert_eq!(plain, line);
    }
}
