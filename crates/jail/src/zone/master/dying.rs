//! Ends of processes and enclosures: signals, destroying, reaping, and removing what is left.

use std::io;
use std::os::fd::AsFd;

use rustix::process::{Signal, WaitOptions, pidfd_send_signal, wait};

use super::networking::NetworkUse;
use super::numbers::{EnclosureNumber, KernelNumber, RequestNumber};
use super::{Enclosure, EnclosureState, Kernel, Master};
use crate::protocol::{ProcessExit, ZoneEvent, ZoneFailure, ZoneReply};

impl Master<'_> {
    /// Sends a signal to an interpreter. It is no error if the interpreter has ended.
    pub(super) fn signal(&mut self, kernel: KernelNumber, signal: i32) -> Result<(), ZoneFailure> {
        let failure = |error: io::Error| ZoneFailure::new("signal", &error);
        let signal = Signal::from_named_raw(signal)
            .ok_or_else(|| failure(io::Error::from_raw_os_error(libc::EINVAL)))?;
        let pidfd = self.kernels.get(&kernel).and_then(|kernel| kernel.pidfd.as_ref());
        let Some(pidfd) = pidfd else { return Ok(()) };
        match pidfd_send_signal(pidfd, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(failure(errno.into())),
        }
    }

    /// Ends an enclosure. The reply is sent when nothing of it is left; its group may be kept,
    /// empty, for another one. It is no error if the enclosure has ended.
    pub(super) fn destroy(&mut self, number: RequestNumber, id: EnclosureNumber) -> io::Result<()> {
        match self.enclosures.get_mut(&id) {
            None => return self.reply(number, Ok(ZoneReply::Done)),
            Some(enclosure) => enclosure.destroyers.push(number),
        }
        self.give_up(id);
        Ok(())
    }

    /// Kills an enclosure at the engine's request.
    pub(super) fn give_up(&mut self, id: EnclosureNumber) {
        if let Some(enclosure) = self.enclosures.get_mut(&id) {
            enclosure.is_given_up = true;
        }
        self.kill_enclosure(id);
    }

    /// Kills the init, upon which the kernel kills every process of its pid namespace. Interpreters
    /// are killed first: the init must be scheduled before it dies, and until then an interpreter
    /// that finds its control socket closed would shut down by itself, which takes longer.
    pub(super) fn kill_enclosure(&mut self, id: EnclosureNumber) {
        let Some(enclosure) = self.enclosures.get_mut(&id) else { return };
        // With a small share it dies slowly, and its group serves once.
        let _ = enclosure.group.reset_share(&self.groups);
        let interpreters = self.kernels.values().filter(|kernel| kernel.enclosure == id);
        let interpreters = interpreters.filter_map(|kernel| kernel.pidfd.as_ref());
        for process in interpreters.chain([&enclosure.pidfd]) {
            // A process that has ended already is reaped like the others.
            let _ = pidfd_send_signal(process.as_fd(), Signal::KILL);
        }
    }

    /// Reaps every ended child: inits, programs, zygotes, and children of zygotes that have ended.
    pub(super) fn reap(&mut self) -> io::Result<()> {
        let mut drained = [0; 128];
        while rustix::io::read(&self.signals, &mut drained).is_ok() {}
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let exit = ProcessExit::from_wait(status.as_raw());
            let init = self
                .enclosures
                .iter()
                .find(|(_, enclosure)| enclosure.pid == pid)
                .map(|(&id, _)| id);
            if let Some(id) = init {
                self.init_ended(id)?;
                continue;
            }
            self.init_pool.remove(pid);
            self.kernel_exited(pid.as_raw_nonzero().get(), exit)?;
            self.command_exited(pid, exit)?;
        }
        Ok(())
    }

    fn init_ended(&mut self, id: EnclosureNumber) -> io::Result<()> {
        // If it failed while it was building, the reason is still in its socket.
        self.on_init_report(id)?;
        let Some(enclosure) = self.enclosures.get_mut(&id) else { return Ok(()) };
        let before = std::mem::replace(&mut enclosure.state, EnclosureState::Dead);
        match before {
            EnclosureState::Ready if enclosure.destroyers.is_empty() => {
                let usage = enclosure.group.meter.read();
                self.event(ZoneEvent::EnclosureExited { enclosure: id.0, usage })
            }
            EnclosureState::Making { .. }
            | EnclosureState::Failed
            | EnclosureState::Ready
            | EnclosureState::Dead => Ok(()),
        }
    }

    /// Removes dead enclosures and answers the requests to destroy them. A group is kept for
    /// another sandbox, or removed; as long as the kernel calls it busy, its enclosure stays in the
    /// table.
    pub(super) fn remove_dead(&mut self) -> io::Result<()> {
        let groups = &self.groups;
        self.leftovers.append(&mut self.init_pool.groups.take_unwanted());
        self.leftovers.retain(|group| groups.remove(group).is_err());
        let is_dead = |(_, enclosure): &(&EnclosureNumber, &Enclosure)| {
            matches!(enclosure.state, EnclosureState::Dead)
        };
        let dead: Vec<EnclosureNumber> =
            self.enclosures.iter().filter(is_dead).map(|(&id, _)| id).collect();
        for id in dead {
            let enclosure = &self.enclosures[&id];
            let is_reusable = enclosure.is_given_up && self.groups.is_vacant(&enclosure.group.name);
            if !is_reusable && self.groups.remove(&enclosure.group.name).is_err() {
                continue;
            }
            let mut enclosure = self.enclosures.remove(&id).expect("listed above");
            self.remove_kernels(id)?;
            self.commands.retain(|_, command| command.enclosure != id);
            let destroyers = std::mem::take(&mut enclosure.destroyers);
            // The network namespace comes first in the gate's order. There is none if making the
            // enclosure failed.
            let network = enclosure.namespaces.drain(..).next();
            match (enclosure.network, network) {
                (NetworkUse::Untouched, Some(network)) => {
                    self.init_pool.networks.put_back(network);
                }
                // Its addresses and routes are not those of a new one, and no counter shows it.
                (NetworkUse::Entered | NetworkUse::Addressed, _) | (_, None) => {}
            }
            // Its other namespaces, and with them its mounts, are gone before the replies.
            drop((enclosure.namespaces, enclosure.pid_namespace, enclosure.pidfd));
            if is_reusable {
                self.init_pool.groups.put_back(enclosure.group);
            }
            for number in destroyers {
                self.reply(number, Ok(ZoneReply::Done))?;
            }
        }
        Ok(())
    }

    /// Removes the interpreters of a dead enclosure and fails the requests that still wait for one.
    fn remove_kernels(&mut self, enclosure: EnclosureNumber) -> io::Result<()> {
        let of_enclosure = |_: &KernelNumber, kernel: &mut Kernel| kernel.enclosure == enclosure;
        let gone: Vec<Kernel> =
            self.kernels.extract_if(of_enclosure).map(|(_, kernel)| kernel).collect();
        for number in gone.into_iter().filter_map(|kernel| kernel.number) {
            let failure = ZoneFailure::because("enter-enclosure", "the sandbox has ended");
            self.reply(number, Err(failure))?;
        }
        Ok(())
    }
}
