//! Why something a guest wanted was not done, and how it is said in HTTP.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use silica_domain::PolicyDenial;

use super::http::ProxyBody;

/// The header by which a guest tells our refusals from those of the far side.
pub(super) const MARK: &str = "x-silica-egress";

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: String,
    /// The approval that a person has not decided.
    pub(super) approval: Option<String>,
    /// Whether the policy or a limit refused, rather than the far side.
    pub(super) by_rule: bool,
}

impl Refusal {
    fn ruled(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), approval: None, by_rule: true }
    }

    pub(super) fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::ruled(StatusCode::FORBIDDEN, code, message)
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::ruled(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(super) fn misdirected(message: impl Into<String>) -> Self {
        Self::ruled(StatusCode::MISDIRECTED_REQUEST, "host_differs", message)
    }

    pub(super) fn method(message: impl Into<String>) -> Self {
        Self::ruled(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    pub(super) fn too_large(message: impl Into<String>) -> Self {
        Self::ruled(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    }

    pub(super) fn limit(what: &str) -> Self {
        let message = format!("the network limit `{what}` is used up");
        Self::ruled(StatusCode::TOO_MANY_REQUESTS, "network_limit", message)
    }

    /// The far side failed.
    pub(super) fn upstream(code: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status: StatusCode::BAD_GATEWAY, code, message, approval: None, by_rule: false }
    }

    pub(super) fn response(&self) -> Response<ProxyBody> {
        // One code for clients to act on; the reason says which rule it was.
        let is_policy = self.by_rule && self.status == StatusCode::FORBIDDEN;
        let code = if is_policy { "egress_not_allowed" } else { self.code };
        let mut body = serde_json::json!({
            "code": code,
            "reason": self.code,
            "message": format!("Silica's network refused: {}", self.message),
        });
        if !self.by_rule {
            body["message"] = self.message.clone().into();
        }
        if let Some(approval) = &self.approval {
            body["approval"] = approval.clone().into();
        }
        let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
        let mut response = Response::new(body.boxed_unsync());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mark = if self.by_rule { "denied" } else { "failed" };
        headers.insert(MARK, HeaderValue::from_static(mark));
        if self.status == StatusCode::BAD_REQUEST {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl From<PolicyDenial> for Refusal {
    fn from(denial: PolicyDenial) -> Self {
        let status = match &denial {
            PolicyDenial::BadPath(_) => StatusCode::BAD_REQUEST,
            PolicyDenial::NoNetwork
            | PolicyDenial::HostNotAllowed(_)
            | PolicyDenial::PortNotAllowed(_)
            | PolicyDenial::ProtocolNotAllowed(_)
            | PolicyDenial::Forbidden { .. }
            | PolicyDenial::MethodNotAllowed(_)
            | PolicyDenial::PathNotAllowed(_) => StatusCode::FORBIDDEN,
        };
        Self::ruled(status, denial.code(), denial.to_string())
    }
}
