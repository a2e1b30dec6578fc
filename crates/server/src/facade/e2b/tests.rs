//! Paths and metadata as E2B's clients write them.

use super::{control, paths};

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
