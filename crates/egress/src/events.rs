//! What the process reports, and what it asks.

use std::net::SocketAddr;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

/// What was done with the bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionKind {
    /// TLS from end to end; only the hello was read.
    Pass,
    /// TLS that ends here and begins anew.
    Intercept,
    /// Plain HTTP.
    Http,
    /// Any bytes.
    Tcp,
    /// A look-up; only denials have this kind.
    Dns,
    /// A request to the proxy that named no host yet.
    Proxy,
}

impl ConnectionKind {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Intercept => "intercept",
            Self::Http => "http",
            Self::Tcp => "tcp",
            Self::Dns => "dns",
            Self::Proxy => "proxy",
        }
    }
}

/// Whether a connection is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionState {
    /// Bytes may still flow.
    Open,
    /// It ended by itself.
    Closed,
    /// It was refused, or ended by the policy or a limit.
    Refused,
}

impl ConnectionState {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Refused => "refused",
        }
    }
}

/// One request that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// The method.
    pub method: String,
    /// The path without the query, shortened; placeholders are in it as they were sent.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
    /// The names of the secrets that went with it.
    pub secrets: Vec<String>,
}

/// One connection of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionRecord {
    /// Its number in this process.
    pub number: u64,
    /// The name or address that the guest asked for.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The address that was dialled.
    pub address: Option<SocketAddr>,
    /// What was done with its bytes.
    pub kind: ConnectionKind,
    /// Whether it is open, and how it ended.
    pub state: ConnectionState,
    /// The rule that allowed it.
    pub rule: Option<String>,
    /// Whose rule it is.
    pub origin: Option<String>,
    /// Why it was refused or ended: a stable name.
    pub code: Option<String>,
    /// Why it was refused or ended: a sentence.
    pub message: Option<String>,
    /// Bytes to the far side.
    pub bytes_up: u64,
    /// Bytes from the far side.
    pub bytes_down: u64,
    /// When it began, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// How long it lasted.
    pub duration_ms: u64,
    /// How many requests were read.
    pub request_count: u64,
    /// The first of these requests.
    pub requests: Vec<RequestRecord>,
}

/// Refusals of one host and port: the first at once, the following counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenialRecord {
    /// The name or address that the guest asked for, shortened.
    pub host: String,
    /// The port; zero for a look-up.
    pub port: u16,
    /// What was refused.
    pub kind: ConnectionKind,
    /// A stable name of the reason.
    pub code: String,
    /// The reason as a sentence.
    pub message: String,
    /// How many refusals this record stands for.
    pub count: u64,
    /// When the first of them was, in milliseconds since 1970.
    pub first_at_ms: u64,
}

/// What a sandbox has used of its network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkUsage {
    /// Bytes to the far side.
    pub bytes_up: u64,
    /// Bytes from the far side.
    pub bytes_down: u64,
    /// Connections that are open.
    pub connections_open: u64,
    /// Connections that were ever allowed.
    pub connections: u64,
    /// Refusals, look-ups included.
    pub denials: u64,
    /// Whether a limit has refused anything.
    pub limit_hit: bool,
}

/// Tokens of one answer of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelTokens {
    /// The name of the secret that paid.
    pub secret: String,
    /// Tokens of the request.
    pub prompt: u64,
    /// Tokens of the answer.
    pub completion: u64,
    /// Whether they are an estimate from bytes, since the answer did not say.
    pub estimated: bool,
}

/// A question for a person: may a sandbox connect to a host that no rule names?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkQuestion {
    /// The sandbox.
    pub sandbox: String,
    /// The key that it belongs to.
    pub key: String,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The method of the request, if it was visible.
    pub method: Option<String>,
    /// The path of the request, if it was visible.
    pub path: Option<String>,
}

/// A person's answer about a host and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostAnswer {
    /// This connection and no other.
    AllowOnce,
    /// All connections of the sandbox.
    AllowForSandbox,
    /// All connections of all sandboxes of the key; the server updates the others.
    AllowForKey,
    /// No.
    Deny,
}

/// A question that was accepted and now waits for its answer.
pub struct PendingAnswer {
    /// The approval's id, for the guest.
    pub approval: String,
    /// The answer. It is dropped when the guest's connection has waited long enough; a later
    /// connection asks again.
    pub answer: BoxFuture<'static, HostAnswer>,
}

/// Why a question was not accepted, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskRefused(pub String);

/// A change of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessChange {
    /// It runs, under this process id.
    Started(u32),
    /// It ended without a request to end it: all connections broke.
    Died,
    /// A sandbox could not be attached again after the process had died; it has no network.
    Lost {
        /// The sandbox.
        sandbox: String,
    },
}

/// Receives what happens in the network of sandboxes. Calls must not block.
pub trait EgressEvents: Send + Sync + 'static {
    /// A connection ended.
    fn finished(&self, sandbox: &str, key: &str, record: ConnectionRecord);
    /// A connection, request or look-up was refused.
    fn denied(&self, sandbox: &str, key: &str, denial: DenialRecord);
    /// A model answered.
    fn model_tokens(&self, sandbox: &str, key: &str, tokens: ModelTokens);
    /// The process started or died.
    fn process_changed(&self, change: ProcessChange);
    /// Asks a person.
    fn ask(
        &self,
        question: NetworkQuestion,
    ) -> BoxFuture<'static, Result<PendingAnswer, AskRefused>>;
}
