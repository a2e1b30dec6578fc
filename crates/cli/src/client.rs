//! An HTTP client of a running server. Requests are bounded in time, answers in size.

#[cfg(test)]
mod tests;
mod trust;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use reqwest::{Method, Url};

/// The address at which a server listens by default.
const URL_DEFAULT: &str = "http://127.0.0.1:8585";

/// How long a request may take, with its answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

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

impl Client {
    /// Builds a client from the command line, or from the environment where an argument is missing.
    pub(crate) fn from_args(server: ServerArgs, key: Option<String>) -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let url = server.url.or_else(|| variable("SILICA_URL"));
        let key = key.or_else(|| variable("SILICA_KEY"));
        let key = key.context("a key is required: set SILICA_KEY, or use --key")?;
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
            .timeout(ANSWER_PATIENCE)
            // A proxy or a redirect would send the key to another server.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| root(&error).context("cannot set up the HTTP client"))?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { url, key: key.to_owned(), connections })
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

    async fn call(&self, method: Method, path: &str, body: &str) -> Result<Answer> {
        let request = self
            .connections
            .request(method, format!("{}{path}", self.url))
            .header("X-API-Key", &self.key)
            .header("Accept", "application/json")
            .body(body.to_owned());
        let mut response = request.send().await.map_err(|error| self.explain(&error))?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.explain(&error))? {
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
    fn explain(&self, error: &reqwest::Error) -> anyhow::Error {
        let url = &self.url;
        let seconds = ANSWER_PATIENCE.as_secs();
        let cause = root(error);
        if error.is_timeout() {
            return anyhow!("{url} did not answer within {seconds} seconds");
        }
        if cause.to_string().starts_with("invalid peer certificate") {
            let hint = "if the server signs its own certificate, pass it with --ca";
            return cause.context(format!("the certificate of {url} is not trusted; {hint}"));
        }
        if cause.to_string().contains("InvalidContentType") {
            return cause
                .context(format!("{url} does not use TLS; write its address with http://"));
        }
        let what = if error.is_connect() { "cannot reach" } else { "no valid HTTP answer from" };
        cause.context(format!("{what} {url}"))
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
