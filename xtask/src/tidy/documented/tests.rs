//! Which items need documentation, and where it may be.

use super::*;

const NONE: [usize; 0] = [];

fn lines(text: &str) -> Vec<usize> {
    let file = SourceFile { path: "crates/a/src/lib.rs".to_owned(), text: text.to_owned() };
    check(&file).into_iter().map(|problem| problem.line).collect()
}

#[test]
fn items_need_documentation() {
    assert_eq!(lines("//! A.\n\npub struct A;\n"), [3]);
    assert_eq!(lines("//! A.\n\npub async fn a() {}\npub const A: u32 = 1;\n"), [3, 4]);
    assert_eq!(lines("//! A.\nimpl A {\n    pub fn new() {}\n}\n"), [3]);
}

#[test]
fn documentation_may_be_above_attributes() {
    assert_eq!(lines("/// A.\n#[derive(Debug)]\npub struct A;\n"), NONE);
    assert_eq!(lines("/// A.\n#[derive(\n    Debug,\n)]\npub struct A;\n"), NONE);
    assert_eq!(lines("/// A.\n#[error(\"a\")]\n#[must_use]\npub enum A {}\n"), NONE);
}

#[test]
fn fields_modules_and_narrower_items_need_none() {
    assert_eq!(lines("pub(crate) fn a() {}\npub mod b;\npub use c::D;\n"), NONE);
    assert_eq!(lines("/// A.\npub struct A {\n    pub field: u32,\n}\n"), NONE);
}
