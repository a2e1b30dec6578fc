//! The events of a cell as lines of JSON: one object each, ASCII only.
//!
//! ASCII, because one client splits lines at characters that JSON allows in a string, and the other
//! decodes each piece from the network separately.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::Stream;
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use serde_json::{Value, json};
use silica_domain::{Bundle, Outcome};
use silica_sessions::{
    Cell, CellEnd, CellPhase, InterruptOnDrop, KernelState, LogEvent, LogRead, LogReader,
    OutputText,
};
use silica_store::Timestamp;

use super::error::SANDBOX_ENDED;
use crate::facade::limits::field;
use crate::http::break_off::BreakOff;
use crate::http::payload::PayloadValue;
use crate::http::stream::{LongEntry, is_long};

/// How long a stream is silent before a keep-alive line.
const PING: Duration = Duration::from_secs(5);

/// How much is put into one write.
const CHUNK_BYTES: usize = 128 * 1024;

/// Streams the events of a cell from the start. Ends with an error if the sandbox does, so that the
/// connection breaks as E2B's would.
pub(super) fn of(
    cell: Arc<Cell>,
    interrupt: InterruptOnDrop,
    long: LongEntry,
    break_off: BreakOff,
) -> impl Stream<Item = io::Result<Bytes>> {
    let lines = CellLines {
        reader: cell.log.read(0),
        cell,
        next: None,
        long,
        over: false,
        broken: false,
        break_off,
        _interrupt: interrupt,
    };
    futures_util::stream::unfold(lines, |mut lines| async move {
        let chunk = lines.next().await?;
        Some((chunk, lines))
    })
}

struct CellLines {
    cell: Arc<Cell>,
    reader: LogReader,
    /// A long entry that was read and not yet written.
    next: Option<LogRead>,
    long: LongEntry,
    over: bool,
    /// The sandbox has ended: the connection is closed after what came before.
    broken: bool,
    break_off: BreakOff,
    _interrupt: InterruptOnDrop,
}

impl CellLines {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if let Some(piece) = self.long.next().await {
            return Some(piece);
        }
        if let Some(entry) = self.next.take() {
            return self.long.begin(move |pipe| write(pipe, &entry)).await;
        }
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
                        let _ = line(&mut chunk, &json!({"type": "keepalive"}));
                        break;
                    };
                    read
                }
            };
            let quiet =
                matches!(read, Some(LogRead::Event(_, LogEvent::Approval(_) | LogEvent::Start)));
            worth_a_write |= !quiet;
            if let Some(entry) = read.as_ref().filter(|entry| is_long(entry)) {
                self.next = Some(entry.clone());
                if chunk.is_empty() {
                    return Box::pin(self.next()).await;
                }
                break;
            }
            if self.write(&mut chunk, read).is_err() {
                self.over = true;
                self.broken = true;
            }
        }
        if chunk.is_empty() && std::mem::take(&mut self.broken) {
            return Some(Err(self.break_off.error(SANDBOX_ENDED).await));
        }
        (!chunk.is_empty()).then(|| Ok(chunk.into()))
    }

    fn write(&mut self, chunk: &mut Vec<u8>, read: Option<LogRead>) -> io::Result<()> {
        match read {
            Some(LogRead::Event(_, LogEvent::Start)) => {
                let count = self.cell.number();
                line(chunk, &json!({"type": "number_of_executions", "execution_count": count}))
            }
            Some(LogRead::Event(_, LogEvent::Done)) | None => self.finish(chunk),
            Some(entry) => write(chunk, &entry),
        }
    }

    fn finish(&mut self, chunk: &mut Vec<u8>) -> io::Result<()> {
        self.over = true;
        if let CellPhase::Done(end) = self.cell.phase() {
            if end.report.outcome == Outcome::SandboxDied {
                return Err(io::Error::other("the sandbox has ended"));
            }
            if let Some(problem) = final_error(&end) {
                line(chunk, &problem)?;
            }
        }
        line(chunk, &json!({"type": "end_of_execution"}))
    }
}

/// Writes an entry that needs nothing but itself.
fn write(into: &mut dyn io::Write, entry: &LogRead) -> io::Result<()> {
    match entry {
        LogRead::Event(_, LogEvent::Stdout(text)) => output(into, "stdout", text),
        LogRead::Event(_, LogEvent::Stderr(text)) => output(into, "stderr", text),
        LogRead::Event(_, LogEvent::Result(bundle)) => line(into, &ResultLine(bundle)),
        LogRead::Event(_, LogEvent::Error(error)) => {
            let trace = error.traceback.join("\n");
            line(into, &problem(&error.name, &error.value, &trace))
        }
        // The client read so slowly that events were dropped.
        LogRead::Gap(events) => {
            let words = format!("[{events} pieces of output were dropped]\n");
            output(into, "stderr", &OutputText::Utf8(words.into()))
        }
        // E2B has no event for an approval; its clients wait. Start and end are the cell's, and nothing
        // asks or has widgets there.
        LogRead::Event(
            _,
            LogEvent::Approval(_)
            | LogEvent::Start
            | LogEvent::Input { .. }
            | LogEvent::Clear { .. }
            | LogEvent::Comm(_)
            | LogEvent::Done,
        ) => Ok(()),
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

/// A piece of output.
#[derive(Serialize)]
struct OutputLine<'a> {
    #[serde(rename = "type")]
    stream: &'a str,
    text: Cow<'a, str>,
    timestamp: String,
}

fn output(into: &mut dyn io::Write, stream: &str, text: &OutputText) -> io::Result<()> {
    let text = match text {
        OutputText::Utf8(text) => (&**text).into(),
        OutputText::Bytes(bytes) => String::from_utf8_lossy(bytes),
    };
    line(into, &OutputLine { stream, text, timestamp: Timestamp::now().to_string() })
}

/// A result, its representations under E2B's names.
struct ResultLine<'a>(&'a Bundle);

impl Serialize for ResultLine<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(bundle) = self;
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("type", "result")?;
        for payload in &bundle.payloads {
            match (key(&payload.mime), std::str::from_utf8(&payload.data)) {
                (Some("text"), Ok(text)) => line.serialize_entry("text", unquoted(text))?,
                (Some(key), _) => line.serialize_entry(key, &PayloadValue(payload))?,
                (None, _) => {}
            }
        }
        if bundle.payloads.iter().any(|payload| key(&payload.mime).is_none()) {
            line.serialize_entry("extra", &ExtraPayloads(bundle))?;
        }
        line.serialize_entry("is_main_result", &bundle.main)?;
        line.end()
    }
}

/// The representations of a result for which E2B has no name.
struct ExtraPayloads<'a>(&'a Bundle);

impl Serialize for ExtraPayloads<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let unnamed = self.0.payloads.iter().filter(|payload| key(&payload.mime).is_none());
        serializer.collect_map(unnamed.map(|payload| (&payload.mime, PayloadValue(payload))))
    }
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

/// Removes the quotes of a Python string. E2B undoes no escapes either.
fn unquoted(text: &str) -> &str {
    let inner = ['\'', '"']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)));
    inner.unwrap_or(text)
}

fn line<T: Serialize>(into: &mut dyn io::Write, value: &T) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *into, Ascii))?;
    into.write_all(b"\n")
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
