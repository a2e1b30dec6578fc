//! A peer seen from here: a process that reads one JSON object a line and answers each with one.
//!
//! A driver that says nothing for longer than its patience has failed; so has one that ends.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::{Contender, Run};

/// How long one answer may take. A crowd of slow starters is the longest.
const ANSWER_PATIENCE: Duration = Duration::from_mins(2);

/// The longest answer; outputs of programs are short.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// How much of an answer is read at a time.
const CHUNK_BYTES: usize = 16 << 10;

pub(super) struct Driver {
    /// The command that starts the driver, and the first line that is sent to it.
    command: Command,
    first: Value,
    /// Nothing once it has failed to answer; it is started again when it is needed.
    live: Option<Live>,
    /// Whether anything was asked of the one that runs.
    used: bool,
    pub(super) version: String,
}

/// A driver that runs.
struct Live {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// Its stderr, which is read only if the driver ends.
    stderr: File,
    read: Vec<u8>,
}

impl Driver {
    /// Starts one and waits until it says that it is ready.
    pub(super) fn start(command: Command) -> Result<Self> {
        Self::start_with(command, Value::Null)
    }

    /// Starts a driver and sends it a first line, unless that is empty.
    pub(super) fn start_with(command: Command, first: Value) -> Result<Self> {
        let mut driver = Self { command, first, live: None, used: false, version: String::new() };
        driver.bring_up()?;
        Ok(driver)
    }

    fn bring_up(&mut self) -> Result<&mut Live> {
        if self.live.is_none() {
            let mut live = Live::start(&mut self.command)?;
            if !self.first.is_null() {
                live.say(&self.first)?;
            }
            let ready = live.answer()?;
            ready["version"].as_str().unwrap_or_default().clone_into(&mut self.version);
            self.live = Some(live);
        }
        self.live.as_mut().context("it was just started")
    }

    fn ask(&mut self, request: &Value) -> Result<Value> {
        self.used = true;
        let live = self.bring_up()?;
        let answer = live.say(request).and_then(|()| live.answer());
        if answer.is_err() {
            // An answer that comes late would be taken for the next one.
            self.live = None;
        }
        let answer = answer?;
        match answer["error"].as_str() {
            Some(error) => bail!("{error}"),
            None => Ok(answer),
        }
    }

    fn timed(&mut self, request: &Value) -> Result<Run> {
        let answer = self.ask(request)?;
        Ok(Run {
            took: seconds(&answer)?,
            output: answer["output"].as_str().unwrap_or_default().to_owned(),
        })
    }
}

impl Live {
    fn start(command: &mut Command) -> Result<Self> {
        let stderr = tempfile::tempfile()?;
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr.try_clone()?)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().context("stdout is piped")?;
        Ok(Self { process, stdin, stdout, stderr, read: Vec::new() })
    }

    fn say(&mut self, request: &Value) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the driver has been stopped")?;
        stdin.write_all(format!("{request}\n").as_bytes()).context("the driver ended")
    }

    fn answer(&mut self) -> Result<Value> {
        let line = self.line(Instant::now() + ANSWER_PATIENCE)?;
        serde_json::from_str(&line).with_context(|| format!("the driver said {line:?}"))
    }

    fn line(&mut self, deadline: Instant) -> Result<String> {
        loop {
            if let Some(end) = self.read.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim().to_owned());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left)?;
            let mut fds = [PollFd::new(&self.stdout, PollFlags::IN)];
            if left.is_zero() || poll(&mut fds, Some(&timeout))? == 0 {
                bail!("no answer within {} s", ANSWER_PATIENCE.as_secs());
            }
            let mut chunk = [0; CHUNK_BYTES];
            let count = self.stdout.read(&mut chunk)?;
            if count == 0 {
                bail!("the driver ended: {}", self.last_words());
            }
            anyhow::ensure!(self.read.len() < ANSWER_BYTES_MAX, "an answer without an end");
            self.read.extend_from_slice(&chunk[..count]);
        }
    }

    /// The last line that it has complained with.
    fn last_words(&mut self) -> String {
        let mut text = Vec::new();
        // What cannot be read was not said.
        let _ = self.stderr.rewind();
        let _ = (&mut self.stderr).take(ANSWER_BYTES_MAX as u64).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("without a word").to_owned()
    }
}

fn seconds(answer: &Value) -> Result<Duration> {
    let seconds = answer["seconds"].as_f64().context("the driver returned no time")?;
    Duration::try_from_secs_f64(seconds).context("the driver returned an invalid time")
}

impl Contender for Driver {
    fn fresh(&mut self, code: &str) -> Result<Run> {
        self.timed(&json!({"do": "fresh", "code": code}))
    }

    fn open(&mut self) -> Result<u64> {
        let answer = self.ask(&json!({"do": "open"}))?;
        answer["session"].as_u64().context("the driver named no session")
    }

    fn run(&mut self, session: u64, code: &str) -> Result<Run> {
        self.timed(&json!({"do": "run", "session": session, "code": code}))
    }

    fn close(&mut self, session: u64) -> Result<()> {
        self.ask(&json!({"do": "close", "session": session})).map(drop)
    }

    fn crowd(&mut self, count: usize, code: &str) -> Result<Duration> {
        Ok(self.timed(&json!({"do": "crowd", "count": count, "code": code}))?.took)
    }

    fn process(&self) -> Option<u32> {
        self.live.as_ref().map(|live| live.process.id())
    }

    fn rate(&mut self, clients: usize, time: Duration, code: &str) -> Result<f64> {
        let request =
            json!({"do": "rate", "clients": clients, "for": time.as_secs_f64(), "code": code});
        let answer = self.ask(&request)?;
        let count = answer["count"].as_f64().context("the driver counted nothing")?;
        Ok(count / seconds(&answer)?.as_secs_f64())
    }

    fn start_over(&mut self) {
        if self.used {
            (self.live, self.used) = (None, false);
            // If it does not come up, the next to ask will hear why.
            let _ = self.bring_up();
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        /// How long a driver may take to end what it has started.
        const END_PATIENCE: Duration = Duration::from_secs(10);
        // Without its input it ends by itself and takes along what it has started.
        self.stdin = None;
        let deadline = Instant::now() + END_PATIENCE;
        while Instant::now() < deadline {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // It may have ended meanwhile.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
