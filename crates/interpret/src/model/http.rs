//! A provider over HTTP: sends a request, reads the answer as a stream, retries where that may help.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::error::ProviderMessage;
use super::{ANSWER_BYTES_MAX, Listener, ModelAnswer, ModelError, Request, retry, sse};
use super::{anthropic, chat};
use crate::ProviderKey;

/// The most bytes of one answer on the wire. Each token comes in an event of some hundred bytes.
const STREAM_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most bytes that are read of an error response.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// How long the body of an error response is waited for.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(5);

/// The wire format of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// Chat completions of OpenAI, which many other providers use too.
    Chat,
}

/// The header that carries the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `x-api-key`.
    ApiKey,
    /// `Authorization: Bearer`.
    Bearer,
}

/// How a provider is reached.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The wire format.
    pub wire: Wire,
    /// The base URL, without the path of the wire format.
    pub base_url: String,
    /// The key; `None` works only with a provider that needs none.
    pub key: Option<ProviderKey>,
    /// Whether the provider needs a key. A provider on the same machine may need none.
    pub key_needed: bool,
    /// The header that carries the key.
    pub auth: Auth,
    /// The version of Anthropic's wire format.
    pub anthropic_version: String,
    /// Additional headers; they replace the default headers of the same name.
    pub headers: BTreeMap<String, String>,
    /// How long a connection may take.
    pub connect_max: Duration,
    /// How long the provider may send nothing.
    pub silence_max: Duration,
    /// How long an answer may take, with all retries.
    pub total_max: Duration,
    /// How often a failed request is retried.
    pub retries: u32,
}

/// A provider over HTTP.
#[derive(Debug)]
pub struct HttpModel {
    client: Client,
    url: String,
    /// The headers of every request. The key is marked as sensitive, so that it is not printed.
    headers: HeaderMap,
    options: HttpOptions,
}

/// Reads the events of an answer in one wire format.
pub(super) trait Reading {
    /// Reads an event; returns the piece of the answer in it.
    fn event(&mut self, event: &sse::Event) -> Result<Option<super::Delta>, ModelError>;
    /// Returns whether the answer is complete.
    fn is_done(&self) -> bool;
    /// Returns the answer.
    fn finish(self, request: &Request) -> Result<ModelAnswer, ModelError>;
}

/// A failed attempt.
struct Failure {
    error: ModelError,
    /// Whether a piece of the answer was passed to the listener already.
    received: bool,
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self { error, received: false }
    }
}

impl HttpModel {
    /// Prepares connections; none is made yet. `Err` names what is wrong with the options.
    pub fn new(options: HttpOptions) -> Result<Self, String> {
        // The error is that another part of the program has installed one, which serves as well.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .connect_timeout(options.connect_max)
            // This crate reads no environment, and a redirect would send the key to another server.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| format!("the HTTP client could not be set up: {error}"))?;
        let base = options.base_url.trim_end_matches('/');
        let url = match options.wire {
            Wire::Anthropic => {
                format!("{}/v1/messages", base.strip_suffix("/v1").unwrap_or(base))
            }
            Wire::Chat => format!("{base}/chat/completions"),
        };
        if reqwest::Url::parse(&url).is_err() {
            return Err("model.base_url is not a valid URL".to_owned());
        }
        let headers = headers(&options)?;
        Ok(Self { client, url, headers, options })
    }

    /// Fails if the provider needs a key and there is none.
    pub(super) fn has_key(&self) -> Result<(), ModelError> {
        let missing = self.options.key.is_none() && self.options.key_needed;
        if missing { Err(ModelError::NoKey) } else { Ok(()) }
    }

    /// Sends a request, and retries it while that may help.
    pub(super) async fn ask(
        &self,
        request: &Request,
        listener: &mut impl Listener,
    ) -> Result<ModelAnswer, ModelError> {
        self.has_key()?;
        let end = Instant::now() + self.options.total_max;
        let body = match self.options.wire {
            Wire::Anthropic => anthropic::body(request),
            Wire::Chat => chat::body(request, &self.options.base_url),
        };
        let body = bytes::Bytes::from(body.to_string());
        let mut attempt = 0;
        loop {
            let failure = match self.attempt(request, body.clone(), end, listener).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            // Not after a piece was passed on: the listener cannot take back the first half of an answer.
            let pause = match retry::pause(&failure.error, attempt, self.options.retries) {
                Some(pause) if !failure.received && Instant::now() + pause < end => pause,
                _ => return Err(failure.error),
            };
            tracing::info!(reason = failure.error.name(), attempt, "the model is asked again");
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        request: &Request,
        body: bytes::Bytes,
        end: Instant,
        listener: &mut impl Listener,
    ) -> Result<ModelAnswer, Failure> {
        let sent = self.client.post(&self.url).headers(self.headers.clone()).body(body).send();
        let until = end.min(Instant::now() + self.options.silence_max);
        let response = match timeout_at(until, sent).await {
            Err(_) => return Err(self.slow(end).into()),
            Ok(Err(error)) => return Err(unreachable(error).into()),
            Ok(Ok(response)) => response,
        };
        if response.status() != StatusCode::OK {
            return Err(self.refusal(request, response).await.into());
        }
        if is_json(&response) {
            let words = "it is JSON, but a stream of events was requested";
            return Err(ModelError::Malformed(words.to_owned()).into());
        }
        match self.options.wire {
            Wire::Anthropic => {
                self.read(request, response, end, listener, anthropic::Reader::default()).await
            }
            Wire::Chat => {
                self.read(request, response, end, listener, chat::Reader::default()).await
            }
        }
    }

    async fn read(
        &self,
        request: &Request,
        mut response: Response,
        end: Instant,
        listener: &mut impl Listener,
        mut reader: impl Reading,
    ) -> Result<ModelAnswer, Failure> {
        let mut parser = sse::Parser::default();
        let mut received = false;
        let mut answer_bytes = 0;
        let mut stream_bytes = 0;
        while !reader.is_done() {
            let until = end.min(Instant::now() + self.options.silence_max);
            let chunk = match timeout_at(until, response.chunk()).await {
                Err(_) => return Err(Failure { error: self.slow(end), received }),
                Ok(Err(_) | Ok(None)) => return Err(Failure { error: ModelError::Cut, received }),
                Ok(Ok(Some(chunk))) => chunk,
            };
            stream_bytes += chunk.len();
            if stream_bytes > STREAM_BYTES_MAX {
                return Err(Failure { error: ModelError::TooLong(STREAM_BYTES_MAX), received });
            }
            parser.push(&chunk);
            while let Some(event) = parser.next().map_err(|error| Failure { error, received })? {
                let delta = reader
                    .event(&event)
                    .map_err(|error| Failure { error: self.redacted(error), received })?;
                let Some(delta) = delta else { continue };
                let (super::Delta::Text(text) | super::Delta::Input(text)) = &delta;
                answer_bytes += text.len();
                if answer_bytes > ANSWER_BYTES_MAX {
                    return Err(Failure { error: ModelError::TooLong(ANSWER_BYTES_MAX), received });
                }
                received = true;
                listener.receive(delta).await;
            }
        }
        reader.finish(request).map_err(|error| Failure { error, received })
    }

    fn slow(&self, end: Instant) -> ModelError {
        let over = Instant::now() >= end;
        ModelError::Slow(if over { self.options.total_max } else { self.options.silence_max })
    }

    fn words(&self, text: &str) -> ProviderMessage {
        ProviderMessage::new(&match &self.options.key {
            Some(key) => key.redact(text),
            None => text.to_owned(),
        })
    }

    /// Removes the key from an error: a provider may repeat what it was sent.
    fn redacted(&self, error: ModelError) -> ModelError {
        match error {
            ModelError::Failed { status, words } => {
                ModelError::Failed { status, words: self.words(&words.to_string()) }
            }
            error => error,
        }
    }

    async fn refusal(&self, request: &Request, response: Response) -> ModelError {
        let status = response.status();
        let retry_after = retry::retry_after(response.headers());
        let body = tokio::time::timeout(REFUSAL_PATIENCE, read_refusal(response)).await;
        let response = error_response(&body.unwrap_or_default());
        let words = self.words(&response.message);
        let status = status.as_u16();
        match status {
            401 | 403 => ModelError::KeyRefused { status, words },
            _ if response.no_model && matches!(status, 400 | 404) => {
                ModelError::NoModel { model: request.model.clone(), words }
            }
            429 | 503 | 529 => ModelError::Busy { status, retry_after, words },
            408 | 500..=599 => ModelError::Failed { status, words },
            _ => ModelError::Refused { status, words },
        }
    }
}

/// Returns whether the provider answered with JSON instead of a stream.
fn is_json(response: &Response) -> bool {
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json"))
}

fn unreachable(error: reqwest::Error) -> ModelError {
    // The URL could contain a secret.
    ModelError::Unreachable(error.without_url())
}

fn headers(options: &HttpOptions) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("text/event-stream"));
    if options.wire == Wire::Anthropic {
        let version = HeaderValue::from_str(&options.anthropic_version)
            .map_err(|_| "model.anthropic_version is not a valid header value".to_owned())?;
        headers.insert("anthropic-version", version);
    }
    if let Some(key) = &options.key {
        let (name, value) = match options.auth {
            Auth::ApiKey => ("x-api-key", key.reveal().to_owned()),
            Auth::Bearer => ("authorization", format!("Bearer {}", key.reveal())),
        };
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| "the provider's key is not a valid header value".to_owned())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    for (name, value) in &options.headers {
        let bad = || format!("model.headers: {name:?} is not a valid header");
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let value = HeaderValue::from_str(value).map_err(|_| bad())?;
        headers.insert(name, value);
    }
    Ok(headers)
}

async fn read_refusal(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    // After an error, what was read so far is used.
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > REFUSAL_BYTES_MAX {
            body.truncate(REFUSAL_BYTES_MAX);
            break;
        }
    }
    body
}

/// What an error response says.
struct ErrorResponse {
    message: String,
    no_model: bool,
}

/// Reads an error response. Both wire formats have `error.message`; gateways have forms of their own.
fn error_response(body: &[u8]) -> ErrorResponse {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let error = &value["error"];
    let texts = [&error["message"], error, &value["message"], &value["detail"]];
    let message = texts.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned();
    let kind = [&error["type"], &error["code"]].map(|kind| kind.as_str().unwrap_or_default());
    let named = kind.contains(&"model_not_found") || kind.contains(&"not_found_error");
    let lower = message.to_ascii_lowercase();
    let described = lower.contains("model")
        && ["not found", "not exist", "unknown", "no such"]
            .iter()
            .any(|words| lower.contains(words));
    ErrorResponse { message, no_model: named || described }
}
