//! Each rule on a few lines that keep it and a few that break it.

use super::source::{code_only, has_word};
use super::{SourceFile, Target, check_one, evidence, manifests, markdown, rust};

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

/// Checks one file and compares `line: message` of everything found.
fn check(path: &str, text: &str, expected: &[&str]) {
    let problems = check_one(&file(path, text));
    let found: Vec<String> =
        problems.iter().map(|problem| format!("{}: {}", problem.line, problem.message)).collect();
    assert_eq!(found, expected, "{path}");
}

/// Checks manifests and compares `path:line: message` of everything found.
fn check_manifests(files: &[(&str, &str)], expected: &[&str]) {
    let files: Vec<SourceFile> = files.iter().map(|(path, text)| file(path, text)).collect();
    let found: Vec<String> = manifests::check(&files).iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

/// Checks links against a tree of one Markdown file, one folder and one script.
fn check_links(text: &str, expected: &[&str]) {
    let resolve = |path: &str| match path {
        "docs/limits.md" => Target::Markdown("# Limits\n## How it's done: v1, v2\n".to_owned()),
        "docs" | "setup" => Target::There,
        _ => Target::Missing,
    };
    let problems = markdown::links(&file("docs/cli.md", text), &resolve);
    let found: Vec<String> =
        problems.iter().map(|problem| format!("{}: {}", problem.line, problem.message)).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_good_rust_file_has_no_problems() {
    check("crates/jail/src/shell.rs", "//! A shell.\n\nfn main() {}\n", &[]);
}

#[test]
fn a_rust_file_opens_with_what_it_is() {
    let wanted = "1: a Rust file opens with `//!`: what it is and what it owns";
    check("crates/jail/src/shell.rs", "use std::io;\n", &[wanted]);
    check("crates/jail/src/shell.rs", "\n//! Late.\n", &[wanted]);
}

#[test]
fn modules_have_names() {
    check(
        "crates/jail/src/zone/mod.rs",
        "//! x\n",
        &["1: a module is `name.rs` with its children in `name/`, not `mod.rs`"],
    );
    for path in ["crates/cli/src/utils.rs", "crates/cli/src/common/x.rs", "guest/misc.py"] {
        let text = if path.ends_with("py") { "\"\"\"x\"\"\"\n" } else { "//! x\n" };
        let problems = check_one(&file(path, text));
        assert_eq!(problems.len(), 1, "{path}: {problems:?}");
        assert!(problems[0].message.contains("says nothing about what is inside"));
    }
    check("crates/cli/src/units.rs", "//! x\n", &[]);
}

#[test]
fn files_have_a_longest_length() {
    let of = |lines: usize| file("crates/cli/src/a.rs", &"//! x\n".repeat(lines));
    assert_eq!(rust::check(&of(800)), []);
    assert_eq!(rust::check(&of(801))[0].message, "801 lines; the most is 800: divide it");
    assert!(rust::long(&of(399)).is_none());
    assert!(rust::long(&of(400)).is_some());
    assert!(rust::long(&of(801)).is_none(), "that is an error by then");
}

#[test]
fn unsafe_stays_in_its_places() {
    let text = "//! x\nfn f() {\n    unsafe { g() }\n}\n";
    let found = "3: `unsafe` belongs in crates/gate and crates/jail/src/sys.rs only";
    check("crates/engine/src/wire.rs", text, &[found]);
    check("crates/jail/src/shell.rs", text, &[found]);
    check("crates/jail/src/sys.rs", text, &[]);
    check("crates/gate/src/enter.rs", text, &[]);
    check(
        "crates/engine/src/lib.rs",
        "//! x\n#![expect(unsafe_code, reason = \"no\")]\n",
        &["2: `unsafe` belongs in crates/gate and crates/jail/src/sys.rs only"],
    );
    check("crates/engine/src/wire.rs", "//! x\n// unsafe in words, \"unsafe\"\n", &[]);
    check("crates/engine/src/wire.rs", "//! x\nconst A: &str = \"unsafe {\";\n", &[]);
}

#[test]
fn unfinished_work_is_found() {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
    for mark in marks {
        let text = format!("//! x\n// {mark}: later\n");
        let found = format!("2: `{mark}`: finish it or describe it where plans are kept");
        check("crates/cli/src/a.rs", &text, &[&found]);
        check("docs/cli.md", &format!("{mark}S and {mark}_like names are fine\n"), &[]);
    }
    for call in ["todo!", "unimplemented!", "dbg!"] {
        let text = format!("//! x\nfn f() {{ {call}() }}\n");
        let found = format!("2: `{call}(…)` is for work under way, not for the tree");
        check("crates/cli/src/a.rs", &text, &[&found]);
        check("crates/cli/src/a.rs", &format!("//! x\n// {call}()\n"), &[]);
    }
}

#[test]
fn the_environment_is_read_by_the_command_line_alone() {
    let text = "//! x\nfn f() { std::env::var_os(\"HOME\"); }\n";
    let found = "2: `env::var_os` here: only the command line reads arguments and the environment; \
                 pass the value down";
    check("crates/engine/src/engine.rs", text, &[found]);
    check("crates/cli/src/home.rs", text, &[]);
    check("crates/engine/src/files/tests.rs", text, &[]);
    check("crates/engine/build.rs", text, &[]);
    check(
        "crates/jail/src/zone/layout.rs",
        "//! x\nfn f() { std::env::set_current_dir(\"/\"); }\n",
        &[],
    );
}

#[test]
fn programs_are_started_in_known_places() {
    let text = "//! x\nfn f() { Command::new(\"ls\"); }\n";
    let found = "2: `Command::new` here: programs are started in a few known places only; \
                 see ARCHITECTURE.md";
    check("crates/engine/src/sandbox.rs", text, &[found]);
    check("crates/templates/src/wheels.rs", text, &[]);
    check("crates/jail/src/client.rs", text, &[]);
    check("tests/it/harness/program.rs", text, &[]);
}

#[test]
fn comments_and_messages_name_their_subject() {
    for word in [concat!("who", "ever"), concat!("some", "body")] {
        let found = format!("`{word}`: name the person, process or caller that is meant");
        let first = format!("1: {found}");
        let second = format!("2: {found}");
        let upper = word.to_uppercase();
        for text in [
            format!("//! x\n// Wakes {word} waits.\n"),
            format!("//! x\nconst A: &str = \"{upper}, not told\";\n"),
            format!("//! x\n/* {word}'s */\n"),
        ] {
            check("crates/cli/src/a.rs", &text, &[&second]);
            check("tests/it/cli/a.rs", &text, &[]);
        }
        let docstring = format!("\"\"\"For {word}.\"\"\"\n");
        check("guest/silica_guest/wire.py", &docstring, &[&first]);
        check("sdk/python/src/silica/client.py", &docstring, &[&first]);
        check("docs/cli.md", &format!("For {word}.\n"), &[]);
        check("crates/cli/src/a.rs", &format!("//! x\nfn {word}_waits() {{}}\n"), &[]);
    }
}

#[test]
fn the_jail_is_reached_through_its_tier() {
    let text = "//! x\nuse silica_jail::client::Zone;\nfn f() { silica_jail::start(); }\n";
    let found = "`silica_jail` here: the jail is one tier of several; go through the trait of \
                 crates/engine/src/tier.rs";
    let both = [format!("2: {found}"), format!("3: {found}")];
    let both = both.each_ref().map(String::as_str);
    for path in [
        "crates/engine/src/sandbox.rs",
        "crates/engine/src/tier.rs",
        "crates/engine/src/tier/wasm.rs",
        "crates/sessions/src/sessions.rs",
        "crates/cli/src/main.rs",
    ] {
        check(path, text, &both);
    }
    for path in [
        "crates/engine/src/tier/jail.rs",
        "crates/engine/src/tier/jail/zone.rs",
        "crates/jail/src/fuzzing.rs",
        "crates/engine/src/command/tests.rs",
        "tests/it/jail/entering.rs",
        "bench/src/measures/stages.rs",
    ] {
        check(path, text, &[]);
    }
    check("crates/engine/src/sandbox.rs", "//! x\n// As silica_jail does.\n", &[]);
    check("crates/engine/src/sandbox.rs", "//! x\nuse silica_jailer::Zone;\n", &[]);
}

#[test]
fn white_space_is_plain() {
    check("docs/cli.md", "a\tb\n", &["1: a tab; indent with spaces"]);
    check("docs/cli.md", "a \nb\n", &["1: white space at the end of the line"]);
    check("docs/cli.md", "a\r\n", &["1: white space at the end of the line"]);
    check("docs/cli.md", "a\nb", &["2: the last line does not end"]);
    check("docs/cli.md", "", &[]);
}

#[test]
fn python_files_open_with_what_they_are() {
    let wanted = "1: a Python file opens with a docstring: what it is and what it owns";
    check("guest/silica_guest/wire.py", "import os\n", &[wanted]);
    check("guest/silica_guest/wire.py", "# A comment.\n", &[wanted]);
    check("guest/silica_guest/wire.py", "\"\"\"Frames.\"\"\"\n", &[]);
    check("crates/templates/src/host/probe.py", "# Prints facts.\n", &[]);
    check("examples/first.py", "import os\n", &[wanted]);
}

#[test]
fn links_lead_somewhere() {
    check_links("[a](limits.md) [b](../setup) [c](../docs/) [d](https://x.example/y)\n", &[]);
    check_links("[a](limits.md#how-its-done-v1-v2) [b](#here)\n# Here\n", &[]);
    check_links("see [a](gone.md)\n", &["1: the link to `gone.md` leads nowhere"]);
    check_links("[a](../../out.md)\n", &["1: the link to `../../out.md` leads nowhere"]);
    check_links(
        "x\n[a](limits.md#nope)\n",
        &["2: the link to `limits.md#nope` names a heading that is not there"],
    );
    check_links("`[a](gone.md)`\n```\n[b](gone.md)\n# Not a heading\n```\n", &[]);
}

#[test]
fn crates_use_only_what_stands_below_them() {
    check_manifests(
        &[(
            "crates/jail/Cargo.toml",
            "[dependencies]\nsilica-gate.workspace = true\nrustix.workspace = true\n",
        )],
        &[],
    );
    check_manifests(
        &[("crates/jail/Cargo.toml", "[dependencies]\nsilica-engine.workspace = true\n")],
        &[
            "crates/jail/Cargo.toml:2: this crate may not use `silica-engine`; see the table in ARCHITECTURE.md",
        ],
    );
    check_manifests(
        &[(
            "crates/domain/Cargo.toml",
            "[dependencies]\nthiserror.workspace = true\nserde.workspace = true\n",
        )],
        &[
            "crates/domain/Cargo.toml:3: this crate may not use `serde`; see the table in ARCHITECTURE.md",
        ],
    );
    check_manifests(
        &[("crates/gate/Cargo.toml", "[dependencies]\nlibc.workspace = true\n")],
        &[
            "crates/gate/Cargo.toml:2: this crate may not use `libc`; see the table in ARCHITECTURE.md",
        ],
    );
    check_manifests(
        &[("crates/engine/Cargo.toml", "[dependencies]\nanyhow.workspace = true\n")],
        &[
            "crates/engine/Cargo.toml:2: this crate may not use `anyhow`; see the table in ARCHITECTURE.md",
        ],
    );
    check_manifests(
        &[("crates/engine/Cargo.toml", "[dev-dependencies]\nanyhow.workspace = true\n")],
        &[],
    );
}

#[test]
fn versions_stand_in_the_workspace() {
    check_manifests(
        &[(
            "bench/Cargo.toml",
            "[package]\nversion = \"1.0.0\"\nedition.workspace = true\n[dependencies]\nclap = \"4\"\n",
        )],
        &[
            "bench/Cargo.toml:2: `version` is the same for all crates; write `version.workspace = true`",
            "bench/Cargo.toml:5: the version of `clap` belongs in the workspace; write `clap.workspace = true`",
        ],
    );
    check_manifests(
        &[
            ("Cargo.toml", "[workspace.dependencies]\nclap = \"4\"\nserde = { version = \"*\" }\n"),
            (
                "bench/Cargo.toml",
                "[dependencies]\nserde = { workspace = true, features = [\"rc\"] }\n",
            ),
        ],
        &[
            "Cargo.toml:3: `serde` needs a released version",
            "Cargo.toml:2: no crate uses `clap`; remove it",
        ],
    );
}

#[test]
fn design_pages_name_tests_that_exist() {
    let page = "# A page\n`no_such_test_here`\n## Kept by\n`jail::init_pool::group_is_used_again`, `test_it_all`\n\
                and `jail::seccomp`.\n`jail::init_pool::group_was_used_once`\n";
    let files = [
        file("docs/design/group.md", page),
        file("docs/limits.md", "## Kept by\n`no_such_test_here`\n"),
        file("tests/it/jail/init_pool.rs", "//! x\nasync fn group_is_used_again() {}\n"),
        file("guest/tests/test_all.py", "def test_it_all():\n    pass\n"),
    ];
    let found: Vec<String> = evidence::check(&files).iter().map(ToString::to_string).collect();
    assert_eq!(found, ["docs/design/group.md:6: no test is called `group_was_used_once`"]);
}

#[test]
fn code_is_reported_from_words() {
    let cases = [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c */ d */ e", "a                   e"),
        ("x(\"a\\\"b\") y", "x(      ) y"),
        ("r\"a\" b", "     b"),
        ("r#\"a\" b\"# c", "          c"),
        ("'\"' a \"b\"", "    a    "),
        ("'\\'' a", "     a"),
        ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
        ("for b in bar\"x\"", "for b in bar   "),
    ];
    for (text, expected) in cases {
        let code = code_only(text);
        assert_eq!(code.chars().count(), text.chars().count(), "{text}");
        assert_eq!(code.trim_end(), expected.trim_end(), "{text}");
    }
    assert!(has_word("an unsafe word", "unsafe"));
    assert!(!has_word("an unsafe_word", "unsafe"));
    assert!(!has_word("notunsafe", "unsafe"));
}
