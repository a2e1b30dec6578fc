//! The driver of peers that are commands: it starts one for each place and keeps the time.
//!
//! It is this same binary, started again: some containers need a view of control groups of their
//! own, which is made once, before the clock runs. A place that stays is an interpreter that reads
//! code from a pipe, one Python string a line, and says when it is done.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::interleave::count_beside;

/// The first argument with which this binary is started as a driver.
pub(crate) const ARGUMENT: &str = "__spawn";

/// What a place that stays runs. A line of a zero byte ends each answer.
const STAY: &str = "\
import sys
scope = {'__name__': '__main__'}
for line in sys.stdin:
    exec(eval(line), scope)
    sys.stdout.write('\\0\\n')
    sys.stdout.flush()
";

/// In a command line: the interpreter with its arguments, the bundle, a name never used before.
pub(super) const PROGRAM: &str = "{program}";
pub(super) const BUNDLE: &str = "{bundle}";
pub(super) const NAME: &str = "{name}";

/// How places are made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) version: String,
    pub(super) command: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) interpreter: String,
    /// The description of a container, if it wants one, and where bundles are written.
    pub(super) container: Option<(Value, PathBuf)>,
}

/// Reads the plan, then requests, until there are no more.
pub(crate) fn serve() -> ExitCode {
    match answer_all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{}", json!({"error": format!("{error:#}")}));
            ExitCode::FAILURE
        }
    }
}

fn answer_all() -> Result<()> {
    let mut lines = std::io::stdin().lines();
    let plan = lines.next().context("no plan")??;
    let mut spawner = Spawner::new(serde_json::from_str(&plan)?);
    println!("{}", json!({"version": spawner.plan.version}));
    for line in lines {
        let request: Value = serde_json::from_str(&line?)?;
        let answer =
            spawner.answer(&request).unwrap_or_else(|error| json!({"error": format!("{error:#}")}));
        println!("{answer}");
    }
    Ok(())
}

struct Spawner {
    plan: Plan,
    bundles: HashMap<String, PathBuf>,
    sessions: HashMap<u64, Session>,
    next: u64,
}

/// An interpreter that stays.
struct Session {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Spawner {
    fn new(plan: Plan) -> Self {
        Self { plan, bundles: HashMap::new(), sessions: HashMap::new(), next: 0 }
    }

    fn answer(&mut self, request: &Value) -> Result<Value> {
        let code = request["code"].as_str().unwrap_or_default();
        let number = |name: &str| request[name].as_u64().unwrap_or(0);
        match request["do"].as_str().unwrap_or_default() {
            "fresh" => {
                self.prepare(code)?;
                let started = Instant::now();
                let output = self.command(code)?.output()?;
                let seconds = started.elapsed().as_secs_f64();
                Ok(json!({"seconds": seconds, "output": text(&output)?}))
            }
            "open" => self.open(),
            "run" => {
                let session =
                    self.sessions.get_mut(&number("session")).context("no such session")?;
                let started = Instant::now();
                let output = session.run(code)?;
                Ok(json!({"seconds": started.elapsed().as_secs_f64(), "output": output}))
            }
            "close" => {
                let session =
                    self.sessions.remove(&number("session")).context("no such session")?;
                session.close()?;
                Ok(json!({}))
            }
            "crowd" => {
                self.prepare(code)?;
                self.crowd(number("count") as usize, code)
            }
            "rate" => {
                self.prepare(code)?;
                let time = Duration::from_secs_f64(request["for"].as_f64().unwrap_or(1.0));
                self.rate(number("clients") as usize, time, code)
            }
            other => bail!("unknown request {other:?}"),
        }
    }

    /// Writes the bundle of a program, which is not part of any time.
    fn prepare(&mut self, code: &str) -> Result<()> {
        let Some((description, directory)) = &self.plan.container else { return Ok(()) };
        if self.bundles.contains_key(code) {
            return Ok(());
        }
        let bundle = directory.join(self.bundles.len().to_string());
        std::fs::create_dir_all(&bundle)?;
        let mut description = description.clone();
        description["process"]["args"] = json!(self.program(code));
        std::fs::write(bundle.join("config.json"), description.to_string())?;
        self.bundles.insert(code.to_owned(), bundle);
        Ok(())
    }

    fn program(&self, code: &str) -> Vec<String> {
        vec![self.plan.interpreter.clone(), "-c".to_owned(), code.to_owned()]
    }

    fn command(&self, code: &str) -> Result<Command> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let bundle = self.bundles.get(code).map(|path| path.display().to_string());
        let name = format!("bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut words = Vec::new();
        for word in &self.plan.command {
            match word.as_str() {
                PROGRAM => words.extend(self.program(code)),
                BUNDLE => words.push(bundle.clone().context("there is no bundle")?),
                NAME => words.push(name.clone()),
                _ => words.push(word.clone()),
            }
        }
        let (program, arguments) = words.split_first().context("an empty command")?;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().stdin(Stdio::null());
        command.envs(self.plan.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    fn open(&mut self) -> Result<Value> {
        self.prepare(STAY)?;
        let mut process = self
            .command(STAY)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().context("stdout is piped")?);
        let mut session = Session { process, stdin, stdout };
        session.run("pass")?;
        self.next += 1;
        self.sessions.insert(self.next, session);
        Ok(json!({"session": self.next}))
    }

    fn crowd(&self, count: usize, code: &str) -> Result<Value> {
        let started = Instant::now();
        let mut running = Vec::with_capacity(count);
        for _ in 0..count {
            let mut command = self.command(code)?;
            running.push(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
        }
        for process in running {
            text(&process.wait_with_output()?)?;
        }
        Ok(json!({"seconds": started.elapsed().as_secs_f64()}))
    }

    fn rate(&self, clients: usize, time: Duration, code: &str) -> Result<Value> {
        let started = Instant::now();
        let one = || text(&self.command(code)?.output()?).map(drop);
        let count = count_beside(clients, time, || Ok(one))?;
        Ok(json!({"seconds": started.elapsed().as_secs_f64(), "count": count}))
    }
}

impl Session {
    fn run(&mut self, code: &str) -> Result<String> {
        let stdin = self.stdin.as_mut().context("the interpreter has been closed")?;
        // A JSON string is a Python string, too.
        stdin.write_all(format!("{}\n", Value::from(code)).as_bytes())?;
        let mut output = String::new();
        loop {
            let mut line = String::new();
            ensure!(self.stdout.read_line(&mut line)? > 0, "the interpreter ended: {output}");
            if line == "\0\n" {
                return Ok(output);
            }
            output.push_str(&line);
        }
    }

    fn close(mut self) -> Result<()> {
        self.stdin = None;
        self.process.wait()?;
        Ok(())
    }
}

/// What was printed; an error if it failed, with its last words.
fn text(output: &Output) -> Result<String> {
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = words.lines().rfind(|line| !line.trim().is_empty());
        bail!("{}", last.unwrap_or("it failed without a word"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
