//! Hosts and headers.

use hyper::{HeaderMap, Request};

use super::{Upgrade, check_host, clean_request};

fn status(uri: &str, hosts: &[&str], port: u16, secure: bool) -> u16 {
    let mut request = Request::get(uri);
    for host in hosts {
        request = request.header("host", *host);
    }
    let request = request.body(()).unwrap();
    let checked = check_host(&request, &"a.example".parse().unwrap(), port, secure);
    checked.map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
}

#[test]
fn host_is_the_one_connected_to_in_every_part() {
    for (uri, hosts, port, secure, expected) in [
        ("/", &["a.example"][..], 443, true, 200),
        ("/", &["A.EXAMPLE:443"], 443, true, 200),
        ("/", &["a.example"], 8443, true, 421),
        ("/", &["a.example:8443"], 8443, true, 200),
        ("/", &["a.example:80"], 443, true, 421),
        ("/", &["a.example."], 443, true, 421),
        ("/", &["b.example"], 443, true, 421),
        ("/", &[], 443, true, 400),
        ("/", &["a.example", "a.example"], 443, true, 400),
        ("https://a.example/", &[], 443, true, 200),
        ("https://b.example/", &[], 443, true, 421),
        ("https://a.example/", &["b.example"], 443, true, 400),
        ("http://a.example/", &["a.example"], 443, true, 421),
        ("http://a.example/", &["a.example"], 80, false, 200),
    ] {
        assert_eq!(status(uri, hosts, port, secure), expected, "{uri} {hosts:?} {port}");
    }
}

#[test]
fn headers_between_neighbours_are_removed() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("connection", "x-one, content-length"),
        ("x-one", "1"),
        ("x-two", "2"),
        ("content-length", "3"),
        ("proxy-authorization", "secret"),
        ("te", "trailers"),
        ("expect", "100-continue"),
        ("upgrade", "h2c"),
        ("http2-settings", "AAMAAABk"),
    ] {
        headers.append(name, value.parse().unwrap());
    }
    clean_request(&mut headers, Upgrade::None);
    let names: Vec<&str> = headers.keys().map(hyper::header::HeaderName::as_str).collect();
    assert_eq!(names, ["x-two", "content-length", "te"]);
}
