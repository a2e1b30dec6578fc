//! Making enclosures: an init from the pool is sent its order, and reports when it is done.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::networking::NetworkUse;
use super::numbers::{EnclosureNumber, RequestNumber};
use super::{Enclosure, EnclosureState, Master};
use crate::cgroup::{CPU_MILLIS_MIN, CPU_WEIGHT_MAX, GroupLimits, GroupShare};
use crate::enclosure::{InitOrder, Preparation, Step, run_step};
use crate::protocol::{self, EnclosureSpec, InputMount, ZoneFailure, ZoneMessage, ZoneReply};
use crate::zone::init_pool::{IdleInit, InitRequest};
use crate::zone::layout::{self, Programs};

/// A request to make an enclosure.
#[derive(Debug)]
pub(super) struct CreateRequest {
    pub(super) number: RequestNumber,
    pub(super) enclosure: EnclosureNumber,
    pub(super) spec: EnclosureSpec,
    pub(super) inputs: Vec<InputMount>,
    /// The inputs' mounts.
    pub(super) fds: Vec<OwnedFd>,
    pub(super) fail_at: u32,
}

impl Master<'_> {
    /// Starts making an enclosure. The reply is sent when its init reports, or at once on an error,
    /// after which nothing of it is left.
    pub(super) fn create(&mut self, create: CreateRequest) -> io::Result<()> {
        let number = create.number;
        match self.try_create(create) {
            Ok(()) => Ok(()),
            Err(failure) => self.reply(number, Err(failure)),
        }
    }

    fn try_create(&mut self, create: CreateRequest) -> Result<(), ZoneFailure> {
        let CreateRequest { number, enclosure: id, spec, inputs, fds, fail_at } = create;
        if self.enclosures.contains_key(&id) {
            return Err(ZoneFailure::because(
                "enclosure-id",
                format!("enclosure {} exists already", id.0),
            ));
        }
        let template = self.templates.get(&spec.template).ok_or_else(|| unknown(&spec))?;
        let disk_bytes = spec.disk_bytes;
        let preparation = Preparation { template: template.layers.clone(), disk_bytes, fail_at };
        let request = InitRequest { preparation, limits: group_limits(&spec) };
        let trees = take_inputs(&inputs, fds)?;
        let order = InitOrder { disk_bytes, inputs, fail_at };
        let init = self.send_order(&request, &order, &trees)?;
        let enclosure = Enclosure {
            spec,
            group: init.group,
            uid: init.uid,
            pid: init.pid,
            pidfd: init.pidfd,
            pid_namespace: init.pid_namespace,
            namespaces: Vec::new(),
            network: NetworkUse::Untouched,
            state: EnclosureState::Making {
                socket: init.socket,
                number,
                namespace_sockets: Vec::new(),
            },
            is_given_up: false,
            destroyers: Vec::new(),
        };
        self.enclosures.insert(id, enclosure);
        Ok(())
    }

    /// Changes what an enclosure gets of the processors.
    pub(super) fn share(
        &mut self,
        id: EnclosureNumber,
        share: GroupShare,
    ) -> Result<(), ZoneFailure> {
        let valid =
            (1..=CPU_WEIGHT_MAX).contains(&share.weight) && share.cpu_millis >= CPU_MILLIS_MIN;
        if !valid {
            return Err(ZoneFailure::because("share", "weight or limit is out of range"));
        }
        match self.enclosures.get_mut(&id) {
            // One that is being killed needs processor time to exit.
            Some(enclosure) if !enclosure.is_given_up => {
                let shared = enclosure.group.share(&self.groups, share);
                shared.map_err(|error| ZoneFailure::new("share", &error))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Takes an init from the pool and sends it the order.
    fn send_order(
        &mut self,
        request: &InitRequest,
        order: &InitOrder,
        inputs: &[OwnedFd],
    ) -> Result<IdleInit, ZoneFailure> {
        // These steps are done by the pool, ahead of time; here tests can make them fail.
        run_step(order.fail_at, Step::Groups, &|| Ok(()))?;
        run_step(order.fail_at, Step::Fork, &|| Ok(()))?;
        loop {
            let enclosures = &self.enclosures;
            let uid_is_used = |uid| enclosures.values().any(|enclosure| enclosure.uid == uid);
            let init = self.init_pool.take(request, &self.groups, &uid_is_used)?;
            match order.send(&init.socket, inputs) {
                Ok(()) => return Ok(init),
                Err(error) => {
                    let is_new = init.is_new();
                    self.init_pool.abandon(init);
                    // It died in the pool. The loop ends, because at the latest a new one is made.
                    if is_new {
                        return Err(ZoneFailure::new(Step::Fork.name(), &error));
                    }
                }
            }
        }
    }

    /// Reads the report of an init that was building, and answers the request to make its
    /// enclosure. A socket that is closed without a report means that the init has died.
    pub(super) fn on_init_report(&mut self, id: EnclosureNumber) -> io::Result<()> {
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
        let EnclosureState::Making { number, namespace_sockets, .. } =
            std::mem::replace(&mut enclosure.state, EnclosureState::Failed)
        else {
            return Ok(());
        };
        match report {
            Some((Ok(()), mut fds)) if fds.len() == 1 + silica_gate::NAMESPACES.len() => {
                let writable = fds.remove(0);
                enclosure.namespaces = fds;
                enclosure.state = EnclosureState::Ready;
                let (gauges, files) = enclosure.group.meter.parts();
                let reply = ZoneReply::Enclosure { gauges, before: enclosure.group.meter.before() };
                let message = ZoneMessage::Reply { number: number.0, result: Ok(reply) };
                let mut fds = vec![writable.as_fd()];
                fds.extend(files);
                protocol::send(self.engine, &message, &fds)?;
                for socket in namespace_sockets {
                    // If the process has died meanwhile, its end is reported on its own.
                    let _ = send_namespaces(&socket, &enclosure.namespaces);
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
                // The namespace sockets were dropped: the processes that wait at them exit.
                self.reply(number, Err(failure))?;
                self.kill_enclosure(id);
                Ok(())
            }
        }
    }
}

/// Sends the namespaces of an enclosure to a process that waits to enter it.
pub(super) fn send_namespaces(socket: &OwnedFd, namespaces: &[OwnedFd]) -> io::Result<()> {
    let fds: Vec<BorrowedFd<'_>> = namespaces.iter().map(AsFd::as_fd).collect();
    protocol::send_bytes(socket, b"n", &fds)
}

fn group_limits(spec: &EnclosureSpec) -> GroupLimits {
    GroupLimits {
        memory_bytes: spec.memory_bytes,
        // The init is one of the group's processes.
        processes: spec.processes + 1,
        cpu_millis: spec.cpu_millis,
    }
}

fn unknown(spec: &EnclosureSpec) -> ZoneFailure {
    ZoneFailure::because(
        "enclosure-template",
        format!("template {} has not been added", spec.template),
    )
}

fn take_inputs(inputs: &[InputMount], fds: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, ZoneFailure> {
    let mut fds = fds.into_iter();
    let obtain =
        |input: &InputMount| layout::obtain(&input.source, &mut fds, Programs::NotExecutable);
    let trees: io::Result<Vec<OwnedFd>> = inputs.iter().map(obtain).collect();
    trees.map_err(|error| ZoneFailure::new(Step::Inputs.name(), &error))
}
