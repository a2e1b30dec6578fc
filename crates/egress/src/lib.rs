//! The controlled network of sandboxes: DNS, proxy, TLS interception and secrets.
//!
//! Two halves. [`run_process`] is the process `silica __egress`, which holds the secrets and reads
//! what guests send. [`Egress`] is its client in the server: it starts the process, hands over
//! sockets that were made inside sandboxes, and receives records and questions. All decisions on
//! hosts are those of [`silica_domain::EffectivePolicy`].

mod authority;
mod client;
mod events;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod packet;
mod process;
mod secret;
mod settings;
mod sockets;
mod wire;

pub use authority::{AuthorityError, CertificateAuthority};
pub use client::{AttachSpec, Attachment, Egress, EgressError, EgressOptions, EgressProgram};
pub use events::{
    AskRefused, ConnectionKind, ConnectionRecord, ConnectionState, DenialRecord, EgressEvents,
    HostAnswer, ModelTokens, NetworkQuestion, NetworkUsage, PendingAnswer, ProcessChange,
    RequestRecord,
};
pub use process::run as run_process;
pub use secret::{BoundSecret, HeaderInjection, SecretError, SecretHost, SecretPlace, SecretValue};
pub use settings::{EgressSettings, UpstreamProxy};
pub use sockets::{SandboxSockets, SocketKind, SocketSpec, SocketsUnavailable};
