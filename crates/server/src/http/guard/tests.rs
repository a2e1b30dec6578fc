//! Tests of the host that a request names.

use axum::body::Body;

use super::*;

#[test]
fn hosts_are_names_with_an_optional_port() {
    let cases = [
        ("localhost", Some("localhost")),
        ("localhost:8585", Some("localhost")),
        ("127.0.0.1:1", Some("127.0.0.1")),
        ("[::1]", Some("::1")),
        ("[::1]:8585", Some("::1")),
        ("localhost:evil.test", None),
        ("localhost:", None),
        ("localhost:1:2", None),
        ("[::1].evil.test", None),
        ("[::1]evil", None),
        ("[evil.test]", None),
        ("localhost@evil.test", None),
        ("localhost/evil", None),
    ];
    for (host, expected) in cases {
        assert_eq!(without_port(host), expected, "{host}");
    }
}

fn request(uri: &str, hosts: &[&str]) -> Request {
    let mut request = Request::builder().uri(uri);
    for host in hosts {
        request = request.header(header::HOST, *host);
    }
    request.body(Body::empty()).expect("a valid request")
}

#[test]
fn a_request_is_for_one_host() {
    let host = |uri, hosts: &[&str]| {
        host_of(&request(uri, hosts)).ok().map(|host| host.map(str::to_owned))
    };
    assert_eq!(host("/", &["localhost:1"]), Some(Some("localhost".to_owned())));
    assert_eq!(host("/", &[]), Some(None));
    assert_eq!(host("/", &["localhost", "evil.test"]), None);
    assert_eq!(host("/", &["localhost", "localhost"]), None);
    assert_eq!(host("http://localhost:1/", &["localhost:1"]), Some(Some("localhost".to_owned())));
    assert_eq!(host("http://evil.test/", &["localhost"]), None);
    assert_eq!(host("http://evil.test/", &[]), Some(Some("evil.test".to_owned())));
}
