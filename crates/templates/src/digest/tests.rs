//! The digest stays the same for the same input and changes with every part of it.

use std::fs;

use expect_test::expect;

use super::{TemplateDigest, is_short};
use crate::TemplateSource;
use crate::python::Python;

fn digest(folder: &std::path::Path, toml: &str, python: &Python) -> TemplateDigest {
    fs::write(folder.join("template.toml"), toml).expect("write");
    let spec = TemplateSource::from_path(folder).spec().expect("good");
    TemplateDigest::of(&spec, python).expect("digest")
}

#[test]
fn depends_on_every_part_and_nothing_else() {
    let folder = tempfile::tempdir().expect("folder");
    let folder = folder.path();
    fs::write(folder.join("x"), "1").expect("write");
    let toml = "name = \"a\"\nfiles = [{ source = \"x\", target = \"/opt/x\" }]\n";
    let python = Python::example("/usr/bin/python3.11", "3.11.7");

    let first = digest(folder, toml, &python);
    // Known value: a change here means that every machine builds anew, so raise LAYOUT_VERSION
    // only on purpose.
    expect!["c234273cc484fee2e3e608b6a388d034005fe50cee0091052724be817427d360"]
        .assert_eq(first.as_str());
    assert_eq!(first, digest(folder, toml, &python));
    assert!(is_short(first.short()));

    let mut seen = vec![first];
    seen.push(digest(folder, &format!("{toml}\n"), &python));
    seen.push(digest(folder, toml, &Python::example("/usr/bin/python3", "3.11.7")));
    seen.push(digest(folder, toml, &Python::example("/usr/bin/python3.11", "3.11.8")));
    fs::write(folder.join("x"), "2").expect("write");
    seen.push(digest(folder, toml, &python));
    for (index, one) in seen.iter().enumerate() {
        assert!(!seen[index + 1..].contains(one), "digest {index} came twice");
    }
}
