//! The release binary without its debug lines, which go to a file beside it.
//!
//! The table of symbols stays, so that a backtrace names functions everywhere. With `silica.debug`
//! beside the binary it also names files and lines: Rust's runtime follows the link.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::{Dist, run_program};

/// Variables that `cargo run` sets for the program it starts; a name that ends in `_` is the
/// beginning of many. Build scripts would run, and most of the workspace be compiled, again for them.
/// Others, such as those of a mirror, a proxy or certificates, are the caller's.
const SET_FOR_US: [&str; 8] = [
    "CARGO",
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
    "CARGO_PKG_",
    "CARGO_BIN_",
    "CARGO_CRATE_NAME",
    "CARGO_PRIMARY_PACKAGE",
    "CARGO_TARGET_TMPDIR",
];

fn is_set_for_us(name: &str) -> bool {
    let is_set = |known: &str| name == known || known.ends_with('_') && name.starts_with(known);
    SET_FOR_US.into_iter().any(is_set)
}

/// Builds the release binary with the variables of a shell.
fn build(dist: &Dist) -> Result<()> {
    let mut build = Command::new("cargo");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_set_for_us) {
            build.env_remove(name);
        }
    }
    build.args(["build", "--release", "--locked", "--package", "silica"]);
    run_program(build.current_dir(&dist.root))
}

/// Builds the binary and divides it; returns the stripped one.
pub(super) fn make(dist: &Dist) -> Result<PathBuf> {
    build(dist)?;
    let built = dist.target.join("release/silica");
    let (stripped, lines) = (dist.output.join("silica"), dist.output.join("silica.debug"));
    let temporary = dist.output.join("silica.new");
    run_program(Command::new("objcopy").arg("--only-keep-debug").arg(&built).arg(&lines))?;
    let link = format!("--add-gnu-debuglink={}", lines.display());
    run_program(
        Command::new("objcopy").args(["--strip-debug", &link]).arg(&built).arg(&temporary),
    )?;
    // A program that runs cannot be written to, but its name can be given to another file.
    fs::rename(&temporary, &stripped)?;
    for path in [&stripped, &lines] {
        println!("{} ({:.1} MB)", path.display(), fs::metadata(path)?.len() as f64 / 1e6);
    }
    Ok(stripped)
}
