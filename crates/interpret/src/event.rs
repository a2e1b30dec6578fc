//! Events of a request while it is carried out.

use std::sync::Arc;

use silica_domain::{Bundle, CellError};
use silica_policy::Report;
use tokio::sync::mpsc;

use crate::model::Delta;

/// The most events that wait for a slow receiver; then the request waits too.
pub const EVENTS_MAX: usize = 256;

/// An event of a request.
#[derive(Clone, Debug)]
pub enum PromptEvent {
    /// The model is asked; the number of the request to it, from 1.
    Asking(u32),
    /// A piece of the model's answer.
    Delta(Delta),
    /// The code in the answer.
    Code(String),
    /// What the policy found in the code.
    Checked(Arc<Report>),
    /// The code runs.
    Running,
    /// The code waits for approval, or its approval was decided; the id of the approval.
    Approval(String),
    /// The code wrote to stdout.
    Stdout(String),
    /// The code wrote to stderr.
    Stderr(String),
    /// The code displayed a result.
    Result(Arc<Bundle>),
    /// An exception ended the code.
    Error(Arc<CellError>),
    /// The code has ended; the name of its outcome.
    Ran(&'static str),
    /// The code is sent back to the model, with this message.
    Repair(String),
}

/// Where the events of a request are sent.
#[derive(Clone, Debug, Default)]
pub struct EventSink(Option<mpsc::Sender<PromptEvent>>);

impl EventSink {
    /// Creates a sink that sends events to a channel.
    pub fn new(sender: mpsc::Sender<PromptEvent>) -> Self {
        Self(Some(sender))
    }

    /// Creates a sink that drops all events.
    pub fn discard() -> Self {
        Self(None)
    }

    /// Returns whether events have a receiver.
    pub fn is_open(&self) -> bool {
        self.0.as_ref().is_some_and(|sender| !sender.is_closed())
    }

    /// Sends an event; waits while the channel is full.
    pub async fn send(&self, event: PromptEvent) {
        if let Some(sender) = &self.0 {
            // The error is that the receiver is gone. A client that leaves drops the whole request.
            let _ = sender.send(event).await;
        }
    }
}
