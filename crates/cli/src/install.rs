//! `silica install`: puts this program, its manual pages, completions and units in their places.
//!
//! Files are replaced atomically. A receipt lists each of them with its digest, so that
//! `silica uninstall` removes exactly these. With `--root` the files are laid out below another
//! directory for a package, whose manager keeps its own list; no receipt is written then.

mod layout;
pub(crate) mod receipt;
pub(crate) mod system;

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use silica_store::Digest;

use crate::show;
use layout::{Content, Installed, Prefix};
use receipt::{Entry, Receipt};
use system::HostServices;

/// Arguments of `silica install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Install below this directory [default: /usr/local for root, else ~/.local]
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Also install systemd's units and what they need (root only)
    #[arg(long)]
    service: bool,
    /// Lay the files out below this directory, for a package
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

pub(crate) fn run(arguments: &InstallArgs) -> Result<i32> {
    let prefix = Prefix::new(arguments.prefix.clone().map_or_else(default_prefix, Ok)?)?;
    if arguments.service && arguments.root.is_none() && !rustix::process::geteuid().is_root() {
        bail!("--service needs root: try `sudo silica install --service`");
    }
    let files = layout::files(&prefix, arguments.service, arguments.root.is_some())?;
    if let Some(root) = &arguments.root {
        for file in &files {
            place(&below(root, &file.path), file)?;
        }
        return Ok(0);
    }
    let mut receipt = Receipt::read(&prefix.receipt())?.unwrap_or_default();
    for file in &files {
        install(file, &mut receipt)?;
        // After each file, so that an interrupted installation can be removed too.
        receipt.write(&prefix.receipt())?;
    }
    let paths: Vec<PathBuf> = files.into_iter().map(|file| file.path).collect();
    for command in HostServices::of_this_host().after_install(&paths) {
        command.run();
    }
    tell(&prefix, arguments.service)?;
    Ok(0)
}

/// Puts one file in place and notes it and the directories that were made for it.
fn install(file: &Installed, receipt: &mut Receipt) -> Result<()> {
    if file.is_kept_if_there && file.path.exists() {
        return Ok(());
    }
    for directory in missing_directories(&file.path) {
        receipt.add(Entry::directory(directory));
    }
    let digest = place(&file.path, file)?;
    receipt.add(Entry::file(file.path.clone(), digest));
    Ok(())
}

/// The directories above a path that are not there, the outermost first.
fn missing_directories(path: &Path) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1);
    let mut missing: Vec<_> =
        above.take_while(|directory| !directory.exists()).map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// Makes a directory and those above it that are missing. The mask of the caller must not make what
/// is in them unusable for others.
fn make_directory(directory: &Path) -> std::io::Result<()> {
    for missing in missing_directories(&directory.join("any")) {
        fs::create_dir(&missing)?;
        fs::set_permissions(&missing, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// Writes a file beside its place and renames it there: a running program keeps its old file, and
/// a reader sees the old content or the new, never a part.
fn place(path: &Path, file: &Installed) -> Result<Digest> {
    let failed = || format!("cannot install {}", path.display());
    let directory = path.parent().with_context(failed)?;
    make_directory(directory).with_context(failed)?;
    let bytes = match &file.content {
        Content::Text(text) => text.clone().into_bytes(),
        Content::ThisProgram => fs::read(this_program()?).with_context(failed)?,
    };
    let mut temporary = tempfile::Builder::new()
        .prefix(".silica-")
        .permissions(Permissions::from_mode(file.mode))
        .tempfile_in(directory)
        .with_context(failed)?;
    temporary.write_all(&bytes).with_context(failed)?;
    // The mask of the caller must not make the program unusable for others.
    temporary.as_file().set_permissions(Permissions::from_mode(file.mode)).with_context(failed)?;
    temporary.as_file().sync_all().with_context(failed)?;
    temporary.persist(path).with_context(failed)?;
    Ok(Digest::of(&bytes))
}

fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn default_prefix() -> Result<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Ok("/usr/local".into());
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.context("HOME is not set: say where to install with --prefix")?;
    Ok(PathBuf::from(home).join(".local"))
}

/// Prints where the program is, and what to do so that a shell finds it.
fn tell(prefix: &Prefix, service: bool) -> Result<()> {
    let programs = prefix.programs();
    show::line(format!("installed {}", programs.join("silica").display()))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|directory| directory == programs) {
        show::line("PATH lacks its directory; add this line to ~/.profile and open a new shell:")?;
        show::line(format!("  export PATH=\"{}:$PATH\"", programs.display()))?;
    }
    if service {
        show::line("to start the server:")?;
        show::line("  systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload")?;
        show::line("  silica key create admin --admin    # prints the key, once")?;
        show::line("  systemctl enable --now silica")?;
    }
    Ok(())
}
