//! The events of a command as a stream of Connect: its start, its output, its end.

use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::{Extensions, HeaderMap};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use silica_sessions::{
    Command, CommandOutcome, CommandPhase, LogEvent, LogRead, LogReader, OutputText,
};

use super::super::access::header;
use super::super::error::SANDBOX_ENDED;
use super::super::frames;
use crate::http::break_off::BreakOff;

/// How long a stream is silent before a keep-alive message, unless the client asks for another time.
const PING: Duration = Duration::from_secs(90);

/// How much is put into one write.
const CHUNK_BYTES: usize = 128 * 1024;

/// What a stream needs of its request.
pub(super) struct StreamRequest {
    pub(super) headers: HeaderMap,
    pub(super) extensions: Extensions,
}

/// Streams a command from the position of its reader.
pub(super) fn stream(
    command: Arc<Command>,
    reader: LogReader,
    request: &StreamRequest,
    deadline: Option<Instant>,
) -> Response {
    let StreamRequest { headers, extensions } = request;
    let stream = CommandStream {
        command,
        reader,
        ping: ping(headers),
        deadline,
        stage: Stage::Start,
        break_off: BreakOff::of(extensions),
    };
    let pieces = futures_util::stream::unfold(stream, |mut stream| async move {
        let piece = stream.next().await?;
        Some((piece, stream))
    });
    frames::stream(pieces)
}

/// Returns the interval of keep-alive messages.
pub(in super::super) fn ping(headers: &HeaderMap) -> Duration {
    let seconds = header(headers, "keepalive-ping-interval").and_then(|text| text.parse().ok());
    seconds.filter(|seconds| *seconds > 0).map_or(PING, Duration::from_secs)
}

/// The progress of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Start,
    Middle,
    /// The sandbox has ended: the connection is closed in the middle of the response.
    Broken,
    Over,
}

struct CommandStream {
    command: Arc<Command>,
    reader: LogReader,
    ping: Duration,
    deadline: Option<Instant>,
    stage: Stage,
    break_off: BreakOff,
}

/// What a stream waited for.
enum Next {
    Read(Option<LogRead>),
    Silence,
    TooLate,
}

impl CommandStream {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let mut chunk = Vec::new();
        match self.stage {
            Stage::Over => return None,
            Stage::Broken => {}
            Stage::Start => {
                self.stage = Stage::Middle;
                event(&mut chunk, &json!({"start": {"pid": self.command.process_id()}}));
            }
            Stage::Middle => match self.wait().await {
                Next::Read(read) => self.write(&mut chunk, read),
                Next::Silence => event(&mut chunk, &json!({"keepalive": {}})),
                Next::TooLate => {
                    frames::failed(&mut chunk, &too_late());
                    self.stage = Stage::Over;
                }
            },
        }
        while self.stage == Stage::Middle
            && chunk.len() < CHUNK_BYTES
            && let Poll::Ready(read) = self.reader.try_next()
        {
            self.write(&mut chunk, read);
        }
        if chunk.is_empty() && self.stage == Stage::Broken {
            self.stage = Stage::Over;
            return Some(Err(self.break_off.error(SANDBOX_ENDED).await));
        }
        Some(Ok(chunk.into()))
    }

    async fn wait(&mut self) -> Next {
        let next = tokio::time::timeout(self.ping, self.reader.next());
        let Some(deadline) = self.deadline else {
            return next.await.map_or(Next::Silence, Next::Read);
        };
        tokio::select! {
            biased;
            read = next => read.map_or(Next::Silence, Next::Read),
            () = tokio::time::sleep_until(deadline.into()) => Next::TooLate,
        }
    }

    fn write(&mut self, chunk: &mut Vec<u8>, read: Option<LogRead>) {
        match read {
            Some(LogRead::Event(_, LogEvent::Stdout(text))) => {
                let stream = if self.command.request.terminal.is_some() { "pty" } else { "stdout" };
                data(chunk, stream, &text);
            }
            Some(LogRead::Event(_, LogEvent::Stderr(text))) => data(chunk, "stderr", &text),
            None | Some(LogRead::Event(_, LogEvent::Done)) => {
                self.stage = Stage::Over;
                self.finish(chunk);
            }
            // This stream writes the start itself; a command has neither results nor exceptions; a
            // client that connects later does not expect what was dropped before.
            Some(
                LogRead::Gap(_)
                | LogRead::Event(
                    _,
                    LogEvent::Start
                    | LogEvent::Approval(_)
                    | LogEvent::Result(_)
                    | LogEvent::Error(_)
                    | LogEvent::Input { .. }
                    | LogEvent::Clear { .. }
                    | LogEvent::Comm(_),
                ),
            ) => {}
        }
    }

    fn finish(&mut self, chunk: &mut Vec<u8>) {
        let outcome = match self.command.phase() {
            CommandPhase::Done(end) => end.outcome,
            // The last event follows the end, so this is a sandbox that died.
            CommandPhase::Running => CommandOutcome::SandboxDied,
        };
        match ending(outcome) {
            Ending::Event(end) => {
                event(chunk, &json!({"end": end}));
                frames::end(chunk);
            }
            Ending::Error(error) => frames::failed(chunk, &error),
            Ending::Broken => self.stage = Stage::Broken,
        }
    }
}

/// How a stream ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ending {
    /// With the end of the command.
    Event(Value),
    /// With an error in the last frame.
    Error(Value),
    /// With the connection, as E2B's proxy closes it. Clients then ask whether the sandbox is live.
    Broken,
}

/// Renders an end in the words of Go, as E2B does.
fn ending(outcome: CommandOutcome) -> Ending {
    match outcome {
        CommandOutcome::Exited(0) => {
            Ending::Event(json!({"exitCode": 0, "exited": true, "status": "exit status 0"}))
        }
        CommandOutcome::Exited(code) => {
            let status = format!("exit status {code}");
            let end = json!({"exitCode": code, "exited": true, "status": status, "error": status});
            Ending::Event(end)
        }
        CommandOutcome::Killed(signal) => {
            let status = signal_words(signal);
            let end = json!({"exitCode": -1, "exited": false, "status": status, "error": status});
            Ending::Event(end)
        }
        CommandOutcome::OutOfMemory(code) => {
            let (status, error) = (format!("exit status {code}"), "out of memory");
            let end = json!({"exitCode": code, "exited": true, "status": status, "error": error});
            Ending::Event(end)
        }
        CommandOutcome::TimedOut => Ending::Error(too_late()),
        CommandOutcome::SandboxDied => Ending::Broken,
    }
}

fn signal_words(signal: i32) -> String {
    match signal {
        2 => "signal: interrupt".to_owned(),
        6 => "signal: aborted".to_owned(),
        9 => "signal: killed".to_owned(),
        11 => "signal: segmentation fault".to_owned(),
        15 => "signal: terminated".to_owned(),
        number => format!("signal: signal {number}"),
    }
}

fn too_late() -> Value {
    json!({"code": "deadline_exceeded", "message": "context deadline exceeded"})
}

fn event(chunk: &mut Vec<u8>, event: &Value) {
    frames::message(chunk, &json!({"event": event}));
}

fn data(chunk: &mut Vec<u8>, stream: &str, text: &OutputText) {
    let encoded = match text {
        OutputText::Utf8(text) => STANDARD.encode(text.as_bytes()),
        OutputText::Bytes(bytes) => STANDARD.encode(bytes),
    };
    event(chunk, &json!({"data": {stream: encoded}}));
}

#[cfg(test)]
mod tests;
