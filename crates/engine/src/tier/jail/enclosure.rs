//! One enclosure of the zone: making it, starting interpreters in it, measuring and ending it. Its
//! meter must be closed before its end is requested: the control group may serve another sandbox.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use silica_domain::Usage;
use silica_jail::cgroup::{self, Gauge, GroupUsage, Meter};
use silica_jail::enclosure::WRITABLE_INODES;
use silica_jail::protocol::{self, LocalPrefix, Origin, ZoneReply, ZoneRequest, ZoneSocket};
use tokio::sync::watch;

use super::zone::{ZoneHandle, borrowed};
use super::{command, inputs, jail_spec};
use crate::network::{GUEST_PREFIXES_MAX, GUEST_SOCKETS_MAX, GuestPrefix, GuestSocket};
use crate::tier::{
    CommandNumber, CommandStart, CommandStartError, CpuShare, Enclosure, EnclosureSpec,
    KernelNumber, KernelStart, Life, NewEnclosure, StartedCommand, StartedKernel, TierError,
    WritableTree,
};

// The jail's weights are those of every tier.
const _: () = assert!(
    cgroup::CPU_WEIGHT_MAX == CpuShare::WEIGHT_MAX
        && cgroup::CPU_WEIGHT_DEFAULT == CpuShare::WEIGHT_NEW
        && cgroup::CPU_MILLIS_MIN == CpuShare::MILLIS_MIN
);

// The jail opens as many sockets at once as every tier.
const _: () = assert!(
    protocol::SOCKETS_MAX == GUEST_SOCKETS_MAX && protocol::PREFIXES_MAX == GUEST_PREFIXES_MAX
);

/// An enclosure of the zone, by its number.
#[derive(Debug)]
struct JailEnclosure {
    number: u64,
    zone: ZoneHandle,
    life: watch::Receiver<Life>,
    /// Set once the enclosure is made.
    meter: OnceLock<Meter>,
}

/// Asks the zone for an enclosure; its number is valid at once.
pub(super) fn create(
    zone: &ZoneHandle,
    spec: &EnclosureSpec,
    scratch: &Path,
) -> Result<NewEnclosure, TierError> {
    let prepared = spec
        .inputs
        .iter()
        .map(|input| inputs::prepare(input, scratch))
        .collect::<Result<Vec<_>, _>>()?;
    // Chosen here and not by the zone, so that requests about the enclosure need not wait for a
    // reply.
    let number = zone.number();
    let request = ZoneRequest::CreateEnclosure {
        enclosure: number,
        spec: jail_spec(&spec.template, &spec.limits),
        inputs: prepared.iter().map(|input| input.mount.clone()).collect(),
        fail_at: spec.fail_at,
    };
    let trees: Vec<BorrowedFd<'_>> =
        prepared.iter().filter_map(|input| input.tree.as_ref().map(AsFd::as_fd)).collect();
    // Watched from before it exists, so that an early death is not missed.
    let life = zone.watch_enclosure(number);
    let reply = zone.send(request, &trees)?;
    drop(trees);
    let meter = OnceLock::new();
    let enclosure = Arc::new(JailEnclosure { number, zone: zone.clone(), life, meter });
    let made = {
        let enclosure = Arc::clone(&enclosure);
        async move {
            let reply = reply.await.unwrap_or(Err(TierError::Gone));
            // The copies of private inputs are mounted by now; their names can go.
            drop(prepared);
            enclosure.complete(reply?)
        }
    };
    Ok(NewEnclosure { enclosure, made: made.boxed() })
}

impl JailEnclosure {
    /// Takes what came with the reply: the writable directory, then a file for each gauge.
    fn complete(&self, reply: (ZoneReply, Vec<OwnedFd>)) -> Result<WritableTree, TierError> {
        let (ZoneReply::Enclosure { gauges, before }, fds) = reply else {
            return Err(wrong_reply());
        };
        let (directory, meter) = take(&gauges, before, fds).ok_or_else(wrong_reply)?;
        // Set once: the zone replies once.
        let _ = self.meter.set(meter);
        Ok(WritableTree { directory, inodes_when_empty: WRITABLE_INODES })
    }

    /// Stops measuring and watching. Done before the zone is asked to end the enclosure, because
    /// its control group may serve another sandbox right after.
    fn detach(&self) {
        if let Some(meter) = self.meter.get() {
            meter.close();
        }
        self.zone.forget_enclosure(self.number);
    }
}

impl Enclosure for JailEnclosure {
    fn start_kernel(
        &self,
        start: &KernelStart,
        ends: [OwnedFd; 3],
        fail_at: u32,
    ) -> Result<StartedKernel, TierError> {
        let number = self.zone.number();
        // Watched before it is requested: an interpreter may end before the reply is read.
        let life = self.zone.watch_kernel(self.number, number);
        let origin = match start {
            KernelStart::Warm => Origin::Zygote,
            KernelStart::Fresh(program) => Origin::Program((**program).clone().into()),
            KernelStart::Image(_) => Origin::Image,
        };
        let request =
            ZoneRequest::Enter { enclosure: self.number, kernel: number, origin, fail_at };
        // Our copies of the guest's ends are closed when this returns, or their ends would never
        // show.
        let mut fds = borrowed(&ends);
        if let KernelStart::Image(image) = start {
            fds.push(image.0.as_fd());
        }
        let reply = self.zone.send(request, &fds)?;
        let entered = async move { reply.await.unwrap_or(Err(TierError::Gone)).map(drop) };
        Ok(StartedKernel { number: KernelNumber(number), life, entered: Box::pin(entered) })
    }

    fn signal_kernel(&self, kernel: KernelNumber, signal: i32) -> BoxFuture<'_, ()> {
        let request = ZoneRequest::Signal { kernel: kernel.0, signal };
        // An interpreter or a zone that has ended needs no signal.
        async move { drop(self.zone.call(request, &[]).await) }.boxed()
    }

    fn start_command(
        &self,
        start: CommandStart,
    ) -> BoxFuture<'_, Result<StartedCommand, CommandStartError>> {
        command::start(&self.zone, self.number, start).boxed()
    }

    fn signal_command(
        &self,
        command: CommandNumber,
        signal: i32,
    ) -> BoxFuture<'_, Result<(), TierError>> {
        let request = ZoneRequest::SignalCommand { command: command.0, signal };
        async move { self.zone.call(request, &[]).await.map(drop) }.boxed()
    }

    fn open_sockets(
        &self,
        sockets: &[GuestSocket],
        prefixes: &[GuestPrefix],
    ) -> BoxFuture<'_, Result<Vec<OwnedFd>, TierError>> {
        let request = ZoneRequest::OpenSockets {
            enclosure: self.number,
            sockets: sockets.iter().copied().map(socket_spec).collect(),
            prefixes: prefixes.iter().copied().map(local_prefix).collect(),
        };
        let wanted = sockets.len();
        async move {
            match self.zone.call(request, &[]).await? {
                (ZoneReply::Sockets, fds) if fds.len() == wanted => Ok(fds),
                _ => Err(wrong_reply()),
            }
        }
        .boxed()
    }

    fn usage(&self) -> Usage {
        self.meter.get().map(|meter| usage(meter.read())).unwrap_or_default()
    }

    fn cpu_time(&self) -> Option<Duration> {
        self.meter.get()?.read_cpu().map(Duration::from_micros)
    }

    fn set_share(&self, share: CpuShare) {
        let CpuShare { weight, cpu_millis } = share;
        let share = cgroup::GroupShare { weight, cpu_millis };
        // Not waited for. A zone that has ended took the enclosure along.
        let _ = self.zone.send(ZoneRequest::Share { enclosure: self.number, share }, &[]);
    }

    fn life(&self) -> watch::Receiver<Life> {
        self.life.clone()
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), TierError>> {
        self.detach();
        let request = ZoneRequest::Kill { enclosure: self.number };
        async move { self.zone.call(request, &[]).await.map(drop) }.boxed()
    }

    fn end(&self) -> BoxFuture<'_, Result<(), TierError>> {
        self.detach();
        let request = ZoneRequest::Destroy { enclosure: self.number };
        async move { self.zone.call(request, &[]).await.map(drop) }.boxed()
    }

    fn abandon(&self) {
        self.detach();
        // Without a runtime the whole zone is ending.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let zone = self.zone.clone();
            let request = ZoneRequest::Destroy { enclosure: self.number };
            // A zone that has ended took the enclosure along.
            runtime.spawn(async move { drop(zone.call(request, &[]).await) });
        }
    }
}

fn take(gauges: &[Gauge], before: GroupUsage, mut fds: Vec<OwnedFd>) -> Option<(OwnedFd, Meter)> {
    // The zone sends the directory first, then one file for each gauge.
    let writable = (!fds.is_empty()).then(|| fds.remove(0))?;
    Some((writable, Meter::received(gauges, before, fds)?))
}

fn socket_spec(socket: GuestSocket) -> ZoneSocket {
    match socket {
        GuestSocket::Stream => ZoneSocket::Stream,
        GuestSocket::Listener { address, backlog } => ZoneSocket::Listener { address, backlog },
        GuestSocket::Datagram { address } => ZoneSocket::Datagram { address },
    }
}

fn local_prefix(prefix: GuestPrefix) -> LocalPrefix {
    LocalPrefix { address: prefix.address(), length: prefix.length() }
}

fn wrong_reply() -> TierError {
    TierError::Broken("the zone replied with something that was not asked for".into())
}

pub(super) fn usage(read: GroupUsage) -> Usage {
    let GroupUsage { cpu_us, memory_peak_bytes, memory_bytes, oom_kills, fork_refusals } = read;
    Usage { cpu_us, memory_peak_bytes, memory_bytes, oom_kills, fork_refusals }
}
