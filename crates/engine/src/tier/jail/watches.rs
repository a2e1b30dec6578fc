//! The commands whose end is awaited, each with its enclosure and its permit. Every command that is
//! added must be ended or forgotten, or its permit is never released.

use std::collections::HashMap;

use silica_domain::Exit;
use tokio::sync::watch;

use crate::command::{CommandEnd, CommandExit, Permit};

#[cfg(test)]
mod tests;

/// Commands whose end has not been reported yet, by number.
#[derive(Debug, Default)]
pub(super) struct Watches(HashMap<u64, Watched>);

#[derive(Debug)]
struct Watched {
    enclosure: u64,
    life: watch::Sender<Option<CommandEnd>>,
    permit: Permit,
}

impl Watched {
    /// Reports the end. The permit is released first, so that a task woken by the end can take it.
    fn end(self, end: CommandEnd) {
        drop(self.permit);
        self.life.send_replace(Some(end));
    }
}

impl Watches {
    pub(super) fn add(
        &mut self,
        enclosure: u64,
        command: u64,
        permit: Permit,
    ) -> watch::Receiver<Option<CommandEnd>> {
        let (life, receiver) = watch::channel(None);
        self.0.insert(command, Watched { enclosure, life, permit });
        receiver
    }

    /// Reports the end of a command; `oom_kills` processes of its enclosure were killed for lack of
    /// memory while it ran.
    pub(super) fn exited(&mut self, command: u64, exit: Exit, oom_kills: u64) {
        if let Some(watched) = self.0.remove(&command) {
            // A command that ended well was not the process that the kernel killed.
            let out_of_memory = oom_kills > 0 && exit != Exit::Status(0);
            let exit = match exit {
                Exit::Status(status) => CommandExit::Status(status),
                Exit::Signal(signal) => CommandExit::Signal(signal),
            };
            watched.end(CommandEnd { exit, out_of_memory });
        }
    }

    /// Reports the end of every command of an enclosure that died.
    pub(super) fn enclosure_died(&mut self, enclosure: u64, out_of_memory: bool) {
        let end = CommandEnd { exit: CommandExit::SandboxDied, out_of_memory };
        for (_, watched) in self.0.extract_if(|_, watched| watched.enclosure == enclosure) {
            watched.end(end);
        }
    }

    /// Stops watching a command that was not started.
    pub(super) fn forget(&mut self, command: u64) {
        self.0.remove(&command);
    }

    /// Stops watching the commands of an enclosure that is being ended: their watches close.
    pub(super) fn forget_enclosure(&mut self, enclosure: u64) {
        self.0.retain(|_, watched| watched.enclosure != enclosure);
    }

    /// Stops watching all commands: the zone has ended.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
