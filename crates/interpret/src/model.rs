//! Models: what is asked, what is answered, and who answers.
//!
//! The loop sees only the types of this file. Each wire format has its own file below and turns them
//! into requests and answers; nothing a provider sends is trusted beyond the bounds named there.

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

/// All text and arguments of one answer together.
pub const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Whoever answers.
#[derive(Debug)]
pub enum Model {
    /// A provider on the network.
    Http(Box<HttpModel>),
    /// A file of turns.
    Scripted(Scripted),
}

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The person, or what happened to the model's code.
    User,
    /// The model.
    Assistant,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Words.
    Text(String),
    /// A tool that the model wants to use.
    Call(Call),
    /// What came of it.
    Reply(Reply),
    /// Something of the provider's own that has to come back to it as it was.
    Opaque(Value),
}

/// The model wants to use a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// What the reply refers to.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, a JSON object.
    pub input: Value,
}

/// What came of using a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Whose reply it is.
    pub id: String,
    /// What it says.
    pub text: String,
    /// Pictures beside the text, for models that can see them.
    pub pictures: Vec<Picture>,
    /// Whether it went wrong.
    pub failed: bool,
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Such as `image/png`.
    pub mime: String,
    /// The bytes.
    pub data: Arc<[u8]>,
}

/// Something said.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// By whom.
    pub role: Role,
    /// What.
    pub parts: Vec<Part>,
}

impl Message {
    /// Words of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, parts: vec![Part::Text(text.into())] }
    }

    /// Words of the model.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, parts: vec![Part::Text(text.into())] }
    }

    /// All words in it, one after the other.
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

/// A tool the model may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// What it is called.
    pub name: &'static str,
    /// What it does, for the model.
    pub about: String,
    /// JSON schema of its arguments.
    pub schema: Value,
}

/// What a model is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Which model of the provider.
    pub model: String,
    /// What it is and how it should answer.
    pub system: String,
    /// What was said so far.
    pub messages: Vec<Message>,
    /// What it may use.
    pub tools: Vec<Tool>,
    /// The longest answer.
    pub tokens_max: u32,
}

/// A piece of an answer, as it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Words.
    Text(String),
    /// Arguments of a tool, as a piece of JSON.
    Input(String),
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model was done.
    Done,
    /// It wants to use tools.
    Tools,
    /// The answer was cut off at its longest.
    Length,
    /// It does not want to answer.
    Refused,
}

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read by the model, those it had read before included.
    pub input: u64,
    /// Written by the model.
    pub output: u64,
}

impl Tokens {
    /// Both together.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Its pieces, in order.
    pub parts: Vec<Part>,
    /// Why it ended.
    pub stop: Stop,
    /// What it took.
    pub tokens: Tokens,
    /// Which model answered, as the provider says.
    pub model: String,
}

impl Answer {
    /// All words in it.
    pub fn text(&self) -> String {
        Message { role: Role::Assistant, parts: self.parts.clone() }.text()
    }

    /// The tools it wants to use, in order.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            Part::Text(_) | Part::Reply(_) | Part::Opaque(_) => None,
        })
    }
}

/// Hears an answer as it arrives.
pub trait Listener: Send {
    /// Takes a piece in; the next is not read before this is done.
    fn hear(&mut self, delta: Delta) -> impl Future<Output = ()> + Send;
}

/// Does not listen.
#[derive(Clone, Copy, Debug)]
pub struct Deaf;

impl Listener for Deaf {
    async fn hear(&mut self, _: Delta) {}
}

impl Model {
    /// Whether there is a key to show, or none is needed; without one nothing can be asked.
    pub fn has_key(&self) -> Result<(), ModelError> {
        match self {
            Self::Http(model) => model.has_key(),
            Self::Scripted(_) => Ok(()),
        }
    }

    /// Asks, and passes the answer on as it arrives. Given up when dropped.
    pub async fn ask(
        &self,
        request: &Request,
        listener: &mut impl Listener,
    ) -> Result<Answer, ModelError> {
        match self {
            Self::Http(model) => model.ask(request, listener).await,
            Self::Scripted(script) => script.ask(request, listener).await,
        }
    }
}
