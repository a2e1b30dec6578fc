//! Whether a stream is coloured: only a terminal is, and only if its user has not said otherwise.

use std::io::IsTerminal;

/// Red, for the last line of a traceback.
pub(crate) const RED: &str = "\x1b[31m";
/// The end of a colour.
pub(crate) const PLAIN: &str = "\x1b[0m";

/// Returns whether a stream may be coloured: it is a terminal that understands colours, and
/// `NO_COLOR` (no-color.org) is not set.
pub(crate) fn is_wanted(stream: &impl IsTerminal) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    stream.is_terminal() && !is_set("NO_COLOR") && !is_dumb
}
