//! Each rule on a few crates that keep it and a few that break it.

use super::config::Config;
use super::graph::Graph;
use super::licences::is_met;
use super::{Findings, check};

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// The smallest file that allows anything.
const CONFIG: &str = r#"
[graph]
targets = ["x86_64-unknown-linux-gnu"]
[licenses]
allow = ["MIT", "Apache-2.0"]
exceptions = [{ crate = "fuzzer", allow = ["NCSA"] }]
[bans]
multiple-versions = "deny"
multiple-versions-include-dev = true
deny = [{ crate = "openssl-sys", reason = "rustls alone" }]
skip = [{ crate = "syn@2.0.1", reason = "old macros" }]
[sources]
unknown-registry = "deny"
unknown-git = "deny"
allow-registry = ["https://github.com/rust-lang/crates.io-index"]
allow-git = ["https://example.com/allowed"]
"#;

/// A crate as `cargo metadata` prints it.
fn package(name: &str, version: &str, licence: Option<&str>, source: Option<&str>) -> String {
    let id = format!("{name}@{version}");
    serde_json::json!({
        "id": id, "name": name, "version": version, "license": licence, "source": source,
        "dependencies": [], "edition": "2024",
    })
    .to_string()
}

fn graph(packages: &[String]) -> Graph {
    let nodes: Vec<serde_json::Value> = packages
        .iter()
        .map(|package| serde_json::from_str::<serde_json::Value>(package).unwrap())
        .map(|package| serde_json::json!({ "id": package["id"], "deps": [] }))
        .collect();
    let nodes = serde_json::to_string(&nodes).unwrap();
    let text = format!(r#"{{"packages":[{}],"resolve":{{"nodes":{nodes}}}}}"#, packages.join(","));
    Graph::parse(&text).unwrap()
}

/// Checks crates and compares the errors.
fn check_errors(packages: &[String], expected: &[&str]) {
    let found = check(&Config::parse(CONFIG).unwrap(), &graph(packages));
    assert_eq!(found.errors, expected);
    assert_eq!(found.warnings, [""; 0]);
}

#[test]
fn licences_must_be_allowed() {
    let of = |licence: Option<&str>| [package("dep", "1.0.0", licence, Some(CRATES_IO))];
    check_errors(&of(Some("MIT")), &[]);
    check_errors(&of(Some("MIT OR GPL-3.0-only")), &[]);
    check_errors(&of(None), &["dep 1.0.0 names no licence"]);
    check_errors(
        &of(Some("GPL-3.0-only")),
        &["dep 1.0.0 has the licence GPL-3.0-only, which is not allowed"],
    );
    check_errors(&of(Some("MIT OR")), &["dep 1.0.0 has a licence that cannot be read: MIT OR"]);
}

#[test]
fn an_exception_is_for_one_crate() {
    let licence = Some("(MIT OR Apache-2.0) AND NCSA");
    check_errors(&[package("fuzzer", "0.4.0", licence, Some(CRATES_IO))], &[]);
    check_errors(
        &[package("other", "0.4.0", licence, Some(CRATES_IO))],
        &["other 0.4.0 has the licence (MIT OR Apache-2.0) AND NCSA, which is not allowed"],
    );
}

#[test]
fn expressions_are_read_as_spdx_says() {
    let is_allowed = |term: &str| ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&term);
    let cases = [
        ("MIT", Some(true)),
        ("GPL-2.0", Some(false)),
        ("MIT/GPL-2.0", Some(true)),
        ("MIT OR GPL-2.0 AND GPL-3.0", Some(true)),
        ("(MIT OR GPL-2.0) AND GPL-3.0", Some(false)),
        ("(GPL-2.0 OR (MIT AND ISC))", Some(true)),
        ("Apache-2.0 WITH LLVM-exception", Some(true)),
        ("Apache-2.0", Some(false)),
        ("", None),
        ("MIT ISC", None),
        ("(MIT", None),
        ("MIT)", None),
        ("AND MIT", None),
        ("MIT WITH", None),
        ("((((((((((MIT))))))))))", None),
    ];
    for (expression, expected) in cases {
        assert_eq!(is_met(expression, &is_allowed), expected, "{expression}");
    }
}

#[test]
fn a_crate_is_there_once() {
    let of = |name: &str, version: &str| package(name, version, Some("MIT"), Some(CRATES_IO));
    check_errors(&[of("dep", "1.0.0"), of("other", "2.0.0")], &[]);
    check_errors(
        &[of("dep", "1.0.0"), of("other", "2.0.0"), of("dep", "2.0.0")],
        &["dep is there in several versions: 1.0.0, 2.0.0; unify them, or name all but one in \
           bans.skip with the reason"],
    );
}

#[test]
fn a_skipped_version_is_not_counted_and_another_is() {
    let of = |version: &str| package("syn", version, Some("MIT"), Some(CRATES_IO));
    check_errors(&[of("2.0.1"), of("3.0.0")], &[]);
    check_errors(
        &[of("2.0.1"), of("3.0.0"), of("1.0.0")],
        &[
            "syn is there in several versions: 2.0.1, 3.0.0, 1.0.0; unify them, or name all but one \
           in bans.skip with the reason",
        ],
    );
}

#[test]
fn levels_decide_what_fails() {
    let duplicates = [
        package("dep", "1.0.0", Some("MIT"), Some(CRATES_IO)),
        package("dep", "2.0.0", Some("MIT"), Some(CRATES_IO)),
    ];
    let at = |level: &str| {
        let text = CONFIG
            .replace("multiple-versions = \"deny\"", &format!("multiple-versions = \"{level}\""));
        let Findings { errors, warnings } =
            check(&Config::parse(&text).unwrap(), &graph(&duplicates));
        (errors.len(), warnings.len())
    };
    assert_eq!(at("deny"), (1, 0));
    assert_eq!(at("warn"), (0, 1));
    assert_eq!(at("allow"), (0, 0));
}

#[test]
fn banned_crates_are_refused_with_the_reason() {
    check_errors(
        &[package("openssl-sys", "0.9.0", Some("MIT"), Some(CRATES_IO))],
        &["openssl-sys is banned: rustls alone"],
    );
}

#[test]
fn crates_come_from_known_places() {
    let of = |source: Option<&str>| [package("dep", "1.0.0", Some("MIT"), source)];
    check_errors(&of(None), &[]);
    check_errors(&of(Some(CRATES_IO)), &[]);
    check_errors(&of(Some("git+https://example.com/allowed?rev=12#12ab")), &[]);
    check_errors(
        &of(Some("git+https://example.com/other#12ab")),
        &["dep 1.0.0 comes from https://example.com/other, which is not allowed"],
    );
    check_errors(
        &of(Some("sparse+https://example.com/index/")),
        &["dep 1.0.0 comes from https://example.com/index/, which is not allowed"],
    );
    check_errors(&of(Some("paper")), &["dep has a source of an unknown kind: paper"]);
}

#[test]
fn a_crate_that_is_not_built_is_not_checked() {
    let text = format!(
        r#"{{"packages":[{}],"resolve":{{"nodes":[]}}}}"#,
        package("windows-only", "1.0.0", None, None)
    );
    let found = check(&Config::parse(CONFIG).unwrap(), &Graph::parse(&text).unwrap());
    assert_eq!(found, Findings::default());
}

#[test]
fn keys_that_would_be_ignored_are_refused() {
    for (from, to, said) in [
        ("[bans]", "[bans]\nwildcards = \"deny\"", "unknown field `wildcards`"),
        ("reason = \"old macros\"", "depth = 3", "unknown field `depth`"),
        (", reason = \"old macros\"", "", "missing field `reason`"),
        ("syn@2.0.1", "syn:<3", "version requirements are not read"),
        ("multiple-versions-include-dev = true", "", "must be true"),
        ("[\"x86_64-unknown-linux-gnu\"]", "[]", "must name one platform"),
    ] {
        let text = CONFIG.replace(from, to);
        assert_ne!(text, CONFIG, "{from}");
        let error = format!("{:#}", Config::parse(&text).unwrap_err());
        assert!(error.contains(said), "{to}: {error}");
    }
}

#[test]
fn entries_that_match_nothing_are_mentioned() {
    let config = Config::parse(CONFIG).unwrap();
    let syn = graph(&[package("syn", "2.0.1", Some("MIT"), None)]);
    let fuzzer = graph(&[package("fuzzer", "0.4.0", Some("NCSA"), None)]);
    assert_eq!(config.unused(&[&syn, &fuzzer]), [""; 0]);
    assert_eq!(config.unused(&[&syn]), ["licenses.exceptions `fuzzer`"]);
    assert_eq!(config.unused(&[&fuzzer]), ["bans.skip `syn@2.0.1`"]);
}
