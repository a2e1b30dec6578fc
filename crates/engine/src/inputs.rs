//! Read-only inputs: host files and directories shown below /data/input, and under their plain name
//! in the working directory.
//! Tests: `tests/it/engine/inputs.rs`.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A host file or directory, or mere bytes, and the name it has inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    content: InputContent,
    name: String,
}

/// Where an input's bytes come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InputContent {
    Host(PathBuf),
    Bytes(Arc<[u8]>),
}

/// Why an input is refused.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The host path does not exist or cannot be read.
    #[error("cannot use {0} as an input")]
    Missing(PathBuf, #[source] io::Error),
    /// A link may point anywhere by the time it is used.
    #[error("cannot use {0} as an input: it is a symbolic link; give the file it points to")]
    Link(PathBuf),
    /// Neither file nor directory.
    #[error("cannot use {0} as an input: it is a {1}, not a file or directory")]
    Special(PathBuf, &'static str),
    /// Not a file name.
    #[error("{0:?} is not a name below /data/input")]
    Name(String),
    /// Two inputs with one name.
    #[error("two inputs are both called {0}")]
    Twice(String),
    /// Mounting or copying it failed.
    #[error("cannot hand {0} to the sandbox")]
    HandOver(PathBuf, #[source] io::Error),
    /// A directory the sandbox's user cannot read.
    #[error("cannot use {0} as an input: other users may not read it (chmod o+rx)")]
    Private(PathBuf),
}

impl Input {
    /// Checks a host path and the name inside, `None` for the same name.
    pub fn new(host: &Path, name: Option<&str>) -> Result<Self, InputError> {
        let missing = |error| InputError::Missing(host.to_owned(), error);
        check_kind(host)?;
        // Links on the way to it are the caller's; the last part is not one, as just seen.
        let absolute = std::path::absolute(host).map_err(missing)?;
        let resolved = absolute.canonicalize().map_err(missing)?;
        let name = match name {
            Some(name) => name.strip_prefix("/data/input/").unwrap_or(name).to_owned(),
            None => resolved
                .file_name()
                .and_then(|name| name.to_str())
                .ok_or_else(|| InputError::Name(host.display().to_string()))?
                .to_owned(),
        };
        Ok(Self { content: InputContent::Host(resolved), name: checked(name)? })
    }

    /// Makes a file with this content, which need not be anywhere on the host.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, InputError> {
        Ok(Self { content: InputContent::Bytes(bytes.into()), name: checked(name.to_owned())? })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn content(&self) -> &InputContent {
        &self.content
    }
}

fn checked(name: String) -> Result<String, InputError> {
    // One part of a path, since the zone mounts it below /data/input; 255 bytes is NAME_MAX.
    let honest = !name.is_empty()
        && name.len() <= 255
        && !matches!(name.as_str(), "." | "..")
        && !name.contains(['/', '\0']);
    if honest { Ok(name) } else { Err(InputError::Name(name)) }
}

/// Refuses everything but files and directories.
pub(crate) fn check_kind(host: &Path) -> Result<(), InputError> {
    let missing = |error| InputError::Missing(host.to_owned(), error);
    // The link itself is looked at. To open a FIFO would block, and a device may act when opened.
    let kind = std::fs::symlink_metadata(host).map_err(missing)?.file_type();
    let special = |what| Err(InputError::Special(host.to_owned(), what));
    match kind {
        _ if kind.is_file() || kind.is_dir() => Ok(()),
        _ if kind.is_symlink() => Err(InputError::Link(host.to_owned())),
        _ if kind.is_fifo() => special("named pipe"),
        _ if kind.is_socket() => special("socket"),
        _ => special("device"),
    }
}

/// Makes sure that no two inputs have one name.
pub(crate) fn check_names(inputs: &[Input]) -> Result<(), InputError> {
    for (index, input) in inputs.iter().enumerate() {
        if inputs[..index].iter().any(|other| other.name == input.name) {
            return Err(InputError::Twice(input.name.clone()));
        }
    }
    Ok(())
}
