//! The real binary, `silica serve`, as a process beside this one, as in production.

use std::collections::HashMap;
use std::io::BufRead as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Client;
use crate::footprint::{self, Footprint};
use crate::interleave::count_beside;
use crate::peers::{Contender, Run};

/// How long a pool may take to fill.
const POOL_PATIENCE: Duration = Duration::from_mins(1);

/// Where the binary, its data directory and its template are.
#[derive(Clone, Debug)]
pub(crate) struct Silica {
    pub(crate) binary: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) template: String,
}

/// A running `silica serve`.
pub(crate) struct Served {
    process: Child,
    address: String,
    key: String,
    pool: usize,
    /// Removed after the server has ended.
    home: tempfile::TempDir,
    connection: Option<Client>,
    sessions: HashMap<u64, String>,
    next: u64,
}

impl Served {
    /// Starts a server with a new data directory, the templates of another, and a pool.
    pub(crate) fn start(silica: &Silica, pool: usize, settings: &[&str]) -> Result<Self> {
        let own = tempfile::tempdir()?;
        Self::start_in(own, silica, pool, settings)
    }

    /// Starts a server in a data directory that may already hold an audit log.
    pub(crate) fn start_in(
        own: tempfile::TempDir,
        silica: &Silica,
        pool: usize,
        settings: &[&str],
    ) -> Result<Self> {
        for shared in ["templates", "templates.d", "guest", "cache"] {
            let theirs = silica.home.join(shared);
            if theirs.exists() {
                symlink(theirs, own.path().join(shared))?;
            }
        }
        let mut process = Command::new(&silica.binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--print", "json"])
            .args(["--warm", &format!("{}={pool}", silica.template)])
            .args(["--set", &format!("sandboxes.template={}", silica.template)])
            .args(["--set", "log.level=warn"])
            .args(["--set", "quota.requests_per_second=100000"])
            .args(["--set", "quota.request_burst=100000"])
            .args(["--set", "quota.sandboxes=2000", "--set", "sandboxes.count_max=2000"])
            .args(["--set", "quota.cells_queued=1000", "--set", "cells.queue_max=1000"])
            .args(settings.iter().flat_map(|setting| ["--set", setting]))
            .env("SILICA_HOME", own.path())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", silica.binary.display()))?;
        let mut line = String::new();
        let stdout = process.stdout.take().context("stdout is piped")?;
        std::io::BufReader::new(stdout).read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line).context("the server did not start")?;
        let address = said["url"].as_str().unwrap_or_default().replace("http://", "");
        let key = said["key"].as_str().unwrap_or_default().to_owned();
        let (connection, sessions) = (None, HashMap::new());
        Ok(Self { process, address, key, pool, home: own, connection, sessions, next: 0 })
    }

    /// Returns the URL, and the first key in the form of E2B's clients.
    pub(crate) fn url_and_key(&self) -> (String, String) {
        (format!("http://{}", self.address), self.key.replace("silica_", "e2b_"))
    }

    /// Returns the data directory.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Opens a new connection.
    pub(crate) fn client(&self) -> Result<Client> {
        Client::connect(&self.address, &self.key)
    }

    /// Returns the connection that measures share, which the first call opens.
    pub(crate) fn shared(&mut self) -> Result<&mut Client> {
        if self.connection.is_none() {
            self.connection = Some(self.client()?);
        }
        self.connection.as_mut().context("there is a connection")
    }

    /// Returns the memory of the server without its sandboxes, in MB.
    pub(crate) fn memory(&self) -> f64 {
        footprint::resident_bytes(self.process.id()) as f64 / 1e6
    }

    /// Returns the resources of the server and its descendants.
    pub(crate) fn footprint(&self) -> Footprint {
        let own = self.process.id();
        let launchers = footprint::children(own);
        let masters = launchers.iter().flat_map(|&launcher| footprint::children(launcher));
        let lasting: Vec<u32> = [own].into_iter().chain(launchers.clone()).chain(masters).collect();
        Footprint::of(&[&[own], footprint::descendants(own).as_slice()].concat(), &lasting)
    }

    /// Returns the processor seconds of the server and its descendants.
    pub(crate) fn processor_seconds(&self) -> f64 {
        let own = self.process.id();
        let family = std::iter::once(own).chain(footprint::descendants(own));
        family.map(footprint::processor_seconds).sum()
    }

    /// Waits until the pool is full again, as it is between occasional creates.
    pub(crate) fn wait_for_pool(&mut self) -> Result<()> {
        let (full, deadline) = (self.pool, Instant::now() + POOL_PATIENCE);
        let client = self.shared()?;
        while Instant::now() < deadline {
            let text = String::from_utf8(client.request("GET", "/metrics", &[])?)?;
            let depth = text.lines().find_map(|line| line.strip_prefix("silica_pool_depth "));
            if depth.and_then(|depth| depth.trim().parse::<usize>().ok()) >= Some(full) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        anyhow::bail!("the pool did not fill")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.process.wait();
    }
}

impl Client {
    /// Creates a sandbox; returns its id.
    pub(crate) fn create(&mut self, body: &Value) -> Result<String> {
        let made = self.json("POST", "/v1/sandboxes", body)?;
        Ok(made["id"].as_str().context("no id")?.to_owned())
    }

    /// Runs a cell; returns its output.
    pub(crate) fn cell(&mut self, sandbox: &str, code: &str) -> Result<String> {
        let path = format!("/v1/sandboxes/{sandbox}/cells");
        let cell = self.json("POST", &path, &json!({"code": code, "timeout_seconds": 600}))?;
        ensure!(
            cell["outcome"] == "ok",
            "the cell ended as {}: {}",
            cell["outcome"],
            cell["error"]
        );
        Ok(cell["stdout"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn delete(&mut self, sandbox: &str) -> Result<()> {
        self.request("DELETE", &format!("/v1/sandboxes/{sandbox}"), &[]).map(drop)
    }

    /// Creates a sandbox, runs a cell and deletes the sandbox.
    pub(crate) fn whole(&mut self, code: &str) -> Result<()> {
        let sandbox = self.create(&json!({}))?;
        self.cell(&sandbox, code)?;
        self.delete(&sandbox)
    }
}

impl Contender for Served {
    fn fresh(&mut self, code: &str) -> Result<Run> {
        let client = self.shared()?;
        let started = Instant::now();
        let sandbox = client.create(&json!({}))?;
        let output = client.cell(&sandbox, code)?;
        let took = started.elapsed();
        client.delete(&sandbox)?;
        Ok(Run { took, output })
    }

    fn open(&mut self) -> Result<u64> {
        let client = self.shared()?;
        let sandbox = client.create(&json!({}))?;
        client.cell(&sandbox, "pass")?;
        self.next += 1;
        self.sessions.insert(self.next, sandbox);
        Ok(self.next)
    }

    fn run(&mut self, session: u64, code: &str) -> Result<Run> {
        let sandbox = self.sessions.get(&session).context("no such session")?.clone();
        let client = self.shared()?;
        let started = Instant::now();
        let output = client.cell(&sandbox, code)?;
        Ok(Run { took: started.elapsed(), output })
    }

    fn close(&mut self, session: u64) -> Result<()> {
        let sandbox = self.sessions.remove(&session).context("no such session")?;
        self.shared()?.delete(&sandbox)
    }

    fn crowd(&mut self, count: usize, code: &str) -> Result<Duration> {
        let clients: Vec<Client> = (0..count).map(|_| self.client()).collect::<Result<_>>()?;
        let one = |mut client: Client| -> Result<(Client, String)> {
            let sandbox = client.create(&json!({}))?;
            client.cell(&sandbox, code)?;
            Ok((client, sandbox))
        };
        let started = Instant::now();
        let made: Result<Vec<_>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                clients.into_iter().map(|client| scope.spawn(move || one(client))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a client panicked")).collect()
        });
        let took = started.elapsed();
        for (mut client, sandbox) in made? {
            client.delete(&sandbox)?;
        }
        Ok(took)
    }

    fn process(&self) -> Option<u32> {
        Some(self.process.id())
    }

    fn rate(&mut self, clients: usize, time: Duration, code: &str) -> Result<f64> {
        let started = Instant::now();
        let count = count_beside(clients, time, || {
            let mut client = self.client()?;
            Ok(move || client.whole(code).map(drop))
        })?;
        Ok(count as f64 / started.elapsed().as_secs_f64())
    }
}
