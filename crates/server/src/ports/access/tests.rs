//! Which requests of pages a cookie lets through.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::{is_own_cookie, is_own_page};

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let pair = |&(name, value): &(&'static str, &'static str)| {
        (HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    pairs.iter().map(pair).collect()
}

#[test]
fn pages_of_other_origins_are_refused() {
    let host = ("host", "8000-a.ports.example:8585");
    let own = ("origin", "https://8000-a.ports.example:8585");
    let other = ("origin", "https://8000-b.ports.example:8585");
    let site = |value| ("sec-fetch-site", value);
    let navigate = ("sec-fetch-mode", "navigate");
    let document = ("sec-fetch-dest", "document");
    let frame = ("sec-fetch-dest", "iframe");
    for (method, pairs, is_own) in [
        (Method::GET, vec![host], true),
        (Method::POST, vec![host, own], true),
        (Method::POST, vec![host, own, site("same-origin")], true),
        (Method::GET, vec![host, site("none")], true),
        (Method::POST, vec![host, other], false),
        (Method::POST, vec![host, ("origin", "null")], false),
        (Method::POST, vec![host, ("origin", "https://8000-a.ports.example")], false),
        (Method::POST, vec![own], false),
        (Method::GET, vec![host, site("same-site")], false),
        (Method::GET, vec![host, site("cross-site"), navigate, document], true),
        (Method::GET, vec![host, site("same-site"), navigate, frame], false),
        (Method::POST, vec![host, site("same-site"), navigate, document], false),
    ] {
        assert_eq!(is_own_page(&method, &headers(&pairs)), is_own, "{method} {pairs:?}");
    }
}

#[test]
fn own_cookies_are_known_in_any_case() {
    assert!(is_own_cookie(b"silica-port") && is_own_cookie(b"__host-SILICA-port"));
    assert!(!is_own_cookie(b"silica-ports") && !is_own_cookie(b""));
}
