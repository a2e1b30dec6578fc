//! From a text to a tree, whatever the text.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ruff_python_ast::Mod;
use ruff_python_parser::{Mode, ParseOptions, Parsed, parse_unchecked};

use crate::depth::Bound;

/// What a line begins with that IPython takes for itself wherever a statement can stand. Lines with
/// one `%` or `!` can stand in more places and are not among them.
const ESCAPES: [&str; 6] = ["?", ",", ";", "/", "!!", "%%"];

/// Returns the tree of a text, or nothing if the parser gives up on it.
///
/// What is Python is read as Python, as the kernel does; only what is not is read once more with
/// IPython's lines. The parser then panics where such a line follows a bracket that was never
/// closed, which a test with generated programs found, so those are left as they are. Should there
/// be more of the kind, the text is refused and the server goes on.
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
    // The parser keeps nothing from one text to the next, so none of it can be left half done.
    catch_unwind(AssertUnwindSafe(parsing)).ok()
}

fn has_escapes(code: &str) -> bool {
    let escapes = |line: &str| {
        let line = line.trim_start();
        ESCAPES.iter().any(|escape| line.starts_with(escape))
    };
    code.split(['\n', '\r']).any(escapes)
}
