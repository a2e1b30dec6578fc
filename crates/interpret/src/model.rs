//! Models: requests, answers, and the providers that answer.
//!
//! The loop uses only the types of this file. Each wire format has a file of its own that converts them to requests
//! and from answers. What a provider sends is untrusted and bounded there.

mod anthropic;
mod chat;
mod error;
mod http;
mod price;
mod retry;
mod scripted;
mod sse;

use std::sync::Arc;

use serde_json::Value;

pub use error::ModelError;
pub use http::{Auth, HttpModel, HttpOptions, Wire};
pub use price::{Cost, Price, PriceError};
pub use scripted::{ScriptError, Scripted};

/// The most bytes of all text and arguments of one answer.
pub const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// A model.
#[derive(Debug)]
pub enum Model {
    /// A provider on the network.
    Http(Box<HttpModel>),
    /// A file with prepared answers.
    Scripted(Scripted),
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The user, or the report on the model's code.
    User,
    /// The model.
    Assistant,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// A call of a tool by the model.
    Call(Call),
    /// The reply to a call.
    Reply(Reply),
    /// A part of the provider's own that has to be sent back unchanged.
    Opaque(Value),
}

/// A call of a tool by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The id to which the reply refers.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments, a JSON object.
    pub input: Value,
}

/// The reply to a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The id of the call.
    pub id: String,
    /// The result of the call.
    pub text: String,
    /// Pictures beside the text, for models that can see them.
    pub pictures: Vec<Picture>,
    /// Whether the call failed.
    pub failed: bool,
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Its media type, such as `image/png`.
    pub mime: String,
    /// Its bytes.
    pub data: Arc<[u8]>,
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The content.
    pub parts: Vec<Part>,
}

impl Message {
    /// Creates a text message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, parts: vec![Part::Text(text.into())] }
    }

    /// Creates a text message of the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, parts: vec![Part::Text(text.into())] }
    }

    /// Returns all text in it.
    pub fn text(&self) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Reply(reply) => reply.text.as_str(),
                Part::Call(_) | Part::Opaque(_) => "",
            })
            .collect()
    }
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Its description, for the model.
    pub about: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
}

/// A request to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The provider's name of the model.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The messages so far.
    pub messages: Vec<Message>,
    /// The tools that it may call.
    pub tools: Vec<Tool>,
    /// The most tokens of the answer.
    pub tokens_max: u32,
}

/// A piece of an answer, as it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Text.
    Text(String),
    /// Arguments of a call, as a piece of JSON.
    Input(String),
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It is complete.
    Done,
    /// The model waits for the replies to its calls.
    Tools,
    /// It was cut off at the most tokens.
    Length,
    /// The model refused to answer.
    Refused,
}

/// Tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Tokens that the model read, also those from a cache.
    pub input: u64,
    /// Tokens that the model wrote.
    pub output: u64,
}

impl Tokens {
    /// Returns the sum of both.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
    }
}

/// The answer of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAnswer {
    /// The content, in order.
    pub parts: Vec<Part>,
    /// Why it ended.
    pub stop: Stop,
    /// The tokens that it took.
    pub tokens: Tokens,
    /// The model that answered, as the provider names it.
    pub model: String,
}

impl ModelAnswer {
    /// Returns all text in it.
    pub fn text(&self) -> String {
        Message { role: Role::Assistant, parts: self.parts.clone() }.text()
    }

    /// Returns the calls in it, in order.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            Part::Text(_) | Part::Reply(_) | Part::Opaque(_) => None,
        })
    }
}

/// Receives an answer as it arrives.
pub trait Listener: Send {
    /// Receives a piece. The next piece is not read before this returns.
    fn receive(&mut self, delta: Delta) -> impl Future<Output = ()> + Send;
}

/// Ignores the pieces of an answer.
#[derive(Clone, Copy, Debug)]
pub struct IgnoreDeltas;

impl Listener for IgnoreDeltas {
    async fn receive(&mut self, _: Delta) {}
}

impl Model {
    /// Fails if the provider needs a key and there is none.
    pub fn has_key(&self) -> Result<(), ModelError> {
        match self {
            Self::Http(model) => model.has_key(),
            Self::Scripted(_) => Ok(()),
        }
    }

    /// Sends a request, and passes the answer to `listener` as it arrives. Dropping the future cancels it.
    pub async fn ask(
        &self,
        request: &Request,
        listener: &mut impl Listener,
    ) -> Result<ModelAnswer, ModelError> {
        match self {
            Self::Http(model) => model.ask(request, listener).await,
            Self::Scripted(script) => script.ask(request, listener).await,
        }
    }
}
