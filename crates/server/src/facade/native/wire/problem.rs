//! Errors (RFC 9457).

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use super::finding::{Finding, findings};
use super::promised;
use crate::http::problem::{Code, Problem};

/// An error (RFC 9457)
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(
    rename = "Problem",
    transform = promised(&["type", "title", "status", "code", "detail", "request_id"]),
    transform = crate::facade::native::openapi::errors::describe_codes,
    extend("examples" = [{
        "type": "about:blank", "title": "Not Found", "status": 404, "code": "sandbox_not_found",
        "detail": "there is no sandbox sbx0", "request_id": "req_1",
    }])
)]
pub(crate) struct ProblemBody<'a> {
    #[schemars(extend("const" = "about:blank"))]
    r#type: &'static str,
    /// The status in words
    title: &'static str,
    /// The status
    #[schemars(range(min = 400, max = 599))]
    status: u16,
    /// What went wrong, for programs; the names never change
    code: &'static str,
    /// What went wrong, for people
    detail: &'a str,
    /// The id in the header X-Request-Id and in the server's log
    request_id: &'a str,
    /// With `policy_blocked`: the policy
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    policy: Option<&'a str>,
    /// With `policy_blocked`: its findings
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Finding>")]
    findings: Option<Vec<Finding>>,
    /// With `policy_blocked`: how many more findings there are
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    findings_left_out: Option<usize>,
}

impl<'a> ProblemBody<'a> {
    /// Renders a problem of a request.
    pub(crate) fn new(problem: &'a Problem, request_id: &'a str) -> Self {
        let (code, status) = problem.code().name_and_status();
        let checked = problem.checked();
        Self {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            code,
            detail: problem.detail(),
            request_id,
            policy: checked.map(|checked| checked.policy.as_str()),
            findings: checked.map(|checked| findings(&checked.report)),
            findings_left_out: checked.map(|checked| checked.report.left_out),
        }
    }
}

/// Renders the whole response to a request that is refused.
pub(crate) fn response(problem: &Problem, request_id: &str) -> Response {
    let (_, status) = problem.code().name_and_status();
    let body = ProblemBody::new(problem, request_id);
    let body = serde_json::to_string(&body).unwrap_or_default();
    let kind = HeaderValue::from_static("application/problem+json");
    let mut response = (status, [(header::CONTENT_TYPE, kind)], body).into_response();
    let headers = response.headers_mut();
    if let Some(retry) = problem.retry() {
        let seconds = retry.as_secs_f64().ceil().max(1.0) as u64;
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    if let Some(size) = problem.size()
        && let Ok(value) = HeaderValue::from_str(&format!("bytes */{size}"))
    {
        headers.insert(header::CONTENT_RANGE, value);
    }
    if problem.code() == Code::Unauthorized {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
