//! The events of a cell as lines of JSON: one object each, ASCII only.
//!
//! ASCII, because one client splits lines at characters that JSON allows in a string, and the other
//! decodes each piece from the network separately.

use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::Stream;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use serde_json::{Map, Value, json};
use silica_domain::{Bundle, Outcome, Payload};
use silica_sessions::{
    Cell, CellEnd, CellPhase, InterruptOnDrop, KernelState, LogEvent, LogRead, LogReader,
    OutputText,
};
use silica_store::Timestamp;

use crate::facade::limits::field;

/// How long a stream is silent before a keep-alive line.
const PING: Duration = Duration::from_secs(5);

/// How much is put into one write.
const CHUNK_BYTES: usize = 128 * 1024;

/// Streams the events of a cell from the start. Ends with an error if the sandbox does, so that the
/// connection breaks as E2B's would.
pub(super) fn of(
    cell: Arc<Cell>,
    interrupt: InterruptOnDrop,
) -> impl Stream<Item = io::Result<Bytes>> {
    let reader = cell.log.read(0);
    let lines = CellLines { cell, reader, over: false, _interrupt: interrupt };
    futures_util::stream::unfold(lines, |mut lines| async move {
        let chunk = lines.next().await?;
        Some((chunk, lines))
    })
}

struct CellLines {
    cell: Arc<Cell>,
    reader: LogReader,
    over: bool,
    _interrupt: InterruptOnDrop,
}

impl CellLines {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let mut chunk = Vec::new();
        // The number of a cell alone is not worth a write: it is sent with what follows.
        let mut worth_a_write = false;
        while !self.over && chunk.len() < CHUNK_BYTES {
            let read = match self.reader.try_next() {
                Poll::Ready(read) => read,
                Poll::Pending if worth_a_write => break,
                Poll::Pending => {
                    let next = tokio::time::timeout(PING, self.reader.next()).await;
                    let Ok(read) = next else {
                        line(&mut chunk, &json!({"type": "keepalive"}));
                        break;
                    };
                    read
                }
            };
            let quiet =
                matches!(read, Some(LogRead::Event(_, LogEvent::Approval(_) | LogEvent::Start)));
            worth_a_write |= !quiet;
            if let Err(broken) = self.write(&mut chunk, read) {
                self.over = true;
                return Some(Err(broken));
            }
        }
        (!chunk.is_empty()).then(|| Ok(chunk.into()))
    }

    fn write(&mut self, chunk: &mut Vec<u8>, read: Option<LogRead>) -> io::Result<()> {
        match read {
            // E2B has no event for it; its clients wait.
            Some(LogRead::Event(_, LogEvent::Approval(_))) => {}
            Some(LogRead::Event(_, LogEvent::Start)) => {
                let count = self.cell.number();
                line(chunk, &json!({"type": "number_of_executions", "execution_count": count}));
            }
            Some(LogRead::Event(_, LogEvent::Stdout(text))) => output(chunk, "stdout", &text),
            Some(LogRead::Event(_, LogEvent::Stderr(text))) => output(chunk, "stderr", &text),
            Some(LogRead::Event(_, LogEvent::Result(bundle))) => line(chunk, &result(&bundle)),
            Some(LogRead::Event(_, LogEvent::Error(error))) => {
                let trace = error.traceback.join("\n");
                line(chunk, &problem(&error.name, &error.value, &trace));
            }
            Some(LogRead::Event(_, LogEvent::Done)) | None => return self.finish(chunk),
            // The client read so slowly that events were dropped.
            Some(LogRead::Gap(events)) => {
                let words = format!("[{events} pieces of output were dropped]\n");
                output(chunk, "stderr", &OutputText::Utf8(words.into()));
            }
        }
        Ok(())
    }

    fn finish(&mut self, chunk: &mut Vec<u8>) -> io::Result<()> {
        self.over = true;
        if let CellPhase::Done(end) = self.cell.phase() {
            if end.report.outcome == Outcome::SandboxDied {
                return Err(io::Error::other("the sandbox has ended"));
            }
            if let Some(problem) = final_error(&end) {
                line(chunk, &problem);
            }
        }
        line(chunk, &json!({"type": "end_of_execution"}));
        Ok(())
    }
}

/// Returns the error of a cell that was stopped from outside.
fn final_error(end: &CellEnd) -> Option<Value> {
    let explained = end.report.outcome.explain(&end.limits, field);
    if end.kernel == KernelState::Restarted {
        let lost = end.lost.clone().unwrap_or_default();
        let trace = explained.map_or(lost.clone(), |words| format!("{words}\n{lost}"));
        return Some(problem("ContextRestarting", "Context was restarted", &trace));
    }
    if end.report.error.is_some() {
        return None;
    }
    let name = match end.report.outcome {
        Outcome::Ok | Outcome::Raised | Outcome::Exited(_) => return None,
        Outcome::Interrupted => "KeyboardInterrupt",
        Outcome::TimedOut => "TimeoutError",
        Outcome::OutOfMemory => "MemoryError",
        Outcome::Denied => "PermissionError",
        Outcome::CpuExceeded
        | Outcome::Crashed(_)
        | Outcome::Vanished(_)
        | Outcome::Disconnected
        | Outcome::SandboxDied => "KernelError",
    };
    let words = explained.unwrap_or_default();
    Some(problem(name, &words, &format!("{name}: {words}")))
}

fn problem(name: &str, value: &str, traceback: &str) -> Value {
    json!({"type": "error", "name": name, "value": value, "traceback": traceback})
}

fn output(chunk: &mut Vec<u8>, stream: &str, text: &OutputText) {
    let text = match text {
        OutputText::Utf8(text) => (&**text).into(),
        OutputText::Bytes(bytes) => String::from_utf8_lossy(bytes),
    };
    let at = Timestamp::now().to_string();
    line(chunk, &json!({"type": stream, "text": text, "timestamp": at}));
}

/// Renders a result, its representations under E2B's names.
fn result(bundle: &Bundle) -> Value {
    let mut value = Map::new();
    value.insert("type".to_owned(), "result".into());
    let mut extra = Map::new();
    for payload in &bundle.payloads {
        let shown = representation(payload);
        match key(&payload.mime) {
            Some("text") => drop(value.insert("text".to_owned(), unquoted(shown))),
            Some(key) => drop(value.insert(key.to_owned(), shown)),
            None => drop(extra.insert(payload.mime.clone(), shown)),
        }
    }
    if !extra.is_empty() {
        value.insert("extra".to_owned(), extra.into());
    }
    value.insert("is_main_result".to_owned(), bundle.main.into());
    value.into()
}

fn key(mime: &str) -> Option<&'static str> {
    Some(match mime {
        "text/plain" => "text",
        "text/html" => "html",
        "text/markdown" => "markdown",
        "image/svg+xml" => "svg",
        "image/png" => "png",
        "image/jpeg" => "jpeg",
        "application/pdf" => "pdf",
        "text/latex" => "latex",
        "application/json" => "json",
        "application/javascript" => "javascript",
        "application/vnd.silica.data+json" => "data",
        "application/vnd.silica.chart+json" => "chart",
        _ => return None,
    })
}

fn representation(payload: &Payload) -> Value {
    match std::str::from_utf8(&payload.data) {
        Ok(text) if payload.is_textual() && payload.mime.ends_with("json") => {
            serde_json::from_str(text).unwrap_or_else(|_| text.into())
        }
        Ok(text) if payload.is_textual() => text.into(),
        _ => STANDARD.encode(&payload.data).into(),
    }
}

/// Removes the quotes of a Python string. E2B undoes no escapes either.
fn unquoted(shown: Value) -> Value {
    let Value::String(text) = &shown else { return shown };
    let inner = ['\'', '"']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)));
    inner.map_or_else(|| text.as_str().into(), Value::from)
}

fn line(chunk: &mut Vec<u8>, value: &Value) {
    // Writing to memory cannot fail.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut *chunk, Ascii));
    chunk.push(b'\n');
}

/// JSON without a byte above 127.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.is_ascii() {
            return CompactFormatter.write_string_fragment(writer, fragment);
        }
        let mut units = [0; 2];
        for character in fragment.chars() {
            if character.is_ascii() {
                writer.write_all(&[character as u8])?;
                continue;
            }
            for unit in character.encode_utf16(&mut units) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
