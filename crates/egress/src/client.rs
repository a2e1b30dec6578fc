//! The server's end: starts the process, gives sandboxes to it and hears what happens.
//!
//! The process starts with the first sandbox that gets a network. If it dies, all connections
//! break; it is started again, and every sandbox is attached again with fresh sockets, the names it
//! had and what it had used. Requests that were pending fail.

mod supervisor;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use silica_domain::{EffectivePolicy, NetworkLimits};
use tokio::sync::{Notify, oneshot};

use crate::authority::CertificateAuthority;
use crate::events::{ConnectionRecord, EgressEvents, NetworkUsage};
use crate::packet::PacketSocket;
use crate::secret::BoundSecret;
use crate::settings::EgressSettings;
use crate::sockets::{SandboxSockets, SocketsUnavailable, first_sockets};
use crate::wire::{AttachOrder, Order, Report};

/// How long the process may take for one order.
const ORDER_PATIENCE: Duration = Duration::from_secs(10);

/// How long an attach waits for a process that is being started.
const START_PATIENCE: Duration = Duration::from_secs(20);

/// The program whose process reads what guests send.
#[derive(Clone, Debug)]
pub struct EgressProgram {
    /// Its path.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// What an [`Egress`] is made of.
#[derive(Clone, Debug)]
pub struct EgressOptions {
    /// The program.
    pub program: EgressProgram,
    /// The authority whose certificate guests trust.
    pub authority: CertificateAuthority,
    /// The operator's settings.
    pub settings: EgressSettings,
}

/// A sandbox that is to get a network.
#[derive(Clone, Debug)]
pub struct AttachSpec {
    /// The sandbox's id.
    pub sandbox: String,
    /// The key that it belongs to.
    pub key: String,
    /// What it may reach.
    pub policy: EffectivePolicy,
    /// Its secrets.
    pub secrets: Vec<BoundSecret>,
    /// Its limits.
    pub limits: NetworkLimits,
}

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// The process cannot be started.
    #[error("cannot start the egress process")]
    Start(#[source] io::Error),
    /// The process ended, or is being started again.
    #[error("the egress process is not running")]
    Gone,
    /// The process did not answer in time.
    #[error("the egress process did not answer within {} s", ORDER_PATIENCE.as_secs())]
    Slow,
    /// The sandbox has no sockets to give.
    #[error("the sandbox cannot be given a network")]
    Sockets(#[source] SocketsUnavailable),
    /// The process refused.
    #[error("the egress process refused: {0}")]
    Refused(String),
}

/// The networks of all sandboxes of a server.
#[derive(Clone)]
pub struct Egress {
    shared: Arc<Shared>,
}

struct Shared {
    options: EgressOptions,
    events: Arc<dyn EgressEvents>,
    state: Mutex<State>,
    changed: Notify,
    numbers: AtomicU64,
}

#[derive(Default)]
struct State {
    link: Option<Arc<Link>>,
    attached: HashMap<u64, Arc<Attached>>,
    supervised: bool,
    /// Why the last start failed.
    failure: Option<String>,
}

/// A connection to a running process.
struct Link {
    number: u64,
    socket: PacketSocket,
    process: u32,
    pending: Mutex<HashMap<u64, oneshot::Sender<Report>>>,
    questions: Mutex<HashMap<u64, tokio::task::AbortHandle>>,
}

/// A sandbox as it has to be described to a new process.
struct Attached {
    number: u64,
    sandbox: String,
    key: String,
    limits: NetworkLimits,
    sockets: Arc<dyn SandboxSockets>,
    current: Mutex<Current>,
    /// Whether it is being detached.
    ending: AtomicBool,
    /// The link to which it is attached, by number.
    link: tokio::sync::Mutex<u64>,
}

struct Current {
    policy: EffectivePolicy,
    secrets: Vec<BoundSecret>,
    names: Vec<(String, u32)>,
    used: NetworkUsage,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Egress {
    /// Prepares the networks; nothing is started yet.
    pub fn new(options: EgressOptions, events: Arc<dyn EgressEvents>) -> Self {
        let shared = Shared {
            options,
            events,
            state: Mutex::default(),
            changed: Notify::new(),
            numbers: AtomicU64::new(1),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Gives a sandbox its network. The network is there when this returns.
    pub async fn attach(
        &self,
        spec: AttachSpec,
        sockets: Arc<dyn SandboxSockets>,
    ) -> Result<Attachment, EgressError> {
        let number = self.shared.number();
        let attached = Arc::new(Attached {
            number,
            sandbox: spec.sandbox,
            key: spec.key,
            limits: spec.limits,
            sockets,
            current: Mutex::new(Current {
                policy: spec.policy,
                secrets: spec.secrets,
                names: Vec::new(),
                used: NetworkUsage::default(),
            }),
            ending: AtomicBool::new(false),
            link: tokio::sync::Mutex::new(0),
        });
        // The process may need more sockets at once, so the sandbox is known before it is attached.
        lock(&self.shared.state).attached.insert(number, Arc::clone(&attached));
        let attachment = Attachment { shared: Arc::clone(&self.shared), attached, ended: false };
        let link = self.shared.link().await?;
        self.shared.attach(&link, &attachment.attached).await?;
        Ok(attachment)
    }

    /// Returns the id of the process, if it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.shared.running().map(|link| link.process)
    }

    /// Returns the certificate that guests trust.
    pub fn certificate_pem(&self) -> &str {
        self.shared.options.authority.certificate_pem()
    }
}

impl Shared {
    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn running(&self) -> Option<Arc<Link>> {
        lock(&self.state).link.clone()
    }

    /// Returns the running process, which is started first if there is none.
    async fn link(self: &Arc<Self>) -> Result<Arc<Link>, EgressError> {
        let deadline = tokio::time::Instant::now() + START_PATIENCE;
        loop {
            let changed = self.changed.notified();
            {
                let mut state = lock(&self.state);
                if let Some(link) = &state.link {
                    return Ok(Arc::clone(link));
                }
                if let Some(failure) = state.failure.take() {
                    return Err(EgressError::Start(io::Error::other(failure)));
                }
                if !state.supervised {
                    state.supervised = true;
                    tokio::spawn(supervisor::supervise(Arc::clone(self)));
                }
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return Err(EgressError::Gone);
            }
        }
    }

    /// Describes a sandbox to a process, with fresh sockets, unless that was done already: the
    /// caller of `attach` and the supervisor may both find it missing.
    async fn attach(&self, link: &Link, attached: &Attached) -> Result<(), EgressError> {
        let mut attached_to = attached.link.lock().await;
        if *attached_to == link.number {
            return Ok(());
        }
        if attached.ending.load(Ordering::Relaxed) {
            return Err(EgressError::Gone);
        }
        let sockets = attached.sockets.open(first_sockets()).await;
        let sockets = sockets.map_err(EgressError::Sockets)?;
        let request = self.number();
        let order = {
            let current = lock(&attached.current);
            Order::Attach(Box::new(AttachOrder {
                request,
                sandbox: attached.number,
                id: attached.sandbox.clone(),
                key: attached.key.clone(),
                policy: (&current.policy).into(),
                secrets: current.secrets.iter().map(Into::into).collect(),
                limits: (&attached.limits).into(),
                names: current.names.clone(),
                used: current.used,
            }))
        };
        link.order(request, &order, &borrowed(&sockets)).await?;
        *attached_to = link.number;
        Ok(())
    }
}

fn borrowed(fds: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    fds.iter().map(AsFd::as_fd).collect()
}

impl Link {
    /// Sends an order and waits for its reply.
    async fn order(
        &self,
        request: u64,
        order: &Order,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Report, EgressError> {
        let (sender, receiver) = oneshot::channel();
        lock(&self.pending).insert(request, sender);
        let exchange = async {
            self.socket.send(order, fds).await.map_err(|_| EgressError::Gone)?;
            receiver.await.map_err(|_| EgressError::Gone)
        };
        let reply = tokio::time::timeout(ORDER_PATIENCE, exchange).await;
        lock(&self.pending).remove(&request);
        match reply.map_err(|_| EgressError::Slow)?? {
            Report::Refused { message, .. } => Err(EgressError::Refused(message)),
            report => Ok(report),
        }
    }
}

/// The network of one sandbox. Dropping it takes the network away.
pub struct Attachment {
    shared: Arc<Shared>,
    attached: Arc<Attached>,
    ended: bool,
}

impl Attachment {
    /// Replaces the policy. Connections that it does not allow are closed when this returns. If the
    /// process has just died, the policy counts from its next start on.
    pub async fn update(&self, policy: EffectivePolicy) -> Result<(), EgressError> {
        let request = self.shared.number();
        let sandbox = self.attached.number;
        let order = Order::Policy { request, sandbox, policy: (&policy).into() };
        lock(&self.attached.current).policy = policy;
        self.tell(request, &order).await
    }

    /// Replaces the secrets.
    pub async fn update_secrets(&self, secrets: Vec<BoundSecret>) -> Result<(), EgressError> {
        let request = self.shared.number();
        let sandbox = self.attached.number;
        let shapes = secrets.iter().map(Into::into).collect();
        lock(&self.attached.current).secrets = secrets;
        self.tell(request, &Order::Secrets { request, sandbox, secrets: shapes }).await
    }

    /// Returns the open connections and the last ones that ended.
    pub async fn connections(&self) -> Result<Vec<ConnectionRecord>, EgressError> {
        let request = self.shared.number();
        let order = Order::Connections { request, sandbox: self.attached.number };
        let link = self.shared.running().ok_or(EgressError::Gone)?;
        match link.order(request, &order, &[]).await? {
            Report::Connections { records, .. } => Ok(records),
            _ => Err(EgressError::Gone),
        }
    }

    /// Returns what the sandbox has used; what was known last if the process does not run.
    pub async fn usage(&self) -> NetworkUsage {
        let request = self.shared.number();
        let order = Order::Usage { request, sandbox: self.attached.number };
        if let Some(link) = self.shared.running()
            && let Ok(Report::Usage { usage, .. }) = link.order(request, &order, &[]).await
        {
            lock(&self.attached.current).used = usage;
            return usage;
        }
        lock(&self.attached.current).used
    }

    /// Takes the network away and waits until its sockets are closed.
    pub async fn detach(mut self) {
        self.ended = true;
        detach(Arc::clone(&self.shared), Arc::clone(&self.attached)).await;
    }

    async fn tell(&self, request: u64, order: &Order) -> Result<(), EgressError> {
        match self.shared.running() {
            Some(link) => match link.order(request, order, &[]).await {
                Ok(_) | Err(EgressError::Gone) => Ok(()),
                Err(error) => Err(error),
            },
            None => Ok(()),
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let attached = Arc::clone(&self.attached);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(detach(shared, attached));
        } else {
            // The runtime has ended, and with it the link to the process.
            lock(&shared.state).attached.remove(&attached.number);
        }
    }
}

/// Takes a sandbox's network away. The sandbox is known until the last of its records has come.
async fn detach(shared: Arc<Shared>, attached: Arc<Attached>) {
    attached.ending.store(true, Ordering::Relaxed);
    let request = shared.number();
    let order = Order::Detach { request, sandbox: attached.number };
    // An attach that is under way ends first.
    let attached_to = attached.link.lock().await;
    if let Some(link) = shared.running() {
        // A process that has died has closed all sockets.
        let _ = link.order(request, &order, &[]).await;
    }
    drop(attached_to);
    lock(&shared.state).attached.remove(&attached.number);
}
