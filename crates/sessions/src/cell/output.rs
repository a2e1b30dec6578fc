//! Writes the output of a running cell into its log.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use silica_domain::{Bundle, CellError, CommMessage};
use silica_engine::{Decoder, Watcher};

use crate::event_log::{EventLog, LogEvent, OutputText};
use crate::kept::KeptBytes;

/// Writes the output of a cell into its log.
pub(crate) struct LogWriter {
    log: Arc<EventLog>,
    kept: KeptBytes,
    /// How much of `kept` is for the log.
    log_bytes: usize,
    stdout: Decoder,
    stderr: Decoder,
    /// Wakes the writer while it waits for a reader.
    recheck: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
}

/// How often a waiting writer checks whether its slowest reader has timed out, which wakes no one.
const RECHECK_PAUSE: Duration = Duration::from_secs(1);

impl LogWriter {
    pub(crate) fn new(log: Arc<EventLog>, kept: KeptBytes) -> Self {
        let (stdout, stderr) = Default::default();
        Self { log, kept, log_bytes: 0, stdout, stderr, recheck: None }
    }

    /// Writes what is left of characters that were never completed. Returns what the cell keeps.
    pub(crate) fn finish(mut self) -> KeptBytes {
        let stdout = self.stdout.finish();
        let stderr = self.stderr.finish();
        self.push_text(stdout, LogEvent::Stdout);
        self.push_text(stderr, LogEvent::Stderr);
        self.kept.settle();
        self.kept
    }

    fn push_text(&mut self, text: String, event: fn(OutputText) -> LogEvent) {
        if !text.is_empty() {
            self.push(event(OutputText::Utf8(text.into())));
        }
    }

    /// Writes an event. If the budget has no room for it, the log becomes shorter.
    fn push(&mut self, event: LogEvent) {
        let kept = self.log.push(event);
        let more = kept.saturating_sub(self.log_bytes);
        if self.kept.grow(more as u64) {
            self.log_bytes += more;
        } else {
            self.log.shorten();
        }
    }
}

impl Watcher for LogWriter {
    fn stdout(&mut self, bytes: &[u8]) {
        let text = self.stdout.text(bytes);
        self.push_text(text, LogEvent::Stdout);
    }

    fn stderr(&mut self, bytes: &[u8]) {
        let text = self.stderr.text(bytes);
        self.push_text(text, LogEvent::Stderr);
    }

    fn result(&mut self, bundle: &Arc<Bundle>) {
        self.push(LogEvent::Result(Arc::clone(bundle)));
    }

    fn error(&mut self, error: &CellError) {
        self.push(LogEvent::Error(Arc::new(error.clone())));
    }

    fn input(&mut self, prompt: String, is_password: bool) {
        self.push(LogEvent::Input { prompt: prompt.into(), password: is_password });
    }

    fn clear(&mut self, wait: bool) {
        self.push(LogEvent::Clear { wait });
    }

    fn comm(&mut self, comm: CommMessage) {
        self.push(LogEvent::Comm(Arc::new(comm)));
    }

    fn may_keep(&mut self, bytes: u64) -> bool {
        self.kept.grow(bytes)
    }

    fn takes_everything(&self) -> bool {
        true
    }

    fn has_room(&self) -> bool {
        self.log.has_room()
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.log.poll_room(context).is_ready() {
                self.recheck = None;
                return Poll::Ready(());
            }
            let sleep =
                self.recheck.get_or_insert_with(|| Box::pin(tokio::time::sleep(RECHECK_PAUSE)));
            match sleep.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => self.recheck = None,
            }
        }
    }
}
