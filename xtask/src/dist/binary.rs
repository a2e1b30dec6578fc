//! The release binary without its debug lines, which go to a file beside it.
//!
//! The table of symbols stays, so that a backtrace names functions everywhere. With `silica.debug`
//! beside the binary it also names files and lines: Rust's runtime follows the link.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::{Dist, run_program};

/// Builds the release binary with the variables of a shell: those that `cargo run` sets for this
/// program would have build scripts run, and most of the workspace compiled, again.
fn build(dist: &Dist) -> Result<()> {
    let mut build = Command::new("cargo");
    for (name, _) in std::env::vars_os() {
        let is_set_for_us = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO") && !["CARGO_HOME", "CARGO_TARGET_DIR"].contains(&name)
        });
        if is_set_for_us {
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
