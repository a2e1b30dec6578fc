//! A server before it is ready: it listens, says what it waits for, and has requests wait.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::server::serve_command;
use crate::harness::{PYTHON, TIMEOUT, TestHome, eventually, signal};

/// Answers a request with the whole response; `None` while nothing listens.
fn ask(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    Some(response)
}

struct Starting {
    child: Child,
    port: u16,
}

impl Drop for Starting {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

/// Starts a server and returns as soon as its log says where it listens.
fn start(home: &TestHome) -> Starting {
    let mut command = serve_command(home, &[]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "it ended");
    }
    // So that it can go on logging.
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    let (_, after) = line.split_once("127.0.0.1:").unwrap();
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    Starting { child, port: digits.parse().unwrap() }
}

#[test]
fn it_listens_at_once_and_requests_wait() {
    let home = TestHome::new(PYTHON);
    let server = start(&home);
    let began = Instant::now();
    let alive = ask(server.port, "/healthz").unwrap();
    assert!(alive.starts_with("HTTP/1.1 200"), "{alive}");
    let mut starting = 0;
    let ready = eventually(TIMEOUT, || {
        let response = ask(server.port, "/readyz").unwrap();
        if response.starts_with("HTTP/1.1 503") {
            assert!(response.contains("\"code\":\"starting\""), "{response}");
            assert!(response.to_lowercase().contains("\r\nretry-after: "), "{response}");
            assert!(response.contains("the server has been starting for"), "{response}");
            starting += 1;
        }
        response.starts_with("HTTP/1.1 200")
    });
    assert!(ready && starting > 0, "ready after {:?}, {starting} times not", began.elapsed());
    let root = ask(server.port, "/").unwrap();
    assert!(root.contains("\"name\":\"silica\"") && root.contains("\"docs\":\"/docs\""), "{root}");
}

#[test]
fn a_request_that_comes_early_is_answered_when_the_server_is_ready() {
    let home = TestHome::new(PYTHON);
    let server = start(&home);
    // No key: it is refused by the service itself, once there is one.
    let answered = eventually(TIMEOUT, || {
        ask(server.port, "/v1/stats").is_some_and(|response| response.starts_with("HTTP/1.1 401"))
    });
    assert!(answered);
}

#[test]
fn a_signal_ends_a_start() {
    let home = TestHome::new(PYTHON);
    let mut server = start(&home);
    signal(server.child.id(), Signal::TERM);
    let ended = eventually(Duration::from_secs(30), || server.child.try_wait().unwrap().is_some());
    assert!(ended);
}
