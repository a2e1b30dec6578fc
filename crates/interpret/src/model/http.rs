//! A provider over HTTP: one request, its answer as a stream, and another try where that may help.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::error::Words;
use super::{ANSWER_BYTES_MAX, Answer, Listener, ModelError, Request, retry, sse};
use super::{anthropic, chat};
use crate::ProviderKey;

/// All bytes of one answer on the wire; each token comes in an event of some hundred bytes.
const STREAM_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most that is read of a refusal.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;

/// How long the rest of a refusal is waited for.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(5);

/// The language a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// Chat completions as of OpenAI, which many others speak too.
    Chat,
}

/// How the key is shown.
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
    /// The language it speaks.
    pub wire: Wire,
    /// Where it is, without the path of the format itself.
    pub base_url: String,
    /// The key; without one nothing is asked unless `key_needed` is off.
    pub key: Option<ProviderKey>,
    /// Whether the provider wants a key at all; some on the own machine do not.
    pub key_needed: bool,
    /// How the key is shown.
    pub auth: Auth,
    /// The version of Anthropic's format.
    pub anthropic_version: String,
    /// Headers beside our own, which they replace.
    pub headers: BTreeMap<String, String>,
    /// How long a connection may take.
    pub connect_max: Duration,
    /// How long the provider may be silent.
    pub silence_max: Duration,
    /// How long an answer may take in all, further tries included.
    pub total_max: Duration,
    /// How often it is tried again.
    pub retries: u32,
}

/// A provider over HTTP.
#[derive(Debug)]
pub struct HttpModel {
    client: Client,
    url: String,
    /// Ours, with the key among them; that value is marked as sensitive, so it is not printed either.
    headers: HeaderMap,
    options: HttpOptions,
}

/// An answer that is being read.
pub(super) trait Reading {
    /// Takes an event in; tells what of it is to be heard.
    fn event(&mut self, event: &sse::Event) -> Result<Option<super::Delta>, ModelError>;
    /// Whether nothing more has to come.
    fn is_done(&self) -> bool;
    /// Makes an answer of it.
    fn finish(self, request: &Request) -> Result<Answer, ModelError>;
}

/// A try that failed, and whether anything of it had been heard already.
struct Failure {
    error: ModelError,
    heard: bool,
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self { error, heard: false }
    }
}

impl HttpModel {
    /// Prepares connections; none is made yet. `Err` names what is wrong with the options.
    pub fn new(options: HttpOptions) -> Result<Self, String> {
        // Another part of the program may have chosen already; both choices are as good.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .connect_timeout(options.connect_max)
            // The environment is not ours to read, and a redirect would carry the key elsewhere.
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
            return Err("the provider's base URL is no URL".to_owned());
        }
        let headers = headers(&options)?;
        Ok(Self { client, url, headers, options })
    }

    /// Whether there is a key to show, or none is needed.
    pub(super) fn has_key(&self) -> Result<(), ModelError> {
        let missing = self.options.key.is_none() && self.options.key_needed;
        if missing { Err(ModelError::NoKey) } else { Ok(()) }
    }

    /// Asks until there is an answer, or trying again would not help.
    pub(super) async fn ask(
        &self,
        request: &Request,
        listener: &mut impl Listener,
    ) -> Result<Answer, ModelError> {
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
            // What was heard cannot be unheard: a second answer behind half a first one is no answer.
            let pause = match retry::pause(&failure.error, attempt, self.options.retries) {
                Some(pause) if !failure.heard && Instant::now() + pause < end => pause,
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
    ) -> Result<Answer, Failure> {
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
            let words = "it came in one piece, and a stream of events was asked for";
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
    ) -> Result<Answer, Failure> {
        let mut parser = sse::Parser::default();
        let (mut heard, mut answer_bytes, mut stream_bytes) = (false, 0, 0);
        while !reader.is_done() {
            let until = end.min(Instant::now() + self.options.silence_max);
            let chunk = match timeout_at(until, response.chunk()).await {
                Err(_) => return Err(Failure { error: self.slow(end), heard }),
                Ok(Err(_) | Ok(None)) => return Err(Failure { error: ModelError::Cut, heard }),
                Ok(Ok(Some(chunk))) => chunk,
            };
            stream_bytes += chunk.len();
            if stream_bytes > STREAM_BYTES_MAX {
                return Err(Failure { error: ModelError::TooLong(STREAM_BYTES_MAX), heard });
            }
            parser.push(&chunk);
            while let Some(event) = parser.next().map_err(|error| Failure { error, heard })? {
                let delta = reader
                    .event(&event)
                    .map_err(|error| Failure { error: self.redacted(error), heard })?;
                let Some(delta) = delta else { continue };
                let (super::Delta::Text(text) | super::Delta::Input(text)) = &delta;
                answer_bytes += text.len();
                if answer_bytes > ANSWER_BYTES_MAX {
                    return Err(Failure { error: ModelError::TooLong(ANSWER_BYTES_MAX), heard });
                }
                heard = true;
                listener.hear(delta).await;
            }
        }
        reader.finish(request).map_err(|error| Failure { error, heard })
    }

    fn slow(&self, end: Instant) -> ModelError {
        let over = Instant::now() >= end;
        ModelError::Slow(if over { self.options.total_max } else { self.options.silence_max })
    }

    fn words(&self, text: &str) -> Words {
        Words::new(&match &self.options.key {
            Some(key) => key.redact(text),
            None => text.to_owned(),
        })
    }

    /// A provider may repeat what it was sent.
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
        let told = refusal_words(&body.unwrap_or_default());
        let words = self.words(&told.message);
        let status = status.as_u16();
        match status {
            401 | 403 => ModelError::KeyRefused { status, words },
            _ if told.no_model && matches!(status, 400 | 404) => {
                ModelError::NoModel { model: request.model.clone(), words }
            }
            429 | 503 | 529 => ModelError::Busy { status, retry_after, words },
            408 | 500..=599 => ModelError::Failed { status, words },
            _ => ModelError::Refused { status, words },
        }
    }
}

/// Whether a provider has not noticed that it was asked to stream.
fn is_json(response: &Response) -> bool {
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json"))
}

fn unreachable(error: reqwest::Error) -> ModelError {
    // Its text would name the address, with whatever stands in it.
    ModelError::Unreachable(error.without_url())
}

fn headers(options: &HttpOptions) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("text/event-stream"));
    if options.wire == Wire::Anthropic {
        let version = HeaderValue::from_str(&options.anthropic_version)
            .map_err(|_| "the version of Anthropic's format is no header value".to_owned())?;
        headers.insert("anthropic-version", version);
    }
    if let Some(key) = &options.key {
        let (name, value) = match options.auth {
            Auth::ApiKey => ("x-api-key", key.reveal().to_owned()),
            Auth::Bearer => ("authorization", format!("Bearer {}", key.reveal())),
        };
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| "the provider's key cannot be sent in a header".to_owned())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    for (name, value) in &options.headers {
        let bad = || format!("{name:?} cannot be sent as a header");
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let value = HeaderValue::from_str(value).map_err(|_| bad())?;
        headers.insert(name, value);
    }
    Ok(headers)
}

async fn read_refusal(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    // What came before it broke off is all there is to tell.
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > REFUSAL_BYTES_MAX {
            body.truncate(REFUSAL_BYTES_MAX);
            break;
        }
    }
    body
}

struct Told {
    message: String,
    no_model: bool,
}

/// The words of a refusal. Both formats have `error.message`; gateways have forms of their own.
fn refusal_words(body: &[u8]) -> Told {
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
    Told { message, no_model: named || described }
}
