//! `silica repl`: an interactive session in one live sandbox.
//!
//! The line editor runs on the main thread, outside of the runtime; cells and completions run on the
//! runtime. Tests: `tests/it/cli/repl.rs`.

mod editor;
mod input;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustyline::error::ReadlineError;
use silica_domain::Tier;
use silica_engine::CellSetup;
use tokio::runtime::Runtime;

use crate::client::{Client, RemoteArgs};
use crate::limits::LimitArgs;
use crate::picture::Pictures;
use crate::run::ctrl_c;
use crate::run::show::{Saving, Screen, ending};
use crate::workspace::network::NetworkArgs;
use crate::workspace::{CellEnding, Workspace, WorkspaceOptions};
use crate::{home, units};
use editor::Editing;

/// The file of the lines that were typed, in the data directory.
const HISTORY_NAME: &str = "repl_history";

/// Arguments of `silica repl`.
#[derive(Debug, Args)]
pub(crate) struct ReplArgs {
    /// What the sandbox starts from [default: code-interpreter]
    #[arg(long, value_name = "TEMPLATE")]
    template: Option<String>,
    /// Set a variable for the code; can be given again
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = units::variable)]
    environment: Vec<(String, String)>,
    /// Show a file or directory read-only in the working directory, and as /data/input/GUEST; can be
    /// given again
    #[arg(long = "in", value_name = "HOST[:GUEST]")]
    inputs: Vec<String>,
    /// Show pictures in the terminal: auto, if it is known to show them, or never; others are saved
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    pictures: Pictures,
    /// Keep no history of what is typed
    #[arg(long)]
    no_history: bool,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

/// The sandbox, shared with the completer of the editor. Neither holds it while the other works.
type SharedWorkspace = Arc<Mutex<Workspace>>;

pub(crate) fn run(arguments: &ReplArgs) -> Result<i32> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        bail!("silica repl needs a terminal; pipe code into silica run instead");
    }
    let client = Client::asked_for(&arguments.remote)?;
    let home = home::home()?;
    // Its own thread: the zone is served while the editor waits for a key.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let runtime = Arc::new(runtime);
    let options = WorkspaceOptions {
        template: arguments.template.as_deref(),
        limits: &arguments.limits,
        environment: &arguments.environment,
        inputs: &arguments.inputs,
        network: &arguments.network,
    };
    let place = client.as_ref().map(|client| client.url().to_owned());
    let workspace = runtime.block_on(async {
        match client {
            Some(client) => Workspace::remote(&options, client).await,
            None => Workspace::local(&options, Tier::Jail).await,
        }
    })?;
    let workspace = Arc::new(Mutex::new(workspace));
    if let Some(url) = &place {
        say!("silica: a sandbox on {url}; Ctrl-C interrupts, Ctrl-D ends");
    } else {
        say!("silica: a sandbox on this machine; Ctrl-C interrupts, Ctrl-D ends");
    }
    let history = (!arguments.no_history).then(|| home.path().join(HISTORY_NAME));
    let status = session(&runtime, &workspace, history.as_deref(), arguments.pictures);
    // The editor, which shares it, has gone.
    if let Some(workspace) = Arc::into_inner(workspace) {
        let workspace = workspace.into_inner().unwrap_or_else(PoisonError::into_inner);
        runtime.block_on(workspace.close());
    }
    status
}

/// Reads and runs cells until the user leaves; returns the exit status.
fn session(
    runtime: &Arc<Runtime>,
    workspace: &SharedWorkspace,
    history: Option<&Path>,
    pictures: Pictures,
) -> Result<i32> {
    let mut editing = Editing::new(Arc::clone(runtime), Arc::clone(workspace), history)?;
    let mut number = 1;
    loop {
        let code = match editing.read(&format!("In [{number}]: ")) {
            Ok(code) => code,
            // Ctrl-C clears the line.
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(0),
            Err(error) => return Err(error).context("cannot read from the terminal"),
        };
        if code.trim().is_empty() {
            continue;
        }
        number += 1;
        if let Some(status) = run_cell(runtime, workspace, &code, pictures)? {
            return Ok(status);
        }
    }
}

/// Runs one cell; returns the exit status if it ends the session.
fn run_cell(
    runtime: &Runtime,
    workspace: &SharedWorkspace,
    code: &str,
    pictures: Pictures,
) -> Result<Option<i32>> {
    let mut workspace = workspace.lock().unwrap_or_else(PoisonError::into_inner);
    let mut screen = Screen::new(pictures.protocol(), Saving::Unshown);
    let ran = runtime.block_on(async {
        let mut controls = ctrl_c();
        workspace.run(code, CellSetup::default(), &mut screen, &mut controls).await
    });
    screen.finish();
    if !screen.at_line_start {
        // The prompt begins a line.
        crate::show::line("")?;
    }
    let summary = ending(ran?);
    match summary.end {
        CellEnding::Fine | CellEnding::Failed => Ok(None),
        CellEnding::Exited => Ok(Some(summary.exit_code)),
        CellEnding::Lost => {
            runtime.block_on(workspace.replace_interpreter())?;
            say!("silica: started another interpreter; its variables are gone, its files are not");
            Ok(None)
        }
    }
}
