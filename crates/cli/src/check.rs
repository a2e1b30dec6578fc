//! `silica check`: what a policy makes of code, printed as a compiler does.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use silica_policy::{Action, CODE_BYTES_MAX, POLICY_BYTES_MAX, Policy, Preset, Report};

use crate::show;

/// The status when the code would not run.
const EXIT_BLOCKED: i32 = 1;
/// The status when there was nothing to check, or nothing to check it with.
const EXIT_MISUSE: i32 = 2;

/// Arguments of `silica check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The file to read, or - for standard input
    #[arg(required_unless_present = "code")]
    file: Option<PathBuf>,
    /// The code itself
    #[arg(short, value_name = "CODE", allow_hyphen_values = true, conflicts_with = "file")]
    code: Option<String>,
    /// A preset (strict, data, open) or the path of a policy file
    #[arg(long, default_value = "data")]
    policy: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &CheckArgs) -> Result<i32> {
    match check(arguments) {
        Ok(status) => Ok(status),
        Err(error) if show::is_broken_pipe(&error) => Err(error),
        Err(error) => {
            crate::complain(&error);
            Ok(EXIT_MISUSE)
        }
    }
}

fn check(arguments: &CheckArgs) -> Result<i32> {
    let own;
    let policy = if let Some(preset) = Preset::from_name(&arguments.policy) {
        Policy::preset(preset)
    } else {
        own = from_file(Path::new(&arguments.policy))?;
        &own
    };
    let (code, name) = match (&arguments.code, &arguments.file) {
        (Some(code), _) => (code.clone(), Path::new("-c")),
        (None, Some(file)) => (read(file)?, file.as_path()),
        (None, None) => bail!("nothing to check: give a file or -c CODE"),
    };
    let report = policy.check(&code);
    if arguments.json {
        show::json(&silica_server::check_report(policy, &report))?;
    } else {
        tell(&report, &code, name, policy)?;
    }
    Ok(if report.verdict == Action::Block { EXIT_BLOCKED } else { 0 })
}

/// The name of a preset as it is, or the text of a policy file that was found to be right.
pub(crate) fn named_or_text(policy: &str) -> Result<String> {
    match Preset::from_name(policy) {
        Some(_) => Ok(policy.to_owned()),
        None => Ok(read_policy(Path::new(policy))?.1),
    }
}

/// Reads a policy file.
pub(crate) fn from_file(path: &Path) -> Result<Policy> {
    Ok(read_policy(path)?.0)
}

fn read_policy(path: &Path) -> Result<(Policy, String)> {
    let is_word = path.components().count() == 1 && path.extension().is_none();
    if is_word && !path.exists() {
        bail!("there is no preset or file {}; presets are strict, data and open", path.display());
    }
    let text = bounded(path, POLICY_BYTES_MAX)?;
    let policy = Policy::parse(&text)
        .with_context(|| format!("cannot use the policy {}", path.display()))?;
    Ok((policy, text))
}

fn read(path: &Path) -> Result<String> {
    if path != Path::new("-") {
        return bounded(path, CODE_BYTES_MAX);
    }
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        say!("silica: reading code from the terminal; end it with Ctrl-D");
    }
    text(stdin.lock(), CODE_BYTES_MAX).context("cannot read standard input")
}

fn bounded(path: &Path, bytes_max: usize) -> Result<String> {
    let read = || text(std::fs::File::open(path)?, bytes_max);
    read().with_context(|| format!("cannot read {}", path.display()))
}

/// Reads one byte more than is allowed, so that what is too long is seen without reading all of it.
fn text(source: impl std::io::Read, bytes_max: usize) -> Result<String> {
    let mut bytes = Vec::new();
    source.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max {
        bail!("it has more than {bytes_max} bytes");
    }
    String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("it is not UTF-8"))
}

fn tell(report: &Report, code: &str, file: &Path, policy: &Policy) -> Result<()> {
    let name = show::plain(&file.to_string_lossy(), 200);
    let shown = report.render(code, if name == "-" { "<stdin>" } else { &name });
    if !shown.is_empty() {
        show::line(shown.trim_end())?;
    }
    let count = report.findings.len() + report.left_out;
    let findings = if count == 1 { "finding" } else { "findings" };
    let verdict = match report.verdict {
        Action::Allow | Action::Warn => "it may run",
        Action::Ask => "a person has to approve it",
        Action::Block => "it may not run",
    };
    say!("silica: {count} {findings} under the policy {}: {verdict}", policy.name());
    Ok(())
}
