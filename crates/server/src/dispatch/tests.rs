//! A made-up facade below a prefix, beside one that serves everything else.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use tower::ServiceExt;

use super::{Dispatch, Facade, Mount, without_double_slashes};
use crate::app::AppOptions;
use crate::http::dialect::{Complete, Dialect};
use crate::http::guard::GuardContext;
use crate::http::json::Json;
use crate::http::problem::{Code, Problem};
use crate::metrics::Metrics;
use crate::ports::domain::PortDomain;

/// A facade that starts every refusal with its name.
#[derive(Debug)]
struct Named(&'static str);

impl Dialect for Named {
    fn refuse(&self, problem: &Problem, _: &str) -> Response {
        let (code, status) = problem.code().name_and_status();
        let mut response = (status, format!("{}: {code}", self.0)).into_response();
        response.extensions_mut().insert(Complete);
        response
    }
}

impl Facade<()> for Named {
    fn routes(&self) -> Router {
        let name = self.0;
        Router::new()
            .route("/who", routing::get(move || async move { name }))
            .route("/locked", routing::get(|| async { Problem::new(Code::Unauthorized, "no") }))
            .route("/body", routing::post(|_: Json<BTreeMap<String, String>>| async { "read" }))
            .route("/broken", routing::get(broken))
    }
}

async fn broken() {
    panic!("as the test wants it");
}

fn router() -> Router {
    let options = AppOptions {
        body_bytes_max: 8,
        allowed_origins: Vec::new(),
        allowed_hosts: Vec::new(),
        public_url: String::new(),
        inputs: BTreeMap::new(),
        e2b_network: silica_domain::NetworkMode::None,
        ports_domain: None,
        templates: Vec::new(),
    };
    let context = GuardContext { options: Arc::new(options), metrics: Arc::new(Metrics::new()) };
    let facades: Vec<(Mount, Arc<dyn Facade<()>>)> = vec![
        (Mount::Hosts(PortDomain::new("ports.example")), Arc::new(Named("host"))),
        (Mount::Header { name: "x-which", value: "1" }, Arc::new(Named("header"))),
        (Mount::AnyHeader("x-which"), Arc::new(Named("any header"))),
        (Mount::Prefix("/second"), Arc::new(Named("second"))),
        (Mount::Paths(&["/locked"]), Arc::new(Named("path"))),
    ];
    Dispatch::new(&(), &context, facades, Arc::new(Named("first"))).into_router()
}

async fn send(request: Request) -> (StatusCode, String) {
    let response = router().oneshot(request).await.unwrap();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 1000).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[track_caller]
fn check(request: axum::http::request::Builder, body: &'static str, status: u16, text: &str) {
    let request = request.body(Body::from(body)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let found = runtime.block_on(send(request));
    assert_eq!((found.0.as_u16(), found.1.as_str()), (status, text));
}

fn get(path: &str) -> axum::http::request::Builder {
    Request::get(path)
}

#[test]
fn prefix_header_and_path_choose_the_facade() {
    check(get("/who"), "", 200, "first");
    check(get("/second/who"), "", 200, "second");
    check(get("//second//who"), "", 200, "second");
    check(get("/secondary/who"), "", 404, "first: not_found");
    check(get("/who").header("x-which", "1"), "", 200, "header");
    check(get("/second/who").header("x-which", "2"), "", 404, "any header: not_found");
    check(get("/locked"), "", 401, "path: unauthorized");
    let host = |name| get("/who").header("host", name);
    check(host("1-x.ports.example:80").header("x-which", "1"), "", 200, "host");
    check(host("anything.PORTS.example"), "", 200, "host");
    check(host("ports.example"), "", 200, "first");
    check(host("xports.example"), "", 200, "first");
    // Passed on as it is.
    check(get("//who").header("host", "1-x.ports.example"), "", 404, "host: not_found");
}

#[test]
fn every_refusal_is_in_the_dialect_of_the_facade() {
    check(get("/second/missing"), "", 404, "second: not_found");
    check(get("/second"), "", 404, "second: not_found");
    check(Request::post("/second/who"), "", 405, "second: method_not_allowed");
    check(get("/second/locked"), "", 401, "second: unauthorized");
    // Before authentication.
    let foreign = get("/second/locked").header("origin", "https://example.com");
    check(foreign, "", 403, "second: wrong_origin");
    let long = r#"{"a": "too long"}"#;
    check(Request::post("/second/body"), long, 413, "second: too_large");
    check(Request::post("/second/body"), "[]", 400, "second: bad_request");
    check(get("/second/broken"), "", 500, "second: internal");
    check(get("/missing"), "", 404, "first: not_found");
}

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
