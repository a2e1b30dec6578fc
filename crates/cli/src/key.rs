//! `silica key`: creates, lists and revokes the keys of a server.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use silica_sessions::KeyCeiling;
use silica_store::keys::{KeyName, KeyRecord, NewKey, Revocation};
use silica_store::{Access, KeyId};

use crate::{home, show};

/// Arguments of `silica key`.
#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a key and print it; it is not shown again
    Create {
        /// A name, for example of the user or program that will use the key
        #[arg(value_parser = KeyName::new)]
        name: KeyName,
        /// Give all rights, also over the sandboxes of other keys
        #[arg(long)]
        admin: bool,
        /// Give the right to approve and deny code of other keys
        #[arg(long)]
        approve: bool,
        /// Make a key for Jupyter clients alone, which may also be part of their URL
        #[arg(long, conflicts_with_all = ["admin", "approve"])]
        jupyter: bool,
        #[command(flatten)]
        network: KeyNetworkArgs,
        /// Print the key as JSON, with its id
        #[arg(long)]
        json: bool,
    },
    /// List all keys, also revoked ones
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key permanently; a running server rejects it within a second
    Revoke {
        /// The id, as in the list
        #[arg(value_parser = KeyId::parse)]
        id: KeyId,
        /// Print the revoked key as JSON
        #[arg(long)]
        json: bool,
    },
}

/// What the sandboxes of a key may reach.
#[derive(Debug, Args)]
struct KeyNetworkArgs {
    /// The most of the network that its sandboxes may have: none, list or open; never more than the
    /// server's network.mode_max [default: what all keys may have]
    #[arg(long, value_name = "MODE")]
    network: Option<String>,
    /// A host that its sandboxes may ask for, such as api.example.com or db.example.com:5432/tcp; can
    /// be given again, and makes the mode list
    #[arg(long, value_name = "RULE")]
    network_allow: Vec<String>,
}

impl KeyNetworkArgs {
    /// Returns the limits of the key; `None` for those of all keys.
    fn limits(&self) -> Result<Option<String>> {
        let mode = match (&self.network, self.network_allow.is_empty()) {
            (None, true) => return Ok(None),
            (None, false) => "list",
            (Some(mode), _) => mode,
        };
        Ok(Some(KeyCeiling::parse(mode, &self.network_allow)?.to_limits()))
    }
}

pub(crate) fn run(arguments: KeyArgs) -> Result<i32> {
    match arguments.action {
        Action::Create { name, admin, approve, jupyter, network, json } => {
            create(NewKey { name, admin, approve, jupyter, limits: network.limits()? }, json)?;
        }
        Action::List { json } => list(json)?,
        Action::Revoke { id, json } => revoke(&id, json)?,
    }
    Ok(0)
}

fn create(new: NewKey, as_json: bool) -> Result<()> {
    let store = home::store(Access::Tool)?;
    let (record, secret) = store.keys().create(new).wait()?;
    store.close_wait();
    if as_json {
        let KeyRecord { id, name, admin, approve, jupyter, created_at, .. } = record;
        return show::line(json!({
            "id": id, "name": name, "admin": admin, "approve": approve, "jupyter": jupyter,
            "created_at": created_at, "key": secret.reveal(),
        }));
    }
    let kind = match (record.admin, record.jupyter) {
        (true, _) => "an admin key",
        (false, true) => "a key for Jupyter",
        (false, false) => "a key",
    };
    say!("silica: created {kind} for {}, with the id {}", record.name, record.id);
    say!("silica: copy it now; only a digest is stored, and it is never shown again:");
    show::line(secret.reveal())
}

fn list(as_json: bool) -> Result<()> {
    let keys = home::store(Access::ReadOnly)?.keys().list().wait()?;
    if as_json {
        return keys.iter().try_for_each(|key| show::line(serde_json::to_string(key)?));
    }
    show::line(format_args!("{:<17} {:<6} {:<21} {:<29} NAME", "ID", "ADMIN", "CREATED", "STATE"))?;
    for key in keys {
        let state = match key.revoked_at {
            Some(time) => format!("revoked {}", show::moment(time)),
            None => "active".to_owned(),
        };
        let admin = if key.admin { "yes" } else { "no" };
        let created = show::moment(key.created_at);
        let name = show::plain(&key.name, 100);
        show::line(format_args!("{:<17} {admin:<6} {created:<21} {state:<29} {name}", key.id))?;
    }
    Ok(())
}

fn revoke(id: &KeyId, as_json: bool) -> Result<()> {
    let store = home::store(Access::Tool)?;
    let revocation = store.keys().revoke(id).wait()?;
    store.close_wait();
    let record = match revocation {
        Revocation::Unknown => bail!("there is no key {id}; list all with: silica key list"),
        Revocation::Done(record) => {
            say!("silica: revoked key {id} ({})", record.name);
            record
        }
        Revocation::Before(record) => {
            say!("silica: key {id} ({}) was revoked before", record.name);
            record
        }
    };
    if as_json { show::line(serde_json::to_string(&record)?) } else { Ok(()) }
}
