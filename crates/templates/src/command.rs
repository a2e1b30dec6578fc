//! Runs a program on the host with a bounded life and bounded output, line by line.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Longest line; what is beyond it is the next line.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// How many of the last error lines are kept.
const TAIL_LINES_MAX: usize = 15;
/// Lines that may wait to be looked at.
const QUEUE_LINES_MAX: usize = 256;

/// Why a program's run counts as failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It could not be started or waited for.
    #[error("could not run {program}")]
    Run {
        program: String,
        #[source]
        source: io::Error,
    },
    /// It ended, and not well.
    #[error("{program} failed ({status}):\n{tail}")]
    Failed {
        program: String,
        status: ExitStatus,
        /// The last lines it wrote to its standard error.
        tail: String,
    },
    /// It was stopped because it took too long.
    #[error("{program} was stopped after {seconds} s; its last words:\n{tail}", seconds = wall_max.as_secs())]
    TooLong {
        program: String,
        wall_max: Duration,
        /// The last lines it wrote to its standard error.
        tail: String,
    },
}

enum Line {
    Output(String),
    Error(String),
}

/// Runs `command`, called `program` in messages, and hands each line of its output to `on_line`.
pub(super) fn run(
    program: &str,
    mut command: Command,
    wall_max: Duration,
    on_line: &mut dyn FnMut(&str),
) -> Result<(), ToolError> {
    let failed = |source| ToolError::Run { program: program.to_owned(), source };
    // A program that asks a question gets the end of a file, and does not wait for an answer.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let lines = read_both(&mut child);
    let deadline = Instant::now() + wall_max;
    let mut tail = VecDeque::new();
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Line::Output(line)) => on_line(&line),
            Ok(Line::Error(line)) => {
                if tail.len() == TAIL_LINES_MAX {
                    tail.pop_front();
                }
                tail.push_back(line);
            }
            // Both readers are done: the program and its children have closed their output.
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                // It may have ended just now; then there is nothing to kill, which is as good.
                let _ = child.kill();
                child.wait().map_err(failed)?;
                return Err(ToolError::TooLong {
                    program: program.to_owned(),
                    wall_max,
                    tail: joined(tail),
                });
            }
        }
    }
    let status = child.wait().map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    Err(ToolError::Failed { program: program.to_owned(), status, tail: joined(tail) })
}

/// Runs `command` and returns the first line of its output.
pub(super) fn first_line(
    program: &str,
    command: Command,
    wall_max: Duration,
) -> Result<String, ToolError> {
    let mut first = None;
    run(program, command, wall_max, &mut |line| {
        first.get_or_insert_with(|| line.to_owned());
    })?;
    Ok(first.unwrap_or_default())
}

/// Reads both pipes in threads of their own, so that neither can fill up and stop the program.
fn read_both(child: &mut Child) -> Receiver<Line> {
    let (sender, receiver) = sync_channel(QUEUE_LINES_MAX);
    if let Some(output) = child.stdout.take() {
        let sender = sender.clone();
        thread::spawn(move || send_lines(output, &sender, Line::Output));
    }
    if let Some(errors) = child.stderr.take() {
        thread::spawn(move || send_lines(errors, &sender, Line::Error));
    }
    receiver
}

fn send_lines(pipe: impl Read, sender: &SyncSender<Line>, wrap: fn(String) -> Line) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A program may print without a line break. What is beyond the bound comes as a further
        // line.
        let count = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if !matches!(count, Ok(1..)) {
            return;
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if sender.send(wrap(text)).is_err() {
            return;
        }
    }
}

fn joined(tail: VecDeque<String>) -> String {
    Vec::from(tail).join("\n")
}

#[cfg(test)]
mod tests;
