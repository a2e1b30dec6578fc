//! `silica mcp install`: the configuration with which a client starts or reaches Silica.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::show;

/// The name of the server in the configuration.
const NAME: &str = "silica";

/// The largest configuration that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A client of the Model Context Protocol.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum McpClient {
    /// Claude Code
    Claude,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
}

/// Arguments of `silica mcp install`.
#[derive(Debug, Args)]
pub(super) struct InstallArgs {
    /// The client
    client: McpClient,
    /// Have the client use a server at this address, over HTTP, instead of starting Silica
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Write the file of this directory's project instead of printing it; other entries stay
    #[arg(long)]
    write: bool,
}

impl McpClient {
    /// Returns the file of a project.
    fn file(self) -> &'static Path {
        Path::new(match self {
            Self::Claude => ".mcp.json",
            Self::Cursor => ".cursor/mcp.json",
            Self::Vscode => ".vscode/mcp.json",
        })
    }

    /// Returns the field that holds the servers.
    fn servers(self) -> &'static str {
        match self {
            Self::Claude | Self::Cursor => "mcpServers",
            Self::Vscode => "servers",
        }
    }

    /// Returns how the client is told to take the key from its environment, so that no file holds it.
    fn key(self) -> &'static str {
        match self {
            Self::Claude => "${SILICA_KEY}",
            Self::Cursor => "${env:SILICA_KEY}",
            Self::Vscode => "${input:silica-key}",
        }
    }

    fn entry(self, url: Option<&str>, program: &str) -> Value {
        match url {
            Some(url) => json!({
                "type": "http",
                "url": format!("{}/mcp", url.trim_end_matches('/')),
                "headers": {"Authorization": format!("Bearer {}", self.key())},
            }),
            None => json!({"type": "stdio", "command": program, "args": ["mcp"]}),
        }
    }

    /// Adds the entry to a configuration.
    fn add(self, configuration: &mut Map<String, Value>, entry: Value) -> Result<()> {
        let asks = entry["type"] == "http" && matches!(self, Self::Vscode);
        let servers = configuration.entry(self.servers()).or_insert_with(|| json!({}));
        let servers = servers.as_object_mut();
        let words = || format!("{} must be an object in {}", self.servers(), self.file().display());
        servers.with_context(words)?.insert(NAME.to_owned(), entry);
        if asks {
            let input = json!({
                "type": "promptString", "id": "silica-key", "description": "Key of Silica",
                "password": true,
            });
            let inputs = configuration.entry("inputs").or_insert_with(|| json!([]));
            let inputs = inputs.as_array_mut().context("inputs must be a list")?;
            inputs.retain(|known| known["id"] != "silica-key");
            inputs.push(input);
        }
        Ok(())
    }
}

pub(super) fn run(arguments: &InstallArgs) -> Result<i32> {
    let client = arguments.client;
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let program = program.to_str().context("the path of this program is not UTF-8")?;
    let entry = client.entry(arguments.url.as_deref(), program);
    let file = client.file();
    let mut configuration = if arguments.write { read(file)? } else { Map::new() };
    client.add(&mut configuration, entry)?;
    let text = serde_json::to_string_pretty(&configuration)?;
    if arguments.write {
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("cannot create {}", parent.display()))?;
        }
        std::fs::write(file, text + "\n")
            .with_context(|| format!("cannot write {}", file.display()))?;
        say!("silica: wrote {}", file.display());
    } else {
        say!("silica: for {} in the directory of a project:", file.display());
        show::line(text)?;
    }
    if arguments.url.is_some() && !matches!(client, McpClient::Vscode) {
        say!("silica: the client takes the key from SILICA_KEY");
    }
    Ok(0)
}

/// Reads a configuration; an empty one if there is no file.
fn read(file: &Path) -> Result<Map<String, Value>> {
    let words = || format!("cannot read {}", file.display());
    let size = match std::fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
        metadata => metadata.with_context(words)?.len(),
    };
    ensure!(size <= FILE_BYTES_MAX, "{} has more than {FILE_BYTES_MAX} bytes", file.display());
    let text = std::fs::read_to_string(file).with_context(words)?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is not a JSON object; nothing was changed", file.display()))
}
