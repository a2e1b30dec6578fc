//! Conversations: what was said, and the sandbox it was said about.
//!
//! A conversation lives as long as its sandbox, so there are never more of them than sandboxes, and
//! whoever deletes the sandbox ends the conversation. One request at a time goes on in each.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use silica_sessions::Session;
use silica_store::Tenant;
use tokio::sync::OwnedMutexGuard;

use crate::InterpretError;
use crate::model::{Message, Part, Role};

/// What is kept of a conversation for the model; the oldest is forgotten first.
const HISTORY_BYTES_MAX: usize = 256 * 1024;

/// What was said so far.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) messages: Vec<Message>,
    /// What came of the last program; it goes in front of the next request.
    pub(crate) last_output: Option<String>,
}

impl History {
    /// Forgets the oldest, from one request of the user to the next.
    pub(crate) fn shorten(&mut self) {
        let begins = |message: &Message| {
            message.role == Role::User
                && !message.parts.iter().any(|part| matches!(part, Part::Reply(_)))
        };
        let mut bytes: usize = self.messages.iter().map(size).sum();
        while bytes > HISTORY_BYTES_MAX {
            let next = self.messages.iter().skip(1).position(begins);
            let forgotten = next.map_or(self.messages.len(), |next| next + 1);
            bytes -= self.messages.drain(..forgotten).map(|message| size(&message)).sum::<usize>();
        }
    }
}

fn size(message: &Message) -> usize {
    let part = |part: &Part| match part {
        Part::Text(text) => text.len(),
        Part::Call(call) => call.input.to_string().len(),
        Part::Reply(reply) => {
            reply.text.len()
                + reply.pictures.iter().map(|picture| picture.data.len()).sum::<usize>()
        }
        Part::Opaque(value) => value.to_string().len(),
    };
    message.parts.iter().map(part).sum()
}

#[derive(Clone, Debug)]
struct Conversation {
    tenant: Tenant,
    session: Arc<Session>,
    history: Arc<tokio::sync::Mutex<History>>,
}

/// A conversation that one request has for itself.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) id: String,
    pub(crate) session: Arc<Session>,
    pub(crate) history: OwnedMutexGuard<History>,
}

/// All conversations.
#[derive(Debug, Default)]
pub(crate) struct Conversations(Mutex<HashMap<String, Conversation>>);

impl Conversations {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Conversation>> {
        // A map has no invariant that a panic elsewhere could have broken halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a conversation for one request, if it is the tenant's and nobody else has it.
    pub(crate) fn hold(&self, tenant: &Tenant, id: &str) -> Result<Held, InterpretError> {
        let found = self.lock().get(id).cloned();
        let found = found.filter(|conversation| conversation.tenant == *tenant);
        let conversation = found.ok_or_else(|| InterpretError::NoConversation(id.to_owned()))?;
        if conversation.session.end_reason().is_some() {
            self.lock().remove(id);
            return Err(InterpretError::NoConversation(id.to_owned()));
        }
        let history = conversation.history.try_lock_owned();
        let history = history.map_err(|_| InterpretError::Busy(id.to_owned()))?;
        Ok(Held { id: id.to_owned(), session: conversation.session, history })
    }

    /// Begins a conversation in a sandbox; its id.
    pub(crate) fn begin(&self, tenant: &Tenant, session: Arc<Session>, history: History) -> String {
        // The id of a sandbox is random and unique, and tells nobody anything new.
        let id = format!("conversation-{}", session.id());
        let history = Arc::new(tokio::sync::Mutex::new(history));
        let conversation = Conversation { tenant: tenant.clone(), session, history };
        let mut all = self.lock();
        all.retain(|_, other| other.session.end_reason().is_none());
        all.insert(id.clone(), conversation);
        id
    }
}
