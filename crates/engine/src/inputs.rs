//! Read-only inputs: host files and directories shown below /data/input.
//! Tests: `tests/it/engine/inputs.rs`.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use silica_jail::protocol::{InputMount, Source};

/// A host file or directory, or mere bytes, and the name it has inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    content: Content,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Host(PathBuf),
    Bytes(Arc<[u8]>),
}

/// Why an input is refused.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// It is not there, or cannot be looked at.
    #[error("cannot use {0} as an input")]
    Missing(PathBuf, #[source] io::Error),
    /// A link may point anywhere by the time it is used.
    #[error("cannot use {0} as an input: it is a symbolic link; give the file it points to")]
    Link(PathBuf),
    /// Neither file nor directory.
    #[error("cannot use {0} as an input: it is a {1}, not a file or directory")]
    Special(PathBuf, &'static str),
    /// A name that cannot stand below /data/input.
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
        Ok(Self { content: Content::Host(resolved), name: checked(name)? })
    }

    /// A file with this content, which need not be anywhere on the host.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, InputError> {
        Ok(Self { content: Content::Bytes(bytes.into()), name: checked(name.to_owned())? })
    }

    /// The path it has inside.
    pub fn guest_path(&self) -> String {
        format!("/data/input/{}", self.name)
    }
}

fn checked(name: String) -> Result<String, InputError> {
    let honest = !name.is_empty()
        && name.len() <= 255
        && !matches!(name.as_str(), "." | "..")
        && !name.contains(['/', '\0']);
    if honest { Ok(name) } else { Err(InputError::Name(name)) }
}

fn check_kind(host: &Path) -> Result<(), InputError> {
    let missing = |error| InputError::Missing(host.to_owned(), error);
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

/// An input on its way into a sandbox. Must live until the sandbox stands.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) mount: InputMount,
    pub(crate) tree: Option<OwnedFd>,
    _copy: Option<PrivateCopy>,
}

/// Prepares an input for the zone: as a detached mount where we may make one, else by its path.
///
/// A privileged zone's sandboxes run as other users. A file that others may not read is copied, by
/// us who were told to hand it over, to where nobody but us can go; the mount of the copy outlives
/// its name.
pub(crate) fn prepare(input: &Input, scratch: &Path) -> Result<Prepared, InputError> {
    let shown = || match &input.content {
        Content::Host(host) => host.clone(),
        Content::Bytes(_) => PathBuf::from(&input.name),
    };
    let failed = |error| InputError::HandOver(shown(), error);
    let privileged = silica_jail::client::is_privileged();
    let (copy, directory) = match &input.content {
        Content::Bytes(bytes) => {
            (Some(PrivateCopy::new(&mut &**bytes, scratch).map_err(failed)?), false)
        }
        Content::Host(host) => {
            check_kind(host)?;
            let metadata = std::fs::metadata(host).map_err(failed)?;
            let directory = metadata.is_dir();
            let readable = if directory { 0o005 } else { 0o004 };
            if !privileged || metadata.mode() & readable == readable {
                (None, directory)
            } else if directory {
                return Err(InputError::Private(host.clone()));
            } else {
                let mut from = File::open(host).map_err(failed)?;
                (Some(PrivateCopy::new(&mut from, scratch).map_err(failed)?), false)
            }
        }
    };
    let path = copy.as_ref().map_or_else(shown, |copy| copy.0.clone());
    let (tree, source) = if privileged {
        (silica_jail::client::detach(&path, false).map_err(failed)?, Source::Mount)
    } else {
        (None, Source::Path(path))
    };
    let mount = InputMount { name: input.name.clone(), source, directory };
    Ok(Prepared { mount, tree, _copy: copy })
}

/// A copy in a directory that only we can enter, gone when this is dropped.
#[derive(Debug)]
struct PrivateCopy(PathBuf);

impl PrivateCopy {
    fn new(from: &mut dyn io::Read, scratch: &Path) -> io::Result<Self> {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(scratch)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let copy = Self(scratch.join(format!("{}-{number}", std::process::id())));
        let mut output = File::options().write(true).create_new(true).mode(0o444).open(&copy.0)?;
        io::copy(from, &mut output)?;
        Ok(copy)
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        // What stays behind is swept by the next start.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Removes the copies that processes which have died left behind.
pub(crate) fn sweep(scratch: &Path) {
    for entry in std::fs::read_dir(scratch).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Tried again by the next start.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
