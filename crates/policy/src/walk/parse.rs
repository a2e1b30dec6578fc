//! Parses any text into a syntax tree.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ruff_python_ast::Mod;
use ruff_python_parser::{Mode, ParseOptions, Parsed, parse_unchecked};

use crate::depth::Bound;

/// The beginnings of lines that IPython handles itself wherever a statement is allowed. Lines with
/// one `%` or `!` are allowed in more places and are not among them.
const ESCAPES: [&str; 6] = ["?", ",", ";", "/", "!!", "%%"];

/// Returns the tree of a text; `None` if the parser fails.
///
/// A text is parsed as Python first, as the kernel does; only one with syntax errors is parsed
/// again with IPython's lines. The parser then panics if such a line follows a bracket that was
/// never closed, so such texts keep their syntax errors. If the parser panics on another text,
/// `catch_unwind` turns that into `None`, and the text is refused.
pub(super) fn parse(code: &str, bound: Bound) -> Option<Parsed<Mod>> {
    let plain = parse_as(code, Mode::Module)?;
    if plain.has_no_syntax_errors() || (bound.unclosed && has_escapes(code)) {
        return Some(plain);
    }
    drop(plain);
    parse_as(code, Mode::Ipython)
}

fn parse_as(code: &str, mode: Mode) -> Option<Parsed<Mod>> {
    let parsing = || parse_unchecked(code, ParseOptions::from(mode));
    // The parser keeps no state from one text to the next, so a panic leaves nothing inconsistent.
    catch_unwind(AssertUnwindSafe(parsing)).ok()
}

fn has_escapes(code: &str) -> bool {
    let escapes = |line: &str| {
        let line = line.trim_start();
        ESCAPES.iter().any(|escape| line.starts_with(escape))
    };
    code.split(['\n', '\r']).any(escapes)
}
