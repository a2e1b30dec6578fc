//! The rule about names, on definitions that keep it and on some that break it.

use super::check;
use crate::tidy::SourceFile;

/// Checks names across files and compares `path:line: message` of everything found.
fn check_names(files: &[(&str, &str)], expected: &[&str]) {
    let files: Vec<SourceFile> = files
        .iter()
        .map(|(path, text)| SourceFile { path: (*path).to_owned(), text: (*text).to_owned() })
        .collect();
    let found: Vec<String> = check(&files).iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_public_type_name_has_one_meaning() {
    let one = ("crates/jail/src/group.rs", "//! x\npub struct Place {\n}\n");
    for text in [
        "//! x\n\npub struct Place(u32);\n",
        "//! x\n\npub enum Place { A }\n",
        "//! x\n\npub trait Place: Send {}\n",
        "//! x\n\npub unsafe trait Place {}\n",
        "//! x\n\npub type Place<T> = Option<T>;\n",
    ] {
        check_names(
            &[one, ("crates/sessions/src/admission.rs", text)],
            &[
                "crates/jail/src/group.rs:2: the public type `Place` is also defined at \
                 crates/sessions/src/admission.rs:3; give each meaning its own name",
                "crates/sessions/src/admission.rs:3: the public type `Place` is also defined at \
                 crates/jail/src/group.rs:2; give each meaning its own name",
            ],
        );
    }
}

#[test]
fn names_within_one_crate_count_too() {
    let text = "//! x\npub struct Place;\n";
    let three = [
        ("crates/jail/src/a.rs", text),
        ("crates/jail/src/b.rs", text),
        ("crates/cli/src/c.rs", text),
    ];
    check_names(
        &three,
        &[
            "crates/jail/src/a.rs:2: the public type `Place` is also defined at \
             crates/jail/src/b.rs:2, crates/cli/src/c.rs:2; give each meaning its own name",
            "crates/jail/src/b.rs:2: the public type `Place` is also defined at \
             crates/jail/src/a.rs:2, crates/cli/src/c.rs:2; give each meaning its own name",
            "crates/cli/src/c.rs:2: the public type `Place` is also defined at \
             crates/jail/src/a.rs:2, crates/jail/src/b.rs:2; give each meaning its own name",
        ],
    );
}

#[test]
fn only_public_types_of_crates_need_a_name_of_their_own() {
    let one = ("crates/jail/src/group.rs", "//! x\npub struct Place;\n");
    for (path, text) in [
        ("crates/store/src/a.rs", "//! x\nstruct Place;\n"),
        ("crates/store/src/a.rs", "//! x\npub(crate) struct Place;\n"),
        ("crates/store/src/a.rs", "//! x\npub(super) enum Place {}\n"),
        ("crates/store/src/a.rs", "//! x\npub struct Places;\n"),
        ("crates/store/src/a.rs", "//! x\n// pub struct Place;\n"),
        ("crates/store/src/a.rs", "//! x\npub use silica_jail::group::Place;\n"),
        ("crates/store/src/a/tests.rs", "//! x\npub struct Place;\n"),
        ("crates/store/tests/it/a.rs", "//! x\npub struct Place;\n"),
        ("tests/it/harness.rs", "//! x\npub struct Place;\n"),
        ("bench/src/a.rs", "//! x\npub struct Place;\n"),
    ] {
        check_names(&[one, (path, text)], &[]);
    }
    for name in ["State", "Inner", "Error", "Step"] {
        let text = format!("//! x\npub enum {name} {{}}\n");
        check_names(&[("crates/jail/src/a.rs", &text), ("crates/store/src/a.rs", &text)], &[]);
    }
}
