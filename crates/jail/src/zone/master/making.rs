//! Making shells.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{Master, Shell, ShellState};
use crate::cgroup::GroupLimits;
use crate::protocol::{self, Answer, Failure, InputMount, Message, ShellSpec};
use crate::shell::{Order, Step, run_step};
use crate::zone::layout;
use crate::zone::stock::{Blank, StockGroup};

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
        let order = Order { spec, template: template.clone(), inputs, fail_at };
        let trees = take_inputs(&order.inputs, fds)?;
        let group = self
            .stock
            .group(&self.groups)
            .map_err(|error| Failure::new(Step::Groups.name(), &error))?;
        let blank = match self.send_order(&order, &trees, &group) {
            Ok(blank) => blank,
            Err(failure) => {
                // An init that was forked leaves with its socket; its group goes once it is empty.
                self.leftovers.push(group.name);
                return Err(failure);
            }
        };
        let shell = Shell {
            spec: order.spec,
            group: group.name,
            doors: group.doors,
            meter: group.meter,
            uid: blank.uid,
            pid: blank.pid,
            pidfd: blank.pidfd,
            pid_namespace: blank.pid_namespace,
            namespaces: Vec::new(),
            state: ShellState::Making { socket: blank.socket, number, thresholds: Vec::new() },
            destroyers: Vec::new(),
        };
        self.shells.insert(id, shell);
        Ok(())
    }

    /// Limits the group, takes a blank init and tells it what to become.
    fn send_order(
        &mut self,
        order: &Order,
        inputs: &[OwnedFd],
        group: &StockGroup,
    ) -> Result<Blank, Failure> {
        run_step(order.fail_at, Step::Groups, &|| Ok(()))?;
        let limits = group_limits(&order.spec);
        self.stock
            .limit(&self.groups, group, limits)
            .map_err(|error| Failure::new(Step::Groups.name(), &error))?;
        run_step(order.fail_at, Step::Fork, &|| Ok(()))?;
        loop {
            let from_stock = self.stock.has_blank();
            let shells = &self.shells;
            let blank = self.stock.blank(&|uid| shells.values().any(|shell| shell.uid == uid))?;
            match order.send(&blank.socket, &group.doors, inputs) {
                Ok(()) => return Ok(blank),
                // It died while it waited; the next may live, and a new one surely does.
                Err(_) if from_stock => {}
                Err(error) => return Err(Failure::new(Step::Fork.name(), &error)),
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
                let (gauges, files) = shell.meter.parts();
                let message = Message::Reply { number, result: Ok(Answer::Shell { gauges }) };
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
