//! Output of a running cell on its way into the cell's log.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use silica_domain::{Bundle, CellError};
use silica_engine::Watcher;

use crate::event_log::{Decoder, Event, EventLog, Text};

/// Writes what a cell says into its log.
pub(crate) struct Scribe {
    log: Arc<EventLog>,
    stdout: Decoder,
    stderr: Decoder,
    /// When to look again whether a reader that is waited for has given up.
    look_again: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
}

/// How often it is looked whether a reader has given up.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Scribe {
    pub(crate) fn new(log: Arc<EventLog>) -> Self {
        let (stdout, stderr) = (Decoder::default(), Decoder::default());
        Self { log, stdout, stderr, look_again: None }
    }

    /// Writes down what is left of characters that were never completed.
    pub(crate) fn finish(mut self) {
        let (stdout, stderr) = (self.stdout.finish(), self.stderr.finish());
        self.push(stdout, Event::Stdout);
        self.push(stderr, Event::Stderr);
    }

    fn push(&self, text: String, event: fn(Text) -> Event) {
        if !text.is_empty() {
            self.log.push(event(Text::Utf8(text.into())));
        }
    }
}

impl Watcher for Scribe {
    fn stdout(&mut self, bytes: &[u8]) {
        let text = self.stdout.text(bytes);
        self.push(text, Event::Stdout);
    }

    fn stderr(&mut self, bytes: &[u8]) {
        let text = self.stderr.text(bytes);
        self.push(text, Event::Stderr);
    }

    fn result(&mut self, bundle: &Arc<Bundle>) {
        self.log.push(Event::Result(Arc::clone(bundle)));
    }

    fn error(&mut self, error: &CellError) {
        self.log.push(Event::Error(Arc::new(error.clone())));
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
                self.look_again = None;
                return Poll::Ready(());
            }
            let sleep =
                self.look_again.get_or_insert_with(|| Box::pin(tokio::time::sleep(LOOK_AGAIN)));
            match sleep.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => self.look_again = None,
            }
        }
    }
}
