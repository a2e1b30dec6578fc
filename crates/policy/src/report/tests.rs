//! Reports: what they say and in what form.

use expect_test::expect;

use super::FINDINGS_MAX;
use crate::{Action, CODE_BYTES_MAX, Kind, Policy, Preset, Severity};

const CODE: &str = "import os\n\nx = 'é'; print(eval(\"1\"))\nwhile True:\n\tpass\n";

#[test]
fn a_report_is_printed_as_a_compiler_does() {
    let report = Policy::preset(Preset::Strict).check(CODE);
    expect![[r#"
        block[import]: the module os is not on the list of this policy
         --> a.py:1:8 (high severity)
          |
        1 | import os
          |        ^^
          = instead: Use math, json, datetime, re, collections, itertools, functools, statistics, decimal, fractions, string, textwrap or random

        block[dynamic-code]: eval runs code that this check cannot read
         --> a.py:3:16 (critical severity)
          |
        3 | x = 'é'; print(eval("1"))
          |                ^^^^
          = instead: Write the code itself; for a value from a text use int, float or json.loads

        block[endless-loop]: this loop has no way out
         --> a.py:4:1 (medium severity)
          |
        4 | while True:
          | ^^^^^^^^^^
          = instead: Give it a condition that ends, or a break

    "#]].assert_eq(&report.render(CODE, "a.py"));
}

#[test]
fn a_model_learns_what_to_change() {
    let report = Policy::preset(Preset::Strict).check(CODE);
    expect![[r"
        The code was not run. What has to change:
        - line 1, column 8, `os` (import): the module os is not on the list of this policy. Instead: Use math, json, datetime, re, collections, itertools, functools, statistics, decimal, fractions, string, textwrap or random.
        - line 3, column 16, `eval` (dynamic-code): eval runs code that this check cannot read. Instead: Write the code itself; for a value from a text use int, float or json.loads.
        - line 4, column 1, `while True` (endless-loop): this loop has no way out. Instead: Give it a condition that ends, or a break."]].assert_eq(&report.feedback());
    let headlines = report.headlines();
    assert_eq!(
        headlines,
        ["Blocked import: os", "Blocked call: eval()", "Blocked loop: it never ends"]
    );
}

#[test]
fn only_what_decides_is_fed_back() {
    let report = Policy::preset(Preset::Data).check("x = input()\nimport socket\n");
    assert_eq!(report.findings.len(), 2);
    assert_eq!(report.headlines(), ["Blocked import: socket"]);
    assert!(!report.feedback().contains("input"));
    let quiet = Policy::preset(Preset::Data).check("x = 1");
    assert_eq!((quiet.verdict, quiet.feedback()), (Action::Allow, "Nothing was found.".to_owned()));
}

#[test]
fn the_strongest_finding_is_kept_among_many() {
    let code = "input()\n".repeat(5_000) + "import socket\n";
    let report = Policy::preset(Preset::Data).check(&code);
    assert_eq!(report.findings.len(), FINDINGS_MAX);
    assert_eq!(report.left_out, 5_001 - FINDINGS_MAX);
    assert_eq!(report.verdict, Action::Block);
    assert_eq!(report.findings.last().map(|finding| finding.line), Some(5_001));
}

#[test]
fn two_policies_together_are_as_strong_as_the_stronger() {
    let code = "import socket\nx = input()\neval('1')\n";
    let data = Policy::preset(Preset::Data);
    let open = Policy::preset(Preset::Open);
    let both = open.check(code).join(data.check(code));
    assert_eq!(both.verdict, Action::Block);
    let found: Vec<_> = both.findings.iter().map(|f| (f.line, f.action)).collect();
    assert_eq!(found, [(1, Action::Block), (2, Action::Warn), (3, Action::Block)]);
    assert_eq!(data.check(code).join(open.check(code)), both);
}

#[test]
fn what_cannot_be_read_is_refused_by_every_policy() {
    let long = "x".repeat(CODE_BYTES_MAX + 1);
    let deep = "-".repeat(5_000) + "1";
    for preset in Preset::ALL {
        let policy = Policy::preset(preset);
        for (code, rule) in
            [(&*long, "text-size"), (&*deep, "text-depth"), ("# coding: utf-7", "text-encoding")]
        {
            let report = policy.check(code);
            assert_eq!(report.verdict, Action::Block, "{rule}");
            assert_eq!(report.findings[0].rule, rule);
        }
    }
}

#[test]
fn long_and_strange_lines_are_cut_and_made_plain() {
    let code = format!("{}; eval(1) # \u{1b}[31m\u{202e}", "a = 1".replace('1', &"1".repeat(300)));
    let report = Policy::preset(Preset::Data).check(&code);
    let shown = report.render(&code, "a.py");
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() < 200), "{shown}");
}

#[test]
fn a_finding_is_serialised_by_the_names_of_policy_files() {
    let report = Policy::preset(Preset::Data).check("import socket");
    let finding = &report.findings[0];
    let value = toml::Value::try_from(finding).expect("a table");
    assert_eq!(value["kind"].as_str(), Some(finding.kind.name()));
    for action in Action::ALL {
        assert_eq!(toml::Value::try_from(action).expect("a text").as_str(), Some(action.name()));
    }
    for severity in Severity::ALL {
        let value = toml::Value::try_from(severity).expect("a text");
        assert_eq!(value.as_str(), Some(severity.name()));
    }
    for kind in Kind::ALL {
        assert_eq!(toml::Value::try_from(kind).expect("a text").as_str(), Some(kind.name()));
    }
}

#[test]
fn a_checked_code_knows_its_policy() {
    let own = Policy::parse(Preset::Data.source()).expect("a policy");
    let other = Policy::parse(Preset::Data.source()).expect("a policy");
    let checked = own.check_code("import socket");
    assert_eq!(&**checked.code(), "import socket");
    assert_eq!(checked.report_of(&own), Some(checked.report()));
    assert_eq!(checked.report_of(&other), None, "the text of a policy may be the same by chance");
    assert_eq!(checked.report_of(Policy::preset(Preset::Data)), None);
}
