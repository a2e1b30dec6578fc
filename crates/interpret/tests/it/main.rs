//! Models over real sockets: a provider on loopback, and the providers' own clients beside ours.

mod faults;
mod oracle;
mod provider;

use std::time::Duration;

use silica_interpret::ProviderKey;
use silica_interpret::model::{Auth, HttpModel, HttpOptions, Message, Request, Wire};

/// A key that must be seen nowhere.
const KEY: &str = "sk-never-to-be-seen-0123456789";

/// Options that reach a provider on loopback.
fn options(wire: Wire, base_url: &str) -> HttpOptions {
    HttpOptions {
        wire,
        base_url: base_url.to_owned(),
        key: ProviderKey::new(KEY),
        key_needed: true,
        auth: match wire {
            Wire::Anthropic => Auth::ApiKey,
            Wire::Chat => Auth::Bearer,
        },
        anthropic_version: "2023-06-01".to_owned(),
        headers: std::collections::BTreeMap::new(),
        connect_max: Duration::from_secs(30),
        silence_max: Duration::from_mins(1),
        total_max: Duration::from_mins(2),
        retries: 0,
    }
}

fn model(options: HttpOptions) -> silica_interpret::model::Model {
    let model = HttpModel::new(options).expect("good options");
    silica_interpret::model::Model::Http(Box::new(model))
}

fn request() -> Request {
    Request {
        model: "m-1".to_owned(),
        system: "Be brief.".to_owned(),
        messages: vec![Message::user("Print one")],
        tools: Vec::new(),
        tokens_max: 100,
    }
}
