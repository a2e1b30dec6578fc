//! Zygotes as the zone master sees them: started in the template's root, asked for forks, replaced
//! after a number of forks or minutes, brought back when they die.
//! Tests: `tests/it/jail/forks.rs`.

#[cfg(test)]
mod tests;

use std::ffi::CString;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::enclosure;
use crate::protocol::{self, Program};
use crate::sys::{self, Forked};
use crate::zone::layout::Template;

/// What to run and when to replace it.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) program: Program,
    pub(crate) forks_max: u64,
    pub(crate) age_max: Duration,
}

/// A running zygote.
#[derive(Debug)]
pub(crate) struct Zygote {
    pub(crate) pid: Pid,
    pub(crate) socket: OwnedFd,
    /// What it wrote to stderr, for the report if it fails.
    complaints: std::fs::File,
    pub(crate) ready: bool,
    pub(crate) forks: u64,
    born: Instant,
}

/// How often a zygote is tried that does not come up: a few times at once, then once in a while, since
/// what it lacked, memory perhaps, may be there again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempts {
    /// Those in a row that failed.
    failed: u32,
    last: Option<Instant>,
}

/// Failures in a row after which there is a pause.
const FAILURES_MAX: u32 = 3;

/// How long that is.
const FAILURES_PAUSE: Duration = Duration::from_secs(30);

impl Attempts {
    /// Whether another may be made.
    pub(crate) fn may_try(self, now: Instant) -> bool {
        let since = |last| now.saturating_duration_since(last);
        self.failed < FAILURES_MAX || self.last.is_none_or(|last| since(last) >= FAILURES_PAUSE)
    }

    /// Notes that one has failed.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.failed = self.failed.saturating_add(1);
        self.last = Some(now);
    }
}

/// How much of a failed zygote's last words is passed on.
const COMPLAINT_BYTES_MAX: u64 = 4096;

impl Zygote {
    /// Starts one: in a mount namespace of its own whose root is the template's, read-only, confined
    /// before its program starts.
    pub(crate) fn start(
        template: &Template,
        recipe: &Recipe,
        filter: &[silica_gate::Instruction],
    ) -> io::Result<Self> {
        let (socket, theirs) = protocol::pair()?;
        let complaints = rustix::fs::memfd_create("zygote", rustix::fs::MemfdFlags::CLOEXEC)?;
        match sys::fork_into(libc::CLONE_NEWNS as u64)? {
            Forked::Child => {
                let error = become_zygote(template, recipe, &theirs, &complaints, filter);
                // The last words land where the zone master looks for them.
                let words = format!("zygote: {error}\n");
                let _ = rustix::io::write(&complaints, words.as_bytes());
                sys::exit_now(1)
            }
            Forked::Parent { pid, .. } => Ok(Self {
                pid,
                socket,
                complaints: complaints.into(),
                ready: false,
                forks: 0,
                born: Instant::now(),
            }),
        }
    }

    /// Lets it know that no request comes after those it has.
    pub(crate) fn ask_no_more(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write)?)
    }

    /// Whether it has forked often or long enough.
    pub(crate) fn is_worn(&self, recipe: &Recipe) -> bool {
        self.forks >= recipe.forks_max || self.born.elapsed() >= recipe.age_max
    }

    /// What it complained about, the end of it.
    pub(crate) fn last_words(&mut self) -> String {
        let length = self.complaints.metadata().map_or(0, |metadata| metadata.len());
        let start = length.saturating_sub(COMPLAINT_BYTES_MAX);
        let mut words = Vec::new();
        // Unreadable last words are no words.
        if self.complaints.seek(SeekFrom::Start(start)).is_ok() {
            let _ = (&self.complaints).take(COMPLAINT_BYTES_MAX).read_to_end(&mut words);
        }
        String::from_utf8_lossy(&words).trim().to_owned()
    }
}

/// In the child: never returns but with an error.
fn become_zygote(
    template: &Template,
    recipe: &Recipe,
    socket: &OwnedFd,
    complaints: &OwnedFd,
    filter: &[silica_gate::Instruction],
) -> io::Error {
    let prepare = || -> io::Result<()> {
        enclosure::build_zygote_root(template)?;
        sys::duplicate_to(complaints.as_fd(), 2)?;
        sys::duplicate_to(socket.as_fd(), 3)?;
        silica_gate::confine_zygote(filter).map_err(|errno| io::Error::from_raw_os_error(errno.0))
    };
    if let Err(error) = prepare() {
        return error;
    }
    match strings(&recipe.program) {
        Ok((arguments, environment)) => {
            sys::default_signals();
            sys::execute(&arguments[0], &arguments, &environment)
        }
        Err(error) => error,
    }
}

/// A program's arguments and environment as the kernel wants them.
pub(crate) fn strings(program: &Program) -> io::Result<(Vec<CString>, Vec<CString>)> {
    let arguments: Result<Vec<_>, _> =
        program.arguments.iter().map(|argument| CString::new(argument.as_str())).collect();
    let environment: Result<Vec<_>, _> = program
        .environment
        .iter()
        .map(|(name, value)| CString::new(format!("{name}={value}")))
        .collect();
    let arguments = arguments?;
    if arguments.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Ok((arguments, environment?))
}
