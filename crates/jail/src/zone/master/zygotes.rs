//! Zygotes in the master's tables: their packets, the ends of their children, and starting,
//! replacing and restarting them.

use std::io;
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use silica_gate::{ChildNotice, NOTICE_EXITED, NOTICE_FORKED};

use super::numbers::{KernelNumber, RequestNumber};
use super::{Kernel, Master, Role};
use crate::protocol::{self, ProcessExit, ZoneEvent, ZoneFailure, ZoneReply};
use crate::zone::zygote::{Attempts, Zygote, ZygoteSpec};

impl Master<'_> {
    /// Reads a packet of a zygote, or notices that it has gone.
    pub(super) fn on_zygote_packet(
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
            Ok(Some((length, _))) => match ChildNotice::from_bytes(&packet[..length]) {
                Some(notice) => self.on_notice(notice),
                None => self.on_start_report(name, role, &packet[..length]),
            },
            Ok(None) | Err(_) => self.on_zygote_closed(name, role),
        }
    }

    fn on_notice(&mut self, notice: ChildNotice) -> io::Result<()> {
        match notice.kind {
            NOTICE_FORKED => {
                let id = KernelNumber(notice.id);
                // Its enclosure may have ended since the request.
                let Some(kernel) = self.kernels.get_mut(&id) else { return Ok(()) };
                kernel.pid = Pid::from_raw(notice.pid.max(0));
                let open = |pid| pidfd_open(pid, PidfdFlags::empty()).ok();
                kernel.pidfd = kernel.pid.and_then(open);
                let number = kernel.number.take();
                let result = if kernel.pid.is_some() {
                    Ok(ZoneReply::Entered)
                } else {
                    self.kernels.remove(&id);
                    let error = io::Error::from_raw_os_error(notice.status);
                    Err(ZoneFailure::new("enter-fork", &error))
                };
                number.map_or(Ok(()), |number| self.reply(number, result))
            }
            NOTICE_EXITED => self.kernel_exited(notice.pid, ProcessExit::from_wait(notice.status)),
            _ => Ok(()),
        }
    }

    /// Sends an event for the end of an interpreter, if the process was one.
    pub(super) fn kernel_exited(&mut self, pid: i32, exit: ProcessExit) -> io::Result<()> {
        let is_it =
            |kernel: &&Kernel| kernel.pid.is_some_and(|own| own.as_raw_nonzero().get() == pid);
        let found = self.kernels.iter().find(|(_, kernel)| is_it(kernel)).map(|(&id, _)| id);
        let Some(id) = found else { return Ok(()) };
        let kernel = self.kernels.remove(&id).expect("found above");
        if self.died_with_enclosure(kernel.enclosure, exit) {
            return Ok(());
        }
        self.event(ZoneEvent::KernelExited { kernel: id.0, exit })
    }

    /// Reads the report of a starting zygote: that it is ready, or why it is not.
    fn on_start_report(&mut self, name: &str, role: Role, packet: &[u8]) -> io::Result<()> {
        let report: serde_json::Value = protocol::parse(packet).unwrap_or_default();
        if report["type"] != "ready" {
            let reason = report["error"].as_str().unwrap_or("it gave no reason").to_owned();
            return self.zygote_failed(name, role, reason);
        }
        let template = self.templates.get_mut(name).expect("its zygote is watched");
        if role == Role::Successor {
            let old = std::mem::replace(&mut template.zygote, template.successor.take());
            // The old one answers the requests it has and exits. Its children then become children
            // of the zone master, the init of their pid namespace.
            template.predecessor = old.filter(|old| old.close_requests().is_ok());
        }
        if let Some(zygote) = &mut template.zygote {
            zygote.ready = true;
        }
        template.attempts = Attempts::default();
        let waiting = std::mem::take(&mut template.waiting);
        self.event(ZoneEvent::ZygoteReady { template: name.to_owned() })?;
        waiting.into_iter().try_for_each(|enter| self.enter(enter))
    }

    fn on_zygote_closed(&mut self, name: &str, role: Role) -> io::Result<()> {
        let template = self.templates.get_mut(name).expect("its zygote is watched");
        let Some(mut zygote) = template.zygote_mut(role).take() else { return Ok(()) };
        if zygote.ready {
            self.fail_lost_forks(zygote.pid)?;
            return self.revive(name);
        }
        let stderr = zygote.stderr_tail();
        let reason =
            if stderr.is_empty() { "it ended without an error message".to_owned() } else { stderr };
        self.zygote_failed(name, role, reason)
    }

    /// Fails the requests that a dead zygote was sent and has not answered.
    fn fail_lost_forks(&mut self, zygote: Pid) -> io::Result<()> {
        let lost: Vec<(KernelNumber, RequestNumber)> = self
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

    /// Notes that a zygote could not start. Tries again, or fails the requests that wait for it.
    fn zygote_failed(&mut self, name: &str, role: Role, reason: String) -> io::Result<()> {
        let template = self.templates.get_mut(name).expect("its zygote is watched");
        let now = Instant::now();
        template.attempts.failed(now);
        *template.zygote_mut(role) = None;
        if template.attempts.may_try(now) {
            return self.revive(name);
        }
        let waiting = std::mem::take(&mut template.waiting);
        for enter in waiting {
            let failure = ZoneFailure::because("enter-zygote", reason.clone());
            self.reply(enter.number, Err(failure))?;
        }
        self.event(ZoneEvent::ZygoteFailed { template: name.to_owned(), reason })
    }

    /// Keeps a zygote of the template running from now on.
    pub(super) fn start_zygote(
        &mut self,
        name: &str,
        zygote_spec: ZygoteSpec,
    ) -> Result<(), ZoneFailure> {
        let template = self.templates.get_mut(name).ok_or_else(|| {
            ZoneFailure::because("zygote-template", format!("template {name} has not been added"))
        })?;
        template.attempts = Attempts::default();
        let zygote = Zygote::start(&template.layers, &zygote_spec, &self.filter)
            .map_err(|error| ZoneFailure::new("zygote-start", &error))?;
        template.zygote_spec = Some(zygote_spec);
        template.zygote = Some(zygote);
        Ok(())
    }

    /// Starts a zygote if the template is to have one and none runs.
    pub(super) fn revive(&mut self, name: &str) -> io::Result<()> {
        let Some(template) = self.templates.get_mut(name) else {
            return Ok(());
        };
        let (Some(zygote_spec), None) = (&template.zygote_spec, &template.zygote) else {
            return Ok(());
        };
        match Zygote::start(&template.layers, zygote_spec, &self.filter) {
            Ok(zygote) => {
                template.zygote = Some(zygote);
                Ok(())
            }
            Err(error) => self.zygote_failed(name, Role::Current, error.to_string()),
        }
    }

    /// Starts successors of zygotes that have reached their number of forks or their age.
    pub(super) fn replace_worn_zygotes(&mut self) {
        for template in self.templates.values_mut() {
            let (Some(zygote_spec), Some(zygote), None, None) = (
                &template.zygote_spec,
                &template.zygote,
                &template.successor,
                &template.predecessor,
            ) else {
                continue;
            };
            let now = Instant::now();
            if zygote.ready && zygote.is_worn(zygote_spec) && template.attempts.may_try(now) {
                match Zygote::start(&template.layers, zygote_spec, &self.filter) {
                    Ok(successor) => template.successor = Some(successor),
                    Err(_) => template.attempts.failed(now),
                }
            }
        }
    }
}
