//! Putting interpreters into enclosures, by a zygote's fork or by a program of their own.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::process::Pid;
use silica_gate::{Entry, EntryRequest, FinalFilter, Rlimit};

use super::making::send_namespaces;
use super::numbers::{EnclosureNumber, KernelNumber, RequestNumber};
use super::{EnclosureState, Kernel, Master};
use crate::cgroup::Controller;
use crate::enclosure::GUEST_ID;
use crate::protocol::{self, EnclosureSpec, Origin, Program, ZoneFailure, ZoneReply};
use crate::sys::{self, Forked};
use crate::zone::zygote;

/// A request to put an interpreter into an enclosure.
#[derive(Debug)]
pub(super) struct EnterRequest {
    pub(super) number: RequestNumber,
    pub(super) enclosure: EnclosureNumber,
    pub(super) kernel: KernelNumber,
    pub(super) origin: Origin,
    /// Control, stdout, stderr, and the image if there is one.
    pub(super) fds: Vec<OwnedFd>,
    pub(super) fail_at: u32,
}

impl Master<'_> {
    /// Starts the interpreter now, or as soon as the zygote is ready. The reply is sent when it has
    /// been forked, or at once on an error.
    pub(super) fn enter(&mut self, enter: EnterRequest) -> io::Result<()> {
        let number = enter.number;
        match self.try_enter(enter) {
            Ok(()) => Ok(()),
            Err(failure) => self.reply(number, Err(failure)),
        }
    }

    fn try_enter(&mut self, enter: EnterRequest) -> Result<(), ZoneFailure> {
        let has_image = matches!(enter.origin, Origin::Image);
        if enter.fds.len() != 3 + usize::from(has_image) {
            return Err(ZoneFailure::because(
                "enter-streams",
                "the descriptors must be control, stdout and stderr, and an image to become",
            ));
        }
        self.require_enclosure(enter.enclosure)?;
        match enter.origin.clone() {
            Origin::Program(program) => self.enter_by_exec(&enter, &program),
            Origin::Zygote | Origin::Image => {
                let name = self.enclosures[&enter.enclosure].spec.template.clone();
                self.enter_by_fork(&name, enter)
            }
        }
    }

    /// Fails unless the enclosure is ready or is being made.
    pub(super) fn require_enclosure(&self, enclosure: EnclosureNumber) -> Result<(), ZoneFailure> {
        match self.enclosures.get(&enclosure).map(|enclosure| &enclosure.state) {
            Some(EnclosureState::Making { .. } | EnclosureState::Ready) => Ok(()),
            Some(EnclosureState::Failed | EnclosureState::Dead) => {
                Err(ZoneFailure::because("enter-enclosure", "the enclosure has ended"))
            }
            None => Err(ZoneFailure::because("enter-enclosure", "no such enclosure")),
        }
    }

    /// Opens a socket on which the entering process receives the enclosure's namespaces, and
    /// returns that process's end. They are sent at once if the enclosure is ready, else as soon as
    /// it is; if making it fails, the socket closes.
    fn open_namespace_socket(
        &mut self,
        enclosure: EnclosureNumber,
    ) -> Result<OwnedFd, ZoneFailure> {
        let failure = |error: io::Error| ZoneFailure::new("enter-namespace-socket", &error);
        let (ours, theirs) = protocol::pair().map_err(failure)?;
        let enclosure = self.enclosures.get_mut(&enclosure).expect("looked up by the caller");
        match &mut enclosure.state {
            EnclosureState::Making { namespace_sockets, .. } => namespace_sockets.push(ours),
            EnclosureState::Ready => {
                send_namespaces(&ours, &enclosure.namespaces).map_err(failure)?;
            }
            EnclosureState::Failed | EnclosureState::Dead => {}
        }
        Ok(theirs)
    }

    fn enter_by_fork(&mut self, name: &str, enter: EnterRequest) -> Result<(), ZoneFailure> {
        let template = self.templates.get_mut(name).expect("an enclosure's template is known");
        if !template.zygote.as_ref().is_some_and(|zygote| zygote.ready) {
            return self.wait_for_zygote(name, enter);
        }
        let mut request = self.entry(enter.enclosure, enter.kernel.0, enter.fail_at);
        request.has_image = u32::from(matches!(enter.origin, Origin::Image));
        let namespace_socket = self.open_namespace_socket(enter.enclosure)?;
        let enclosure = &self.enclosures[&enter.enclosure];
        let fds = [&enclosure.pid_namespace, &namespace_socket].into_iter();
        let fds: Vec<BorrowedFd<'_>> =
            fds.chain(&enter.fds).chain(&enclosure.group.procs_fds).map(AsFd::as_fd).collect();
        let template = self.templates.get_mut(name).expect("looked up above");
        let zygote = template.zygote.as_mut().expect("looked up above");
        protocol::send_bytes(&zygote.socket, request.as_bytes(), &fds)
            .map_err(|error| ZoneFailure::new("enter-zygote", &error))?;
        zygote.forks += 1;
        let kernel = Kernel {
            enclosure: enter.enclosure,
            number: Some(enter.number),
            zygote: Some(zygote.pid),
            pid: None,
            pidfd: None,
        };
        self.kernels.insert(enter.kernel, kernel);
        Ok(())
    }

    /// Queues a request until the zygote that is starting is ready, and starts one if none is.
    fn wait_for_zygote(&mut self, name: &str, enter: EnterRequest) -> Result<(), ZoneFailure> {
        let template = self.templates.get_mut(name).expect("looked up by the caller");
        let coming = template.zygote.is_some() || template.attempts.may_try(Instant::now());
        if template.zygote_spec.is_none() || !coming {
            return Err(ZoneFailure::because(
                "enter-zygote",
                "no zygote of the template runs, and the last attempts to start one failed",
            ));
        }
        template.waiting.push_back(enter);
        self.revive(name).map_err(|error| ZoneFailure::new("enter-zygote", &error))
    }

    fn enter_by_exec(
        &mut self,
        enter: &EnterRequest,
        program: &Program,
    ) -> Result<(), ZoneFailure> {
        let failure = |error: io::Error| ZoneFailure::new("enter-exec", &error);
        let (arguments, environment) = zygote::exec_strings(program).map_err(failure)?;
        let request = self.entry(enter.enclosure, enter.kernel.0, enter.fail_at);
        let fds: Vec<i32> = enter.fds.iter().map(AsRawFd::as_raw_fd).collect();
        let (pid, pidfd) = self.fork_inside(enter.enclosure, &request, &fds, || {
            sys::default_signals();
            let error = sys::execute(&arguments[0], &arguments, &environment);
            eprintln!("cannot start {:?}: {error}", arguments[0]);
        })?;
        let kernel = Kernel {
            enclosure: enter.enclosure,
            number: None,
            zygote: None,
            pid: Some(pid),
            pidfd: Some(pidfd),
        };
        self.kernels.insert(enter.kernel, kernel);
        self.reply(enter.number, Ok(ZoneReply::Entered)).map_err(failure)
    }

    /// Forks a child that enters an enclosure, locks itself in and calls `then`. If that returns,
    /// the child exits.
    pub(super) fn fork_inside(
        &mut self,
        enclosure: EnclosureNumber,
        request: &EntryRequest,
        streams: &[i32],
        then: impl FnOnce(),
    ) -> Result<(Pid, OwnedFd), ZoneFailure> {
        let failure = |error: io::Error| ZoneFailure::new("enter-exec", &error);
        let namespace_socket = self.open_namespace_socket(enclosure)?;
        let inside = &self.enclosures[&enclosure];
        let pid_namespace = &inside.pid_namespace;
        let mut fds = vec![pid_namespace.as_raw_fd(), namespace_socket.as_raw_fd()];
        fds.extend(
            streams.iter().copied().chain(inside.group.procs_fds.iter().map(AsRawFd::as_raw_fd)),
        );
        let entry = Entry::new(*request, &fds)
            .map_err(|errno| failure(io::Error::from_raw_os_error(errno.0)))?;
        // Holds for children alone: the next fork is in the enclosure's pid namespace; setns(2).
        sys::setns(pid_namespace.as_fd(), libc::CLONE_NEWPID).map_err(failure)?;
        let forked = sys::fork_into(0);
        if let Ok(Forked::Child) = forked {
            // Copies of the zone master's ends of namespace sockets must not stay open here: other
            // processes wait for their closing. The gate still needs this group's `cgroup.procs`.
            let _procs_fds =
                self.enclosures.remove(&enclosure).map(|enclosure| enclosure.group.procs_fds);
            self.enclosures.clear();
            match silica_gate::enter(&entry, FinalFilter::Load(&self.filter)) {
                Ok(()) => then(),
                Err(failure) => silica_gate::report_failure(&entry, failure),
            }
            sys::exit_now(121);
        }
        sys::setns(self.own_pid_namespace.as_fd(), libc::CLONE_NEWPID).map_err(failure)?;
        match forked.map_err(failure)? {
            Forked::Parent { pid, pidfd } => Ok((pid, pidfd)),
            Forked::Child => unreachable!("the child has exited above"),
        }
    }

    /// Builds the gate's request; `id` is repeated in the notices of a zygote.
    pub(super) fn entry(&self, enclosure: EnclosureNumber, id: u64, fail_at: u32) -> EntryRequest {
        let enclosure = &self.enclosures[&enclosure];
        let mut request = EntryRequest {
            id,
            zone_namespaces: self.zone_namespaces,
            uid: GUEST_ID,
            gid: GUEST_ID,
            landlock: self.facts.landlock,
            fail_at,
            ..EntryRequest::default()
        };
        for (slot, (resource, value)) in request
            .rlimits
            .iter_mut()
            .zip(rlimits(&enclosure.spec, |controller| self.groups.has(controller)))
        {
            *slot = Rlimit { resource, value, reserved: 0 };
            request.rlimit_count += 1;
        }
        request
    }
}

/// The resource limits of every guest process. A limit for which the host has no controller is
/// replaced by one per process.
fn rlimits(spec: &EnclosureSpec, has: impl Fn(Controller) -> bool) -> Vec<(u32, u64)> {
    let mut limits = vec![
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_NOFILE, u64::from(spec.open_files)),
        (libc::RLIMIT_FSIZE, spec.file_bytes),
        (libc::RLIMIT_MEMLOCK, 64 * 1024),
        (libc::RLIMIT_MSGQUEUE, 0),
        (libc::RLIMIT_SIGPENDING, 1024),
        (libc::RLIMIT_RTPRIO, 0),
        (libc::RLIMIT_NICE, 0),
    ];
    if !has(Controller::Pids) {
        // The init has the same user id.
        limits.push((libc::RLIMIT_NPROC, u64::from(spec.processes) + 1));
    }
    if !has(Controller::Memory) {
        limits.push((libc::RLIMIT_DATA, spec.memory_bytes));
    }
    if !has(Controller::Cpuacct) {
        limits.push((libc::RLIMIT_CPU, spec.cpu_seconds));
    }
    limits
}
