//! Zygotes as the zone master sees them: processes in the template's root that fork on request, are
//! replaced after a number of forks or minutes, and are started again when they die.
//!
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
use crate::zone::layout::MountedTemplate;

/// The program of a zygote, and when to replace it.
#[derive(Clone, Debug)]
pub(crate) struct ZygoteSpec {
    pub(crate) program: Program,
    pub(crate) forks_max: u64,
    pub(crate) age_max: Duration,
}

/// A running zygote.
#[derive(Debug)]
pub(crate) struct Zygote {
    pub(crate) pid: Pid,
    pub(crate) socket: OwnedFd,
    /// A file in memory that is its standard error, to be read if it fails.
    stderr: std::fs::File,
    pub(crate) ready: bool,
    /// How many forks were requested of it.
    pub(crate) forks: u64,
    started: Instant,
}

/// The attempts to start a zygote that fails to start. After a few there is a pause before each
/// further one, since what was missing, such as memory, may be available again later.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempts {
    /// How many in a row have failed.
    failed: u32,
    last: Option<Instant>,
}

/// Failures in a row after which there is a pause.
const FAILURES_MAX: u32 = 3;

/// How long the pause is.
const FAILURES_PAUSE: Duration = Duration::from_secs(30);

impl Attempts {
    /// Whether another attempt may be made.
    pub(crate) fn may_try(self, now: Instant) -> bool {
        let since = |last| now.saturating_duration_since(last);
        self.failed < FAILURES_MAX || self.last.is_none_or(|last| since(last) >= FAILURES_PAUSE)
    }

    /// Notes that an attempt has failed.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.failed = self.failed.saturating_add(1);
        self.last = Some(now);
    }
}

/// How much of a failed zygote's standard error is passed on, from its end.
const STDERR_BYTES_MAX: u64 = 4096;

impl Zygote {
    /// Starts a zygote in a mount namespace of its own, whose root is the template's, read-only. It
    /// is restricted before its program starts.
    pub(crate) fn start(
        template: &MountedTemplate,
        spec: &ZygoteSpec,
        filter: &[silica_gate::Instruction],
    ) -> io::Result<Self> {
        let (socket, theirs) = protocol::pair()?;
        let stderr = rustix::fs::memfd_create("zygote", rustix::fs::MemfdFlags::CLOEXEC)?;
        match sys::fork_into(libc::CLONE_NEWNS as u64)? {
            Forked::Child => {
                let error = become_zygote(template, spec, &theirs, &stderr, filter);
                // The zone master reads this file when the zygote has ended. If this cannot be
                // written, it reports that there was no error message.
                let message = format!("zygote: {error}\n");
                let _ = rustix::io::write(&stderr, message.as_bytes());
                sys::exit_now(1)
            }
            Forked::Parent { pid, .. } => Ok(Self {
                pid,
                socket,
                stderr: stderr.into(),
                ready: false,
                forks: 0,
                started: Instant::now(),
            }),
        }
    }

    /// Closes the socket for requests: the zygote exits once it has answered those it has.
    pub(crate) fn close_requests(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write)?)
    }

    /// Whether it has reached its number of forks or its age.
    pub(crate) fn is_worn(&self, spec: &ZygoteSpec) -> bool {
        self.forks >= spec.forks_max || self.started.elapsed() >= spec.age_max
    }

    /// Returns the end of what it wrote to standard error.
    pub(crate) fn stderr_tail(&mut self) -> String {
        let length = self.stderr.metadata().map_or(0, |metadata| metadata.len());
        let start = length.saturating_sub(STDERR_BYTES_MAX);
        let mut tail = Vec::new();
        // If it cannot be read, there is no error message to report.
        if self.stderr.seek(SeekFrom::Start(start)).is_ok() {
            let _ = (&self.stderr).take(STDERR_BYTES_MAX).read_to_end(&mut tail);
        }
        String::from_utf8_lossy(&tail).trim().to_owned()
    }
}

/// In the child: executes the zygote's program; returns only on failure.
fn become_zygote(
    template: &MountedTemplate,
    spec: &ZygoteSpec,
    socket: &OwnedFd,
    stderr: &OwnedFd,
    filter: &[silica_gate::Instruction],
) -> io::Error {
    let prepare = || -> io::Result<()> {
        enclosure::build_zygote_root(template)?;
        // Where its program expects them: errors on 2, the zone master's requests on 3.
        sys::duplicate_to(stderr.as_fd(), 2)?;
        sys::duplicate_to(socket.as_fd(), 3)?;
        silica_gate::confine_zygote(filter).map_err(|errno| io::Error::from_raw_os_error(errno.0))
    };
    if let Err(error) = prepare() {
        return error;
    }
    match exec_strings(&spec.program) {
        Ok((arguments, environment)) => {
            sys::default_signals();
            sys::execute(&arguments[0], &arguments, &environment)
        }
        Err(error) => error,
    }
}

/// Returns a program's arguments and environment as `execve` takes them. Fails if there is no
/// program or if a string holds a zero byte.
pub(crate) fn exec_strings(program: &Program) -> io::Result<(Vec<CString>, Vec<CString>)> {
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
