//! When typed code is whole: whether Enter runs it or begins another line. Python's own answer would
//! need the guest; this one follows the shape of the text and errs towards running.

/// Returns whether code can be run as it is. A block ends with an empty line.
pub(super) fn is_whole(code: &str) -> bool {
    if code.trim().is_empty() {
        return true;
    }
    let ends_empty = code.rsplit('\n').next().is_some_and(|line| line.trim().is_empty());
    match scan(code) {
        Open::Bracket | Open::LongText => false,
        Open::Nothing { .. } if code.trim_end_matches([' ', '\t']).ends_with('\\') => false,
        Open::Nothing { block } => {
            !block && !code.starts_with("%%") || ends_empty && code.contains('\n')
        }
    }
}

/// What is still open at the end of code.
enum Open {
    Bracket,
    /// A text in triple quotes.
    LongText,
    /// Nothing but a block, perhaps: a line that ended in a colon, or a decorator.
    Nothing {
        block: bool,
    },
}

fn scan(code: &str) -> Open {
    let bytes = code.as_bytes();
    let mut depth = 0_usize;
    let mut block = false;
    // The last character of the line that is code, and the first.
    let (mut last, mut first) = (b' ', b' ');
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        match byte {
            b'#' => {
                at = end_of_line(bytes, at);
                continue;
            }
            b'"' | b'\'' => {
                let (end, closed) = end_of_text(bytes, at);
                if !closed {
                    return Open::LongText;
                }
                at = end;
                last = byte;
                continue;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'\n' if depth == 0 => {
                block |= last == b':' || first == b'@';
                (last, first) = (b' ', b' ');
            }
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            last = byte;
            first = if first == b' ' { byte } else { first };
        }
        at += 1;
    }
    if depth > 0 {
        return Open::Bracket;
    }
    Open::Nothing { block: block || last == b':' || first == b'@' }
}

fn end_of_line(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |at| from + at)
}

/// Returns where a text ends that begins at a quote, and whether it may end there: one in single
/// quotes ends with its line at the latest, and Python says that it is wrong.
fn end_of_text(bytes: &[u8], from: usize) -> (usize, bool) {
    let quote = bytes[from];
    let long = bytes[from..].starts_with(&[quote; 3]);
    let mut at = from + if long { 3 } else { 1 };
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'\n' if !long => return (at, true),
            byte if byte == quote && !long => return (at + 1, true),
            byte if byte == quote && bytes[at..].starts_with(&[quote; 3]) => return (at + 3, true),
            _ => {}
        }
        at += 1;
    }
    (bytes.len(), !long)
}

#[cfg(test)]
mod tests {
    use super::is_whole;

    #[test]
    fn enter_runs_what_is_whole_and_nothing_else() {
        let whole = [
            "",
            "1 + 1",
            "x = [1,\n2]",
            "if x: pass\n",
            "for i in x:\n    print(i)\n",
            "'a",
            "%%time\n1\n",
            "\"\"\"a\nb\"\"\"",
            "# (",
            "'('",
            "x = {1: 2}",
            "%timeit 1",
            "@f\ndef g(): pass\n",
            "a)",
            "'\\''",
        ];
        let open = [
            "(",
            "x = [1,",
            "for i in x:",
            "for i in x:\n    print(i)",
            "\"\"\"a",
            "a = 1 + \\",
            "%%time",
            "@f",
            "def f():  # why",
            "if x:\n    '''\n",
            "f('''",
            "%%time\n1",
            "class A:\n    def f(self):\n        pass",
        ];
        for code in whole {
            assert!(is_whole(code), "{code:?}");
        }
        for code in open {
            assert!(!is_whole(code), "{code:?}");
        }
    }
}
