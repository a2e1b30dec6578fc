//! `silica secret`: stores, lists and deletes secrets on a running server. A value is read from a file
//! or from standard input, never from the command line, and never comes back.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use silica_store::secrets::{SecretName, VALUE_BYTES_MAX};

use crate::client::{Client, ServerArgs};
use crate::{network, show};

/// The most characters of a text from the server that are shown on one line.
const TEXT_CHARACTERS_MAX: usize = 300;

/// Arguments of `silica secret`.
#[derive(Debug, Args)]
pub(crate) struct SecretArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    server: ServerArgs,
    /// The key that owns the secrets [default: SILICA_KEY]
    #[arg(long, global = true)]
    key: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Store a secret, or replace the one of this name
    Set(SetArgs),
    /// List secrets, without their values
    List {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Delete a secret; sandboxes that use it keep it until they end
    Delete {
        /// The name, as in the list
        #[arg(value_parser = SecretName::parse)]
        name: SecretName,
    },
}

#[derive(Debug, Args)]
struct SetArgs {
    /// Its name: letters, digits, -, _ and .
    #[arg(value_parser = SecretName::parse)]
    name: SecretName,
    /// The file with the value; standard input if left out
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// A host that the value may go to, with :PORT if it is not 443; can be given again
    #[arg(long = "host", value_name = "HOST", required = true)]
    hosts: Vec<String>,
    /// The variable that holds its placeholder in sandboxes that use it
    #[arg(long, value_name = "NAME")]
    env: Option<String>,
    /// A part of a request in which the placeholder is replaced: header, basic, query, path or body;
    /// can be given again [default: header]
    #[arg(long = "in", value_name = "PLACE")]
    places: Vec<String>,
    /// What the placeholder begins with, for libraries that check it
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Print the secret as JSON, without its value
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: SecretArgs) -> Result<i32> {
    let client = Client::from_args(arguments.server, arguments.key)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match arguments.action {
            Action::Set(set) => set_one(&client, set).await?,
            Action::List { json } => list(&client, json).await?,
            Action::Delete { name } => delete(&client, &name).await?,
        }
        Ok(0)
    })
}

async fn set_one(client: &Client, set: SetArgs) -> Result<()> {
    let value = match &set.file {
        Some(path) => network::read(path, "--file")?,
        None => from_stdin()?,
    };
    let value = value.trim();
    ensure!(!value.is_empty(), "the value is empty");
    let body = json!({
        "value": value, "hosts": set.hosts, "in": set.places, "env": set.env, "prefix": set.prefix,
    });
    let answer = client.put(&path(&set.name), &body.to_string()).await?;
    // Made, or replaced.
    let secret = answer.json(201, client).or_else(|_| answer.json(200, client))?;
    if set.json {
        return show::line(&secret);
    }
    say!("silica: stored the secret {} for {}", set.name.as_str(), hosts(&secret));
    Ok(())
}

fn from_stdin() -> Result<String> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        bail!("pipe the value into this command, or name its file with --file");
    }
    let mut value = String::new();
    // One more than allowed, and a line break.
    let most = u64::try_from(VALUE_BYTES_MAX)?.saturating_add(3);
    stdin.lock().take(most).read_to_string(&mut value).context("cannot read the value")?;
    ensure!(
        value.trim().len() <= VALUE_BYTES_MAX,
        "the value has more than {VALUE_BYTES_MAX} bytes"
    );
    Ok(value)
}

async fn list(client: &Client, as_json: bool) -> Result<()> {
    let answer = client.get("/v1/secrets").await?.json(200, client)?;
    let secrets = answer["secrets"].as_array().context("the answer has no secrets")?;
    if as_json {
        return secrets.iter().try_for_each(show::line);
    }
    show::line(format_args!("{:<24} {:<10} {:<24} HOSTS", "NAME", "OWNER", "VARIABLE"))?;
    for secret in secrets {
        let owner = if secret["offered"] == true { "operator" } else { "this key" };
        let [name, variable] = ["name", "env"].map(|name| text(&secret[name]));
        let hosts = hosts(secret);
        show::line(format_args!("{name:<24} {owner:<10} {variable:<24} {hosts}"))?;
    }
    Ok(())
}

async fn delete(client: &Client, name: &SecretName) -> Result<()> {
    client.delete(&path(name)).await?.json(204, client)?;
    say!("silica: deleted the secret {}", name.as_str());
    Ok(())
}

/// Its characters have no meaning in a path.
fn path(name: &SecretName) -> String {
    format!("/v1/secrets/{}", name.as_str())
}

fn hosts(secret: &Value) -> String {
    let hosts = secret["hosts"].as_array().into_iter().flatten();
    hosts.map(text).collect::<Vec<_>>().join(", ")
}

fn text(value: &Value) -> String {
    show::plain(value.as_str().unwrap_or("-"), TEXT_CHARACTERS_MAX)
}
