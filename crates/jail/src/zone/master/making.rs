//! Making enclosures.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{Enclosure, EnclosureState, Master};
use crate::cgroup::GroupLimits;
use crate::enclosure::{Order, Preparation, Step, run_step};
use crate::protocol::{self, EnclosureSpec, InputMount, Message, ZoneFailure, ZoneReply};
use crate::zone::layout;
use crate::zone::stock::{Blank, Wish};

impl Master<'_> {
    /// Starts an enclosure; its init reports later. On an error nothing is left.
    pub(super) fn make_enclosure(
        &mut self,
        number: u64,
        id: u64,
        spec: EnclosureSpec,
        inputs: Vec<InputMount>,
        fds: Vec<OwnedFd>,
        fail_at: u32,
    ) -> Result<(), ZoneFailure> {
        if self.enclosures.contains_key(&id) {
            return Err(ZoneFailure::because(
                "enclosure-id",
                format!("enclosure {id} exists already"),
            ));
        }
        let template = &self.templates.get(&spec.template).ok_or_else(|| unknown(&spec))?.layers;
        let (template, disk_bytes) = (template.clone(), spec.disk_bytes);
        let preparation = Preparation { template, disk_bytes, fail_at };
        let wish = Wish { preparation, limits: group_limits(&spec) };
        let trees = take_inputs(&inputs, fds)?;
        let blank = self.send_order(&wish, &Order { disk_bytes, inputs, fail_at }, &trees)?;
        let enclosure = Enclosure {
            spec,
            group: blank.group,
            uid: blank.uid,
            pid: blank.pid,
            pidfd: blank.pidfd,
            pid_namespace: blank.pid_namespace,
            namespaces: Vec::new(),
            state: EnclosureState::Making { socket: blank.socket, number, thresholds: Vec::new() },
            is_given_up: false,
            destroyers: Vec::new(),
        };
        self.enclosures.insert(id, enclosure);
        Ok(())
    }

    /// Takes an init and tells it what is wanted.
    fn send_order(
        &mut self,
        wish: &Wish,
        order: &Order,
        inputs: &[OwnedFd],
    ) -> Result<Blank, ZoneFailure> {
        run_step(order.fail_at, Step::Groups, &|| Ok(()))?;
        run_step(order.fail_at, Step::Fork, &|| Ok(()))?;
        loop {
            let enclosures = &self.enclosures;
            let uid_is_used = |uid| enclosures.values().any(|enclosure| enclosure.uid == uid);
            let blank = self.stock.take(wish, &self.groups, &uid_is_used)?;
            match order.send(&blank.socket, inputs) {
                Ok(()) => return Ok(blank),
                Err(error) => {
                    let is_new = blank.is_new();
                    self.stock.abandon(blank);
                    // It died while it waited; the next may live, and a new one surely does.
                    if is_new {
                        return Err(ZoneFailure::new(Step::Fork.name(), &error));
                    }
                }
            }
        }
    }

    /// The init says how it went.
    pub(in crate::zone) fn enclosure_reports(&mut self, id: u64) -> io::Result<()> {
        let Some(enclosure) = self.enclosures.get_mut(&id) else {
            return Ok(());
        };
        let EnclosureState::Making { socket, .. } = &enclosure.state else {
            return Ok(());
        };
        let report: Option<(Result<(), ZoneFailure>, Vec<OwnedFd>)> =
            match protocol::receive_one(socket) {
                Ok(Some((packet, fds))) => {
                    protocol::parse(&packet).ok().map(|report| (report, fds))
                }
                Ok(None) | Err(_) => None,
            };
        let EnclosureState::Making { number, thresholds, .. } =
            std::mem::replace(&mut enclosure.state, EnclosureState::Failed)
        else {
            return Ok(());
        };
        match report {
            Some((Ok(()), mut fds)) if fds.len() == 1 + silica_gate::NAMESPACES.len() => {
                let writable = fds.remove(0);
                enclosure.namespaces = fds;
                enclosure.state = EnclosureState::Standing;
                let (gauges, files) = enclosure.group.meter.parts();
                let answer =
                    ZoneReply::Enclosure { gauges, before: enclosure.group.meter.before() };
                let message = Message::Reply { number, result: Ok(answer) };
                let mut fds = vec![writable.as_fd()];
                fds.extend(files);
                protocol::send(self.engine, &message, &fds)?;
                for threshold in thresholds {
                    // A process that has died meanwhile is reported by its end.
                    let _ = let_in(&threshold, &enclosure.namespaces);
                }
                Ok(())
            }
            other => {
                let failure = match other {
                    Some((Err(failure), _)) => failure,
                    _ => {
                        ZoneFailure::because("enclosure-init", "the init ended before it was ready")
                    }
                };
                // Those at the thresholds see them close, and leave.
                self.reply(number, Err(failure))?;
                self.kill_enclosure(id);
                Ok(())
            }
        }
    }
}

/// Hands the namespaces of a standing enclosure to a process at its threshold.
pub(super) fn let_in(threshold: &OwnedFd, namespaces: &[OwnedFd]) -> io::Result<()> {
    let fds: Vec<BorrowedFd<'_>> = namespaces.iter().map(AsFd::as_fd).collect();
    protocol::send_bytes(threshold, b"n", &fds)
}

fn group_limits(spec: &EnclosureSpec) -> GroupLimits {
    GroupLimits {
        memory_bytes: spec.memory_bytes,
        // The init counts too.
        processes: spec.processes + 1,
        cpu_millis: spec.cpu_millis,
    }
}

fn unknown(spec: &EnclosureSpec) -> ZoneFailure {
    ZoneFailure::because("enclosure-template", format!("template {} is not known", spec.template))
}

fn take_inputs(inputs: &[InputMount], fds: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, ZoneFailure> {
    let mut fds = fds.into_iter();
    let obtain = |input: &InputMount| layout::obtain(&input.source, &mut fds, false);
    let trees: io::Result<Vec<OwnedFd>> = inputs.iter().map(obtain).collect();
    trees.map_err(|error| ZoneFailure::new(Step::Inputs.name(), &error))
}
