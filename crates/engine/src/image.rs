//! Images of interpreters: having one written, closing it against changes, and waking it.
//!
//! An interpreter writes its own memory into a file that the host gave it, and an interpreter of
//! another sandbox becomes it after it has entered and locked itself in. The host reads nothing of
//! the file. Its one duty is that nothing can write to the file any more when it is woken: a guest
//! that still could would change the memory of another sandbox. So the file is sealed, and an
//! image that cannot be sealed is thrown away. It is then copied into a file of the host: what a
//! guest has written is charged to its sandbox, which would have less memory as long as copies of
//! it live.
//!
//! Tests: `tests/it/engine/branching.rs`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, SeekFrom};
use rustix::io::Errno;
use silica_domain::{BranchOptions, Conflict, LeftBehind, Randomness};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::engine::EngineError;
use crate::files::FileError;
use crate::kernel::{Kernel, KernelError};
use crate::wire::{FromGuest, ToGuest};

/// How long an interpreter may take to look at itself and to fork.
const SURVEY_PATIENCE: Duration = Duration::from_secs(10);

/// How long a fork of the interpreter may take to write the image.
const WRITE_PATIENCE: Duration = Duration::from_mins(1);

/// The longest file of an image; most of it is a hole.
// The largest limit of a sandbox's memory is a quarter of it.
const IMAGE_BYTES_MAX: u64 = 64 << 30;

/// The most memory that all images of this process take together.
const IMAGES_BYTES_MAX: u64 = 8 << 30;

/// How much of an image is copied by one call.
const COPIED_BYTES_MAX: usize = 64 << 20;

/// The memory that images take.
static IMAGES_BYTES: AtomicU64 = AtomicU64::new(0);

/// The longest report of a writer.
const REPORT_BYTES_MAX: u64 = 64;

/// What no process may change any more, and that none can take back.
const SEALS: SealFlags =
    SealFlags::WRITE.union(SealFlags::GROW).union(SealFlags::SHRINK).union(SealFlags::SEAL);

/// Why an interpreter could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum BranchError {
    /// Something would make the copy wrong; the options may allow to leave it behind.
    #[error("the interpreter cannot be copied: {}", names(.0))]
    Refused(Vec<LeftBehind>),
    /// The image could not be written: the memory of the sandbox did not suffice, or code in the
    /// sandbox interfered.
    #[error("the image of the interpreter could not be written: {0}")]
    NotWritten(String),
    /// A process in the sandbox can still change the image.
    #[error("a process in the sandbox keeps the image open for writing")]
    HeldOpen,
    /// The image needs memory that only interpreters of another zygote have.
    #[error("the interpreter comes from a zygote that has been replaced")]
    OtherZygote,
    /// The interpreter has ended, or breaks the protocol.
    #[error("the interpreter cannot be copied")]
    Kernel(#[source] KernelError),
    /// A file or pipe for it could not be made.
    #[error("cannot make the file of an image")]
    System(#[source] io::Error),
    /// The files of the sandbox could not be copied.
    #[error("the files of the sandbox cannot be copied")]
    Files(#[source] FileError),
    /// The sandbox of the copy could not be made.
    #[error("the sandbox of the copy cannot be made")]
    Sandbox(#[source] Box<EngineError>),
}

fn names(things: &[LeftBehind]) -> String {
    let name = |thing: &LeftBehind| format!("{} {}", thing.kind.name(), thing.name);
    things.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Which interpreters can become an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// Those forked from the zygote that the original came from: memory of the zygote is not in
    /// the image.
    OwnPages,
    /// All of the same template, on hosts with the same kernel.
    Everything,
}

/// Memory of this process that an image takes; given back when this is dropped.
#[derive(Debug)]
struct ImageMemory(u64);

impl ImageMemory {
    fn take(bytes: u64) -> Result<Self, BranchError> {
        let before = IMAGES_BYTES.fetch_add(bytes, Ordering::Relaxed);
        let taken = Self(bytes);
        match before.checked_add(bytes) {
            Some(all) if all <= IMAGES_BYTES_MAX => Ok(taken),
            _ => Err(not_written("the server holds as many images as it may")),
        }
    }
}

impl Drop for ImageMemory {
    fn drop(&mut self) {
        IMAGES_BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// A written, sealed image.
#[derive(Debug)]
pub struct Image {
    file: OwnedFd,
    memory: ImageMemory,
    left_behind: Vec<LeftBehind>,
}

impl Image {
    /// Returns how much memory it takes.
    pub fn bytes(&self) -> u64 {
        self.memory.0
    }

    /// Returns what the interpreter had and the image has not.
    pub fn left_behind(&self) -> &[LeftBehind] {
        &self.left_behind
    }
}

impl AsFd for Image {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// An image that is being written, by a fork of the interpreter. The interpreter itself goes on.
#[derive(Debug)]
pub struct ImageWriting {
    file: OwnedFd,
    report: pipe::Receiver,
    left_behind: Vec<LeftBehind>,
}

impl ImageWriting {
    /// Waits until it is written, seals it and copies it.
    pub async fn finish(mut self) -> Result<Arc<Image>, BranchError> {
        let mut report = Vec::new();
        let mut words = (&mut self.report).take(REPORT_BYTES_MAX);
        match tokio::time::timeout(WRITE_PATIENCE, words.read_to_end(&mut report)).await {
            Err(_) => return Err(not_written("it took too long")),
            Ok(Err(error)) => return Err(BranchError::System(error)),
            Ok(Ok(_)) if report == b"written" => {}
            Ok(Ok(0)) => return Err(not_written("the memory of the sandbox does not suffice")),
            Ok(Ok(_)) => return Err(not_written(&reason(&report))),
        }
        let Self { file: written, left_behind, .. } = self;
        seal(&written)?;
        let stat = rustix::fs::fstat(&written).map_err(system)?;
        let memory = ImageMemory::take(u64::try_from(stat.st_blocks).unwrap_or(0) * 512)?;
        let copied = tokio::task::spawn_blocking(move || copy(&written)).await;
        let file = match copied {
            Ok(file) => file.map_err(system)?,
            Err(ended) => std::panic::resume_unwind(ended.into_panic()),
        };
        seal(&file)?;
        Ok(Arc::new(Image { file, memory, left_behind }))
    }
}

fn system(errno: Errno) -> BranchError {
    BranchError::System(errno.into())
}

/// Makes an empty file for an image.
fn make_file() -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("image", flags)?;
    // Made as long as any image gets, for the guest's own limit of file sizes keeps it from doing
    // so. Only what is written takes memory.
    rustix::fs::ftruncate(&file, IMAGE_BYTES_MAX)?;
    Ok(file)
}

/// Closes a file against changes by any process. Fails while one can write to it through a mapping;
/// writing through a descriptor fails from here on.
fn seal(file: &OwnedFd) -> Result<(), BranchError> {
    rustix::fs::fcntl_add_seals(file, SEALS).map_err(|_| BranchError::HeldOpen)?;
    match rustix::fs::fcntl_get_seals(file) {
        Ok(seals) if seals.contains(SEALS) => Ok(()),
        Ok(_) | Err(_) => Err(BranchError::HeldOpen),
    }
}

/// Copies what is in an image, and leaves its holes.
fn copy(from: &OwnedFd) -> Result<OwnedFd, Errno> {
    let to = make_file()?;
    let mut at = 0;
    loop {
        let mut source = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(to),
            Err(errno) => return Err(errno),
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(source))?;
        let mut target = source;
        while source < end {
            let length = COPIED_BYTES_MAX.min((end - source) as usize);
            let copied = rustix::fs::copy_file_range(
                from,
                Some(&mut source),
                &to,
                Some(&mut target),
                length,
            )?;
            if copied == 0 {
                return Err(Errno::IO);
            }
        }
        at = end;
    }
}

fn not_written(reason: &str) -> BranchError {
    BranchError::NotWritten(reason.to_owned())
}

/// Returns what a writer's report says; it is the guest's word.
fn reason(report: &[u8]) -> String {
    let number = report.strip_prefix(b"error ").and_then(|digits| std::str::from_utf8(digits).ok());
    match number.and_then(|digits| digits.parse::<i32>().ok()) {
        Some(number @ 1..=4095) => io::Error::from_raw_os_error(number).to_string(),
        _ => "the writer reported nonsense".to_owned(),
    }
}

impl Kernel {
    /// Has an image of the interpreter begun, between two cells. Returns once a fork of it writes;
    /// from then on cells can be run again.
    pub async fn write_image(
        &mut self,
        options: &BranchOptions,
        carried: Carried,
    ) -> Result<ImageWriting, BranchError> {
        self.ready().await.map_err(BranchError::Kernel)?;
        let begun = tokio::time::timeout(SURVEY_PATIENCE, self.begin_image(options, carried)).await;
        match begun {
            Ok(Err(error @ BranchError::Kernel(_))) => {
                // It has lost step with the protocol.
                self.give_up().await;
                Err(error)
            }
            Ok(begun) => begun,
            Err(_) => {
                self.give_up().await;
                Err(BranchError::Kernel(KernelError::Ended))
            }
        }
    }

    async fn begin_image(
        &mut self,
        options: &BranchOptions,
        carried: Carried,
    ) -> Result<ImageWriting, BranchError> {
        let word = |conflict: Conflict| match conflict {
            Conflict::Refuse => "refuse",
            Conflict::LeaveBehind => "leave",
        };
        let head = ToGuest::Write {
            threads: word(options.threads),
            shared: word(options.shared),
            processes: word(options.processes),
            any_zygote: carried == Carried::Everything,
            same_random: options.randomness == Randomness::Keep,
        };
        self.send_frame(&head).await.map_err(BranchError::Kernel)?;
        let left_behind = match self.next_frame().await.map_err(BranchError::Kernel)? {
            FromGuest::Writing { left_behind } => left_behind,
            FromGuest::Unwritable { reasons } => return Err(BranchError::Refused(reasons)),
            _ => return Err(BranchError::Kernel(KernelError::Ended)),
        };
        let file = make_file().map_err(system)?;
        let (report, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|errno| BranchError::System(errno.into()))?;
        let report = pipe::Receiver::from_owned_fd(report).map_err(BranchError::System)?;
        self.send_descriptors(&[file.as_fd(), theirs.as_fd()])
            .map_err(|_| BranchError::Kernel(KernelError::Ended))?;
        // Ours would keep the end of the writer from showing.
        drop(theirs);
        match self.next_frame().await.map_err(BranchError::Kernel)? {
            FromGuest::Forked => Ok(ImageWriting { file, report, left_behind }),
            FromGuest::Unwritable { reasons } => Err(BranchError::Refused(reasons)),
            _ => Err(BranchError::Kernel(KernelError::Ended)),
        }
    }
}
