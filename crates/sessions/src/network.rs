//! The network of sandboxes: who may ask for which, what each sandbox has, and what came of it.
//!
//! A sandbox has no network unless its owner asks for one and the operator offers it. The rules and
//! the decisions are those of `silica_domain`; the bytes are carried by the process of
//! `silica_egress`. Here requests become terms, terms become an attachment, and connections become
//! records in the audit log and in cells.
//!
//! Tests: `tests/it/server/network.rs`, `tests/it/server/secrets.rs`.

mod ask;
mod ceiling;
mod change;
mod events;
mod options;
mod record;
mod request;
mod secret;
mod sockets;
mod state;

pub use ceiling::KeyCeiling;
pub use events::TokenCounter;
pub(crate) use events::{NetworkEvents, apply_decisions};
pub use options::{NetworkOptions, NetworkPreset, OfferedSecret};
pub use record::CellNetwork;
pub(crate) use request::NetworkTerms;
pub use request::{InlineSecret, NetworkRequest, bind_secret};
pub use secret::{SecretDraft, SecretInfo};
pub use sockets::LoneSockets;
pub use state::NetworkInfo;
pub(crate) use state::SessionNetwork;

use std::sync::Arc;

use silica_egress::{Egress, EgressEvents};
use silica_store::Store;

use crate::fairness::Admission;
use crate::statistics::Statistics;

/// What the networks of all sandboxes share.
#[derive(Clone)]
pub(crate) struct Networks {
    pub(crate) options: Arc<NetworkOptions>,
    /// `None` if this server offers no network at all.
    pub(crate) egress: Option<Egress>,
    pub(crate) events: Arc<NetworkEvents>,
}

impl Networks {
    /// Prepares the networks. The process that carries the bytes starts with the first sandbox that
    /// needs it.
    pub(crate) fn new(
        options: &NetworkOptions,
        store: &Store,
        admission: &Admission,
        statistics: &Arc<Statistics>,
    ) -> Self {
        let events = Arc::new(NetworkEvents::new(
            store.clone(),
            admission.clone(),
            Arc::clone(statistics),
            options.tokens.clone(),
        ));
        let egress = options.egress.clone();
        let handler = Arc::clone(&events) as Arc<dyn EgressEvents>;
        let egress = egress.map(|egress| Egress::new(egress, handler));
        Self { options: Arc::new(options.clone()), egress, events }
    }
}

impl std::fmt::Debug for Networks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Networks").field("options", &self.options).finish_non_exhaustive()
    }
}
