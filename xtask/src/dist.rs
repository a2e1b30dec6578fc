//! `cargo xtask dist`: packages of Silica in `target/dist`.
//!
//! Everything is made from one stripped release binary, which lays out its own files with
//! `silica install --root`. The tarball and the Debian package depend on nothing else: two runs over
//! one binary give the same bytes. The image has a base made by debootstrap.

mod archive;
mod binary;
mod check;
mod deb;
mod image;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Which packages to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// The stripped binary and the file with its debug lines.
    Binary,
    /// Also the tarball and the Debian package.
    Packages,
    /// Also the image, which needs root and debootstrap.
    Everything,
    /// Everything, and each package tried in a clean root.
    Check,
}

/// Where everything is.
#[derive(Debug)]
struct Dist {
    /// The root of the project.
    root: PathBuf,
    /// `target/dist`.
    output: PathBuf,
    target: PathBuf,
    version: String,
}

/// Makes packages and prints what they are.
pub(crate) fn run(chore: Chore) -> Result<bool> {
    let dist = Dist::find()?;
    fs::create_dir_all(&dist.output)?;
    let binary = binary::make(&dist)?;
    if chore == Chore::Binary {
        return Ok(true);
    }
    make_packages(&dist, &binary)?;
    if chore == Chore::Packages {
        return Ok(true);
    }
    let base = image::base(&dist)?;
    image::make(&dist, &binary, &base)?;
    if chore == Chore::Check {
        check::run(&dist, &binary, &base)?;
    }
    Ok(true)
}

fn make_packages(dist: &Dist, binary: &Path) -> Result<()> {
    let stage = stage(binary, "/usr/local", &[])?;
    let name = format!("silica-{}-x86_64-linux", dist.version);
    let tree = stage.path().join("usr/local");
    fs::copy(dist.root.join("README.md"), tree.join("README.md"))?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(dist.root.join(licence), tree.join(licence))?;
    }
    let tarball = archive::tar_gz(&tree, &format!("{name}/"))?;
    dist.write(&format!("{name}.tar.gz"), &tarball)?;
    let stage = stage_of_package(binary)?;
    let package = deb::make(dist, stage.path(), binary)?;
    dist.write(&dist.deb_name(), &package)?;
    Ok(())
}

/// The files of the Debian package and of the image's upper layer.
fn stage_of_package(binary: &Path) -> Result<tempfile::TempDir> {
    stage(binary, "/usr", &["--service"])
}

fn stage(binary: &Path, prefix: &str, flags: &[&str]) -> Result<tempfile::TempDir> {
    let stage = tempfile::tempdir()?;
    let mut command = Command::new(binary);
    command.args(["install", "--prefix", prefix, "--root"]).arg(stage.path()).args(flags);
    run_program(&mut command)?;
    Ok(stage)
}

impl Dist {
    fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent")?;
        let manifest: toml::Table = fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
        let version = manifest["workspace"]["package"]["version"].as_str();
        let version = version.context("the workspace has no version")?.to_owned();
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(directory) => std::path::absolute(directory)?,
            None => root.join("target"),
        };
        Ok(Self { root: root.to_owned(), output: target.join("dist"), target, version })
    }

    fn deb_name(&self) -> String {
        format!("silica_{}_amd64.deb", self.version)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.output.join(name);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{} ({:.1} MB)", path.display(), bytes.len() as f64 / 1e6);
        Ok(())
    }
}

/// Runs a program to its end and fails with it.
fn run_program(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_owned();
    let program = program.display();
    let status = command.status().with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("{program} failed: {status}");
    }
    Ok(())
}
