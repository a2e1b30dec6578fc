//! Addresses, paths and tokens as E2B's clients write them.

use axum::http::Uri;

use super::{control, paths, without_double_slashes};

#[test]
fn double_slashes_are_one() {
    let check = |from: &str, to: Option<&str>| {
        let uri: Uri = from.parse().unwrap();
        let found = without_double_slashes(&uri).map(|uri| uri.to_string());
        assert_eq!(found.as_deref(), to, "{from}");
    };
    check("/files?path=//a", None);
    check("//execute", Some("/execute"));
    check("///v2//sandboxes?limit=1", Some("/v2/sandboxes?limit=1"));
}

#[test]
fn paths_start_at_home() {
    let check = |from: &str, to: &str| assert_eq!(paths::absolute(from), to, "{from:?}");
    check("", "/home/user");
    check("~", "/home/user");
    check("a/b", "/home/user/a/b");
    check("~/a", "/home/user/a");
    check("./a/../b/", "/home/user/b");
    check("/tmp//x/.", "/tmp/x");
    check("../../../etc/passwd", "/etc/passwd");
    assert!(paths::guest("/etc/passwd").is_err());
}

#[test]
fn metadata_is_encoded_twice() {
    let check = |query: &str, expected: &[(&str, &str)]| {
        let found = control::metadata(query).ok().unwrap();
        let found: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(found, expected, "{query}");
    };
    check("user=1&team=x", &[("team", "x"), ("user", "1")]);
    check("a%2520b=c%2526d", &[("a b", "c&d")]);
    check("a=b%252Bc", &[("a", "b+c")]);
    check("", &[]);
}
