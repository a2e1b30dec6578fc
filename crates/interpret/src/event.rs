//! What is told of a request while it goes on.

use std::sync::Arc;

use silica_domain::{Bundle, CellError};
use silica_policy::Report;
use tokio::sync::mpsc;

use crate::model::Delta;

/// Events that may wait for whoever listens; then the loop waits with them.
pub const EVENTS_MAX: usize = 256;

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The model is asked, for the so-many-th time.
    Asking(u32),
    /// A piece of its answer.
    Delta(Delta),
    /// The code that was found in it.
    Code(String),
    /// What the check said.
    Checked(Arc<Report>),
    /// The code runs.
    Running,
    /// The code prints.
    Stdout(String),
    /// The code complains.
    Stderr(String),
    /// The code shows something.
    Result(Arc<Bundle>),
    /// The code ends in an exception.
    Error(Arc<CellError>),
    /// The code has ended; the name of its outcome.
    Ran(&'static str),
    /// It goes back to the model; why.
    Repair(String),
}

/// Where events go.
#[derive(Clone, Debug, Default)]
pub struct Voice(Option<mpsc::Sender<Event>>);

impl Voice {
    /// Tells somebody.
    pub fn new(sender: mpsc::Sender<Event>) -> Self {
        Self(Some(sender))
    }

    /// Tells nobody.
    pub fn silent() -> Self {
        Self(None)
    }

    /// Whether anybody listens.
    pub fn is_heard(&self) -> bool {
        self.0.as_ref().is_some_and(|sender| !sender.is_closed())
    }

    pub(crate) async fn tell(&self, event: Event) {
        if let Some(sender) = &self.0 {
            // Whoever has gone away stops the whole request by other means.
            let _ = sender.send(event).await;
        }
    }
}
