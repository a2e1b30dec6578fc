//! Writes the output of a running cell into its log.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use silica_domain::{Bundle, CellError};
use silica_engine::Watcher;

use crate::event_log::{Decoder, EventLog, LogEvent, OutputText};

/// Writes the output of a cell into its log.
pub(crate) struct LogWriter {
    log: Arc<EventLog>,
    stdout: Decoder,
    stderr: Decoder,
    /// Wakes the writer while it waits for a reader.
    recheck: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
}

/// How often a waiting writer checks whether its slowest reader has timed out, which wakes no one.
const RECHECK_PAUSE: Duration = Duration::from_secs(1);

impl LogWriter {
    pub(crate) fn new(log: Arc<EventLog>) -> Self {
        Self { log, stdout: Decoder::default(), stderr: Decoder::default(), recheck: None }
    }

    /// Writes what is left of characters that were never completed.
    pub(crate) fn finish(mut self) {
        let stdout = self.stdout.finish();
        let stderr = self.stderr.finish();
        self.push(stdout, LogEvent::Stdout);
        self.push(stderr, LogEvent::Stderr);
    }

    fn push(&self, text: String, event: fn(OutputText) -> LogEvent) {
        if !text.is_empty() {
            self.log.push(event(OutputText::Utf8(text.into())));
        }
    }
}

impl Watcher for LogWriter {
    fn stdout(&mut self, bytes: &[u8]) {
        let text = self.stdout.text(bytes);
        self.push(text, LogEvent::Stdout);
    }

    fn stderr(&mut self, bytes: &[u8]) {
        let text = self.stderr.text(bytes);
        self.push(text, LogEvent::Stderr);
    }

    fn result(&mut self, bundle: &Arc<Bundle>) {
        self.log.push(LogEvent::Result(Arc::clone(bundle)));
    }

    fn error(&mut self, error: &CellError) {
        self.log.push(LogEvent::Error(Arc::new(error.clone())));
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
