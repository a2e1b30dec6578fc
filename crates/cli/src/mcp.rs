//! `silica mcp`: code execution for clients of the Model Context Protocol, on standard input and output.
//!
//! Works on a server, or in an engine of its own. Standard output carries the protocol and nothing else.

mod install;
mod local;
mod remote;

use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use silica_mcp::rmcp::ServiceExt;
use silica_mcp::rmcp::transport::io::stdio_pipes;
use silica_mcp::{Api, McpServer, SandboxLife};

use crate::client::{Client, RemoteArgs};

/// Arguments of `silica mcp`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Use this machine, also if SILICA_URL is set
    #[arg(long, conflicts_with_all = ["url", "server"])]
    local: bool,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    settings: local::LocalArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print or write the configuration of a client
    Install(install::InstallArgs),
}

pub(crate) fn run(arguments: &McpArgs) -> Result<i32> {
    if let Some(Action::Install(arguments)) = &arguments.action {
        return install::run(arguments);
    }
    let client = match Client::asked_for(&arguments.remote)? {
        None if !arguments.local => Client::from_environment()?,
        asked => asked,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let status = match client {
        Some(client) => runtime.block_on(serve(client)),
        None => local::serve(&runtime, &arguments.settings),
    };
    // A thread may still be reading standard input.
    runtime.shutdown_background();
    status.map(|()| 0)
}

/// Serves the client at standard input until it leaves.
async fn serve<A: Api>(api: A) -> Result<()> {
    let find_api = move |_: &_| Some(api.clone());
    let tools = Arc::new(McpServer::new(SandboxLife::Connection, find_api));
    let serving = async {
        let running = Arc::clone(&tools).serve(stdio_pipes()).await;
        let running = running.context("the client at standard input does not speak MCP")?;
        running.waiting().await.context("serving the client failed")
    };
    let outcome = tokio::select! {
        outcome = serving => outcome.map(drop),
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    tools.close().await;
    outcome
}
