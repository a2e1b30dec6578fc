//! A handle to the zone: sends requests, and passes replies and events to the tasks that wait.
//!
//! Tests: `tests/it/jail/leftovers.rs`, `tests/it/jail/failing.rs`.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use silica_domain::Exit;
use silica_jail::client::{Incoming, Zone, ZoneError, ZoneOptions};
use silica_jail::protocol::{self, ZoneEvent, ZoneFacts, ZoneReply, ZoneRequest};
use tokio::sync::{SetOnce, oneshot, watch};

use super::watches::Watches;
use crate::command::{CommandEnd, Permit};
use crate::tier::{Life, TierError};

/// What a request brings back.
pub(crate) type Reply = Result<(ZoneReply, Vec<OwnedFd>), TierError>;

/// A handle to the zone, shared by all enclosures.
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
    /// The same thread does both: the zone dies with the thread that started it, so that must be
    /// one that lives as long as the zone is wanted.
    pub(crate) fn start(options: ZoneOptions) -> Result<Self, ZoneError> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        // PR_SET_PDEATHSIG is about the thread that forked and not about its process (prctl(2)). A
        // thread of the runtime may end at any time.
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
                // The thread that called `start` waits for it.
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

    /// Returns the zone's process on the host.
    pub(crate) fn process_id(&self) -> u32 {
        self.0.zone.process_id()
    }

    /// Returns a number that no other enclosure, kernel or request of this zone has.
    pub(crate) fn number(&self) -> u64 {
        self.0.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a request now and returns a receiver of its reply. The zone master never blocks on a
    /// guest, so this blocks only until the master reads its socket.
    pub(crate) fn send(
        &self,
        request: ZoneRequest,
        fds: &[BorrowedFd<'_>],
    ) -> Result<oneshot::Receiver<Reply>, TierError> {
        let number = self.number();
        let (sender, receiver) = oneshot::channel();
        {
            let mut tables = self.0.lock();
            // Under one lock with `fail_all`: a request is refused here or failed there, and never
            // left waiting.
            if tables.gone {
                return Err(TierError::Gone);
            }
            // Before the request is sent: the reply may arrive before `request` returns.
            tables.replies.insert(number, sender);
        }
        self.0.zone.request(number, request, fds).map_err(|error| {
            self.0.lock().replies.remove(&number);
            TierError::from(error)
        })?;
        Ok(receiver)
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn call(&self, request: ZoneRequest, fds: &[BorrowedFd<'_>]) -> Reply {
        let receiver = self.send(request, fds)?;
        receiver.await.unwrap_or(Err(TierError::Gone))
    }

    /// Watches an interpreter; called before the interpreter is requested.
    pub(crate) fn watch_kernel(&self, enclosure: u64, kernel: u64) -> watch::Receiver<Life> {
        let (sender, receiver) = watch::channel(Life::Alive);
        let mut tables = self.0.lock();
        if tables.gone {
            // The listener has failed all watches already and will not come back for this one.
            sender.send_replace(Life::SandboxDied { out_of_memory: false });
        }
        tables.kernels.insert(kernel, (enclosure, sender));
        receiver
    }

    /// Watches an enclosure; called before the enclosure is requested.
    pub(crate) fn watch_enclosure(&self, enclosure: u64) -> watch::Receiver<Life> {
        let (sender, receiver) = watch::channel(Life::Alive);
        let mut tables = self.0.lock();
        if tables.gone {
            sender.send_replace(Life::SandboxDied { out_of_memory: false });
        }
        tables.enclosures.insert(enclosure, sender);
        receiver
    }

    /// Watches a command; called before the command is requested.
    pub(crate) fn watch_command(
        &self,
        enclosure: u64,
        command: u64,
        permit: Permit,
    ) -> watch::Receiver<Option<CommandEnd>> {
        self.0.lock().commands.add(enclosure, command, permit)
    }

    /// Stops watching a command that was not started.
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
            // The states outlive the zone, so their watch does not close with it.
            () = self.gone() => ended(),
        }
    }

    /// Returns whether the zone has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.lock().gone
    }

    /// Waits until the zone has ended.
    pub(crate) async fn gone(&self) {
        self.0.gone.wait().await;
    }

    /// Asks the zone to end.
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
                // Unlocked before the send: the task that is woken takes the lock next.
                let waiting = self.lock().replies.remove(&number);
                if let Some(sender) = waiting {
                    let reply = result.map(|answer| (answer, fds)).map_err(TierError::from);
                    // If the receiver is gone the descriptors close, and nothing else is to be
                    // done.
                    let _ = sender.send(reply);
                }
            }
            Incoming::Event(ZoneEvent::KernelExited { kernel, exit }) => {
                if let Some((_, sender)) = self.lock().kernels.remove(&kernel) {
                    sender.send_replace(Life::Ended(exit_of(exit)));
                }
            }
            Incoming::Event(ZoneEvent::CommandExited { command, exit, oom_kills }) => {
                self.lock().commands.exited(command, exit_of(exit), oom_kills);
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

    /// Fails all pending requests and watches: the zone has ended.
    fn fail_all(&self) {
        let mut tables = self.lock();
        tables.gone = true;
        for (_, sender) in tables.replies.drain() {
            // A receiver that is gone needs no error.
            let _ = sender.send(Err(TierError::Gone));
        }
        let tables = &mut *tables;
        let kernels = tables.kernels.drain().map(|(_, (_, sender))| sender);
        for sender in kernels.chain(tables.enclosures.drain().map(|(_, sender)| sender)) {
            sender.send_replace(Life::SandboxDied { out_of_memory: false });
        }
        tables.commands.clear();
        // Set once: this is called once.
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
    shared.fail_all();
    // Not before the process has ended: it dies with this thread, and has groups to clear away.
    shared.zone.wait();
}

fn exit_of(exit: protocol::ProcessExit) -> Exit {
    match exit {
        protocol::ProcessExit::Status(status) => Exit::Status(status),
        protocol::ProcessExit::Signal(signal) => Exit::Signal(signal),
    }
}

/// Borrows a few owned descriptors, in order.
pub(crate) fn borrowed(fds: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    fds.iter().map(AsFd::as_fd).collect()
}
