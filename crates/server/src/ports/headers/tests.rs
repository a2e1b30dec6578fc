//! Headers that pass and headers that do not, in both directions.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, request};
use expect_test::{Expect, expect};

use super::{Upgrade, inner, outer, upgrade};
use crate::ports::{Form, Shown};

fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers
}

fn request(pairs: &[(&'static str, &'static str)]) -> request::Parts {
    let mut parts = Request::new(()).into_parts().0;
    parts.headers = map(pairs);
    parts
}

fn shown(headers: &HeaderMap) -> String {
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes()))
    };
    let mut lines: Vec<String> = headers.iter().map(line).collect();
    lines.sort();
    lines.concat()
}

const SENT: &[(&str, &str)] = &[
    ("host", "8000-sbx.ports.example"),
    ("connection", "keep-alive, X-Secret-Hop"),
    ("x-secret-hop", "1"),
    ("te", "trailers"),
    ("transfer-encoding", "chunked"),
    ("content-length", "5"),
    ("proxy-authorization", "Basic x"),
    ("x-api-key", "silica_1"),
    ("authorization", "Bearer silica_1"),
    ("cookie", "a=1; silica-port=secret; __Host-silica-port=secret; b=2"),
    ("cookie", "SILICA-PORT=secret"),
    ("referer", "https://api.example/v1/ports/TOKEN/"),
    ("origin", "https://8000-sbx.ports.example"),
    ("x-forwarded-for", "6.6.6.6"),
    ("x-forwarded-host", "evil.example"),
    ("e2b-traffic-access-token", "secret"),
    ("upgrade", "h2c"),
    ("accept", "text/html"),
    ("x-own", "1"),
    ("x-own", "2"),
];

fn check_inner(form: &Form, shown_key: Shown, expected: &Expect) {
    expected.assert_eq(&shown(&inner(&request(SENT), form, shown_key, 8000, None)));
}

#[test]
fn nothing_that_gives_a_right_goes_in() {
    let prefix = "/v1/sandboxes/sbx/ports/8000".to_owned();
    check_inner(
        &Form::Path { prefix },
        Shown::Key,
        &expect![[r"
        accept: text/html
        host: localhost:8000
        x-forwarded-host: 8000-sbx.ports.example
        x-forwarded-prefix: /v1/sandboxes/sbx/ports/8000
        x-own: 1
        x-own: 2
    "]],
    );
    let prefix = "/v1/ports/TOKEN".to_owned();
    check_inner(
        &Form::Link { prefix },
        Shown::NoKey,
        &expect![[r"
        accept: text/html
        host: localhost:8000
        x-forwarded-host: 8000-sbx.ports.example
        x-own: 1
        x-own: 2
    "]],
    );
    check_inner(
        &Form::Host,
        Shown::NoKey,
        &expect![[r"
        accept: text/html
        cookie: a=1; b=2
        host: 8000-sbx.ports.example
        origin: https://8000-sbx.ports.example
        referer: https://api.example/v1/ports/TOKEN/
        x-forwarded-host: 8000-sbx.ports.example
        x-own: 1
        x-own: 2
    "]],
    );
}

#[test]
fn credentials_of_the_servers_own_pass_on_its_own_host_only() {
    let parts = request(&[("authorization", "Basic dTpw")]);
    let has = |form: &Form, shown: Shown| {
        inner(&parts, form, shown, 8000, None).contains_key("authorization")
    };
    assert!(has(&Form::Host, Shown::NoKey));
    assert!(!has(&Form::Host, Shown::Key));
    assert!(!has(&Form::Header, Shown::NoKey));
    assert!(!has(&Form::Path { prefix: String::new() }, Shown::Key));
}

const ANSWERED: &[(&str, &str)] = &[
    ("content-type", "text/html"),
    ("content-length", "5"),
    ("connection", "close, x-hop"),
    ("x-hop", "1"),
    ("set-cookie", "a=1; Domain=ports.example; Path=/"),
    ("set-cookie", "b=2;domain = .example ;HttpOnly"),
    ("set-cookie", "silica-port=stolen"),
    ("set-cookie", "__Host-silica-port=stolen; Secure; Path=/"),
    ("service-worker-allowed", "/"),
    ("alt-svc", "h2=\"evil.example:443\""),
    ("clear-site-data", "\"*\""),
    ("access-control-allow-origin", "*"),
    ("www-authenticate", "Basic realm=\"your key\""),
    ("strict-transport-security", "max-age=1"),
    ("content-security-policy", "default-src *"),
    ("location", "/login"),
    ("x-request-id", "forged"),
];

fn check_outer(form: &Form, expected: &Expect) {
    expected.assert_eq(&shown(&outer(&map(ANSWERED), form, 8000, None)));
}

#[test]
fn nothing_acts_on_an_origin_that_is_not_the_ports_own() {
    check_outer(
        &Form::Path { prefix: "/v1/sandboxes/sbx/ports/8000".to_owned() },
        &expect![[r"
        content-security-policy: default-src *
        content-security-policy: sandbox
        content-type: text/html
        location: /v1/sandboxes/sbx/ports/8000/login
    "]],
    );
    check_outer(
        &Form::Header,
        &expect![[r"
        content-security-policy: default-src *
        content-security-policy: sandbox
        content-type: text/html
        location: /login
    "]],
    );
    check_outer(
        &Form::Host,
        &expect![[r#"
        access-control-allow-origin: *
        clear-site-data: "*"
        content-security-policy: default-src *
        content-type: text/html
        location: /login
        set-cookie: a=1; Path=/
        set-cookie: b=2;HttpOnly
        strict-transport-security: max-age=1
        www-authenticate: Basic realm="your key"
    "#]],
    );
}

#[test]
fn redirects_stay_below_the_path_of_the_port() {
    for (location, expected) in [
        ("/a?b", "/p/a?b"),
        ("a/b", "a/b"),
        ("//evil.example/", "//evil.example/"),
        ("http://localhost:8000/a", "/p/a"),
        ("http://127.0.0.1:8000/", "/p/"),
        ("http://localhost:80001/a", "http://localhost:80001/a"),
        ("https://other.example/a", "https://other.example/a"),
    ] {
        let headers = map(&[("location", location)]);
        let found = outer(&headers, &Form::Path { prefix: "/p".to_owned() }, 8000, None);
        assert_eq!(found["location"], expected, "{location}");
    }
}

#[test]
fn only_a_websocket_is_a_change_of_protocol() {
    for (pairs, asks) in [
        (vec![("connection", "Upgrade"), ("upgrade", "WebSocket")], true),
        (vec![("connection", "keep-alive, upgrade"), ("upgrade", "websocket")], true),
        (vec![("upgrade", "websocket")], false),
        (vec![("connection", "upgrade"), ("upgrade", "h2c")], false),
        (vec![("connection", "upgrade"), ("upgrade", "websocket, h2c")], false),
        (vec![("connection", "upgrade"), ("upgrade", "h2c"), ("upgrade", "websocket")], false),
    ] {
        let mut request = Request::new(());
        *request.headers_mut() = map(&pairs);
        assert_eq!(upgrade(&request).is_some(), asks, "{pairs:?}");
        *request.method_mut() = axum::http::Method::POST;
        assert_eq!(upgrade(&request), None);
    }
    let mut response = Response::new(());
    *response.headers_mut() = map(&[("upgrade", "websocket")]);
    assert!(!Upgrade::WebSocket.is_in(&response));
    *response.status_mut() = axum::http::StatusCode::SWITCHING_PROTOCOLS;
    assert!(Upgrade::WebSocket.is_in(&response));
    *response.headers_mut() = map(&[("upgrade", "h2c")]);
    assert!(!Upgrade::WebSocket.is_in(&response));
    let headers = inner(&request(&[]), &Form::Host, Shown::NoKey, 1, Some(Upgrade::WebSocket));
    assert_eq!(
        (&headers["connection"], &headers["upgrade"]),
        (&"upgrade".parse().unwrap(), &"websocket".parse().unwrap())
    );
}
