//! The Debian package: an `ar` archive of a version, the package's own data and its files (deb(5)).

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Dist, archive};

/// The scripts that dpkg runs, in `packaging/debian`.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Files of the administrator, which dpkg does not overwrite.
const CONFFILES: &str = "/etc/silica/silica.toml\n";

/// Returns the package of the files below `stage`.
pub(super) fn make(dist: &Dist, stage: &Path, binary: &Path) -> Result<Vec<u8>> {
    let documents = stage.join("usr/share/doc/silica");
    fs::create_dir_all(&documents)?;
    let licences = ["LICENSE-MIT", "LICENSE-APACHE"].map(|name| dist.root.join(name));
    let texts = [fs::read_to_string(&licences[0])?, fs::read_to_string(&licences[1])?];
    fs::write(documents.join("copyright"), texts.join("\n"))?;
    let mut texts = vec![
        ("control", control(dist, stage, binary)?, 0o644),
        ("conffiles", CONFFILES.to_owned(), 0o644),
    ];
    for script in SCRIPTS {
        let text = fs::read_to_string(dist.root.join("packaging/debian").join(script))?;
        texts.push((script, text, 0o755));
    }
    let control = archive::gz(&archive::tar_of_texts(&texts)?)?;
    let data = archive::tar_gz(stage, "./")?;
    Ok(ar(&[("debian-binary", b"2.0\n"), ("control.tar.gz", &control), ("data.tar.gz", &data)]))
}

fn control(dist: &Dist, stage: &Path, binary: &Path) -> Result<String> {
    let glibc = needed_glibc(binary)?;
    let kilobytes = size(stage)?.div_ceil(1024);
    let version = &dist.version;
    Ok(format!(
        "Package: silica\n\
         Version: {version}\n\
         Architecture: amd64\n\
         Maintainer: The Silica project <silica@localhost>\n\
         Installed-Size: {kilobytes}\n\
         Depends: libc6 (>= {glibc}), libgcc-s1, python3 (>= 3.10), python3-pip, python3-venv\n\
         Recommends: ca-certificates, systemd | systemd-standalone-sysusers\n\
         Section: devel\n\
         Priority: optional\n\
         Description: code interpreter for untrusted Python\n \
         Runs Python that was not reviewed in sandboxes made of the Linux kernel's own means,\n \
         from the command line or over HTTP, and returns text, tables, plots and files.\n"
    ))
}

/// Returns the newest version of glibc of which the binary uses a symbol.
fn needed_glibc(binary: &Path) -> Result<String> {
    let output = Command::new("objdump").arg("-T").arg(binary).output();
    let output = output.context("cannot start objdump (Debian's package binutils)")?;
    if !output.status.success() {
        bail!("objdump failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    newest_glibc(&String::from_utf8_lossy(&output.stdout))
        .context("the binary uses no symbol of glibc")
}

fn newest_glibc(symbols: &str) -> Option<String> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let version = rest.split(|character: char| !character.is_ascii_digit() && character != '.');
        version.into_iter().next()?.split('.').map(|part| part.parse::<u32>().ok()).collect()
    });
    let newest: Vec<u32> = versions.max()?;
    Some(newest.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
}

fn size(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            size(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(bytes)
}

/// Returns an archive in the common form of `ar`; members begin at even places.
fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, content) in members {
        let mut header = String::new();
        let (time, length) = (archive::TIME_SECONDS, content.len());
        let _ =
            writeln!(header, "{name:<16}{time:<12}{:<6}{:<6}{:<8}{length:<10}`", 0, 0, "100644");
        bytes.extend(header.as_bytes());
        bytes.extend(*content);
        if length % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    bytes
}
