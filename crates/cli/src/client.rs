//! Requests to a running server, bounded in time and in size.

#[cfg(test)]
mod tests;
mod trust;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use reqwest::{Method, Url};

/// Where a server listens unless it is told otherwise.
const URL_DEFAULT: &str = "http://127.0.0.1:8585";

/// How long an answer may take, all in all.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// The longest answer that is read; a sandbox takes about two kilobytes of it.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Which server is asked.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The server [default: SILICA_URL, else http://127.0.0.1:8585]
    #[arg(long, global = true)]
    url: Option<String>,
    /// A certificate to trust beside the system's, PEM [default: SILICA_CA]
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// A server and the key to it.
#[derive(Clone)]
pub(crate) struct Client {
    /// Without a slash at its end.
    url: String,
    key: String,
    connections: reqwest::Client,
}

/// The key is not for logs.
impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Client({})", self.url)
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Takes what was given on the command line, else what the environment says.
    pub(crate) fn given(server: ServerArgs, key: Option<String>) -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let url = server.url.or_else(|| variable("SILICA_URL"));
        let key = key.or_else(|| variable("SILICA_KEY"));
        let key = key.context("a key is needed: set SILICA_KEY, or give --key")?;
        let ca = server.ca.or_else(|| variable("SILICA_CA").map(PathBuf::from));
        Self::new(url.as_deref().unwrap_or(URL_DEFAULT), &key, ca.as_deref())
    }

    /// Takes an address such as `http://127.0.0.1:8585`. No connection is made yet.
    pub(crate) fn new(url: &str, key: &str, ca: Option<&Path>) -> Result<Self> {
        let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        // Anything else could end the header it is put into.
        ensure!(printable(key) && !key.is_empty(), "the key is not one: it has strange characters");
        let parsed = Url::parse(url).ok().filter(|_| printable(url)).filter(is_server);
        let parsed = parsed.with_context(|| {
            format!("{url:?} is not an address; write for example {URL_DEFAULT}")
        })?;
        // Another part of the program may have chosen already; both choices are as good.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let trusting = ca.map(trust::with_certificates).transpose()?;
        let builder = reqwest::Client::builder();
        let builder = match (parsed.scheme(), trusting) {
            ("https", None) => builder,
            ("https", Some(trusting)) => builder.tls_backend_preconfigured(trusting),
            // A machine may have no certificates of its own, and needs none.
            _ => builder.tls_certs_only([]),
        };
        let connections = builder
            .timeout(ANSWER_PATIENCE)
            // A proxy or a redirect would carry the key elsewhere.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| root(&error).context("cannot set up connections"))?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { url, key: key.to_owned(), connections })
    }

    /// The address as it was given.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Fetches a path.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer> {
        self.call(Method::GET, path, "").await
    }

    /// Sends JSON to a path.
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
        let (status, mut body) = (response.status().as_u16(), Vec::new());
        while let Some(chunk) = response.chunk().await.map_err(|error| self.explain(&error))? {
            body.extend_from_slice(&chunk);
            ensure!(body.len() <= ANSWER_BYTES_MAX, "the answer of {} does not end", self.url);
        }
        Ok(Answer { status, body })
    }

    /// What went wrong, in few words.
    fn explain(&self, error: &reqwest::Error) -> anyhow::Error {
        let (url, seconds) = (&self.url, ANSWER_PATIENCE.as_secs());
        let cause = root(error);
        if error.is_timeout() {
            return anyhow!("{url} did not answer within {seconds} seconds");
        }
        if cause.to_string().starts_with("invalid peer certificate") {
            let hint = "if it is its own, give it by --ca";
            return cause.context(format!("the certificate of {url} is not trusted; {hint}"));
        }
        if cause.to_string().contains("InvalidContentType") {
            return cause
                .context(format!("{url} does not speak TLS; its address begins with http:"));
        }
        let what = if error.is_connect() { "cannot reach" } else { "no HTTP came from" };
        cause.context(format!("{what} {url}"))
    }
}

/// Whether it names a server and nothing more than where on it to begin.
fn is_server(url: &Url) -> bool {
    let nobody = url.username().is_empty() && url.password().is_none();
    let plain = url.query().is_none() && url.fragment().is_none();
    matches!(url.scheme(), "http" | "https") && url.has_host() && nobody && plain
}

/// The cause of all others, which says what happened; those before it say where.
fn root(error: &reqwest::Error) -> anyhow::Error {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    anyhow!("{cause}")
}
