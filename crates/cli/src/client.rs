//! An HTTP client of a running server. Requests are bounded in time, answers in size.

#[cfg(test)]
mod tests;
mod trust;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use reqwest::{Method, Url};
use serde_json::Value;

use crate::show;

/// The address at which a server listens by default.
const URL_DEFAULT: &str = "http://127.0.0.1:8585";

/// How long a request may take, with its answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// How long making a sandbox may take: a server that starts, or is full, has its client wait.
const MAKE_PATIENCE: Duration = Duration::from_mins(2);

/// How long the stream of a cell may last; the server's own limits are shorter.
pub(crate) const STREAM_PATIENCE: Duration = Duration::from_hours(24);

/// The longest text of an error that is shown.
const DETAIL_CHARS_MAX: usize = 500;

/// The longest answer that is read; each sandbox in it takes about two kilobytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The arguments that name a server.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The server [default: SILICA_URL, else http://127.0.0.1:8585]
    #[arg(long, global = true)]
    url: Option<String>,
    /// A certificate to trust besides those of the system, PEM [default: SILICA_CA]
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// The arguments with which a command works on a server instead of this machine.
#[derive(Debug, Args)]
pub(crate) struct RemoteArgs {
    /// Use a server instead of this machine; the key is taken from SILICA_KEY
    #[arg(long, conflicts_with = "server")]
    url: Option<String>,
    /// Use the server of SILICA_URL
    #[arg(long)]
    server: bool,
    /// A certificate to trust besides those of the system, PEM [default: SILICA_CA]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// A server and the key to it.
#[derive(Clone)]
pub(crate) struct Client {
    /// Without a trailing slash.
    url: String,
    key: String,
    connections: reqwest::Client,
}

/// Omits the key.
impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Client({})", self.url)
    }
}

/// The status and body of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// An answer that is read as it comes.
#[derive(Debug)]
pub(crate) struct Streamed {
    body: reqwest::Response,
}

impl Streamed {
    /// Returns the last part of the path that the answer says it is about.
    pub(crate) fn located_id(&self) -> Option<&str> {
        let location = self.body.headers().get("Location")?.to_str().ok()?;
        location.rsplit('/').next()
    }

    /// Returns the next bytes; `None` at the end.
    pub(crate) async fn chunk(&mut self, client: &Client) -> Result<Option<Vec<u8>>> {
        let chunk = client.explained(self.body.chunk().await, STREAM_PATIENCE)?;
        Ok(chunk.map(|chunk| chunk.to_vec()))
    }
}

impl Answer {
    /// Returns the JSON of an answer with this status, or the error that it reports.
    pub(crate) fn json(&self, status: u16, client: &Client) -> Result<Value> {
        let value: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        if self.status == status {
            return Ok(value);
        }
        let detail = value["detail"].as_str().map(|text| show::plain(text, DETAIL_CHARS_MAX));
        let url = &client.url;
        match (self.status, detail) {
            (401, Some(_)) => bail!(
                "{url} does not accept the key; set SILICA_KEY to one of: silica key list, or \
                 create one with: silica key create NAME"
            ),
            (_, Some(detail)) => bail!("{url} answered {}: {detail}", self.status),
            (_, None) => bail!(
                "{url} answered {}, and not as a Silica server does; check the address",
                self.status
            ),
        }
    }
}

impl Client {
    /// Builds a client from the command line, or from the environment where an argument is missing.
    pub(crate) fn from_args(server: ServerArgs, key: Option<String>) -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let url = server.url.or_else(|| variable("SILICA_URL"));
        let key = key.or_else(|| variable("SILICA_KEY"));
        let key = key.context(
            "a key is required: set SILICA_KEY; the first start of silica serve prints one, and \
             silica key create NAME makes another",
        )?;
        let ca = server.ca.or_else(|| variable("SILICA_CA").map(PathBuf::from));
        Self::new(url.as_deref().unwrap_or(URL_DEFAULT), &key, ca.as_deref())
    }

    /// Builds a client for an address such as `http://127.0.0.1:8585`; does not connect.
    pub(crate) fn new(url: &str, key: &str, ca: Option<&Path>) -> Result<Self> {
        let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        // Other characters could end the header that carries the key.
        ensure!(
            printable(key) && !key.is_empty(),
            "the key is invalid: it must consist of printable ASCII characters without spaces"
        );
        let parsed = Url::parse(url).ok().filter(|_| printable(url)).filter(is_server);
        let parsed = parsed.with_context(|| {
            format!("{url:?} is not the URL of a server; it must look like {URL_DEFAULT}")
        })?;
        // Fails if another part of the program has installed a provider, which is as good.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let trusting = ca.map(trust::with_certificates).transpose()?;
        let builder = reqwest::Client::builder();
        let builder = match (parsed.scheme(), trusting) {
            ("https", None) => builder,
            ("https", Some(trusting)) => builder.tls_backend_preconfigured(trusting),
            // Without TLS no certificates are needed, and the machine may have none.
            _ => builder.tls_certs_only([]),
        };
        let connections = builder
            // A proxy or a redirect would send the key to another server.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| root(&error).context("cannot set up the HTTP client"))?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { url, key: key.to_owned(), connections })
    }

    /// Builds a client for `--url`, or `--server`; the key is never on the command line. `None` if neither asks for a server.
    pub(crate) fn asked_for(server: &RemoteArgs) -> Result<Option<Self>> {
        if server.url.is_none() && !server.server {
            ensure!(server.ca.is_none(), "--ca is used with --url or --server");
            return Ok(None);
        }
        let server = ServerArgs { url: server.url.clone(), ca: server.ca.clone() };
        Self::from_args(server, None).map(Some)
    }

    /// Builds a client for SILICA_URL; `None` if it is not set.
    pub(crate) fn from_environment() -> Result<Option<Self>> {
        let is_set = std::env::var("SILICA_URL").is_ok_and(|url| !url.is_empty());
        let server = ServerArgs { url: None, ca: None };
        if is_set { Self::from_args(server, None).map(Some) } else { Ok(None) }
    }

    /// Returns the address of the server.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sends a GET request.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer> {
        self.call(Method::GET, path, "").await
    }

    /// Sends a POST request with a JSON body.
    pub(crate) async fn post(&self, path: &str, body: &str) -> Result<Answer> {
        self.call(Method::POST, path, body).await
    }

    /// Sends a PUT request with a JSON body.
    pub(crate) async fn put(&self, path: &str, body: &str) -> Result<Answer> {
        self.call(Method::PUT, path, body).await
    }

    /// Sends a DELETE request.
    pub(crate) async fn delete(&self, path: &str) -> Result<Answer> {
        self.call(Method::DELETE, path, "").await
    }

    /// Sends a POST request that may take the time of making a sandbox.
    pub(crate) async fn post_slowly(&self, path: &str, body: &str) -> Result<Answer> {
        self.answer(self.request(Method::POST, path, body), MAKE_PATIENCE).await
    }

    /// Sends a POST request whose answer is a stream of events.
    pub(crate) async fn stream(&self, path: &str, body: &str) -> Result<Streamed> {
        let request = self.request(Method::POST, path, body);
        self.streamed(request.header("Accept", "text/event-stream")).await
    }

    /// Sends a GET request whose answer may be long.
    pub(crate) async fn download(&self, path: &str) -> Result<Streamed> {
        self.streamed(self.request(Method::GET, path, "")).await
    }

    /// Sends a request and returns the head of the response, whatever its status.
    pub(crate) async fn exchange(
        &self,
        method: Method,
        path: &str,
        accept: &str,
        body: Vec<u8>,
    ) -> Result<reqwest::Response> {
        let request = self.request(method, path, "").header("Accept", accept).body(body);
        self.explained(request.timeout(STREAM_PATIENCE).send().await, STREAM_PATIENCE)
    }

    async fn streamed(&self, request: reqwest::RequestBuilder) -> Result<Streamed> {
        let sent = request.timeout(STREAM_PATIENCE).send().await;
        let body = self.explained(sent, STREAM_PATIENCE)?;
        if body.status().is_success() {
            return Ok(Streamed { body });
        }
        let answer = self.read(body, STREAM_PATIENCE).await?;
        answer.json(0, self)?;
        bail!("{} answered {}", self.url, answer.status)
    }

    /// Replaces the error of a request, which had `patience` to be answered, by a short one.
    pub(crate) fn explained<T>(
        &self,
        result: Result<T, reqwest::Error>,
        patience: Duration,
    ) -> Result<T> {
        result.map_err(|error| self.explain(&error, patience))
    }

    async fn call(&self, method: Method, path: &str, body: &str) -> Result<Answer> {
        let request = self.request(method, path, body).header("Accept", "application/json");
        self.answer(request, ANSWER_PATIENCE).await
    }

    fn request(&self, method: Method, path: &str, body: &str) -> reqwest::RequestBuilder {
        let request = self.connections.request(method, format!("{}{path}", self.url));
        request.header("X-API-Key", &self.key).body(body.to_owned())
    }

    async fn answer(&self, request: reqwest::RequestBuilder, patience: Duration) -> Result<Answer> {
        let response = self.explained(request.timeout(patience).send().await, patience)?;
        self.read(response, patience).await
    }

    async fn read(&self, mut response: reqwest::Response, patience: Duration) -> Result<Answer> {
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = self.explained(response.chunk().await, patience)? {
            body.extend_from_slice(&chunk);
            ensure!(
                body.len() <= ANSWER_BYTES_MAX,
                "the answer of {} is longer than {ANSWER_BYTES_MAX} bytes",
                self.url
            );
        }
        Ok(Answer { status, body })
    }

    /// Returns a short error for a failed request.
    fn explain(&self, error: &reqwest::Error, patience: Duration) -> anyhow::Error {
        let url = &self.url;
        let cause = root(error);
        let text = cause.to_string();
        if error.is_timeout() {
            return anyhow!("{url} did not answer within {} seconds", patience.as_secs());
        }
        if let Some(reason) = text.strip_prefix("invalid peer certificate") {
            return anyhow!(
                "the certificate of {url} is not trusted: {}; if the server signs its own \
                 certificate, pass it with --ca FILE or SILICA_CA",
                trust::reason(reason)
            );
        }
        if text.contains("InvalidContentType") {
            return anyhow!("{url} does not use TLS; write its address with http://");
        }
        if error.is_connect() {
            let hint = "is the server running? start it with: silica serve";
            return cause.context(format!("cannot reach {url}; {hint}"));
        }
        cause.context(format!("no valid HTTP answer from {url}"))
    }
}

/// Returns whether a URL has only a scheme, a host, a port and a path.
fn is_server(url: &Url) -> bool {
    let no_user = url.username().is_empty() && url.password().is_none();
    let plain = url.query().is_none() && url.fragment().is_none();
    matches!(url.scheme(), "http" | "https") && url.has_host() && no_user && plain
}

/// Returns the innermost cause of an error, which is the specific one.
fn root(error: &reqwest::Error) -> anyhow::Error {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    anyhow!("{cause}")
}
