//! Making shells.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::Pid;

use super::{FIRST_UID, LAST_UID, Master, Shell, ShellState};
use crate::cgroup::GroupLimits;
use crate::protocol::{self, Answer, Failure, InputMount, Message, PACKET_BYTES_MAX, ShellSpec};
use crate::shell::{self, Plan, Step, run_step};
use crate::sys::Forked;
use crate::zone::layout;

impl Master<'_> {
    /// Starts a shell; its init reports later. On an error nothing is left.
    pub(super) fn make_shell(
        &mut self,
        number: u64,
        id: u64,
        spec: ShellSpec,
        inputs: Vec<InputMount>,
        fds: Vec<OwnedFd>,
        fail_at: u32,
    ) -> Result<(), Failure> {
        if self.shells.contains_key(&id) {
            return Err(Failure::because("shell-id", format!("shell {id} exists already")));
        }
        let inputs = take_inputs(inputs, fds)?;
        let group = self
            .stock
            .group(&self.groups)
            .map_err(|error| Failure::new(Step::Groups.name(), &error))?;
        let init = match self.fork_init(&spec, &inputs, &group, fail_at) {
            Ok(init) => init,
            Err(failure) => {
                // An init that was forked dies with its socket; its group goes once it is empty.
                self.leftovers.push(group);
                return Err(failure);
            }
        };
        let shell = Shell {
            spec,
            group,
            uid: init.uid,
            pid: init.pid,
            pidfd: init.pidfd,
            pid_namespace: init.pid_namespace,
            namespaces: Vec::new(),
            state: ShellState::Making { socket: init.socket, number, thresholds: Vec::new() },
            destroyers: Vec::new(),
        };
        self.shells.insert(id, shell);
        Ok(())
    }

    fn fork_init(
        &mut self,
        spec: &ShellSpec,
        inputs: &[(InputMount, OwnedFd)],
        group: &str,
        fail_at: u32,
    ) -> Result<Init, Failure> {
        let limits = group_limits(spec);
        run_step(fail_at, Step::Groups, &|| self.groups.limit(group, &limits))?;
        let failure = |step: Step| move |error: io::Error| Failure::new(step.name(), &error);
        let doors = self.groups.doors(group).map_err(failure(Step::Groups))?;
        let uid = self.pick_uid();
        let template = &self.templates.get(&spec.template).ok_or_else(|| unknown(spec))?.layers;
        let plan = Plan { spec, template, inputs, doors: &doors, fail_at };
        run_step(fail_at, Step::Fork, &|| Ok(()))?;
        let (ours, theirs) = protocol::pair().map_err(failure(Step::Fork))?;
        let network = self.stock.network().map_err(failure(Step::Fork))?;
        let forked = self.stock.fork_within(&network, shell::NAMESPACES);
        match forked.map_err(failure(Step::Fork))? {
            Forked::Child => {
                drop(ours);
                shell::init(&plan, &theirs)
            }
            Forked::Parent { pid, pidfd } => {
                drop(theirs);
                match admit(pid, uid, &ours) {
                    Ok(pid_namespace) => Ok(Init { pid, pidfd, pid_namespace, socket: ours, uid }),
                    Err(failure) => Err(own_words(&ours).unwrap_or(failure)),
                }
            }
        }
    }

    /// The outer id of the next sandbox: its own where the zone has a range, else the zone's only.
    fn pick_uid(&mut self) -> u32 {
        if !self.facts.unique_ids {
            return 0;
        }
        loop {
            let uid = self.next_uid;
            self.next_uid = if uid >= LAST_UID { FIRST_UID } else { uid + 1 };
            if !self.shells.values().any(|shell| shell.uid == uid) {
                return uid;
            }
        }
    }

    /// The init says how it went.
    pub(in crate::zone) fn shell_reports(&mut self, id: u64, packet: &mut [u8]) -> io::Result<()> {
        let Some(shell) = self.shells.get_mut(&id) else {
            return Ok(());
        };
        let ShellState::Making { socket, .. } = &shell.state else {
            return Ok(());
        };
        let received = protocol::receive(socket, packet);
        let report: Option<(Result<(), Failure>, Vec<OwnedFd>)> = match received {
            Ok(Some((length, fds))) => {
                protocol::parse(&packet[..length]).ok().map(|report| (report, fds))
            }
            Ok(None) | Err(_) => None,
        };
        let ShellState::Making { number, thresholds, .. } =
            std::mem::replace(&mut shell.state, ShellState::Failed)
        else {
            return Ok(());
        };
        match report {
            Some((Ok(()), mut fds)) if fds.len() == 1 + silica_gate::NAMESPACES.len() => {
                let writable = fds.remove(0);
                shell.namespaces = fds;
                shell.state = ShellState::Standing;
                let message = Message::Reply { number, result: Ok(Answer::Shell) };
                let fds = [shell.pidfd.as_fd(), writable.as_fd()];
                protocol::send(self.engine, &message, &fds)?;
                for threshold in thresholds {
                    // A process that has died meanwhile is reported by its end.
                    let _ = let_in(&threshold, &shell.namespaces);
                }
                Ok(())
            }
            other => {
                let failure = match other {
                    Some((Err(failure), _)) => failure,
                    _ => Failure::because("shell-init", "the init ended before it was ready"),
                };
                // Those at the thresholds see them close, and leave.
                self.reply(number, Err(failure))?;
                self.kill_shell(id);
                Ok(())
            }
        }
    }
}

/// An init that has been forked.
struct Init {
    pid: Pid,
    pidfd: OwnedFd,
    pid_namespace: OwnedFd,
    socket: OwnedFd,
    uid: u32,
}

/// Opens an init's pid namespace, gives it its id and lets it go on.
fn admit(pid: Pid, uid: u32, socket: &OwnedFd) -> Result<OwnedFd, Failure> {
    let failure = |step: Step| move |error: io::Error| Failure::new(step.name(), &error);
    // Before the init goes on: once it has changed its id, it is closed to us.
    let pid_namespace = File::open(format!("/proc/{}/ns/pid", pid.as_raw_nonzero()));
    let pid_namespace = pid_namespace.map_err(failure(Step::Fork))?;
    write_maps(pid, uid).map_err(failure(Step::Ids))?;
    rustix::io::write(socket, b"g").map_err(|errno| failure(Step::Ids)(errno.into()))?;
    Ok(pid_namespace.into())
}

/// What an init that could not be admitted says itself: it may have failed before.
fn own_words(socket: &OwnedFd) -> Option<Failure> {
    // Without our word the init gives up; so this waits for no longer than it lives.
    rustix::net::shutdown(socket, rustix::net::Shutdown::Write).ok()?;
    let mut packet = vec![0; PACKET_BYTES_MAX];
    let (length, _) = protocol::receive(socket, &mut packet).ok()??;
    let report: Result<(), Failure> = protocol::parse(&packet[..length]).ok()?;
    report.err().filter(|failure| failure.step != Step::Ids.name())
}

/// Hands the namespaces of a standing shell to a process at its threshold.
pub(super) fn let_in(threshold: &OwnedFd, namespaces: &[OwnedFd]) -> io::Result<()> {
    let fds: Vec<BorrowedFd<'_>> = namespaces.iter().map(AsFd::as_fd).collect();
    protocol::send_bytes(threshold, b"n", &fds)
}

fn group_limits(spec: &ShellSpec) -> GroupLimits {
    GroupLimits {
        memory_bytes: spec.memory_bytes,
        // The init counts too.
        processes: spec.processes + 1,
        cpu_millis: spec.cpu_millis,
    }
}

fn unknown(spec: &ShellSpec) -> Failure {
    Failure::because("shell-template", format!("template {} is not known", spec.template))
}

fn take_inputs(
    inputs: Vec<InputMount>,
    fds: Vec<OwnedFd>,
) -> Result<Vec<(InputMount, OwnedFd)>, Failure> {
    let mut fds = fds.into_iter();
    let mut taken = Vec::with_capacity(inputs.len());
    for input in inputs {
        let tree = layout::obtain(&input.source, &mut fds, false)
            .map_err(|error| Failure::new(Step::Inputs.name(), &error))?;
        taken.push((input, tree));
    }
    Ok(taken)
}

/// Maps exactly one id: the guest's, to the sandbox's own outside.
fn write_maps(pid: Pid, uid: u32) -> io::Result<()> {
    let file = |name: &str| format!("/proc/{}/{name}", pid.as_raw_nonzero());
    let line = format!("{} {uid} 1", shell::GUEST_ID);
    std::fs::write(file("setgroups"), "deny")?;
    std::fs::write(file("uid_map"), &line)?;
    std::fs::write(file("gid_map"), &line)
}
