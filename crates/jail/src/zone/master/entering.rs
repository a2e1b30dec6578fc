//! Putting interpreters into enclosures, by a zygote's fork or by a program of their own.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use silica_gate::{Entry, EntryRequest, FinalFilter, NOTICE_EXITED, NOTICE_FORKED, Notice, Rlimit};

use super::making::let_in;
use super::{EnclosureState, Kernel, Master, Role};
use crate::cgroup::Controller;
use crate::enclosure::GUEST_ID;
use crate::protocol::{
    self, EnclosureSpec, Exit, Origin, Program, ZoneEvent, ZoneFailure, ZoneReply,
};
use crate::sys::{self, Forked};
use crate::zone::zygote::{self, Attempts, Recipe, Zygote};

/// A request to enter, on its way.
#[derive(Debug)]
pub(super) struct Entrance {
    pub(super) number: u64,
    pub(super) enclosure: u64,
    pub(super) kernel: u64,
    pub(super) origin: Origin,
    /// Control, stdout, stderr.
    pub(super) fds: Vec<OwnedFd>,
    pub(super) fail_at: u32,
}

impl Master<'_> {
    /// Enters now, or as soon as the zygote is ready.
    pub(super) fn enter(&mut self, entrance: Entrance) -> io::Result<()> {
        let number = entrance.number;
        match self.try_enter(entrance) {
            Ok(()) => Ok(()),
            Err(failure) => self.reply(number, Err(failure)),
        }
    }

    fn try_enter(&mut self, entrance: Entrance) -> Result<(), ZoneFailure> {
        if entrance.fds.len() != 3 {
            return Err(ZoneFailure::because("enter-streams", "three descriptors are needed"));
        }
        self.require_enclosure(entrance.enclosure)?;
        match entrance.origin.clone() {
            Origin::Program(program) => self.enter_by_exec(&entrance, &program),
            Origin::Zygote => {
                let name = self.enclosures[&entrance.enclosure].spec.template.clone();
                self.enter_by_fork(&name, entrance)
            }
        }
    }

    /// Fails unless the enclosure stands or is being made.
    pub(super) fn require_enclosure(&self, enclosure: u64) -> Result<(), ZoneFailure> {
        match self.enclosures.get(&enclosure).map(|enclosure| &enclosure.state) {
            Some(EnclosureState::Making { .. } | EnclosureState::Standing) => Ok(()),
            Some(EnclosureState::Failed | EnclosureState::Dead) => {
                Err(ZoneFailure::because("enter-enclosure", "the enclosure has ended"))
            }
            None => Err(ZoneFailure::because("enter-enclosure", "there is no such enclosure")),
        }
    }

    /// Opens the threshold of an enclosure: the end for the process that enters. The enclosure's namespaces
    /// are on it at once if the enclosure stands, else as soon as it does.
    fn open_threshold(&mut self, enclosure: u64) -> Result<OwnedFd, ZoneFailure> {
        let failure = |error: io::Error| ZoneFailure::new("enter-threshold", &error);
        let (ours, theirs) = protocol::pair().map_err(failure)?;
        let enclosure = self.enclosures.get_mut(&enclosure).expect("looked up by the caller");
        match &mut enclosure.state {
            EnclosureState::Making { thresholds, .. } => thresholds.push(ours),
            EnclosureState::Standing => let_in(&ours, &enclosure.namespaces).map_err(failure)?,
            EnclosureState::Failed | EnclosureState::Dead => {}
        }
        Ok(theirs)
    }

    fn enter_by_fork(&mut self, name: &str, entrance: Entrance) -> Result<(), ZoneFailure> {
        let template = self.templates.get_mut(name).expect("an enclosure's template is known");
        if !template.zygote.as_ref().is_some_and(|zygote| zygote.ready) {
            return self.wait_for_zygote(name, entrance);
        }
        let request = self.entry(entrance.enclosure, entrance.kernel, entrance.fail_at);
        let threshold = self.open_threshold(entrance.enclosure)?;
        let enclosure = &self.enclosures[&entrance.enclosure];
        let fds = [&enclosure.pid_namespace, &threshold].into_iter();
        let fds: Vec<BorrowedFd<'_>> =
            fds.chain(&entrance.fds).chain(&enclosure.group.doors).map(AsFd::as_fd).collect();
        let template = self.templates.get_mut(name).expect("looked up above");
        let zygote = template.zygote.as_mut().expect("looked up above");
        protocol::send_bytes(&zygote.socket, request.as_bytes(), &fds)
            .map_err(|error| ZoneFailure::new("enter-zygote", &error))?;
        zygote.forks += 1;
        let (number, zygote) = (Some(entrance.number), Some(zygote.pid));
        let kernel =
            Kernel { enclosure: entrance.enclosure, number, zygote, pid: None, pidfd: None };
        self.kernels.insert(entrance.kernel, kernel);
        Ok(())
    }

    /// Has an entrance wait for a zygote that is coming up, or that is tried again.
    fn wait_for_zygote(&mut self, name: &str, entrance: Entrance) -> Result<(), ZoneFailure> {
        let template = self.templates.get_mut(name).expect("looked up by the caller");
        let coming = template.zygote.is_some() || template.attempts.may_try(Instant::now());
        if template.recipe.is_none() || !coming {
            return Err(ZoneFailure::because("enter-zygote", "the template has no zygote running"));
        }
        template.waiting.push_back(entrance);
        self.revive(name).map_err(|error| ZoneFailure::new("enter-zygote", &error))
    }

    fn enter_by_exec(&mut self, entrance: &Entrance, program: &Program) -> Result<(), ZoneFailure> {
        let failure = |error: io::Error| ZoneFailure::new("enter-exec", &error);
        let (arguments, environment) = zygote::strings(program).map_err(failure)?;
        let request = self.entry(entrance.enclosure, entrance.kernel, entrance.fail_at);
        let fds: Vec<i32> = entrance.fds.iter().map(AsRawFd::as_raw_fd).collect();
        let (pid, pidfd) = self.fork_inside(entrance.enclosure, &request, &fds, || {
            sys::default_signals();
            let error = sys::execute(&arguments[0], &arguments, &environment);
            eprintln!("cannot start {:?}: {error}", arguments[0]);
        })?;
        let (pid, pidfd) = (Some(pid), Some(pidfd));
        let kernel =
            Kernel { enclosure: entrance.enclosure, number: None, zygote: None, pid, pidfd };
        self.kernels.insert(entrance.kernel, kernel);
        self.reply(entrance.number, Ok(ZoneReply::Entered)).map_err(failure)
    }

    /// Forks a child that enters an enclosure, locks itself in and does its errand; if it comes back from
    /// that, it ends.
    pub(super) fn fork_inside(
        &mut self,
        enclosure: u64,
        request: &EntryRequest,
        streams: &[i32],
        errand: impl FnOnce(),
    ) -> Result<(Pid, OwnedFd), ZoneFailure> {
        let failure = |error: io::Error| ZoneFailure::new("enter-exec", &error);
        let threshold = self.open_threshold(enclosure)?;
        let inside = &self.enclosures[&enclosure];
        let pid_namespace = &inside.pid_namespace;
        let mut fds = vec![pid_namespace.as_raw_fd(), threshold.as_raw_fd()];
        fds.extend(
            streams.iter().copied().chain(inside.group.doors.iter().map(AsRawFd::as_raw_fd)),
        );
        let entry = Entry::new(*request, &fds)
            .map_err(|errno| failure(io::Error::from_raw_os_error(errno.0)))?;
        sys::setns(pid_namespace.as_fd(), libc::CLONE_NEWPID).map_err(failure)?;
        let forked = sys::fork_into(0);
        if let Ok(Forked::Child) = forked {
            // The zone's ends of thresholds must not live on in here: their closing is a signal.
            // The doors are kept to go through.
            let _doors = self.enclosures.remove(&enclosure).map(|enclosure| enclosure.group.doors);
            self.enclosures.clear();
            match silica_gate::enter(&entry, FinalFilter::Load(&self.filter)) {
                Ok(()) => errand(),
                Err(refusal) => silica_gate::report_refusal(&entry, refusal),
            }
            sys::exit_now(121);
        }
        sys::setns(self.own_pid_namespace.as_fd(), libc::CLONE_NEWPID).map_err(failure)?;
        match forked.map_err(failure)? {
            Forked::Parent { pid, pidfd } => Ok((pid, pidfd)),
            Forked::Child => unreachable!("the child has exited above"),
        }
    }

    /// What an entering process is to do.
    pub(super) fn entry(&self, enclosure: u64, id: u64, fail_at: u32) -> EntryRequest {
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

    /// A zygote says something, or has gone.
    pub(super) fn zygote_reports(
        &mut self,
        name: &str,
        role: Role,
        packet: &mut [u8],
    ) -> io::Result<()> {
        let Some(template) = self.templates.get_mut(name) else {
            return Ok(());
        };
        let Some(zygote) = template.zygote(role) else { return Ok(()) };
        match protocol::receive(&zygote.socket, packet) {
            Ok(Some((length, _))) => match Notice::from_bytes(&packet[..length]) {
                Some(notice) => self.notice(notice),
                None => self.zygote_speaks(name, role, &packet[..length]),
            },
            Ok(None) | Err(_) => self.zygote_gone(name, role),
        }
    }

    fn notice(&mut self, notice: Notice) -> io::Result<()> {
        match notice.kind {
            NOTICE_FORKED => {
                let Some(kernel) = self.kernels.get_mut(&notice.id) else {
                    return Ok(());
                };
                kernel.pid = Pid::from_raw(notice.pid.max(0));
                let open = |pid| pidfd_open(pid, PidfdFlags::empty()).ok();
                kernel.pidfd = kernel.pid.and_then(open);
                let number = kernel.number.take();
                let result = if kernel.pid.is_some() {
                    Ok(ZoneReply::Entered)
                } else {
                    self.kernels.remove(&notice.id);
                    let error = io::Error::from_raw_os_error(notice.status);
                    Err(ZoneFailure::new("enter-fork", &error))
                };
                number.map_or(Ok(()), |number| self.reply(number, result))
            }
            NOTICE_EXITED => self.kernel_exited(notice.pid, Exit::from_wait(notice.status)),
            _ => Ok(()),
        }
    }

    pub(super) fn kernel_exited(&mut self, pid: i32, exit: Exit) -> io::Result<()> {
        let is_it =
            |kernel: &&Kernel| kernel.pid.is_some_and(|own| own.as_raw_nonzero().get() == pid);
        let found = self.kernels.iter().find(|(_, kernel)| is_it(kernel)).map(|(&id, _)| id);
        let Some(id) = found else { return Ok(()) };
        let kernel = self.kernels.remove(&id).expect("found above");
        if self.died_with_enclosure(kernel.enclosure, exit) {
            return Ok(());
        }
        self.event(ZoneEvent::KernelExited { kernel: id, exit })
    }

    /// A starting zygote's words: that it is ready, or why it is not.
    fn zygote_speaks(&mut self, name: &str, role: Role, packet: &[u8]) -> io::Result<()> {
        let words: serde_json::Value = protocol::parse(packet).unwrap_or_default();
        if words["type"] != "ready" {
            let reason = words["error"].as_str().unwrap_or("it did not say why").to_owned();
            return self.zygote_failed(name, role, reason);
        }
        let template = self.templates.get_mut(name).expect("its zygote spoke");
        if role == Role::Successor {
            let old = std::mem::replace(&mut template.zygote, template.successor.take());
            // It works off what it was asked for, tells of it, and leaves; its children become ours.
            template.predecessor = old.filter(|old| old.ask_no_more().is_ok());
        }
        if let Some(zygote) = &mut template.zygote {
            zygote.ready = true;
        }
        template.attempts = Attempts::default();
        let waiting = std::mem::take(&mut template.waiting);
        self.event(ZoneEvent::ZygoteReady { template: name.to_owned() })?;
        waiting.into_iter().try_for_each(|entrance| self.enter(entrance))
    }

    fn zygote_gone(&mut self, name: &str, role: Role) -> io::Result<()> {
        let template = self.templates.get_mut(name).expect("its zygote is watched");
        let Some(mut zygote) = template.zygote_mut(role).take() else { return Ok(()) };
        if zygote.ready {
            self.forks_lost(zygote.pid)?;
            return self.revive(name);
        }
        let words = zygote.last_words();
        let reason = if words.is_empty() { "it ended without a word".to_owned() } else { words };
        self.zygote_failed(name, role, reason)
    }

    /// Forks that a dead zygote was asked for and never confirmed are answered.
    fn forks_lost(&mut self, zygote: Pid) -> io::Result<()> {
        let lost: Vec<(u64, u64)> = self
            .kernels
            .iter()
            .filter(|(_, kernel)| kernel.pid.is_none() && kernel.zygote == Some(zygote))
            .filter_map(|(&id, kernel)| Some((id, kernel.number?)))
            .collect();
        for (id, number) in lost {
            self.kernels.remove(&id);
            self.reply(number, Err(ZoneFailure::because("enter-zygote", "the zygote died")))?;
        }
        Ok(())
    }

    fn zygote_failed(&mut self, name: &str, role: Role, reason: String) -> io::Result<()> {
        let template = self.templates.get_mut(name).expect("its zygote is watched");
        let now = Instant::now();
        template.attempts.failed(now);
        *template.zygote_mut(role) = None;
        if template.attempts.may_try(now) {
            return self.revive(name);
        }
        let waiting = std::mem::take(&mut template.waiting);
        for entrance in waiting {
            let failure = ZoneFailure::because("enter-zygote", reason.clone());
            self.reply(entrance.number, Err(failure))?;
        }
        self.event(ZoneEvent::ZygoteFailed { template: name.to_owned(), reason })
    }

    /// Keeps a zygote of the template running from now on.
    pub(super) fn start_zygote(&mut self, name: &str, recipe: Recipe) -> Result<(), ZoneFailure> {
        let template = self.templates.get_mut(name).ok_or_else(|| {
            ZoneFailure::because("zygote-template", format!("template {name} is not known"))
        })?;
        template.attempts = Attempts::default();
        let zygote = Zygote::start(&template.layers, &recipe, &self.filter)
            .map_err(|error| ZoneFailure::new("zygote-start", &error))?;
        template.recipe = Some(recipe);
        template.zygote = Some(zygote);
        Ok(())
    }

    /// Starts a zygote where one is wanted and none runs.
    fn revive(&mut self, name: &str) -> io::Result<()> {
        let Some(template) = self.templates.get_mut(name) else {
            return Ok(());
        };
        let (Some(recipe), None) = (&template.recipe, &template.zygote) else {
            return Ok(());
        };
        match Zygote::start(&template.layers, recipe, &self.filter) {
            Ok(zygote) => {
                template.zygote = Some(zygote);
                Ok(())
            }
            Err(error) => self.zygote_failed(name, Role::Current, error.to_string()),
        }
    }

    /// Starts successors of zygotes that have forked often or long enough.
    pub(super) fn replace_worn_zygotes(&mut self) {
        for template in self.templates.values_mut() {
            let (Some(recipe), Some(zygote), None, None) =
                (&template.recipe, &template.zygote, &template.successor, &template.predecessor)
            else {
                continue;
            };
            let now = Instant::now();
            if zygote.ready && zygote.is_worn(recipe) && template.attempts.may_try(now) {
                match Zygote::start(&template.layers, recipe, &self.filter) {
                    Ok(successor) => template.successor = Some(successor),
                    Err(_) => template.attempts.failed(now),
                }
            }
        }
    }
}

/// The resource limits of every guest process. Where no group limits something, one of these stands
/// in for it, per process.
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
        // The init counts too.
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
