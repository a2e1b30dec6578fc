//! Making shells.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{Master, Shell, ShellState};
use crate::cgroup::GroupLimits;
use crate::protocol::{self, Answer, Failure, InputMount, Message, ShellSpec};
use crate::shell::{Order, Preparation, Step, run_step};
use crate::zone::layout;
use crate::zone::stock::{Blank, Wish};

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
        let template = &self.templates.get(&spec.template).ok_or_else(|| unknown(&spec))?.layers;
        let (template, disk_bytes) = (template.clone(), spec.disk_bytes);
        let preparation = Preparation { template, disk_bytes, fail_at };
        let wish = Wish { preparation, limits: group_limits(&spec) };
        let trees = take_inputs(&inputs, fds)?;
        let blank = self.send_order(&wish, &Order { disk_bytes, inputs, fail_at }, &trees)?;
        let shell = Shell {
            spec,
            group: blank.group,
            uid: blank.uid,
            pid: blank.pid,
            pidfd: blank.pidfd,
            pid_namespace: blank.pid_namespace,
            namespaces: Vec::new(),
            state: ShellState::Making { socket: blank.socket, number, thresholds: Vec::new() },
            is_given_up: false,
            destroyers: Vec::new(),
        };
        self.shells.insert(id, shell);
        Ok(())
    }

    /// Takes an init and tells it what is wanted.
    fn send_order(
        &mut self,
        wish: &Wish,
        order: &Order,
        inputs: &[OwnedFd],
    ) -> Result<Blank, Failure> {
        run_step(order.fail_at, Step::Groups, &|| Ok(()))?;
        run_step(order.fail_at, Step::Fork, &|| Ok(()))?;
        loop {
            let shells = &self.shells;
            let uid_is_used = |uid| shells.values().any(|shell| shell.uid == uid);
            let blank = self.stock.take(wish, &self.groups, &uid_is_used)?;
            match order.send(&blank.socket, inputs) {
                Ok(()) => return Ok(blank),
                Err(error) => {
                    let is_new = blank.is_new();
                    self.stock.abandon(blank);
                    // It died while it waited; the next may live, and a new one surely does.
                    if is_new {
                        return Err(Failure::new(Step::Fork.name(), &error));
                    }
                }
            }
        }
    }

    /// The init says how it went.
    pub(in crate::zone) fn shell_reports(&mut self, id: u64) -> io::Result<()> {
        let Some(shell) = self.shells.get_mut(&id) else {
            return Ok(());
        };
        let ShellState::Making { socket, .. } = &shell.state else {
            return Ok(());
        };
        let report: Option<(Result<(), Failure>, Vec<OwnedFd>)> =
            match protocol::receive_one(socket) {
                Ok(Some((packet, fds))) => {
                    protocol::parse(&packet).ok().map(|report| (report, fds))
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
                let (gauges, files) = shell.group.meter.parts();
                let answer = Answer::Shell { gauges, before: shell.group.meter.before() };
                let message = Message::Reply { number, result: Ok(answer) };
                let mut fds = vec![writable.as_fd()];
                fds.extend(files);
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

fn take_inputs(inputs: &[InputMount], fds: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, Failure> {
    let mut fds = fds.into_iter();
    let obtain = |input: &InputMount| layout::obtain(&input.source, &mut fds, false);
    let trees: io::Result<Vec<OwnedFd>> = inputs.iter().map(obtain).collect();
    trees.map_err(|error| Failure::new(Step::Inputs.name(), &error))
}
