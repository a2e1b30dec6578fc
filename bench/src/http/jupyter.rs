//! The same print in an ipykernel, driven by `jupyter_client`: what others have.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Runs one cell for each line it reads, and prints how long that took.
const SCRIPT: &str = r"
import sys, time
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel()
def once():
    started = time.perf_counter()
    message = client.execute('print(1)')
    seen = False
    while True:
        got = client.get_iopub_msg(timeout=30)
        if got['parent_header'].get('msg_id') != message: continue
        if got['msg_type'] == 'stream': seen = True
        if got['msg_type'] == 'status' and got['content']['execution_state'] == 'idle': break
    client.get_shell_msg(timeout=30)
    assert seen
    return time.perf_counter() - started
print('ready', flush=True)
for line in sys.stdin:
    print(once(), flush=True)
manager.shutdown_kernel(now=True)
";

pub(crate) struct Jupyter {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Jupyter {
    /// Starts a kernel from an environment of its own, made once below the data directory.
    pub(crate) fn start(home: &Path) -> Result<Self> {
        let environment = home.join("cache/bench-jupyter");
        let python = environment.join("bin/python");
        if !environment.join("complete").exists() {
            eprintln!("bench: installing ipykernel and jupyter_client to compare with (once)");
            run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
            run(Command::new(&python).args([
                "-m",
                "pip",
                "install",
                "-q",
                "ipykernel",
                "jupyter_client",
            ]))?;
            std::fs::write(environment.join("complete"), "")?;
        }
        let mut process = Command::new(&python)
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = process.stdin.take().context("stdin is piped")?;
        let stdout = BufReader::new(process.stdout.take().context("stdout is piped")?);
        let mut jupyter = Self { process, stdin, stdout };
        let line = jupyter.line()?;
        ensure!(line == "ready", "the Jupyter kernel did not start: {line:?}");
        Ok(jupyter)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    pub(crate) fn print_one(&mut self) -> Result<Duration> {
        self.stdin.write_all(b"\n")?;
        let seconds: f64 = self.line()?.parse()?;
        Ok(Duration::from_secs_f64(seconds))
    }
}

impl Drop for Jupyter {
    fn drop(&mut self) {
        // It may have ended by itself; its kernel ends with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}
