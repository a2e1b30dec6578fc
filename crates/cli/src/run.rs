//! `silica run`: code in, everything out, sandbox gone.

pub(crate) mod show;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use silica_domain::{Limit, LimitValues, Tier};
use silica_engine::{
    CODE_BYTES_MAX, Changes, Control, CreateOptions, Created, Engine, Faults, GuestPath, Input,
    KernelOrigin, Sandbox, Setup, Snapshot,
};
use silica_server::EngineRun;
use silica_store::Timestamp;
use tokio::sync::mpsc;

use crate::{home, units};

/// Arguments of `silica run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The file to run; `-` or nothing for standard input
    #[arg(conflicts_with = "code")]
    file: Option<PathBuf>,
    /// The code itself
    #[arg(short, value_name = "CODE")]
    code: Option<String>,
    /// What the sandbox starts from
    #[arg(long, default_value = "code-interpreter")]
    template: String,
    /// What isolates the sandbox: jail
    #[arg(long, value_name = "TIER", default_value = "jail")]
    tier: Tier,
    /// Memory for all processes and files together [default: 512M]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    memory: Option<u64>,
    /// Processors, for example 0.5 or 2 [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = units::cpus)]
    cpus: Option<u32>,
    /// Time on the clock [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    timeout: Option<Duration>,
    /// Processor time [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    cpu_seconds: Option<Duration>,
    /// Writable files, all together [default: 100M]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    disk: Option<u64>,
    /// The largest single file [default: 100M]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    file_size: Option<u64>,
    /// Processes and threads [default: 128]
    #[arg(long, value_name = "NUMBER")]
    processes: Option<u32>,
    /// Open files of one process [default: 1024]
    #[arg(long, value_name = "NUMBER")]
    open_files: Option<u32>,
    /// Bytes kept of stdout and of stderr, half at each end [default: 64K]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    output: Option<u64>,
    /// Results shown [default: 64]
    #[arg(long, value_name = "NUMBER")]
    results: Option<u32>,
    /// Bytes of all results [default: 16M]
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    result_bytes: Option<u64>,
    /// Set a variable for the code; can be given again
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = units::variable)]
    environment: Vec<(String, String)>,
    /// Show a file or directory read-only as /data/input/GUEST; can be given again
    #[arg(long = "in", value_name = "HOST[:GUEST]")]
    inputs: Vec<String>,
    /// Copy a file or directory out afterwards; can be given again
    #[arg(long = "out", value_name = "GUEST[:HOST]")]
    outputs: Vec<String>,
    /// Print one JSON object at the end and nothing before
    #[arg(long)]
    json: bool,
    /// Never use an interpreter forked from a warm one. A single run always starts its own; the flag
    /// is for scripts that must not depend on that
    #[arg(long)]
    fresh: bool,
}

pub(crate) fn run(arguments: &RunArgs) -> Result<i32> {
    let code = read_code(arguments)?;
    let limits = limits(arguments);
    let inputs = arguments.inputs.iter().map(|text| input(text)).collect::<Result<Vec<_>>>()?;
    let outputs = arguments.outputs.iter().map(|text| output(text)).collect::<Result<Vec<_>>>()?;
    let home = home::home()?;
    let template = home::template(&home, &arguments.template)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let engine = home::engine(&home, arguments.tier)?;
        engine.add_template(template).await?;
        let options = CreateOptions {
            template: arguments.template.clone(),
            limits: limits.clone(),
            inputs,
            kernel: KernelOrigin::Fresh,
            faults: Faults::default(),
        };
        let result = run_one(&engine, &options, arguments, &code, &outputs).await;
        engine.close().await;
        result
    })
}

async fn run_one(
    engine: &Engine,
    options: &CreateOptions,
    arguments: &RunArgs,
    code: &str,
    outputs: &[(GuestPath, PathBuf)],
) -> Result<i32> {
    let limits = engine.check_limits(&options.limits)?;
    let Created { sandbox, mut kernel, .. } = engine.create(options).await?;
    kernel.ready().await?;
    let setup = Setup {
        directory: None,
        environment: arguments.environment.iter().cloned().collect(),
        arguments: vec![script_name(arguments)],
    };
    kernel.set_up(&setup).await?;
    let mut interrupts = ctrl_c();
    let mut watcher = show::Terminal::new(!arguments.json);
    let created_at = Timestamp::now();
    let before = arguments.json.then(|| sandbox.files().snapshot().ok()).flatten();
    let report = kernel.run(code, &limits, &mut watcher, &mut interrupts).await?;
    watcher.finish();
    let files = changes(&sandbox, before.as_ref());
    let (outputs, copied) = copy_out(&sandbox, outputs);
    if arguments.json {
        crate::show::json(&silica_server::run_report(&EngineRun {
            created_at,
            report: &report,
            limits: &limits,
            setting: flag,
            files: &files,
            outputs: &outputs,
            containment: sandbox.containment(),
        }))?;
    } else {
        show::ending(&report, &limits);
    }
    copied?;
    Ok(report.outcome.exit_code())
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
fn ctrl_c() -> mpsc::Receiver<Control> {
    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        for interrupt in [Control::Interrupt, Control::Kill] {
            if tokio::signal::ctrl_c().await.is_err() {
                return;
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

fn script_name(arguments: &RunArgs) -> String {
    match (&arguments.code, &arguments.file) {
        (Some(_), _) => "-c".to_owned(),
        (None, Some(file)) => file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        (None, None) => "-".to_owned(),
    }
}

fn read_code(arguments: &RunArgs) -> Result<String> {
    let (bytes, origin) = match (&arguments.code, &arguments.file) {
        (Some(code), _) => return check_length(code),
        (None, Some(file)) if file != Path::new("-") => {
            let opened = std::fs::File::open(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            (read_bounded(opened, &file.display().to_string())?, file.display().to_string())
        }
        (None, _) => {
            if std::io::stdin().is_terminal() {
                // Only `-` waits for what is typed.
                if arguments.file.is_none() {
                    bail!("nothing to run: give a file, -c CODE, or code on standard input");
                }
                say!("silica: reading code from the terminal; end it with Ctrl-D");
            }
            (read_bounded(std::io::stdin().lock(), "standard input")?, "standard input".to_owned())
        }
    };
    let code = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("{origin} is not UTF-8 text: byte {at} cannot be read; save it as UTF-8")
    })?;
    check_length(&code)
}

fn read_bounded(reader: impl Read, origin: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader
        .take(CODE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {origin}"))?;
    if bytes.len() > CODE_BYTES_MAX {
        bail!(
            "{origin} is longer than {CODE_BYTES_MAX} bytes, the most code that is run at once; \
               pass data with --in"
        );
    }
    Ok(bytes)
}

fn check_length(code: &str) -> Result<String> {
    // Python itself skips the mark that some editors put before UTF-8.
    let code = code.strip_prefix('\u{feff}').unwrap_or(code);
    if code.len() > CODE_BYTES_MAX {
        bail!("the code is {} bytes long; at most {CODE_BYTES_MAX} are run at once", code.len());
    }
    Ok(code.to_owned())
}

/// Returns the flag that sets a limit, for messages.
pub(crate) fn flag(limit: Limit) -> &'static str {
    match limit {
        Limit::Memory => "--memory",
        Limit::Cpu => "--cpu-seconds",
        Limit::Wall => "--timeout",
        Limit::Cpus => "--cpus",
        Limit::Processes => "--processes",
        Limit::OpenFiles => "--open-files",
        Limit::Disk => "--disk",
        Limit::FileSize => "--file-size",
        Limit::Output => "--output",
        Limit::Results => "--results",
        Limit::ResultBytes => "--result-bytes",
    }
}

fn limits(arguments: &RunArgs) -> LimitValues {
    let default = LimitValues::default();
    let memory_bytes = arguments.memory.unwrap_or(default.memory_bytes);
    // Files are kept in memory: less of it means less room for them, unless --disk says how much.
    let disk_bytes = arguments.disk.unwrap_or(default.disk_bytes.min(memory_bytes / 2));
    LimitValues {
        memory_bytes,
        cpu: arguments.cpu_seconds.unwrap_or(default.cpu),
        wall: arguments.timeout.unwrap_or(default.wall),
        cpu_millis: arguments.cpus.unwrap_or(default.cpu_millis),
        processes: arguments.processes.unwrap_or(default.processes),
        open_files: arguments.open_files.unwrap_or(default.open_files),
        disk_bytes,
        file_bytes: arguments.file_size.unwrap_or(default.file_bytes),
        output_bytes: arguments.output.unwrap_or(default.output_bytes),
        results: arguments.results.unwrap_or(default.results),
        result_bytes: arguments.result_bytes.unwrap_or(default.result_bytes),
    }
}

/// `HOST[:GUEST]`; a colon in a host path that exists as a whole is part of the path.
fn input(text: &str) -> Result<Input> {
    match text.rsplit_once(':') {
        Some((host, guest)) if !Path::new(text).exists() => {
            Ok(Input::new(Path::new(host), Some(guest))?)
        }
        _ => Ok(Input::new(Path::new(text), None)?),
    }
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
