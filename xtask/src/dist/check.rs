//! `cargo xtask dist --check`: each package is installed in a clean root, used and removed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};

use super::{Dist, deb, image, run_program, stage_of_package};

/// Tries the packages that were just made. Needs root.
pub(super) fn run(dist: &Dist, binary: &Path, base: &Path) -> Result<()> {
    let work = dist.target.join("dist-check");
    remove(&work)?;
    fs::create_dir(&work)?;
    timed("the package is made of the same bytes again", || same_bytes(dist, binary))?;
    timed("the tarball is installed and removed", || tarball(dist, &work))?;
    timed("systemd accepts the units", || units(binary, &work))?;
    timed("the Debian package is installed, used and removed", || {
        let root = work.join("deb");
        copy(base, &root)?;
        let script = dist.root.join("packaging/try-deb");
        run_program(Command::new(script).arg(&root).arg(dist.output.join(dist.deb_name())))
    })?;
    timed("the image runs", || {
        let root = work.join("image/rootfs");
        image::unpack(&image::directory(dist), &root)?;
        run_program(Command::new(dist.root.join("packaging/try-image")).arg(work.join("image")))
    })?;
    remove(&work)
}

fn timed(what: &str, check: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {what}");
    let start = Instant::now();
    check()?;
    println!("   held, in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn same_bytes(dist: &Dist, binary: &Path) -> Result<()> {
    let stage = stage_of_package(binary)?;
    let again = deb::make(dist, stage.path(), binary)?;
    if again != fs::read(dist.output.join(dist.deb_name()))? {
        bail!("two packages of one binary differ");
    }
    Ok(())
}

fn tarball(dist: &Dist, work: &Path) -> Result<()> {
    let name = format!("silica-{}-x86_64-linux", dist.version);
    let archive = dist.output.join(format!("{name}.tar.gz"));
    run_program(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(work))?;
    let prefix = work.join("prefix");
    let unpacked = work.join(name).join("bin/silica");
    run_program(Command::new(&unpacked).args(["install", "--prefix"]).arg(&prefix))?;
    let installed = prefix.join("bin/silica");
    run_program(Command::new(&installed).arg("--version"))?;
    run_program(Command::new(&installed).args(["uninstall", "--yes"]))?;
    if prefix.exists() {
        bail!("the uninstalled tarball left {}", prefix.display());
    }
    Ok(())
}

/// systemd resolves the programs that units name, so they are verified where they are installed.
fn units(binary: &Path, work: &Path) -> Result<()> {
    let root = work.join("units");
    let mut install = Command::new(binary);
    install.args(["install", "--prefix", "/usr", "--service", "--root"]).arg(&root);
    run_program(&mut install)?;
    for unit in ["silica.service", "silica-unprivileged.service"] {
        let path = root.join("usr/lib/systemd/system").join(unit);
        let text = fs::read_to_string(&path)?;
        fs::write(&path, text.replace("/usr/bin/silica", &binary.display().to_string()))?;
        let mut verify = Command::new("systemd-analyze");
        run_program(verify.args(["verify", "--man=no"]).arg(&path))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    run_program(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(from).arg(to))
}

fn remove(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    Ok(())
}
