//! Rules for Rust files.

use super::source::{code_only, has_word};
use super::{Problem, SourceFile, layers};

/// The longest file, in lines.
const LINES_MAX: usize = 800;
/// From here on a file is mentioned, so that it does not grow unseen.
const LINES_NOTED: usize = 400;

/// Where `unsafe` may stand.
const UNSAFE_ALLOWED: [&str; 2] = ["crates/gate/", "crates/jail/src/sys.rs"];

/// Macros that mark something unfinished.
const UNFINISHED: [&str; 3] = ["todo!(", "unimplemented!(", "dbg!("];

/// Calls that only some files may make: what, where, and why not elsewhere.
struct Reserved {
    calls: &'static [&'static str],
    allowed: &'static [&'static str],
    reason: &'static str,
}

const RESERVED: [Reserved; 2] = [
    Reserved {
        calls: &[
            "env::var",
            "env::vars",
            "env::var_os",
            "env::vars_os",
            "env::args",
            "env::args_os",
        ],
        allowed: &["crates/cli/", "bench/", "xtask/"],
        reason: "only the command line reads arguments and the environment; pass the value down",
    },
    Reserved {
        calls: &["Command::new"],
        allowed: &[
            "crates/egress/src/client/supervisor.rs",
            "crates/jail/src/client.rs",
            "crates/templates/src/",
            "crates/engine/src/guest.rs",
            "crates/cli/src/install/system.rs",
            "bench/",
            "xtask/",
        ],
        reason: "programs are started in a few known places only; see ARCHITECTURE.md",
    },
];

pub(super) fn check(file: &SourceFile) -> Vec<Problem> {
    let problem = |line: usize, message: &str| Problem::new(&file.path, line, message);
    let mut problems = Vec::new();
    if !file.text.starts_with("//!") {
        problems.push(problem(1, "a Rust file opens with `//!`: what it is and what it owns"));
    }
    if file.name() == "mod.rs" {
        problems
            .push(problem(1, "a module is `name.rs` with its children in `name/`, not `mod.rs`"));
    }
    let lines = file.text.lines().count();
    if lines > LINES_MAX {
        let message = format!("{lines} lines; the most is {LINES_MAX}: divide it");
        problems.push(problem(lines, &message));
    }
    for (index, line) in code_only(&file.text).lines().enumerate() {
        problems
            .extend(check_line(&file.path, line).into_iter().map(|text| problem(index + 1, &text)));
    }
    problems
}

/// Mentions a file that is long but not too long.
pub(super) fn long(file: &SourceFile) -> Option<Problem> {
    let lines = file.text.lines().count();
    let long = file.has_ending("rs") && (LINES_NOTED..=LINES_MAX).contains(&lines);
    long.then(|| Problem::new(&file.path, lines, format!("{lines} lines; consider dividing it")))
}

fn check_line(path: &str, line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let is_in = |places: &[&str]| places.iter().any(|place| path.starts_with(place));
    let lifts_lint = has_word(line, "unsafe_code");
    if (has_word(line, "unsafe") || lifts_lint) && !is_in(&UNSAFE_ALLOWED) {
        found.push("`unsafe` belongs in crates/gate and crates/jail/src/sys.rs only".to_owned());
    }
    for macro_call in UNFINISHED {
        if line.contains(macro_call) {
            found.push(format!("`{macro_call}…)` is for work under way, not for the tree"));
        }
    }
    found.extend(layers::check_line(path, line));
    if !is_test(path) {
        for reserved in &RESERVED {
            for call in reserved.calls {
                if has_word(line, call) && !is_in(reserved.allowed) {
                    found.push(format!("`{call}` here: {}", reserved.reason));
                }
            }
        }
    }
    found
}

/// Tests and build scripts run where these rules have no meaning.
pub(super) fn is_test(path: &str) -> bool {
    let is_below_tests = path.starts_with("tests/") || path.contains("/tests/");
    is_below_tests || path.ends_with("/tests.rs") || path.ends_with("/build.rs")
}
