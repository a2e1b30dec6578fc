//! A running server over a data directory of its own, and calls to it.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Ground, PATIENCE, PYTHON, SILICA, eventually, first_line, signal};

/// A running server.
pub(crate) struct Served {
    pub(crate) url: String,
    /// The first key, which is an admin's.
    pub(crate) key: String,
    child: Child,
    _stdout: BufReader<ChildStdout>,
    /// The last to go: it looks whether anything is left.
    _ground: Ground,
}

/// What a call came to.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Called {
    pub(crate) fn header(&self, name: &str) -> &str {
        let header = self.headers.iter().find(|(known, _)| known == name);
        header.map_or("", |(_, value)| value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Served {
    pub(crate) fn start() -> Self {
        let ground = Ground::new(PYTHON);
        // A model that answers one prompt, without a provider.
        let script = ground.here().join("script.toml");
        let turn = "[[turn]]\nwhen = \"contract\"\ntext = \"```python\\nprint(1)\\n```\"\n";
        std::fs::write(&script, turn).unwrap();
        let mut command = Command::new(SILICA);
        command
            .args(["serve", "--print", "json", "--listen", "127.0.0.1:0", "--warm", "python=1"])
            .args(["--set", "model.provider=scripted", "--set"])
            .arg(format!("model.script={}", script.display()))
            .args(["--set", "sandboxes.template=python"])
            .args(["--set", "quota.request_burst=10000"])
            .env_clear()
            .env("SILICA_HOME", ground.home())
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (line, stdout) = first_line(&mut child);
        let said: Value = serde_json::from_str(&line).unwrap();
        let text = |name: &str| said[name].as_str().unwrap().to_owned();
        Self { url: text("url"), key: text("key"), child, _stdout: stdout, _ground: ground }
    }

    /// Calls with a key, headers and a body.
    pub(crate) fn call_with(
        &self,
        key: Option<&str>,
        call: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Called {
        let mut stream = TcpStream::connect(self.url.strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = format!("{call} HTTP/1.0\r\nHost: localhost\r\n").into_bytes();
        let key = key.map(|key| ("X-API-Key", key));
        for (name, value) in headers.iter().chain(&key) {
            write!(request, "{name}: {value}\r\n").unwrap();
        }
        write!(request, "Content-Length: {}\r\n\r\n", body.len()).unwrap();
        // In one piece: a server that answers without the body would otherwise find it coming after it
        // has closed, and the answer would be lost with the connection.
        request.extend_from_slice(body);
        stream.write_all(&request).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| line.split_once(':').unwrap());
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
        Called { status, headers: headers.collect(), body: answer[end + 4..].to_vec() }
    }

    /// Calls with the first key.
    pub(crate) fn call(&self, call: &str, body: &str) -> Called {
        self.call_with(Some(&self.key), call, &[], body.as_bytes())
    }

    /// Calls, and wants this status.
    #[track_caller]
    pub(crate) fn want(&self, status: u16, call: &str, body: &str) -> Value {
        let called = self.call(call, body);
        assert_eq!(called.status, status, "{call}: {}", called.text());
        if called.body.is_empty() { Value::Null } else { called.json() }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        signal(self.child.id(), Signal::TERM);
        let ended = eventually(PATIENCE, || self.child.try_wait().unwrap().is_some());
        if !ended {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
        assert!(ended || std::thread::panicking(), "the server does not end");
    }
}
