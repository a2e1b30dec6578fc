//! What passes for an address, a host, an origin and a URL.

use super::{Listen, has_user, host, origin, url};

/// The texts that are taken, with what they become; `None` for those that are not.
fn check(read: impl Fn(&str) -> Option<String>, table: &[(&str, Option<&str>)]) {
    for (text, expected) in table {
        assert_eq!(read(text).as_deref(), *expected, "{text}");
    }
}

#[test]
fn addresses_to_listen_on() {
    let long = format!("{}.example:1", "a".repeat(64));
    check(
        |text| Listen::parse(text).map(|listen| listen.to_string()),
        &[
            ("127.0.0.1:8585", Some("127.0.0.1:8585")),
            ("0.0.0.0:0", Some("0.0.0.0:0")),
            ("[::]:8585", Some("[::]:8585")),
            ("[0:0::1]:80", Some("[::1]:80")),
            ("Localhost:1", Some("localhost:1")),
            ("my_host.example:65535", Some("my_host.example:65535")),
            ("127.0.0.1", None),
            ("8585", None),
            (":8585", None),
            ("::1:8585", None),
            ("[::1]", None),
            ("127.0.0.1:65536", None),
            ("127.0.0.1:+80", None),
            ("127.0.0.300:80", None),
            ("1.2.3:80", None),
            ("a b:80", None),
            ("a..b:80", None),
            ("http://a:80", None),
            (&long, None),
            ("", None),
        ],
    );
    let listen = Listen::parse("[::1]:80").unwrap();
    assert_eq!((listen.host(), listen.port()), ("::1", 80));
}

#[test]
fn hosts() {
    check(
        host,
        &[
            ("Silica.Example", Some("silica.example")),
            ("10.0.0.1", Some("10.0.0.1")),
            ("::1", Some("::1")),
            ("[::1]", Some("::1")),
            ("silica.example:80", None),
            ("[::1]:80", None),
            ("*", None),
            ("", None),
        ],
    );
}

#[test]
fn origins() {
    check(
        origin,
        &[
            ("https://Pages.Example", Some("https://pages.example")),
            ("http://localhost:3000", Some("http://localhost:3000")),
            ("http://[::1]:3000", Some("http://[::1]:3000")),
            ("http://localhost:3000/", None),
            ("https://a/b", None),
            ("https://u@a", None),
            ("file://a", None),
            ("a.example", None),
            ("*", None),
            ("null", None),
        ],
    );
}

#[test]
fn urls() {
    check(
        url,
        &[
            ("https://silica.example", Some("https://silica.example")),
            ("https://silica.example/", Some("https://silica.example")),
            ("http://10.0.0.1:8080/a/b%20c/", Some("http://10.0.0.1:8080/a/b%20c")),
            ("https://[::1]/x", Some("https://[::1]/x")),
            ("https://", None),
            ("https:///x", None),
            ("https://a?b", None),
            ("https://a/b?c", None),
            ("https://a/b#c", None),
            ("https://a/b c", None),
            ("https://u:p@a", None),
            ("silica.example", None),
        ],
    );
    for (text, expected) in
        [("https://u:p@a/x", true), ("u:p@a", true), ("https://a/@x", false), ("https://a", false)]
    {
        assert_eq!(has_user(text), expected, "{text}");
    }
}
