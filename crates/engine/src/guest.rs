//! The guest's code on disk: a layer of its own over every template, replaced with the binary.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::template::{Home, Template};

/// The Python files of the guest, by name.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/guest_files.rs"));

/// Where the guest's package is seen inside.
pub(crate) const PACKAGE: &str = "/opt/silica/guest/silica_guest";

/// Why the layer could not be written.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// Some file of it.
    #[error("cannot write the guest's code to {0}")]
    Write(PathBuf, #[source] io::Error),
}

/// Makes sure the layer for a template's Python exists and returns it.
///
/// It is named after its content and moved into place whole, so that one that is there is right. The
/// files are compiled ahead, because the guest cannot write beside them.
pub(crate) fn ensure(home: &Home, template: &Template) -> Result<PathBuf, GuestError> {
    let layer = home.path().join("guest").join(name(&template.manifest.python_version));
    if layer.is_dir() {
        return Ok(layer);
    }
    let partial = home.path().join("guest").join(format!(".partial-{}", std::process::id()));
    let failed = |error| GuestError::Write(partial.clone(), error);
    write(&partial, template).map_err(failed)?;
    match std::fs::rename(&partial, &layer) {
        Ok(()) => {}
        // Another process was first; its layer is the same.
        Err(_) if layer.is_dir() => {
            // A leftover wastes a little room and harms nothing.
            let _ = std::fs::remove_dir_all(&partial);
        }
        Err(error) => return Err(GuestError::Write(layer, error)),
    }
    Ok(layer)
}

fn name(python_version: &str) -> String {
    let mut hash = Sha256::new();
    for (name, content) in FILES {
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    hash.update(silica_jail::GATE_LIBRARY);
    let digest = hash.finalize();
    let short = digest[..6].iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    format!("{short:012x}-py{python_version}")
}

fn write(layer: &Path, template: &Template) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if layer.exists() {
        std::fs::remove_dir_all(layer)?;
    }
    let package = layer.join(&PACKAGE[1..]);
    std::fs::create_dir_all(&package)?;
    for (name, content) in FILES {
        std::fs::write(package.join(name), content)?;
    }
    std::fs::write(package.join("gate.so"), silica_jail::GATE_LIBRARY)?;
    compile(&package, template);
    // The jail reads it under another user id.
    let mut pending = vec![layer.to_owned()];
    while let Some(path) = pending.pop() {
        let is_directory = path.is_dir();
        let mode = if is_directory { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        if is_directory {
            for entry in std::fs::read_dir(&path)? {
                pending.push(entry?.path());
            }
        }
    }
    Ok(())
}

/// Compiles with the template's own interpreter. Without this imports are slower, not wrong.
fn compile(package: &Path, template: &Template) {
    let inside = &template.manifest.base_interpreter;
    let on_host = template.root().join(inside.strip_prefix("/").unwrap_or(inside));
    let interpreter = if on_host.exists() { on_host } else { inside.clone() };
    let libraries: Vec<String> = template
        .manifest
        .library_path
        .iter()
        .map(|path| {
            template.root().join(path.strip_prefix("/").unwrap_or(path)).display().to_string()
        })
        .collect();
    let compiled = Command::new(interpreter)
        .args(["-I", "-S", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"])
        // Tracebacks name the file as the guest sees it.
        .args(["-d", PACKAGE])
        .arg(package)
        .env_clear()
        .env("LD_LIBRARY_PATH", libraries.join(":"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        tracing::warn!("the guest's code could not be compiled ahead; starts will be slower");
    }
}
