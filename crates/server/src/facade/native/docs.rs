//! The OpenAPI document and its page. Neither needs a key: both are the same on every server.

use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::facade::native::openapi;

/// The page runs nothing and loads nothing.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                           form-action 'none'; frame-ancestors 'none'";

/// `GET /openapi.json`
pub(crate) async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], openapi::text()).into_response()
}

/// `GET /docs`
pub(crate) async fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, openapi::page()).into_response()
}
