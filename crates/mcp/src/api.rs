//! The native API as the tools use it, whatever carries the requests.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Creates or runs.
    Post,
    /// Writes.
    Put,
    /// Removes.
    Delete,
}

impl Method {
    /// Returns its name in HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// The form of response that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// One JSON value, or the bytes of a file.
    Whole,
    /// Server-sent events.
    Events,
}

/// A request to the native API.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// The method.
    pub method: Method,
    /// The path and the query, percent-encoded.
    pub path: String,
    /// The form of the response.
    pub accept: Accept,
    /// The body: JSON, or the bytes of a file.
    pub body: Vec<u8>,
}

/// The body of a response, as it arrives.
pub type ApiBody = Pin<Box<dyn Stream<Item = Result<Bytes, ApiError>> + Send>>;

/// A response of the native API.
pub struct ApiResponse {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: ApiBody,
}

/// Why there is no response. The text is for people.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ApiError(pub String);

/// Sends requests to the native API, with the key of one client.
pub trait Api: Clone + Send + Sync + 'static {
    /// Sends a request and returns the head of its response.
    fn send(
        &self,
        request: ApiRequest,
    ) -> impl Future<Output = Result<ApiResponse, ApiError>> + Send;
}
