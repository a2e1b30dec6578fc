//! The engine's view of its zone: requests awaited, events handed to whom they concern.
//! Tests: `tests/it/jail/leftovers.rs`, `tests/it/jail/failing.rs`.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use silica_jail::client::{Incoming, Zone, ZoneError, ZoneOptions};
use silica_jail::protocol::{Exit, ZoneEvent, ZoneFacts, ZoneFailure, ZoneReply, ZoneRequest};
use tokio::sync::{SetOnce, oneshot, watch};

use crate::command::{CommandEnd, Permit, Watches};

/// What a request brings back.
pub(crate) type Reply = Result<(ZoneReply, Vec<OwnedFd>), CallError>;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The zone master could not do it.
    #[error("the sandbox could not be set up at step {}", .0.step)]
    Failed(#[source] ZoneFailure),
    /// There is no zone any more.
    #[error("the zone process has ended")]
    Gone,
    /// The zone does not answer as agreed.
    #[error("the zone process cannot be spoken to")]
    Zone(#[source] ZoneError),
}

/// What became of an interpreter or an enclosure that is being watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Alive,
    Ended(Exit),
    /// The whole enclosure; whether for lack of memory.
    SandboxDied {
        out_of_memory: bool,
    },
}

/// A zone shared by everything in the engine.
#[derive(Clone, Debug)]
pub(crate) struct ZoneHandle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    zone: Zone,
    next: AtomicU64,
    tables: Mutex<Tables>,
    zygotes: watch::Sender<HashMap<String, Result<(), String>>>,
    gone: SetOnce<()>,
}

#[derive(Debug, Default)]
struct Tables {
    gone: bool,
    replies: HashMap<u64, oneshot::Sender<Reply>>,
    kernels: HashMap<u64, (u64, watch::Sender<Life>)>,
    enclosures: HashMap<u64, watch::Sender<Life>>,
    commands: Watches,
}

impl ZoneHandle {
    /// Starts a zone, and a thread that listens to it.
    ///
    /// The same thread does both: the zone dies with the thread that started it, so that must be one
    /// that lives as long as the zone is wanted.
    pub(crate) fn start(options: ZoneOptions) -> Result<Self, ZoneError> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("zone".to_owned());
        let listener = move || match Zone::start(&options) {
            Ok(zone) => {
                let shared = Arc::new(Shared {
                    zone,
                    next: AtomicU64::new(1),
                    tables: Mutex::default(),
                    zygotes: watch::Sender::new(HashMap::new()),
                    gone: SetOnce::new(),
                });
                // Whoever started this waits for it.
                let _ = sender.send(Ok(Arc::clone(&shared)));
                listen(&shared);
            }
            Err(error) => drop(sender.send(Err(error))),
        };
        thread.spawn(listener).map_err(ZoneError::Spawn)?;
        receiver.recv().map_err(|_| ZoneError::Gone)?.map(Self)
    }

    pub(crate) fn facts(&self) -> &ZoneFacts {
        self.0.zone.facts()
    }

    /// The process that stands for the zone on the host.
    pub(crate) fn process_id(&self) -> u32 {
        self.0.zone.process_id()
    }

    /// A number no other enclosure, kernel or request of this zone has.
    pub(crate) fn number(&self) -> u64 {
        self.0.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request now; the result is awaited on what this returns. The zone master never waits
    /// for anybody, so sending does not block for longer than it takes to read.
    pub(crate) fn send(
        &self,
        request: ZoneRequest,
        fds: &[BorrowedFd<'_>],
    ) -> Result<oneshot::Receiver<Reply>, CallError> {
        let number = self.number();
        let (sender, receiver) = oneshot::channel();
        {
            let mut tables = self.0.lock();
            if tables.gone {
                return Err(CallError::Gone);
            }
            tables.replies.insert(number, sender);
        }
        self.0.zone.request(number, request, fds).map_err(|error| {
            self.0.lock().replies.remove(&number);
            match error {
                ZoneError::Gone => CallError::Gone,
                error => CallError::Zone(error),
            }
        })?;
        Ok(receiver)
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn call(&self, request: ZoneRequest, fds: &[BorrowedFd<'_>]) -> Reply {
        let receiver = self.send(request, fds)?;
        receiver.await.unwrap_or(Err(CallError::Gone))
    }

    /// Watches an interpreter from before it is asked for.
    pub(crate) fn watch_kernel(&self, enclosure: u64, kernel: u64) -> watch::Receiver<Life> {
        let (sender, receiver) = watch::channel(Life::Alive);
        let mut tables = self.0.lock();
        if tables.gone {
            sender.send_replace(Life::SandboxDied { out_of_memory: false });
        }
        tables.kernels.insert(kernel, (enclosure, sender));
        receiver
    }

    /// Watches an enclosure from before it is asked for.
    pub(crate) fn watch_enclosure(&self, enclosure: u64) -> watch::Receiver<Life> {
        let (sender, receiver) = watch::channel(Life::Alive);
        let mut tables = self.0.lock();
        if tables.gone {
            sender.send_replace(Life::SandboxDied { out_of_memory: false });
        }
        tables.enclosures.insert(enclosure, sender);
        receiver
    }

    /// Watches a command from before it is asked for.
    pub(crate) fn watch_command(
        &self,
        enclosure: u64,
        command: u64,
        permit: Permit,
    ) -> watch::Receiver<Option<CommandEnd>> {
        self.0.lock().commands.add(enclosure, command, permit)
    }

    /// Stops watching a command that did not come to be.
    pub(crate) fn forget_command(&self, command: u64) {
        self.0.lock().commands.forget(command);
    }

    /// Stops watching an enclosure and what runs in it: it is being ended.
    pub(crate) fn forget_enclosure(&self, enclosure: u64) {
        let mut tables = self.0.lock();
        tables.kernels.retain(|_, (of, _)| *of != enclosure);
        tables.commands.forget_enclosure(enclosure);
        tables.enclosures.remove(&enclosure);
    }

    /// Waits until a template's zygote is ready or has failed for good.
    pub(crate) async fn zygote_ready(&self, template: &str) -> Result<(), String> {
        let ended = || Err("the zone has ended".to_owned());
        let mut states = self.0.zygotes.subscribe();
        tokio::select! {
            found = states.wait_for(|states| states.contains_key(template)) => {
                found.map_or_else(|_| ended(), |states| states[template].clone())
            }
            () = self.gone() => ended(),
        }
    }

    /// Whether the zone has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.lock().gone
    }

    /// Waits until it has.
    pub(crate) async fn gone(&self) {
        self.0.gone.wait().await;
    }

    /// Tells the zone to end.
    pub(crate) fn hang_up(&self) {
        self.0.zone.hang_up();
    }

    /// Waits until the zone's process has ended and cleared up after itself.
    pub(crate) async fn ended(&self) {
        let shared = Arc::clone(&self.0);
        // The wait is bounded; see the jail's client.
        let _ = tokio::task::spawn_blocking(move || shared.zone.wait()).await;
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Tables> {
        // The tables hold no invariant that a panic elsewhere could have broken halfway.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, incoming: Incoming) {
        match incoming {
            Incoming::Reply { number, result, fds } => {
                // The lock is let go first: whoever is woken takes it next.
                let waiting = self.lock().replies.remove(&number);
                if let Some(sender) = waiting {
                    let reply = result.map(|answer| (answer, fds)).map_err(CallError::Failed);
                    // Nobody waits any more: the descriptors close, which is all there is to do.
                    let _ = sender.send(reply);
                }
            }
            Incoming::Event(ZoneEvent::KernelExited { kernel, exit }) => {
                if let Some((_, sender)) = self.lock().kernels.remove(&kernel) {
                    sender.send_replace(Life::Ended(exit));
                }
            }
            Incoming::Event(ZoneEvent::CommandExited { command, exit, oom_kills }) => {
                self.lock().commands.exited(command, exit, oom_kills);
            }
            Incoming::Event(ZoneEvent::EnclosureExited { enclosure, usage }) => {
                let died = Life::SandboxDied { out_of_memory: usage.oom_kills > 0 };
                let mut tables = self.lock();
                tables.commands.enclosure_died(enclosure, usage.oom_kills > 0);
                tables.kernels.retain(|_, (of, sender)| {
                    let concerned = *of == enclosure;
                    if concerned {
                        sender.send_replace(died);
                    }
                    !concerned
                });
                if let Some(sender) = tables.enclosures.remove(&enclosure) {
                    sender.send_replace(died);
                }
            }
            Incoming::Event(ZoneEvent::ZygoteReady { template }) => {
                self.zygotes.send_modify(|states| {
                    states.insert(template, Ok(()));
                });
            }
            Incoming::Event(ZoneEvent::ZygoteFailed { template, reason }) => {
                tracing::error!(template, reason, "zygote cannot start");
                self.zygotes.send_modify(|states| {
                    states.insert(template, Err(reason));
                });
            }
        }
    }

    /// The zone has gone: everybody who waits is told.
    fn bury(&self) {
        let mut tables = self.lock();
        tables.gone = true;
        for (_, sender) in tables.replies.drain() {
            // See above.
            let _ = sender.send(Err(CallError::Gone));
        }
        let tables = &mut *tables;
        let kernels = tables.kernels.drain().map(|(_, (_, sender))| sender);
        for sender in kernels.chain(tables.enclosures.drain().map(|(_, sender)| sender)) {
            sender.send_replace(Life::SandboxDied { out_of_memory: false });
        }
        tables.commands.bury();
        // It goes once.
        let _ = self.gone.set(());
    }
}

fn listen(shared: &Shared) {
    let mut packet = Zone::packet();
    loop {
        match shared.zone.receive(&mut packet) {
            Ok(incoming) => shared.handle(incoming),
            Err(ZoneError::Gone) => break,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "zone failed");
                break;
            }
        }
    }
    shared.bury();
    // Not before the process has ended: it dies with this thread, and has groups to clear away.
    shared.zone.wait();
}

/// Borrows a few owned descriptors, in order.
pub(crate) fn borrowed(fds: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    fds.iter().map(AsFd::as_fd).collect()
}
