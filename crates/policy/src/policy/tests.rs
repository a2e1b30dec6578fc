//! Policy files: what is read, what is refused, how one builds on another.

use expect_test::{Expect, expect};

use super::{POLICY_BYTES_MAX, Policy, PolicyError, Preset};
use crate::Action;

const RULE: &str = "[[rule]]\nid = 'a'\nkind = 'call'\nseverity = 'low'\naction = 'ask'\n";

#[track_caller]
fn refused(toml: &str, expected: &Expect) {
    let error = Policy::parse(toml).expect_err("this was to be refused");
    expected.assert_eq(&error.to_string());
}

#[test]
fn presets_are_read_and_named() {
    for preset in Preset::ALL {
        assert_eq!(Policy::preset(preset).name(), preset.name());
        assert_eq!(Preset::from_name(preset.name()), Some(preset));
    }
    assert_eq!(Preset::from_name("none"), None);
}

#[test]
fn a_file_says_what_is_asked() {
    let policy =
        Policy::parse(&format!("name = 'mine'\n{RULE}why = 'w'\nnames = ['f', 'a.b*', '.m']\n"))
            .expect("a good file");
    for (code, verdict) in [
        ("f()", Action::Ask),
        ("a.bcd", Action::Ask),
        ("x().m()", Action::Ask),
        ("x().m", Action::Allow),
        ("a.c", Action::Allow),
        ("g()", Action::Allow),
    ] {
        assert_eq!(policy.check(code).verdict, verdict, "{code}");
    }
}

#[test]
fn a_file_changes_single_rules_of_a_preset() {
    let policy = Policy::parse(
        "name = 'mine'\nextends = 'data'\n\
         [[rule]]\nid = 'import'\naction = 'warn'\nalso_except = ['helpers']\n\
         [[rule]]\nid = 'shell'\naction = 'allow'\n\
         [[rule]]\nid = 'path'\nalso = ['/secret']\n",
    )
    .expect("a good file");
    assert_eq!(policy.name(), "mine");
    for (code, verdict) in [
        ("import nobody_knows_this", Action::Warn),
        ("import helpers.deep", Action::Allow),
        ("!ls", Action::Allow),
        ("open('/secret/x')", Action::Block),
        ("open('/etc/x')", Action::Block),
        ("import socket", Action::Block),
    ] {
        assert_eq!(policy.check(code).verdict, verdict, "{code}");
    }
}

#[test]
fn the_most_exact_import_rule_decides() {
    let data = Policy::preset(Preset::Data);
    for (code, verdict) in [
        ("import urllib.parse", Action::Allow),
        ("from urllib import parse", Action::Allow),
        ("from urllib.parse import quote", Action::Allow),
        ("import urllib.request", Action::Block),
        ("from urllib import request", Action::Block),
        ("import importlib", Action::Block),
        ("import importlib.metadata", Action::Allow),
    ] {
        assert_eq!(data.check(code).verdict, verdict, "{code}");
    }
}

#[test]
fn bad_files_are_refused_with_a_reason() {
    refused(
        "name = 1",
        &expect![[r"
            invalid policy: TOML parse error at line 1, column 8
              |
            1 | name = 1
              |        ^
            invalid type: integer `1`, expected a string
        "]],
    );
    refused(
        "name = 'a b'",
        &expect!["invalid policy: `name` must be at most 64 letters, digits, `-` and `_`"],
    );
    refused(
        "name = 'a'\nextends = 'b'",
        &expect!["`extends` must be `strict`, `data` or `open`, not `b`"],
    );
    refused(&format!("name = 'a'\n{RULE}why = 'w'"), &expect!["rule `a`: `names` is required"]);
    refused(&format!("name = 'a'\n{RULE}names = ['x']"), &expect!["rule `a`: `why` is required"]);
    refused(
        "name = 'a'\n[[rule]]\nid = 'x'",
        &expect!["rule `x`: `kind`, `action` and `severity` are required"],
    );
    refused(
        "name = 'a'\n[[rule]]\nid = 'x y'",
        &expect!["rule `x y`: an id must be at most 64 letters, digits, `-` and `_`"],
    );
    let twice =
        format!("name = 'a'\n{RULE}why = 'w'\nnames = ['x']\n{RULE}why = 'w'\nnames = ['x']");
    refused(&twice, &expect!["rule `a`: another rule has the same id"]);
    let resource = "name = 'a'\n[[rule]]\nid = 'x'\nkind = 'resource'\nseverity = 'low'\naction = 'warn'\nwhy = 'w'\n";
    refused(resource, &expect!["rule `x`: `max` is required"]);
    refused(
        &format!("{resource}max = 1\nnames = ['y']"),
        &expect!["rule `x`: `y` is none of size, number, steps, pause"],
    );
    let long = format!("name = 'a'\n{RULE}why = '{}'\nnames = ['x']", "w".repeat(2_000));
    refused(&long, &expect!["rule `a`: `why` and `instead` must be at most 1024 bytes each"]);
}

#[test]
fn words_that_are_none_are_named() {
    let error =
        Policy::parse("name = 'a'\n[[rule]]\nid = 'x'\naction = 'shout'").expect_err("refused");
    assert!(error.to_string().contains("`shout` is none of allow, warn, ask, block"), "{error}");
    let error = Policy::parse("name = 'a'\ncolour = 1").expect_err("refused");
    assert!(error.to_string().contains("unknown field `colour`"), "{error}");
}

#[test]
fn files_beyond_the_bounds_are_refused() {
    let long = format!("name = 'a'\n#{}", "x".repeat(POLICY_BYTES_MAX));
    assert!(matches!(Policy::parse(&long), Err(PolicyError::TooLong { .. })));
    let rules: Vec<String> = (0..300).map(|id| RULE.replace("'a'", &format!("'r{id}'"))).collect();
    let rules = rules.concat();
    assert!(matches!(
        Policy::parse(&format!("name = 'a'\n{rules}")),
        Err(PolicyError::Malformed { .. })
    ));
}
