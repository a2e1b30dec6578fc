//! `silica status`: whether a server is up and ready, and how busy it is.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::client::{Client, ServerArgs};
use crate::show;

/// The status if the server cannot be reached or is not ready.
const EXIT_NOT_READY: i32 = 1;

/// The longest text of the server that is shown.
const TEXT_CHARS_MAX: usize = 300;

/// Arguments of `silica status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: StatusArgs) -> Result<i32> {
    let has_key = std::env::var_os("SILICA_KEY").is_some_and(|key| !key.is_empty());
    // Whether a server is up is told without a key.
    let client = Client::from_args(arguments.server, (!has_key).then(|| "none".to_owned()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(look(&client, has_key))?;
    if arguments.json {
        show::json(&found)?;
    } else {
        tell(&found, client.url(), has_key)?;
    }
    Ok(if found["ready"] == true { 0 } else { EXIT_NOT_READY })
}

/// Asks for everything there is to know; fails if the server cannot be reached.
async fn look(client: &Client, has_key: bool) -> Result<Value> {
    let ready = client.get("/readyz").await?;
    let is_ready = ready.status == 200;
    let detail: Value = serde_json::from_slice(&ready.body).unwrap_or_default();
    if !is_ready && detail["detail"].is_null() {
        ready.json(200, client)?;
    }
    let mut found = json!({
        "url": client.url(), "up": true, "ready": is_ready, "waits_for": detail["detail"],
        "version": null, "pool": detail["pool"], "stats": null,
    });
    if is_ready {
        let service = client.get("/").await?;
        let service: Value = serde_json::from_slice(&service.body).unwrap_or_default();
        found["version"] = service["version"].clone();
        if has_key {
            found["stats"] = client.get("/v1/stats").await?.json(200, client)?;
        }
    }
    Ok(found)
}

fn tell(found: &Value, url: &str, has_key: bool) -> Result<()> {
    let text = |value: &Value| match value {
        Value::String(text) => show::plain(text, TEXT_CHARS_MAX),
        Value::Null => "-".to_owned(),
        other => show::plain(&other.to_string(), TEXT_CHARS_MAX),
    };
    show::line(format_args!("{:<14} {url}", "server"))?;
    if found["ready"] != true {
        return show::line(format_args!("{:<14} no: {}", "ready", text(&found["waits_for"])));
    }
    show::line(format_args!("{:<14} yes", "ready"))?;
    show::line(format_args!("{:<14} {}", "version", text(&found["version"])))?;
    show::line(format_args!("{:<14} {} sandboxes ready", "pool", text(&found["pool"])))?;
    for (name, value) in found["stats"].as_object().into_iter().flatten() {
        if value.is_number() || value.is_string() {
            show::line(format_args!("{:<14} {}", show::plain(name, 60), text(value)))?;
        }
    }
    if !has_key {
        say!("silica: set SILICA_KEY to see how busy it is");
    }
    Ok(())
}
