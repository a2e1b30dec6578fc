//! Conversations: the messages so far, and the sandbox they are about.
//!
//! A conversation lives as long as its sandbox, so there are never more of them than sandboxes, and deleting the
//! sandbox ends the conversation. Each carries out one request at a time.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use silica_store::Tenant;
use tokio::sync::OwnedMutexGuard;

use crate::model::{Message, Part, Role};
use crate::runner::SandboxHandle;

/// The most bytes of a conversation that the model is sent; the oldest messages are dropped first.
const HISTORY_BYTES_MAX: usize = 256 * 1024;

/// The messages so far.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) messages: Vec<Message>,
    /// The result of the last program, sent to the model in front of the next request.
    pub(crate) last_output: Option<String>,
}

impl History {
    /// Drops the oldest requests, each with all that followed until the next request.
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
struct Conversation<H> {
    tenant: Tenant,
    sandbox: H,
    history: Arc<tokio::sync::Mutex<History>>,
}

/// A conversation that is locked for one request.
#[derive(Debug)]
pub(crate) struct LockedConversation<H> {
    pub(crate) id: String,
    pub(crate) sandbox: H,
    pub(crate) history: OwnedMutexGuard<History>,
}

/// Why a conversation cannot be continued now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// There is none of this id, it belongs to another key, or its sandbox has ended.
    Missing,
    /// Another request is being carried out in it.
    Busy,
}

/// All conversations, by id.
#[derive(Debug)]
pub(crate) struct Conversations<H>(Mutex<HashMap<String, Conversation<H>>>);

impl<H> Default for Conversations<H> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<H: SandboxHandle> Conversations<H> {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Conversation<H>>> {
        // A map: a panic while the lock is held leaves no broken invariant.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks a conversation of this tenant for one request.
    pub(crate) fn lock_for_request(
        &self,
        tenant: &Tenant,
        id: &str,
    ) -> Result<LockedConversation<H>, Unavailable> {
        let found = self.lock().get(id).cloned();
        let found = found.filter(|conversation| conversation.tenant == *tenant);
        let conversation = found.ok_or(Unavailable::Missing)?;
        if conversation.sandbox.has_ended() {
            self.lock().remove(id);
            return Err(Unavailable::Missing);
        }
        let history = conversation.history.try_lock_owned();
        let history = history.map_err(|_| Unavailable::Busy)?;
        Ok(LockedConversation { id: id.to_owned(), sandbox: conversation.sandbox, history })
    }

    /// Begins a conversation in a sandbox; returns its id.
    pub(crate) fn begin(&self, tenant: &Tenant, sandbox: H, history: History) -> String {
        // The id of a sandbox is random and unique, and its owner knows it.
        let id = format!("conversation-{}", sandbox.id());
        let history = Arc::new(tokio::sync::Mutex::new(history));
        let conversation = Conversation { tenant: tenant.clone(), sandbox, history };
        let mut all = self.lock();
        all.retain(|_, other| !other.sandbox.has_ended());
        all.insert(id.clone(), conversation);
        id
    }
}
