//! Ends: signals, destroying, and collecting what has died.

use std::io;
use std::os::fd::AsFd;

use rustix::process::{Signal, WaitOptions, pidfd_send_signal, wait};

use super::{Enclosure, EnclosureState, Kernel, Master};
use crate::protocol::{Exit, ZoneEvent, ZoneFailure, ZoneReply};

impl Master<'_> {
    /// Sends a signal to an interpreter; one that has ended already is no error.
    pub(super) fn signal(&mut self, kernel: u64, signal: i32) -> Result<(), ZoneFailure> {
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

    /// Ends an enclosure; answers when nothing of it is left but its group, perhaps, for the next. One that is gone
    /// already is no error.
    pub(super) fn destroy(&mut self, number: u64, id: u64) -> io::Result<()> {
        match self.enclosures.get_mut(&id) {
            None => return self.reply(number, Ok(ZoneReply::Done)),
            Some(enclosure) => enclosure.destroyers.push(number),
        }
        self.give_up(id);
        Ok(())
    }

    /// Kills an enclosure because the engine asks for it.
    pub(super) fn give_up(&mut self, id: u64) {
        if let Some(enclosure) = self.enclosures.get_mut(&id) {
            enclosure.is_given_up = true;
        }
        self.kill_enclosure(id);
    }

    /// Kills the init, and with it, by the kernel, every process of its pid namespace. Interpreters first,
    /// since the init has to run to die, and one that hears meanwhile that nobody listens ends by itself,
    /// which takes longer.
    pub(super) fn kill_enclosure(&mut self, id: u64) {
        let Some(enclosure) = self.enclosures.get(&id) else { return };
        let interpreters = self.kernels.values().filter(|kernel| kernel.enclosure == id);
        let interpreters = interpreters.filter_map(|kernel| kernel.pidfd.as_ref());
        for process in interpreters.chain([&enclosure.pidfd]) {
            // It may have ended by itself; then it is collected all the same.
            let _ = pidfd_send_signal(process.as_fd(), Signal::KILL);
        }
    }

    /// Collects every ended child: inits, programs, zygotes and what zygotes left behind.
    pub(super) fn reap(&mut self) -> io::Result<()> {
        let mut drained = [0; 128];
        while rustix::io::read(&self.signals, &mut drained).is_ok() {}
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let exit = Exit::from_wait(status.as_raw());
            let init = self
                .enclosures
                .iter()
                .find(|(_, enclosure)| enclosure.pid == pid)
                .map(|(&id, _)| id);
            if let Some(id) = init {
                self.init_ended(id)?;
                continue;
            }
            self.stock.forget(pid);
            self.kernel_exited(pid.as_raw_nonzero().get(), exit)?;
            self.command_exited(pid, exit)?;
        }
        Ok(())
    }

    fn init_ended(&mut self, id: u64) -> io::Result<()> {
        // Its last words, if it died while it was building, are on its socket.
        self.enclosure_reports(id)?;
        let Some(enclosure) = self.enclosures.get_mut(&id) else { return Ok(()) };
        let before = std::mem::replace(&mut enclosure.state, EnclosureState::Dead);
        match before {
            EnclosureState::Standing if enclosure.destroyers.is_empty() => {
                let usage = enclosure.group.meter.read();
                self.event(ZoneEvent::EnclosureExited { enclosure: id, usage })
            }
            EnclosureState::Making { .. }
            | EnclosureState::Failed
            | EnclosureState::Standing
            | EnclosureState::Dead => Ok(()),
        }
    }

    /// Takes the groups of dead enclosures back or removes them, and answers those who wait for that.
    pub(super) fn bury_the_dead(&mut self) -> io::Result<()> {
        let groups = &self.groups;
        self.leftovers.append(&mut self.stock.groups.unwanted());
        self.leftovers.retain(|group| groups.remove(group).is_err());
        let is_dead =
            |(_, enclosure): &(&u64, &Enclosure)| matches!(enclosure.state, EnclosureState::Dead);
        let dead: Vec<u64> = self.enclosures.iter().filter(is_dead).map(|(&id, _)| id).collect();
        for id in dead {
            let enclosure = &self.enclosures[&id];
            let goes_on = enclosure.is_given_up && self.groups.is_vacant(&enclosure.group.name);
            if !goes_on && self.groups.remove(&enclosure.group.name).is_err() {
                continue;
            }
            let mut enclosure = self.enclosures.remove(&id).expect("listed above");
            self.forget_kernels(id)?;
            self.commands.retain(|_, command| command.enclosure != id);
            let destroyers = std::mem::take(&mut enclosure.destroyers);
            // The gate wants the network namespace first. An enclosure that never stood has handed none over.
            if let Some(network) = enclosure.namespaces.drain(..).next() {
                self.stock.networks.take_back(network);
            }
            // Its other namespaces, and with them its mounts, go before anybody hears of it.
            drop((enclosure.namespaces, enclosure.pid_namespace, enclosure.pidfd));
            if goes_on {
                self.stock.groups.take_back(enclosure.group);
            }
            for number in destroyers {
                self.reply(number, Ok(ZoneReply::Done))?;
            }
        }
        Ok(())
    }

    /// Forgets the interpreters of an enclosure that is over. Whoever still waits for one is told.
    fn forget_kernels(&mut self, enclosure: u64) -> io::Result<()> {
        let of_enclosure = |_: &u64, kernel: &mut Kernel| kernel.enclosure == enclosure;
        let gone: Vec<Kernel> =
            self.kernels.extract_if(of_enclosure).map(|(_, kernel)| kernel).collect();
        for number in gone.into_iter().filter_map(|kernel| kernel.number) {
            let failure = ZoneFailure::because("enter-enclosure", "the sandbox has ended");
            self.reply(number, Err(failure))?;
        }
        Ok(())
    }
}
