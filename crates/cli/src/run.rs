//! `silica run`: code in, everything out, sandbox gone.

pub(crate) mod show;
mod source;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use silica_domain::Tier;
use silica_engine::{Changes, Control, GuestPath, Sandbox, Snapshot};
use silica_server::EngineRun;
use silica_store::Timestamp;
use tokio::sync::mpsc;

use crate::client::{Client, RemoteArgs};
use crate::limits::{self, LimitArgs};
use crate::picture::Pictures;
use crate::units;
use crate::workspace::network::NetworkArgs;
use crate::workspace::{
    CellEnding, CellSummary, LocalWorkspace, RemoteWorkspace, Workspace, WorkspaceOptions,
};
use show::{Saving, Screen};
use source::{Program, ProgramCell};

/// Arguments of `silica run`.
#[derive(Debug, Args)]
#[command(override_usage = "silica run [OPTIONS] [FILE [ARGUMENT]...]\n       \
                            silica run [OPTIONS] -c CODE [ARGUMENT]...")]
pub(crate) struct RunArgs {
    /// A Python file or a notebook (.ipynb), and its arguments; `-` or nothing for standard input.
    /// What follows the file belongs to the program, so options of silica come before it
    #[arg(value_name = "FILE [ARGUMENT]", trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<String>,
    /// The code itself
    #[arg(short, value_name = "CODE", allow_hyphen_values = true)]
    code: Option<String>,
    /// What the sandbox starts from [default: code-interpreter]
    #[arg(long, value_name = "TEMPLATE")]
    template: Option<String>,
    /// What isolates the sandbox: jail
    #[arg(long, value_name = "TIER", default_value = "jail")]
    tier: Tier,
    /// Set a variable for the code; can be given again
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = units::variable)]
    environment: Vec<(String, String)>,
    /// Show a file or directory read-only in the working directory, and as /data/input/GUEST; can be
    /// given again
    #[arg(long = "in", value_name = "HOST[:GUEST]")]
    inputs: Vec<String>,
    /// Copy a file or directory out afterwards; can be given again
    #[arg(long = "out", value_name = "GUEST[:HOST]")]
    outputs: Vec<String>,
    /// Save the code with all it printed and showed as a notebook
    #[arg(long, value_name = "FILE")]
    save_notebook: Option<PathBuf>,
    /// Go on with a notebook after a cell that failed
    #[arg(long)]
    allow_errors: bool,
    /// Show pictures in the terminal: auto, if it is known to show them, or never
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    pictures: Pictures,
    /// Print one JSON object at the end and nothing before
    #[arg(long, conflicts_with = "save_notebook")]
    json: bool,
    /// Never use an interpreter forked from a warm one. A single run always starts its own; the flag
    /// is for scripts that must not depend on that
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Files to copy out: their paths inside and on this machine.
type Wanted = Vec<(GuestPath, PathBuf)>;

pub(crate) fn run(arguments: &RunArgs) -> Result<i32> {
    let program = source::read(arguments.code.as_deref(), &arguments.program)?;
    let wanted = arguments.outputs.iter().map(|text| output(text)).collect::<Result<Wanted>>()?;
    let client = Client::asked_for(&arguments.remote)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let cell = if arguments.json { Some(program.only_cell()?) } else { None };
        let workspace = match client {
            Some(client) => Workspace::remote(&options(arguments), client).await?,
            None => Workspace::local(&options(arguments), arguments.tier).await?,
        };
        match cell {
            Some(cell) => json_report(workspace, cell, &wanted).await,
            None => live(workspace, arguments, program, &wanted).await,
        }
    })
}

fn options(arguments: &RunArgs) -> WorkspaceOptions<'_> {
    WorkspaceOptions {
        template: arguments.template.as_deref(),
        limits: &arguments.limits,
        environment: &arguments.environment,
        inputs: &arguments.inputs,
        network: &arguments.network,
    }
}

/// Runs a program, shows its output as it comes, copies files out and ends the sandbox.
async fn live(
    mut workspace: Workspace,
    arguments: &RunArgs,
    program: Program,
    wanted: &Wanted,
) -> Result<i32> {
    let ran = run_cells(&mut workspace, arguments, program).await;
    let mut copied = Ok(());
    if ran.is_ok() {
        for (guest, host) in wanted {
            copied = copy_one(&workspace, guest, host).await;
            if copied.is_err() {
                break;
            }
        }
    }
    workspace.close().await;
    let status = ran?;
    copied?;
    Ok(status)
}

async fn copy_one(workspace: &Workspace, guest: &GuestPath, host: &std::path::Path) -> Result<()> {
    let bytes = workspace.copy_out(guest, host).await?;
    say!("silica: copied {guest} to {} ({bytes} bytes)", host.display());
    Ok(())
}

/// Runs the cells of a program up to the first that fails; returns the exit status.
async fn run_cells(
    workspace: &mut Workspace,
    arguments: &RunArgs,
    program: Program,
) -> Result<i32> {
    let mut controls = ctrl_c();
    let mut notebook = program.notebook;
    let mut status = 0;
    let mut count = 0;
    for ProgramCell { index, code, setup, may_fail } in program.cells {
        count += 1;
        let mut screen = Screen::new(arguments.pictures.protocol(), Saving::Always);
        let ran = workspace.run(&code, setup, &mut screen, &mut controls).await;
        let outputs = screen.finish();
        if let Some(notebook) = &mut notebook {
            notebook.set_outputs(index, count, outputs);
        }
        let CellSummary { end, exit_code, .. } = show::ending(ran?);
        let goes_on = match end {
            CellEnding::Fine => true,
            CellEnding::Failed => {
                exit_code != EXIT_INTERRUPTED && (may_fail || arguments.allow_errors)
            }
            CellEnding::Exited | CellEnding::Lost => false,
        };
        if !goes_on {
            status = exit_code;
            break;
        }
    }
    if let (Some(path), Some(notebook)) = (&arguments.save_notebook, &notebook) {
        notebook.save(path)?;
        say!("silica: saved {}", path.display());
    }
    Ok(status)
}

/// The status of code that was interrupted.
const EXIT_INTERRUPTED: i32 = 130;

/// Runs one cell, prints its report, copies files out and ends the sandbox.
async fn json_report(workspace: Workspace, cell: &ProgramCell, wanted: &Wanted) -> Result<i32> {
    match workspace {
        Workspace::Local(mut local) => {
            let reported = report(&mut local, cell, wanted).await;
            local.close().await;
            reported
        }
        Workspace::Remote(mut remote) => {
            let reported = report_of_server(&mut remote, cell, wanted).await;
            remote.close().await;
            reported
        }
    }
}

async fn report(local: &mut LocalWorkspace, cell: &ProgramCell, wanted: &Wanted) -> Result<i32> {
    let created_at = Timestamp::now();
    let before = local.sandbox.files().snapshot().ok();
    let mut unwatched = silica_engine::Unwatched;
    let setup = cell.setup.clone();
    let report = local.report(&cell.code, setup, &mut unwatched, &mut ctrl_c()).await?;
    let files = changes(&local.sandbox, before.as_ref());
    let (outputs, copied) = copy_out(&local.sandbox, wanted);
    crate::show::json(&silica_server::run_report(&EngineRun {
        created_at,
        report: &report,
        limits: &local.limits,
        setting: limits::flag,
        files: &files,
        outputs: &outputs,
        containment: &local.sandbox.containment(),
    }))?;
    copied?;
    Ok(report.outcome.exit_code())
}

async fn report_of_server(
    remote: &mut RemoteWorkspace,
    cell: &ProgramCell,
    wanted: &Wanted,
) -> Result<i32> {
    let mut report = remote.report(&cell.code, cell.setup.clone(), &mut ctrl_c()).await?;
    let mut outputs = Vec::new();
    let mut copied = Ok(());
    for (guest, host) in wanted {
        copied = match remote.copy_out(guest, host).await {
            Ok(bytes) => {
                say!("silica: copied {guest} to {} ({bytes} bytes)", host.display());
                outputs.push(json!({"path": guest.to_string(), "size": bytes}));
                Ok(())
            }
            Err(error) => {
                outputs.push(json!({"path": guest.to_string(), "error": error.to_string()}));
                Err(error)
            }
        };
        if copied.is_err() {
            break;
        }
    }
    report["outputs"] = outputs.into();
    crate::show::json(&report)?;
    copied?;
    Ok(report["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(1))
}

/// Returns the files that the code created, changed and removed; none if that cannot be seen, as
/// after the sandbox died.
fn changes(sandbox: &Sandbox, before: Option<&Snapshot>) -> Changes {
    let after = before.and_then(|_| sandbox.files().snapshot().ok());
    match (before, after) {
        (Some(before), Some(after)) => after.since(before),
        _ => Changes::default(),
    }
}

/// Files that were to be copied to the host, by path: their sizes, or why not.
type Outputs = Vec<(String, Result<u64, String>)>;

/// Copies files to the host up to the first that fails.
fn copy_out(sandbox: &Sandbox, wanted: &[(GuestPath, PathBuf)]) -> (Outputs, Result<()>) {
    let mut outputs = Outputs::new();
    for (guest, host) in wanted {
        match sandbox.files().copy_out(guest, host) {
            Ok(bytes) => {
                say!("silica: copied {guest} to {} ({bytes} bytes)", host.display());
                outputs.push((guest.to_string(), Ok(bytes)));
            }
            Err(error) => {
                outputs.push((guest.to_string(), Err(error.to_string())));
                return (outputs, Err(error.into()));
            }
        }
    }
    (outputs, Ok(()))
}

/// Ctrl-C interrupts the code; once more ends it.
pub(crate) fn ctrl_c() -> mpsc::Receiver<Control> {
    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        for interrupt in [Control::Interrupt, Control::Kill] {
            tokio::select! {
                interrupted = tokio::signal::ctrl_c() => if interrupted.is_err() { return },
                () = sender.closed() => return,
            }
            // Code may take the first as it likes, and say nothing of it.
            if interrupt == Control::Interrupt {
                say!("silica: interrupted; press Ctrl-C again to end it");
            }
            if sender.send(interrupt).await.is_err() {
                return;
            }
        }
    });
    receiver
}

/// `GUEST[:HOST]`; without a host path, the same name in the current directory.
fn output(text: &str) -> Result<(GuestPath, PathBuf)> {
    let (guest, host) = if let Some((guest, host)) = text.split_once(':') {
        (GuestPath::parse(guest)?, PathBuf::from(host))
    } else {
        let guest = GuestPath::parse(text)?;
        let host = PathBuf::from(guest.name());
        (guest, host)
    };
    // A directory is copied into, as `cp` would.
    let host = if host.is_dir() { host.join(guest.name()) } else { host };
    Ok((guest, host))
}
