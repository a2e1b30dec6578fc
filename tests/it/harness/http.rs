//! A small HTTP/1.1 client that can also misbehave: it shows every byte and can stop anywhere.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use serde_json::Value;

use super::TIMEOUT;

/// The longest line of a head or of an event that a test reads.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// A client of a server, with a key or without.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) key: Option<String>,
}

/// The response to a request.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The status and the code of a response that must be a problem document.
    pub(crate) fn problem(&self) -> (u16, String) {
        let kind = self.header("content-type");
        assert_eq!(kind, Some("application/problem+json"), "{} {}", self.status, self.text());
        let body = self.json();
        assert_eq!(body["status"], self.status, "{body}");
        assert_eq!(body["request_id"].as_str(), self.header("x-request-id"), "{body}");
        assert!(!body["detail"].as_str().unwrap().is_empty(), "{body}");
        (self.status, body["code"].as_str().unwrap().to_owned())
    }

    /// Asserts the status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }
}

impl Client {
    /// A client of the same server with another key.
    pub(crate) fn with_key(&self, key: Option<&str>) -> Self {
        Self { address: self.address, key: key.map(str::to_owned) }
    }

    pub(crate) fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { stream: BufReader::new(stream), unread: Unread::UntilClose }
    }

    /// The head of a request: the given headers, and a host, a key and a length unless given.
    pub(crate) fn head(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        length: usize,
    ) -> String {
        let given = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut head = vec![format!("{method} {path} HTTP/1.1")];
        if !given("host") {
            head.push(format!("Host: {}", self.address));
        }
        if let Some(key) = self.key.as_ref().filter(|_| !given("x-api-key")) {
            head.push(format!("X-API-Key: {key}"));
        }
        if !given("transfer-encoding") && !given("content-length") {
            head.push(format!("Content-Length: {length}"));
        }
        head.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
        head.join("\r\n") + "\r\n\r\n"
    }

    /// Sends a request and reads the head of the response; its body stays on the connection.
    pub(crate) fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (Response, Connection) {
        let mut connection = self.connect();
        let head = self.head(method, path, headers, body.len());
        // A server that has read enough may answer and close before it has everything.
        let _ = connection.send(&[head.as_bytes(), body].concat());
        let response = connection.read_head(method);
        (response, connection)
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        let (mut response, mut connection) = self.begin(method, path, headers, body);
        response.body = connection.read_body().unwrap();
        response
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.request("GET", path, &[], b"")
    }

    pub(crate) fn delete(&self, path: &str) -> Response {
        self.request("DELETE", path, &[], b"")
    }

    pub(crate) fn put(&self, path: &str, body: &[u8]) -> Response {
        self.request("PUT", path, &[], body)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        self.request("POST", path, &[], body.to_string().as_bytes())
    }

    /// Gets a stream of events.
    pub(crate) fn events(&self, path: &str) -> Events {
        let (response, connection) = self.begin("GET", path, &[], b"");
        assert_eq!(response.status, 200, "{path}");
        Events { connection }
    }

    /// Posts, and accepts a stream of events.
    pub(crate) fn stream(&self, path: &str, body: &Value) -> Events {
        let accept = [("Accept", "text/event-stream")];
        let (response, connection) = self.begin("POST", path, &accept, body.to_string().as_bytes());
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(response.header("content-type"), Some("text/event-stream"));
        Events { connection }
    }
}

/// How much of a body is still to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    Bytes(u64),
    Chunk(u64),
    /// Between two chunks.
    NextChunk,
    UntilClose,
    Nothing,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    unread: Unread,
}

impl Connection {
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Closes the sending side; reading goes on.
    pub(crate) fn end_sending(&mut self) {
        // The server may have closed it already, which is what some tests are about.
        let _ = self.stream.get_mut().shutdown(Shutdown::Write);
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        (&mut self.stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.pop_if(|last| *last == b'\r');
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    pub(crate) fn read_head(&mut self, method: &str) -> Response {
        self.try_read_head(method).unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    pub(crate) fn try_read_head(&mut self, method: &str) -> io::Result<Response> {
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        let response = Response { status, headers, body: Vec::new() };
        let length = response.header("content-length").map(|length| length.parse().unwrap());
        self.unread = match length {
            _ if method == "HEAD" || status == 204 || status == 304 => Unread::Nothing,
            Some(length) => Unread::Bytes(length),
            None if response.header("transfer-encoding") == Some("chunked") => Unread::NextChunk,
            None => Unread::UntilClose,
        };
        Ok(response)
    }

    /// Reads the rest of a body. A body that ends too early is an error.
    pub(crate) fn read_body(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        self.read_to_end(&mut body)?;
        Ok(body)
    }

    /// Waits until the server has closed or sent something; returns whether it has closed.
    pub(crate) fn is_closed(&mut self) -> bool {
        !matches!(self.stream.fill_buf(), Ok(bytes) if !bytes.is_empty())
    }
}

impl Read for Connection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.unread == Unread::NextChunk {
            let size = self.line()?;
            let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            self.unread = Unread::Chunk(size);
            if size == 0 {
                self.line()?;
                self.unread = Unread::Nothing;
            }
        }
        let most = match self.unread {
            Unread::Bytes(left) | Unread::Chunk(left) => left,
            Unread::UntilClose => u64::MAX,
            Unread::NextChunk | Unread::Nothing => 0,
        };
        let read = (&mut self.stream).take(most).read(into)? as u64;
        if read == 0 && most > 0 && self.unread != Unread::UntilClose && !into.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match &mut self.unread {
            Unread::Bytes(left) | Unread::Chunk(left) => *left -= read,
            Unread::NextChunk | Unread::UntilClose | Unread::Nothing => {}
        }
        if self.unread == Unread::Chunk(0) {
            self.line()?;
            self.unread = Unread::NextChunk;
        }
        Ok(read as usize)
    }
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// Events as they arrive. Dropping this closes the connection.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) connection: Connection,
}

impl Events {
    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            match self.connection.read(&mut byte).unwrap() {
                0 => return None,
                _ if byte == *b"\n" => return Some(String::from_utf8(line).unwrap()),
                _ => line.push(byte[0]),
            }
        }
    }

    /// Reads on to the first event of a kind.
    pub(crate) fn until(&mut self, name: &str) -> Event {
        self.find(|event| event.name == name).unwrap_or_else(|| panic!("no {name}"))
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut event = Event { id: None, name: String::new(), data: Value::Null };
        loop {
            let line = self.line()?;
            match line.split_once(": ") {
                Some(("id", id)) => event.id = Some(id.parse().unwrap()),
                Some(("event", name)) => name.clone_into(&mut event.name),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                // A comment, which keeps the connection alive.
                Some(("", _)) => {}
                _ if line.is_empty() && event.name.is_empty() => {}
                _ if line.is_empty() => return Some(event),
                _ => panic!("{line:?} is no line of an event"),
            }
        }
    }
}
