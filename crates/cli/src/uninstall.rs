//! `silica uninstall`: removes what `silica install` put in place and, with `--purge`, the data.

use std::fs;
use std::io::{BufRead as _, ErrorKind, IsTerminal as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use silica_store::{DATABASE_NAME, Digest};

use crate::install::receipt::{Entry, Receipt};
use crate::install::system::{HostServices, SystemCommand, has_units};
use crate::{home, show};

/// Where Debian's package manager lists the files of the package.
const PACKAGE_LIST: &str = "/var/lib/dpkg/info/silica.list";

/// What only a data directory of Silica has.
const SIGNS_OF_DATA: [&str; 2] = [DATABASE_NAME, home::MARK_NAME];

/// Everything that Silica puts into a data directory; nothing else there is removed.
const DATA: [&str; 16] = [
    "templates",
    "templates.d",
    "cache",
    "guest",
    "run",
    "logs",
    DATABASE_NAME,
    "silica.db-wal",
    "silica.db-shm",
    "silica.pending",
    "silica.lock",
    "silica.toml",
    "spending.json",
    "audit.key",
    "repl_history",
    home::MARK_NAME,
];

/// The data directory of the unit `silica-unprivileged`.
const UNPRIVILEGED_DATA: &str = "/var/lib/silica-unprivileged";

/// Arguments of `silica uninstall`.
#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    /// The directory given to `silica install` [default: that of this program]
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Also remove the data directory: keys, audit log, templates
    #[arg(long)]
    purge: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// What will be removed, and what will not.
#[derive(Debug)]
struct Plan {
    receipt: PathBuf,
    files: Vec<PathBuf>,
    /// Files that have changed since they were installed.
    changed: Vec<PathBuf>,
    /// Directories that were made for the installation, the innermost first. They go if empty.
    directories: Vec<PathBuf>,
    data: Vec<PathBuf>,
    /// What the host is told before and after.
    before: Vec<SystemCommand>,
    after: Vec<SystemCommand>,
}

pub(crate) fn run(arguments: &UninstallArgs) -> Result<i32> {
    let receipt = receipt_path(arguments.prefix.as_deref())?;
    let Some(installed) = Receipt::read(&receipt)? else { bail!(without_receipt(&receipt)) };
    let data = home::home()?.path().to_owned();
    let plan = plan(receipt, installed.entries, &data, arguments.purge)?;
    if plan.before.is_empty() {
        plan.data.iter().try_for_each(|data| check_unused(data))?;
    }
    print_plan(&plan, &data)?;
    if !arguments.yes && !consent()? {
        show::line("nothing was removed")?;
        return Ok(1);
    }
    carry_out(&plan)?;
    show::line("removed")?;
    Ok(0)
}

/// The receipt of a prefix, by default the one above this program's directory.
fn receipt_path(prefix: Option<&Path>) -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let prefix = prefix.or_else(|| program.parent()?.parent());
    Ok(prefix.context("this program has no directory above it")?.join("share/silica/installed"))
}

fn without_receipt(receipt: &Path) -> String {
    if Path::new(PACKAGE_LIST).exists() {
        return "this is Debian's package `silica`: remove it with `apt-get remove silica`, or \
                with its data with `apt-get purge silica`"
            .to_owned();
    }
    format!(
        "`silica install` installed nothing here ({} is missing); give the directory it was \
         installed to with --prefix",
        receipt.display()
    )
}

fn plan(receipt: PathBuf, entries: Vec<Entry>, data: &Path, purge: bool) -> Result<Plan> {
    let host = HostServices::of_this_host();
    let paths: Vec<PathBuf> = entries.iter().map(|entry| entry.path.clone()).collect();
    let mut plan = Plan {
        receipt,
        files: vec![],
        changed: vec![],
        directories: vec![],
        data: if purge { data_to_purge(data, has_units(&paths))? } else { vec![] },
        before: host.before_removal(&paths),
        after: host.after_removal(&paths, purge),
    };
    for Entry { path, digest } in entries {
        let Some(digest) = digest else {
            plan.directories.insert(0, path);
            continue;
        };
        match fs::read(&path) {
            Ok(bytes) if Digest::of(&bytes).to_string() == digest => plan.files.push(path),
            Ok(_) => plan.changed.push(path),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        }
    }
    Ok(plan)
}

/// Returns the data directories that are there. That of the caller must be Silica's.
fn data_to_purge(data: &Path, has_service: bool) -> Result<Vec<PathBuf>> {
    let is_ours = |data: &Path| SIGNS_OF_DATA.iter().any(|name| data.join(name).exists());
    if data.exists() && !is_ours(data) {
        bail!(
            "{} does not look like a data directory of Silica ({} are missing); nothing was removed",
            data.display(),
            SIGNS_OF_DATA.join(" and ")
        );
    }
    let unprivileged = has_service.then(|| Path::new(UNPRIVILEGED_DATA));
    let found = [Some(data), unprivileged].into_iter().flatten().filter(|data| is_ours(data));
    Ok(found.map(Path::to_owned).collect())
}

/// Fails if a server or a run uses the data.
fn check_unused(data: &Path) -> Result<()> {
    let zones = fs::read_dir(data.join("run")).into_iter().flatten().flatten();
    let locks =
        zones.map(|entry| entry.path()).chain([data.join(DATABASE_NAME).with_extension("lock")]);
    for lock in locks.filter(|path| path.extension().is_some_and(|ending| ending == "lock")) {
        let Ok(file) = fs::File::open(&lock) else { continue };
        if matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)) {
            let place = data.display();
            bail!("{place} is in use ({} is locked): stop the server first", lock.display());
        }
    }
    Ok(())
}

/// Removes what Silica put into a data directory, and the directory if nothing else is in it.
fn purge(data: &Path) -> Result<()> {
    for path in DATA.map(|name| data.join(name)) {
        let removed = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
    }
    match fs::remove_dir(data) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
            show::line(format!("kept, since it holds other files: {}", data.display()))
        }
        removed => removed.with_context(|| format!("cannot remove {}", data.display())),
    }
}

fn print_plan(plan: &Plan, data: &Path) -> Result<()> {
    show::line("to be removed:")?;
    for path in plan.files.iter().chain(&plan.data) {
        show::line(format!("  {}", path.display()))?;
    }
    for command in plan.before.iter().chain(&plan.after) {
        show::line(format!("to be run: {command}"))?;
    }
    for path in &plan.changed {
        show::line(format!("kept, since it was changed: {}", path.display()))?;
    }
    if plan.data.is_empty() && data.exists() {
        show::line(format!("kept, since --purge was not given: {}", data.display()))?;
    }
    Ok(())
}

fn consent() -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("standard input is not a terminal: say --yes to remove these");
    }
    prompt!("Remove them? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Removes the data, the files and then the receipt, so that what fails can be tried again.
fn carry_out(plan: &Plan) -> Result<()> {
    plan.before.iter().for_each(SystemCommand::run);
    plan.data.iter().try_for_each(|data| check_unused(data))?;
    plan.data.iter().try_for_each(|data| purge(data))?;
    for path in plan.files.iter().chain([&plan.receipt]) {
        fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    for directory in &plan.directories {
        // It stays if another program has put a file there.
        let _ = fs::remove_dir(directory);
    }
    plan.after.iter().for_each(SystemCommand::run);
    Ok(())
}
