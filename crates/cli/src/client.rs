//! One request to a server over plain HTTP, bounded in time and in size.
//!
//! It speaks HTTP/1.0, so that an answer has no other framing than its length and its end.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Where a server listens unless it is told otherwise.
const URL_DEFAULT: &str = "http://127.0.0.1:8585";

/// How long an answer may take, all in all.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// The longest answer that is read; a sandbox takes about two kilobytes of it.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// A server and the key to it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Client {
    url: String,
    host: String,
    port: u16,
    /// As it stands in the address, for the header.
    authority: String,
    /// In front of every path, without a slash at its end.
    prefix: String,
    key: String,
}

/// The key is not for logs.
impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Client({}, {}, {:?})", self.host, self.port, self.prefix)
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
    pub(crate) fn given(url: Option<String>, key: Option<String>) -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let url = url.or_else(|| variable("SILICA_URL"));
        let key = key.or_else(|| variable("SILICA_KEY"));
        let key = key.context("a key is needed: set SILICA_KEY, or give --key")?;
        Self::new(url.as_deref().unwrap_or(URL_DEFAULT), &key)
    }

    /// Takes an address such as `http://127.0.0.1:8585`.
    pub(crate) fn new(url: &str, key: &str) -> Result<Self> {
        let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        // Anything else could end the header it is put into.
        ensure!(printable(key) && !key.is_empty(), "the key is not one: it has strange characters");
        let wrong =
            || anyhow!("{url:?} is not an address; write for example http://127.0.0.1:8585");
        if url.starts_with("https://") {
            bail!("this speaks plain http only; give it the address behind the proxy that has TLS");
        }
        let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        ensure!(printable(rest) && !rest.contains(['@', '?', '#', '\\']), wrong());
        let (host, port) = split_authority(authority).ok_or_else(wrong)?;
        Ok(Self {
            url: url.to_owned(),
            host: host.to_owned(),
            port,
            authority: authority.to_owned(),
            prefix: path.trim_end_matches('/').to_owned(),
            key: key.to_owned(),
        })
    }

    /// The address as it was given.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Fetches a path.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer> {
        self.call("GET", path, "").await
    }

    /// Sends JSON to a path.
    pub(crate) async fn post(&self, path: &str, body: &str) -> Result<Answer> {
        self.call("POST", path, body).await
    }

    async fn call(&self, method: &str, path: &str, body: &str) -> Result<Answer> {
        let exchange = self.exchange(method, path, body);
        let bytes = tokio::time::timeout(ANSWER_PATIENCE, exchange).await;
        let seconds = ANSWER_PATIENCE.as_secs();
        let bytes = bytes
            .with_context(|| format!("{} did not answer within {seconds} seconds", self.url))?
            .with_context(|| format!("cannot reach {}", self.url))?;
        parse(&bytes).with_context(|| format!("{} does not speak HTTP", self.url))
    }

    async fn exchange(&self, method: &str, path: &str, body: &str) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let Self { authority, prefix, key, .. } = self;
        let request = format!(
            "{method} {prefix}{path} HTTP/1.0\r\nHost: {authority}\r\nX-API-Key: {key}\r\n\
             Accept: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut bytes = Vec::new();
        stream.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut bytes).await?;
        if bytes.len() as u64 > ANSWER_BYTES_MAX {
            return Err(std::io::Error::other("the answer does not end"));
        }
        Ok(bytes)
    }
}

/// The host without brackets, and the port.
fn split_authority(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = port.map_or(Some(80), |port| port.parse().ok())?;
    (!host.is_empty()).then_some((host, port))
}

/// Takes an answer apart.
pub(crate) fn parse(bytes: &[u8]) -> Result<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let (head, body) = bytes.split_at(end.context("the answer has no head")?);
    let head = std::str::from_utf8(head).context("the head is not text")?;
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(' ');
    let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
    let status = words.next().and_then(|status| status.parse().ok()).filter(|_| is_http);
    let status = status.context("the first line is none of HTTP/1")?;
    let mut body = body[4..].to_vec();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("transfer-encoding") {
            bail!("the answer is in pieces, which HTTP/1.0 does not know");
        }
        if name.eq_ignore_ascii_case("content-length") {
            let length: usize = value.trim().parse().context("the length is no number")?;
            ensure!(body.len() >= length, "the answer was cut short");
            body.truncate(length);
        }
    }
    Ok(Answer { status, body })
}
