//! A Jupyter kernel: one sandbox, its sockets, and a task that answers requests one after the other.
//!
//! What the kernel publishes goes to all sockets, a reply only to the one that asked. Each socket has a short
//! queue; one that does not read is closed. While no socket is there, messages are kept for the client that
//! was there last, within a bound.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use silica_domain::KernelId;
use silica_sessions::{Cell, Session, Sessions};
use silica_store::{Tenant, Timestamp};
use tokio::sync::mpsc;

use super::framing::Received;
use super::message::{Channel, KernelMessage, Parent};

/// The most messages that wait for one socket.
const SOCKET_QUEUE_MAX: usize = 64;

/// How long a kernel waits for a socket whose queue is full before it closes it.
const SLOW_PATIENCE: Duration = Duration::from_secs(10);

/// The most requests that wait for a kernel.
pub(super) const REQUESTS_MAX: usize = 256;

/// The most sockets of one kernel.
const SOCKETS_MAX: usize = 32;

/// The most bytes of messages that are kept while no socket is there.
const MISSED_BYTES_MAX: usize = 8 << 20;

/// The most inputs that are kept for the history, and their bytes.
const HISTORY_MAX: usize = 500;
const HISTORY_BYTES_MAX: usize = 1 << 20;

/// The most comms that are remembered.
const COMMS_MAX: usize = 4096;

/// The kernel of a sandbox that clients of Jupyter use.
pub(super) const FIRST_KERNEL: KernelId = KernelId::new(1);

/// Whether a kernel works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExecutionState {
    Starting,
    Idle,
    Busy,
    Restarting,
    Dead,
}

impl ExecutionState {
    /// Returns its name in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Restarting => "restarting",
            Self::Dead => "dead",
        }
    }
}

/// A request of a client, and the socket that it came from.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) socket: u64,
    pub(super) received: Received,
}

/// A Jupyter kernel.
#[derive(Debug)]
pub(super) struct JupyterKernel {
    /// A UUID: clients take nothing else.
    pub(super) id: String,
    /// The name of its kernelspec.
    pub(super) name: String,
    pub(super) tenant: Tenant,
    pub(super) session: Arc<Session>,
    requests: mpsc::Sender<Request>,
    hub: Mutex<Hub>,
}

/// What changes of a kernel.
#[derive(Debug)]
struct Hub {
    state: ExecutionState,
    last_activity: Timestamp,
    /// The number of the last cell.
    count: u64,
    sockets: Vec<Socket>,
    next_socket: u64,
    missed: Missed,
    history: VecDeque<(u64, String)>,
    history_bytes: usize,
    /// Targets of open comms, by id.
    comms: BTreeMap<String, String>,
    /// The cell that runs, and the socket whose request it is.
    current: Option<(Arc<Cell>, u64)>,
}

#[derive(Debug)]
struct Socket {
    number: u64,
    session_id: Option<String>,
    sender: mpsc::Sender<Arc<KernelMessage>>,
}

/// Messages for a client that has left.
#[derive(Debug, Default)]
struct Missed {
    session_id: Option<String>,
    messages: VecDeque<Arc<KernelMessage>>,
    bytes: usize,
}

impl Missed {
    fn push(&mut self, message: Arc<KernelMessage>) {
        if self.session_id.is_none() {
            return;
        }
        self.bytes += message.bytes();
        self.messages.push_back(message);
        while self.bytes > MISSED_BYTES_MAX {
            let Some(oldest) = self.messages.pop_front() else { break };
            self.bytes -= oldest.bytes();
        }
    }
}

impl JupyterKernel {
    /// Makes a kernel of a sandbox; returns the requests that a task must answer.
    pub(super) fn new(name: String, session: Arc<Session>) -> (Arc<Self>, mpsc::Receiver<Request>) {
        let (requests, inbox) = mpsc::channel(REQUESTS_MAX);
        let hub = Hub {
            state: ExecutionState::Starting,
            last_activity: Timestamp::now(),
            count: 0,
            sockets: Vec::new(),
            next_socket: 1,
            missed: Missed::default(),
            history: VecDeque::new(),
            history_bytes: 0,
            comms: BTreeMap::new(),
            current: None,
        };
        let kernel = Self {
            id: uuid::Uuid::new_v4().to_string(),
            name,
            tenant: session.tenant().clone(),
            session,
            requests,
            hub: Mutex::new(hub),
        };
        (Arc::new(kernel), inbox)
    }

    fn hub(&self) -> MutexGuard<'_, Hub> {
        // A panic while the lock is held leaves no broken invariant: nothing in between can panic.
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the kernel as clients see it.
    pub(super) fn model(&self) -> Value {
        let hub = self.hub();
        json!({
            "id": self.id,
            "name": self.name,
            "last_activity": hub.last_activity,
            "execution_state": hub.state.name(),
            "connections": hub.sockets.len(),
        })
    }

    /// Adds a socket and returns its number and its queue; `None` if there are too many.
    pub(super) fn join(
        &self,
        session_id: Option<String>,
    ) -> Option<(u64, mpsc::Receiver<Arc<KernelMessage>>)> {
        let (sender, queue) = mpsc::channel(SOCKET_QUEUE_MAX);
        let mut hub = self.hub();
        if hub.sockets.len() >= SOCKETS_MAX {
            return None;
        }
        let state = json!({"execution_state": hub.state.name()});
        let status = KernelMessage::new(Channel::Iopub, "status", &Parent::none(), &state);
        // The queue is empty, so there is room.
        let _ = sender.try_send(Arc::new(status));
        let missed = std::mem::take(&mut hub.missed);
        if missed.session_id.is_some() && missed.session_id == session_id {
            for message in missed.messages {
                // What does not fit is lost, as it would be with a queue of any other bound.
                let _ = sender.try_send(message);
            }
        }
        let number = hub.next_socket;
        hub.next_socket += 1;
        hub.sockets.push(Socket { number, session_id, sender });
        Some((number, queue))
    }

    /// Removes a socket. What is published from now on is kept for its client if it was the last.
    pub(super) fn leave(&self, number: u64) {
        let mut hub = self.hub();
        let Some(at) = hub.sockets.iter().position(|socket| socket.number == number) else {
            return;
        };
        let socket = hub.sockets.remove(at);
        if hub.sockets.is_empty() {
            hub.missed = Missed { session_id: socket.session_id, ..Missed::default() };
        }
    }

    /// Queues a request; returns it if too many wait.
    pub(super) fn submit(&self, request: Request) -> Result<(), Box<Request>> {
        self.requests.try_send(request).map_err(|error| Box::new(error.into_inner()))
    }

    /// Publishes a message to all sockets.
    pub(super) async fn publish(
        &self,
        kind: &'static str,
        parent: &Parent,
        content: &impl Serialize,
    ) {
        self.publish_message(KernelMessage::new(Channel::Iopub, kind, parent, content)).await;
    }

    /// Publishes a message to all sockets.
    pub(super) async fn publish_message(&self, message: KernelMessage) {
        let message = Arc::new(message);
        let senders: Vec<_> = {
            let mut hub = self.hub();
            if hub.sockets.is_empty() {
                hub.missed.push(Arc::clone(&message));
            }
            hub.sockets.iter().map(|socket| (socket.number, socket.sender.clone())).collect()
        };
        for (number, sender) in senders {
            self.send(number, &sender, &message).await;
        }
    }

    /// Sends a message to the socket that asked.
    pub(super) async fn reply(&self, socket: u64, message: KernelMessage) {
        let message = Arc::new(message);
        let sender = {
            let mut hub = self.hub();
            let found = hub.sockets.iter().find(|known| known.number == socket);
            let sender = found.map(|socket| socket.sender.clone());
            if sender.is_none() && hub.sockets.is_empty() {
                hub.missed.push(Arc::clone(&message));
            }
            sender
        };
        if let Some(sender) = sender {
            self.send(socket, &sender, &message).await;
        }
    }

    async fn send(
        &self,
        number: u64,
        sender: &mpsc::Sender<Arc<KernelMessage>>,
        message: &Arc<KernelMessage>,
    ) {
        let sent = tokio::time::timeout(SLOW_PATIENCE, sender.send(Arc::clone(message))).await;
        if !matches!(sent, Ok(Ok(()))) {
            self.leave(number);
        }
    }

    /// Notes and publishes whether the kernel works.
    pub(super) async fn set_state(&self, state: ExecutionState, parent: &Parent) {
        {
            let mut hub = self.hub();
            hub.state = state;
            hub.last_activity = Timestamp::now();
        }
        self.publish("status", parent, &json!({"execution_state": state.name()})).await;
    }

    /// Publishes a state for a request that is answered beside what runs.
    pub(super) async fn publish_state(&self, state: ExecutionState, parent: &Parent) {
        self.publish("status", parent, &json!({"execution_state": state.name()})).await;
    }

    /// Returns whether a cell runs.
    pub(super) fn is_busy(&self) -> bool {
        self.hub().current.is_some()
    }

    /// Closes all sockets.
    pub(super) fn close_sockets(&self) {
        self.hub().sockets.clear();
    }

    /// Counts a cell that is part of the history; returns its number.
    pub(super) fn begin_input(&self, code: &str) -> u64 {
        let mut hub = self.hub();
        hub.count += 1;
        let count = hub.count;
        hub.history_bytes += code.len();
        hub.history.push_back((count, code.to_owned()));
        while hub.history.len() > HISTORY_MAX || hub.history_bytes > HISTORY_BYTES_MAX {
            let Some((_, oldest)) = hub.history.pop_front() else { break };
            hub.history_bytes -= oldest.len();
        }
        count
    }

    /// Returns the number of the last cell.
    pub(super) fn count(&self) -> u64 {
        self.hub().count
    }

    /// Returns the last inputs, oldest first: session, number, code.
    pub(super) fn history(&self, most: usize) -> Vec<(u64, u64, String)> {
        let hub = self.hub();
        let skipped = hub.history.len().saturating_sub(most);
        hub.history.iter().skip(skipped).map(|(count, code)| (0, *count, code.clone())).collect()
    }

    /// Notes a comm that was opened.
    pub(super) fn add_comm(&self, id: &str, target: &str) {
        let mut hub = self.hub();
        if hub.comms.len() < COMMS_MAX {
            hub.comms.insert(id.to_owned(), target.to_owned());
        }
    }

    /// Forgets a comm that was closed.
    pub(super) fn remove_comm(&self, id: &str) {
        self.hub().comms.remove(id);
    }

    /// Returns the open comms, of one target or of all.
    pub(super) fn comms(&self, target: Option<&str>) -> Value {
        let hub = self.hub();
        let is_meant =
            |(_, known): &(&String, &String)| target.is_none_or(|target| target == *known);
        let comms = hub.comms.iter().filter(is_meant);
        comms.map(|(id, target)| (id.clone(), json!({"target_name": target}))).collect()
    }

    /// Notes the cell that runs.
    pub(super) fn set_current(&self, current: Option<(Arc<Cell>, u64)>) {
        self.hub().current = current;
    }

    /// Returns the cell that runs.
    pub(super) fn current(&self) -> Option<(Arc<Cell>, u64)> {
        self.hub().current.clone()
    }

    /// Replaces the interpreter. That it restarts is not published: clients take that for an accident.
    pub(super) async fn restart(&self) -> Result<(), silica_sessions::SessionError> {
        self.hub().state = ExecutionState::Restarting;
        let restarted = self.session.restart_kernel(FIRST_KERNEL).await;
        {
            let mut hub = self.hub();
            hub.count = 0;
            hub.comms.clear();
        }
        self.set_state(ExecutionState::Starting, &Parent::none()).await;
        self.set_state(ExecutionState::Idle, &Parent::none()).await;
        restarted
    }

    /// Ends the sandbox.
    pub(super) async fn shut_down(&self, sessions: &Arc<Sessions>) {
        sessions.delete(Arc::clone(&self.session)).await;
    }
}
