//! Texts made to overflow the stack of the check, or to take too long.

use silica_policy::{CODE_BYTES_MAX, Policy, Preset};

/// The stack of a worker of the server.
const STACK_BYTES: usize = 2 << 20;

/// What a text can be full of.
const PIECES: [&str; 83] = [
    "(",
    "[",
    "{",
    ")",
    "-",
    "~",
    "not ",
    "await ",
    "lambda: ",
    "lambda a, b=",
    "*",
    "**",
    "a.",
    ".b",
    "a(",
    "a[",
    "f'{",
    "f\"{f'{",
    "t'{",
    "'",
    "\"\"\"",
    "\\",
    "\\\n",
    "\0",
    "$",
    "?",
    "!",
    "%",
    "%%",
    "!x\n",
    "%time ",
    "async ",
    "if x:",
    "else ",
    "x if y else ",
    "class A: ",
    "def f(",
    "match x:",
    "case (",
    "try:",
    "with (",
    "a = ",
    "a := ",
    "(a := ",
    "a, ",
    "a; ",
    ";",
    ":",
    "{a: ",
    "[a for a in ",
    "yield ",
    "@a\n",
    "@",
    "->",
    "é",
    "\u{202e}",
    "\u{feff}",
    "\r",
    "\t",
    "\n ",
    "#",
    "# coding: x\n",
    "1",
    "1_",
    "0x",
    "1e",
    "b'\\x",
    "u'",
    "rb'''",
    "global ",
    "import ",
    "import a.",
    "from . ",
    "from a import (",
    "print ",
    "x = x.a\n",
    "x = [x]\n",
    "del ",
    "assert ",
    "raise ",
    "return ",
    "lazy import ",
    "type X = ",
];

/// Checks a text on a thread with a worker's stack. Overflowing it would end the whole test run.
/// The strictest preset has the most to do.
fn survives(code: String) {
    let checking = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let report = Policy::preset(Preset::Strict).check(&code);
        drop(report.render(&code, "a.py"));
    });
    checking.expect("a thread").join().expect("no panic");
}

/// How much of a text is enough where it is not about depth.
const MUCH_BYTES: usize = CODE_BYTES_MAX / 8;
/// The first of the pieces are those that nest, and they fill the longest text.
const NESTING_PIECES: usize = 24;

fn filled(piece: &str) -> String {
    piece.repeat(MUCH_BYTES / piece.len())
}

/// Opened and closed again, as deep as fits.
fn nested(open: &str, middle: &str, close: &str, depth: usize) -> String {
    format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
}

#[test]
fn a_megabyte_of_anything_is_survived() {
    for (place, piece) in PIECES.iter().enumerate() {
        let bytes = if place < NESTING_PIECES { CODE_BYTES_MAX } else { MUCH_BYTES };
        survives(piece.repeat(bytes / piece.len()));
    }
}

#[test]
fn whole_texts_of_every_depth_are_survived() {
    for depth in [50, 150, 199, 990, 1_450, 2_900, 6_000, 40_000, 200_000] {
        for (open, middle, close) in [
            ("(", "1", ")"),
            ("[", "1", "]"),
            ("{1:", "1", "}"),
            ("f(", "1", ")"),
            ("a[", "1", "]"),
            ("-", "1", ""),
            ("not ", "1", ""),
            ("lambda: ", "1", ""),
            ("lambda a=", "1", ": 1"),
            ("a.", "b", ""),
            ("1+", "1", ""),
            ("1**", "1", ""),
            ("x if y else ", "z", ""),
            ("f'{", "1", "}'"),
            ("getattr(", "os", ", 'a')"),
            ("(a := ", "1", ")"),
            ("[x for x in ", "y", "]"),
            ("a.b(lambda: ", "1", ")"),
            ("await ", "x", ""),
            ("*", "x", ""),
            ("`", "x", "`"),
        ] {
            let code = nested(open, middle, close, depth);
            if code.len() <= CODE_BYTES_MAX {
                survives(code);
            }
        }
    }
}

#[test]
fn blocks_of_every_depth_are_survived() {
    for depth in [50, 99, 101, 500, 1_400] {
        for head in [
            "if x:",
            "while True:",
            "def f():",
            "class A:",
            "try:",
            "with a:",
            "match x:",
            "for x in y:",
        ] {
            let heads = (0..depth).map(|level| format!("{}{head}\n", " ".repeat(level)));
            let mut code = heads.collect::<Vec<_>>().concat();
            code.truncate(CODE_BYTES_MAX);
            survives(code.clone());
            // With a bracket that is never closed the lexer sees no blocks, and the parser does.
            let unclosed = format!("(\n{}", code.replace(':', ",:"));
            survives(unclosed.chars().take(CODE_BYTES_MAX).collect());
        }
    }
}

#[test]
fn names_that_stand_for_everything_are_survived() {
    let lines = (0..20_000).map(|index| format!("x = x.a{index}\ny{index} = x\n"));
    survives("import os\nx = os\n".to_owned() + &lines.collect::<Vec<_>>().concat());
    let parts: Vec<String> =
        (0..2_000).map(|index| format!("x{index} = x{}.a\n", index + 1)).collect();
    survives(parts.concat());
    survives(filled("x = 'a' + x\n"));
    survives(filled("x = ''.join([x, x, x])\n"));
    survives(filled("x = x.replace('a', 'aaaaaaaa')\n"));
    survives(filled("(a if b else c) or d\n"));
    survives(format!("x = {}", "(a if b else ".repeat(800)) + &")".repeat(800));
}

#[test]
fn code_inside_code_inside_code_is_survived() {
    survives("%time ".repeat(1_000) + "eval('1')");
    survives("%%time\n".repeat(1_000) + "eval('1')");
    survives(format!("%time {}1", "(".repeat(100_000)));
    survives(format!("%%timeit {}1\npass", "-".repeat(100_000)));
}
