//! The native API within the process: requests of a facade or a command that take the way of HTTP
//! requests, from the guard on, but use no socket.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use futures_util::StreamExt;
use silica_mcp::{Accept, Api, ApiError, ApiRequest, ApiResponse};
use tower::ServiceExt;

/// The headers of a request that say who sends it and to which host.
const IDENTITY: [HeaderName; 3] =
    [header::AUTHORIZATION, header::HOST, HeaderName::from_static("x-api-key")];

/// Sends requests to a router with the key of one client.
#[derive(Clone)]
pub struct InProcessApi {
    router: Router,
    identity: HeaderMap,
}

/// Omits the key.
impl std::fmt::Debug for InProcessApi {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("InProcessApi")
    }
}

impl InProcessApi {
    /// Sends requests with a key; `None` if it cannot be in a header.
    pub fn with_key(router: Router, key: &str) -> Option<Self> {
        let mut identity = HeaderMap::new();
        identity.insert("x-api-key", HeaderValue::from_str(key).ok()?);
        Some(Self { router, identity })
    }

    /// Sends requests with the key of another request.
    pub(crate) fn for_request(router: Router, headers: &HeaderMap) -> Self {
        let mut identity = HeaderMap::new();
        for name in IDENTITY {
            if let Some(value) = headers.get(&name) {
                identity.insert(name, value.clone());
            }
        }
        Self { router, identity }
    }
}

impl Api for InProcessApi {
    async fn send(&self, request: ApiRequest) -> Result<ApiResponse, ApiError> {
        let ApiRequest { method, path, accept, body } = request;
        let accept = match accept {
            Accept::Whole => "application/json",
            Accept::Events => "text/event-stream",
        };
        let mut request = Request::builder()
            .method(method.name())
            .uri(path)
            .header(header::ACCEPT, accept)
            .body(Body::from(body))
            .map_err(|_| ApiError("the address of the request is not valid".to_owned()))?;
        request.headers_mut().extend(self.identity.clone());
        let response = match self.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let status = response.status().as_u16();
        let broken = |_| ApiError("the response broke off".to_owned());
        let body = response.into_body().into_data_stream().map(move |piece| piece.map_err(broken));
        Ok(ApiResponse { status, body: Box::pin(body) })
    }
}
