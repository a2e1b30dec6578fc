//! The binary `silica`: the only reader of arguments, environment and configuration.
//!
//! One file per command, each with its arguments and a `run`. Data goes to stdout, words to stderr.

/// Says something to the person at the terminal. Nobody has to listen: a stderr that is closed or broken
/// is no reason to fail, as it would be for `eprintln!`.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($words)*);
    }};
}

/// The same without ending the line.
macro_rules! prompt {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr().lock(), $($words)*);
    }};
}

mod approvals;
mod ask;
mod audit;
mod check;
mod client;
mod colour;
mod config;
mod doctor;
mod home;
mod init;
mod install;
mod key;
mod limits;
mod log_file;
mod logs;
mod mcp;
mod model;
mod network;
mod notebook;
mod pages;
mod picture;
mod repl;
mod run;
mod secret;
mod serve;
mod show;
mod status;
mod template;
mod top;
mod uninstall;
mod units;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use silica_engine::EngineError;
use silica_server::ListenError;
use silica_store::StoreError;
use silica_templates::BuildError;

/// The first argument with which the engine starts this program as a zone. Not for users.
const ZONE_ARGUMENT: &str = "__zone";

/// The first argument with which this program is started to carry the bytes of sandboxes. Not for users.
const EGRESS_ARGUMENT: &str = "__egress";

/// What is logged unless `SILICA_LOG` says otherwise. A certificate that is refused is told as an error.
const LOG_DEFAULT: &str = "warn,rustls_platform_verifier=off,rmcp=off";

/// A code interpreter you own: untrusted Python, contained, in milliseconds.
#[derive(Debug, Parser)]
#[command(name = "silica", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run code in a sandbox of its own and show what comes out
    Run(Box<run::RunArgs>),
    /// Work in a live sandbox, line by line
    Repl(Box<repl::ReplArgs>),
    /// Read code and tell what a policy makes of it, without running it
    Check(check::CheckArgs),
    /// Ask in plain words: a model writes code, the code runs, the answer comes back
    Ask(Box<ask::AskArgs>),
    /// Ask again and again: variables and files stay
    Chat(Box<ask::ChatArgs>),
    /// Run code for a client of the Model Context Protocol, on standard input and output
    Mcp(Box<mcp::McpArgs>),
    /// Serve sandboxes over HTTP, with keys, quotas and an audit log
    Serve(Box<serve::ServeArgs>),
    /// Write a configuration, a key and a template, and print the lines to copy
    Init(init::InitArgs),
    /// Tell whether a server is up, ready and busy
    Status(status::StatusArgs),
    /// Show the log of the server on this machine
    Logs(logs::LogsArgs),
    /// Watch the sandboxes of a running server
    Top(top::TopArgs),
    /// Build, list, show and remove templates
    Template(template::TemplateArgs),
    /// See what waits for a person on a running server, and decide
    Approvals(approvals::ApprovalsArgs),
    /// Make, list and revoke keys
    Key(key::KeyArgs),
    /// Store, list and delete secrets on a running server
    Secret(Box<secret::SecretArgs>),
    /// Look at the audit log, export it, and check that nobody changed it
    Audit(audit::AuditArgs),
    /// Tell what this host offers and enforces, and what is missing
    Doctor(doctor::DoctorArgs),
    /// Show the configuration of the server, and where each value comes from
    Config(Box<config::ConfigArgs>),
    /// Install this program with its manual pages and completions
    Install(install::InstallArgs),
    /// Remove what `silica install` installed, and the data if asked to
    Uninstall(uninstall::UninstallArgs),
    /// Print a file that completes commands in a shell
    Completions(pages::CompletionsArgs),
    /// Print the manual page of silica or of one of its commands
    Man(pages::ManArgs),
    /// Print the version
    Version,
}

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == ZONE_ARGUMENT) {
        return exit_code(silica_engine::jail_host::run_zone());
    }
    if std::env::args_os().nth(1).is_some_and(|argument| argument == EGRESS_ARGUMENT) {
        return exit_code(i32::from(silica_egress::run_process().is_err()));
    }
    let command = Arguments::parse().command;
    // The server's log is part of its configuration.
    if !matches!(command, Command::Serve(_)) {
        let filter = tracing_subscriber::EnvFilter::try_from_env("SILICA_LOG")
            .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(LOG_DEFAULT));
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(colour::is_wanted(&std::io::stderr()))
            .log_internal_errors(false)
            .init();
    }
    let outcome = match command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Repl(arguments) => repl::run(&arguments),
        Command::Ask(arguments) => ask::run(&arguments),
        Command::Chat(arguments) => ask::chat(&arguments),
        Command::Mcp(arguments) => mcp::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Top(arguments) => top::run(arguments),
        Command::Approvals(arguments) => approvals::run(arguments),
        Command::Template(arguments) => template::run(arguments),
        Command::Key(arguments) => key::run(arguments),
        Command::Secret(arguments) => secret::run(*arguments),
        Command::Audit(arguments) => audit::run(arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Install(arguments) => install::run(&arguments),
        Command::Uninstall(arguments) => uninstall::run(&arguments),
        Command::Completions(arguments) => pages::print_completions(&arguments),
        Command::Man(arguments) => pages::print_manual(&arguments),
        Command::Init(arguments) => init::run(&arguments),
        Command::Status(arguments) => status::run(arguments),
        Command::Logs(arguments) => logs::run(&arguments),
        Command::Version => {
            show::line(format_args!("silica {}", env!("CARGO_PKG_VERSION"))).map(|()| 0)
        }
    };
    match outcome {
        // The reader of standard output has closed it.
        Err(error) if show::is_broken_pipe(&error) => exit_code(0),
        Ok(status) => exit_code(status),
        Err(error) => {
            complain(&error);
            exit_code(EXIT_FAILURE)
        }
    }
}

/// The status for a request that could not be carried out, as distinct from code that failed.
const EXIT_FAILURE: i32 = 125;

fn exit_code(status: i32) -> ExitCode {
    ExitCode::from((status & 0xff) as u8)
}

/// Returns a message of the operating system without the number of the error, which says no more.
fn without_number(text: &str) -> &str {
    text.rsplit_once(" (os error ").map_or(text, |(words, _)| words)
}

/// Prints an error with its causes, one per line, each said once.
fn complain(error: &anyhow::Error) {
    let mut last = String::new();
    for (depth, cause) in error.chain().enumerate() {
        let text = without_number(&cause.to_string()).to_owned();
        if text != last {
            say!("{}{text}", if depth == 0 { "silica: " } else { "  because: " });
        }
        last = text;
    }
    if let Some(error) = error.downcast_ref::<BuildError>() {
        say!("  what to do: {}", error.advice());
    }
    let engine = error.chain().find_map(|cause| cause.downcast_ref::<EngineError>());
    if matches!(engine, Some(EngineError::Tier(_))) {
        say!("  what to do: silica doctor says what this host lacks, and how to get it");
    }
    let listen = error.chain().find_map(|cause| cause.downcast_ref::<ListenError>());
    if let Some(advice) = listen.and_then(ListenError::advice) {
        say!("  what to do: {advice}");
    }
    let store = error.chain().find_map(|cause| cause.downcast_ref::<StoreError>());
    if let Some(advice) = store.and_then(StoreError::advice) {
        say!("  what to do: {advice}");
    }
}
