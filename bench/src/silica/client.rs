//! A blocking HTTP/1.1 client on one connection: as little between the clock and the server as can
//! be.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The most bytes of an answer that are read at a time.
const PIECE_BYTES: usize = 1 << 20;

pub(crate) struct Client {
    socket: TcpStream,
    reader: BufReader<TcpStream>,
    key: String,
}

/// The head of an answer.
struct Head {
    status: u16,
    length: Option<usize>,
    chunked: bool,
}

impl Client {
    pub(crate) fn connect(address: &str, key: &str) -> Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let reader = BufReader::with_capacity(256 * 1024, socket.try_clone()?);
        Ok(Self { socket, reader, key: key.to_owned() })
    }

    fn send(&mut self, method: &str, path: &str, accept: &str, body: &[u8]) -> Result<()> {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {}\r\nAccept: {accept}\r\nContent-Length: {}\r\n\r\n",
            self.key,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        Ok(self.socket.write_all(&request)?)
    }

    fn head(&mut self) -> Result<Head> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let mut head = Head { status: status.context("no status")?, length: None, chunked: false };
        loop {
            line.clear();
            self.reader.read_line(&mut line)?;
            let text = line.trim_end().to_ascii_lowercase();
            if text.is_empty() {
                return Ok(head);
            }
            if let Some(length) = text.strip_prefix("content-length: ") {
                head.length = Some(length.parse()?);
            }
            head.chunked |= text == "transfer-encoding: chunked";
        }
    }

    fn body(&mut self, head: &Head, mut take: impl FnMut(&[u8])) -> Result<()> {
        if let Some(mut left) = head.length {
            let mut piece = vec![0; left.min(PIECE_BYTES)];
            while left > 0 {
                let count = left.min(piece.len());
                self.reader.read_exact(&mut piece[..count])?;
                take(&piece[..count]);
                left -= count;
            }
            return Ok(());
        }
        if head.status == 204 {
            return Ok(());
        }
        ensure!(head.chunked, "an answer without an end");
        let mut chunk = Vec::new();
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim(), 16)?;
            chunk.resize(length + 2, 0);
            self.reader.read_exact(&mut chunk)?;
            if length == 0 {
                return Ok(());
            }
            take(&chunk[..length]);
        }
    }

    pub(crate) fn request(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Vec<u8>> {
        self.send(method, path, "application/json", body)?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Vec<u8>> {
        let head = self.head()?;
        let mut body = Vec::new();
        self.body(&head, |chunk| body.extend_from_slice(chunk))?;
        ensure!(head.status < 300, "{}: {}", head.status, String::from_utf8_lossy(&body));
        Ok(body)
    }

    pub(crate) fn json(&mut self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let answer = self.request(method, path, body.to_string().as_bytes())?;
        Ok(serde_json::from_slice(&answer)?)
    }

    /// Sends a GET request, and passes the body to a callback as it arrives.
    pub(crate) fn download(&mut self, path: &str, take: impl FnMut(&[u8])) -> Result<()> {
        self.send("GET", path, "*/*", &[])?;
        let head = self.head()?;
        ensure!(head.status == 200, "status {}", head.status);
        self.body(&head, take)
    }

    /// Sends a GET request for a stream of events, and reads only the head of the response.
    pub(crate) fn begin(&mut self, path: &str) -> Result<()> {
        self.send("GET", path, "text/event-stream", &[])?;
        let head = self.head()?;
        ensure!(head.status == 200, "status {}", head.status);
        Ok(())
    }

    /// Sends a POST request, and passes the body to a callback as it arrives.
    pub(crate) fn stream(
        &mut self,
        path: &str,
        body: &Value,
        take: impl FnMut(&[u8]),
    ) -> Result<()> {
        self.send("POST", path, "text/event-stream", body.to_string().as_bytes())?;
        let head = self.head()?;
        ensure!(head.status == 200, "status {}", head.status);
        self.body(&head, take)
    }

    /// Sends a PUT request with a body of a known length, which `write` writes.
    pub(crate) fn upload(
        &mut self,
        path: &str,
        length: usize,
        write: impl FnOnce(&mut TcpStream) -> Result<()>,
    ) -> Result<()> {
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {}\r\nContent-Length: {length}\r\n\r\n",
            self.key
        );
        self.socket.write_all(head.as_bytes())?;
        write(&mut self.socket)?;
        self.answer().map(drop)
    }
}
