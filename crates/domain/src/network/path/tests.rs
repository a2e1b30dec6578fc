//! Paths and patterns.

use super::{PathPattern, decoded_path};

#[test]
fn paths_with_two_readings_are_refused() {
    for path in [
        "",
        "v1",
        "/v1/../x",
        "/v1/./x",
        "/..",
        "/.",
        "/v1/%2e%2e/x",
        "/v1/%2E./x",
        "//v1",
        "/v1//x",
        "/v1;x",
        "/v1/..;/x",
        "/v1%3bx",
        "/v1%2fx",
        "/v1%2Fx",
        "/v1%5cx",
        "/v1\\x",
        "/v1%00",
        "/v1%0a",
        "/v1%252e",
        "/v1/%c0%ae%c0%ae/x",
        "/v1/%c0%afx",
        "/v1%25",
        "/v1%",
        "/v1%2",
        "/v1%zz",
        "/v1?x",
        "/v1#x",
        "/v1 x",
        "/v1\tx",
        "/é",
        "/%ff",
    ] {
        assert!(decoded_path(path).is_err(), "{path:?}");
    }
}

#[test]
fn paths_are_compared_decoded() {
    for (path, decoded) in [
        ("/", "/"),
        ("/v1/", "/v1/"),
        ("/v1/a.b", "/v1/a.b"),
        ("/v1/...", "/v1/..."),
        ("/%76%31/x", "/v1/x"),
        ("/a%20b", "/a b"),
        ("/%C3%A9", "/é"),
    ] {
        assert_eq!(decoded_path(path).unwrap(), decoded, "{path}");
    }
}

#[test]
fn star_stands_for_any_bytes() {
    let matches = |pattern: &str, path: &str| pattern.parse::<PathPattern>().unwrap().matches(path);
    assert!(matches("/v1/*", "/v1/a/b"));
    assert!(matches("/v1/*", "/v1/"));
    assert!(!matches("/v1/*", "/v1"));
    assert!(!matches("/v1/*", "/v10/a"));
    assert!(matches("/repos/*/issues", "/repos/a/b/issues"));
    assert!(!matches("/repos/*/issues", "/repos/a/issues/1"));
    assert!(matches("/*a*b*", "/xxaxxbxx"));
    assert!(!matches("/*a*b", "/xxaxx"));
    assert!(matches("/x", "/x") && !matches("/x", "/xy"));
    assert!(matches("/a*a", "/aa") && !matches("/a*a", "/a"));
    assert!(matches("/**", "/x") && matches("/*/*", "/a/") && !matches("/*/*", "/a"));
    let hostile = "/".to_owned() + &"a".repeat(8000);
    assert!(!matches("/*a*a*a*a*a*a*a*b", &hostile));
}

#[test]
fn patterns_that_cannot_match_are_refused() {
    for pattern in
        ["", "v1", "/v1/%2f", "/v1?x=1", "/a/../b", "/a;b", "/a\\b", "/a\n", "/*********"]
    {
        assert!(pattern.parse::<PathPattern>().is_err(), "{pattern:?}");
    }
    assert!(decoded_path(&("/".to_owned() + &"a".repeat(8192))).is_err());
    assert!(("/".to_owned() + &"a".repeat(256)).parse::<PathPattern>().is_err());
}
