//! The native API of a server, over HTTP.

use futures_util::StreamExt;
use reqwest::Method;
use silica_mcp::{Accept, Api, ApiError, ApiRequest, ApiResponse};

use crate::client::{Client, STREAM_PATIENCE};

impl Api for Client {
    async fn send(&self, request: ApiRequest) -> Result<ApiResponse, ApiError> {
        let failed = |error: anyhow::Error| ApiError(format!("{error:#}"));
        let method = match request.method {
            silica_mcp::Method::Get => Method::GET,
            silica_mcp::Method::Post => Method::POST,
            silica_mcp::Method::Put => Method::PUT,
            silica_mcp::Method::Delete => Method::DELETE,
        };
        let accept = match request.accept {
            Accept::Whole => "application/json",
            Accept::Events => "text/event-stream",
        };
        let response = self.exchange(method, &request.path, accept, request.body).await;
        let response = response.map_err(failed)?;
        let status = response.status().as_u16();
        let client = self.clone();
        let pieces = response.bytes_stream();
        let body =
            pieces.map(move |piece| client.explained(piece, STREAM_PATIENCE).map_err(failed));
        Ok(ApiResponse { status, body: Box::pin(body) })
    }
}
