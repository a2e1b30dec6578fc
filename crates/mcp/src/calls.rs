//! Calls of the native API, with bounded responses.

use std::fmt::Write as _;

use bytes::BytesMut;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::api::{Accept, Api, ApiBody, ApiError, ApiRequest, ApiResponse, Method};

/// The longest JSON response: the results of a cell in base 64, and room for its output.
const JSON_BYTES_MAX: usize = 128 << 20;

/// The largest file that a tool returns. Models read no more, and clients keep results in memory.
pub(crate) const FILE_BYTES_MAX: usize = 4 << 20;

/// Why a call did not do what it should.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The API refused it, and this is what it says.
    Refused(Box<Value>),
    /// There is no response, or none that can be used.
    Failed(String),
}

impl From<ApiError> for CallError {
    fn from(error: ApiError) -> Self {
        Self::Failed(error.0)
    }
}

impl CallError {
    /// Returns whether the sandbox of the call is not there any more.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Refused(problem) => {
                matches!(problem["code"].as_str(), Some("sandbox_ended" | "sandbox_not_found"))
            }
            Self::Failed(_) => false,
        }
    }
}

/// Returns whether a text can be a segment of a path as it is.
pub(crate) fn is_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.len() <= 100 && text.bytes().all(plain)
}

/// Encodes a text for a query (RFC 3986).
pub(crate) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            encoded.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Sends a request and returns the JSON of its response; null for an empty one.
pub(crate) async fn json_call<A: Api>(
    api: &A,
    method: Method,
    path: String,
    body: Option<&Value>,
) -> Result<Value, CallError> {
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let response = api.send(ApiRequest { method, path, accept: Accept::Whole, body }).await?;
    let bytes = whole(checked(response).await?, JSON_BYTES_MAX).await?;
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    parse(&bytes)
}

/// Creates a sandbox and returns its id.
pub(crate) async fn create<A: Api>(api: &A) -> Result<String, CallError> {
    let body = json!({"metadata": {"client": "mcp"}});
    let created = json_call(api, Method::Post, "/v1/sandboxes".to_owned(), Some(&body)).await?;
    let id = created["id"].as_str().filter(|id| is_id(id));
    let id = id.ok_or_else(|| CallError::Failed("the server sent no id".to_owned()))?;
    Ok(id.to_owned())
}

/// Reads a file of at most [`FILE_BYTES_MAX`].
pub(crate) async fn read_file<A: Api>(
    api: &A,
    session: &str,
    path: &str,
) -> Result<Vec<u8>, CallError> {
    let path = format!("/v1/sandboxes/{session}/files/content?path={}", encoded(path));
    let request = ApiRequest { method: Method::Get, path, accept: Accept::Whole, body: Vec::new() };
    whole(checked(api.send(request).await?).await?, FILE_BYTES_MAX).await
}

/// Reads a response to its end, and discards it.
pub(crate) async fn finished(response: ApiResponse) -> Result<(), CallError> {
    whole(checked(response).await?, JSON_BYTES_MAX).await.map(drop)
}

/// Begins a request whose response is a stream of events.
pub(crate) async fn stream<A: Api>(
    api: &A,
    path: String,
    body: &Value,
) -> Result<ApiBody, CallError> {
    let body = body.to_string().into_bytes();
    let request = ApiRequest { method: Method::Post, path, accept: Accept::Events, body };
    checked(api.send(request).await?).await
}

/// Returns the body of a successful response, or what the API says about the refusal.
async fn checked(response: ApiResponse) -> Result<ApiBody, CallError> {
    if (200..300).contains(&response.status) {
        return Ok(response.body);
    }
    let bytes = whole(response.body, JSON_BYTES_MAX).await?;
    let problem: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if problem["detail"].is_string() {
        return Err(CallError::Refused(Box::new(problem)));
    }
    Err(CallError::Failed(format!("the server answered with status {}", response.status)))
}

async fn whole(mut body: ApiBody, bytes_max: usize) -> Result<Vec<u8>, CallError> {
    let mut bytes = BytesMut::new();
    while let Some(piece) = body.next().await {
        bytes.extend_from_slice(&piece?);
        if bytes.len() > bytes_max {
            return Err(CallError::Failed(format!("it has more than {bytes_max} bytes")));
        }
    }
    Ok(bytes.into())
}

fn parse(bytes: &[u8]) -> Result<Value, CallError> {
    serde_json::from_slice(bytes)
        .map_err(|_| CallError::Failed("the server sent a response that is not JSON".to_owned()))
}
