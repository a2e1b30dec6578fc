//! The requests of clients, and how each is answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use silica_sessions::{Completeness, Sessions};
use tokio::sync::mpsc;

use super::execute::{self, Execution};
use super::framing::Received;
use super::kernel::{ExecutionState, FIRST_KERNEL, JupyterKernel, Request};
use super::message::{Channel, KernelMessage, PROTOCOL, Parent};

/// Content of `execute_request`.
#[derive(Debug, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the fields are those of the protocol")]
pub(super) struct ExecuteContent {
    #[serde(default)]
    pub(super) code: String,
    #[serde(default)]
    pub(super) silent: bool,
    #[serde(default = "yes")]
    pub(super) store_history: bool,
    #[serde(default)]
    pub(super) user_expressions: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) allow_stdin: bool,
    #[serde(default = "yes")]
    pub(super) stop_on_error: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodeContent {
    code: String,
    cursor_pos: Option<usize>,
    detail_level: u8,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HistoryContent {
    n: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CommInfoContent {
    target_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputReplyContent {
    value: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ShutdownContent {
    restart: bool,
}

/// Returns the content of a request, or what it would be without any.
fn content<T: DeserializeOwned + Default>(received: &Received) -> T {
    serde_json::from_str(received.content.get()).unwrap_or_default()
}

/// Takes a request from a socket: answers at once what must not wait, and queues the rest.
pub(super) async fn take(
    kernel: &Arc<JupyterKernel>,
    sessions: &Arc<Sessions>,
    socket: u64,
    received: Received,
) {
    let parent = Parent::of(&received.header);
    match received.header.msg_type.as_str() {
        "input_reply" => {
            if let Some((cell, asker)) = kernel.current()
                && asker == socket
            {
                // An error is that the cell has ended, or asks for nothing.
                let _ = cell.input(content::<InputReplyContent>(&received).value);
            }
        }
        "interrupt_request" => {
            // An error is that the sandbox has ended, which its sockets are told.
            let _ = kernel.session.interrupt_kernel(FIRST_KERNEL);
            beside(kernel, socket, &received, "interrupt_reply", &json!({"status": "ok"})).await;
        }
        "shutdown_request" => {
            let restart = content::<ShutdownContent>(&received).restart;
            let reply = json!({"status": "ok", "restart": restart});
            beside(kernel, socket, &received, "shutdown_reply", &reply).await;
            if restart {
                // An error is that the sandbox has ended.
                let _ = kernel.restart().await;
            } else {
                kernel.shut_down(sessions).await;
            }
        }
        "kernel_info_request" => {
            beside(kernel, socket, &received, "kernel_info_reply", &info()).await;
        }
        _ => {
            if let Err(refused) = kernel.submit(Request { socket, received }) {
                refuse(kernel, &refused, &parent).await;
            }
        }
    }
}

/// Answers a request beside what runs.
async fn beside(
    kernel: &JupyterKernel,
    socket: u64,
    received: &Received,
    kind: &'static str,
    reply: &Value,
) {
    let parent = Parent::of(&received.header);
    kernel.publish_state(ExecutionState::Busy, &parent).await;
    kernel.reply(socket, KernelMessage::new(received.channel, kind, &parent, reply)).await;
    let after = if kernel.is_busy() { ExecutionState::Busy } else { ExecutionState::Idle };
    kernel.publish_state(ExecutionState::Idle, &parent).await;
    if after == ExecutionState::Busy {
        // The last state that a client sees is that of the kernel.
        kernel.publish_state(after, &Parent::none()).await;
    }
}

/// Tells a client that its request is not taken.
async fn refuse(kernel: &JupyterKernel, request: &Request, parent: &Parent) {
    let Some(kind) = reply_kind(&request.received.header.msg_type) else { return };
    let reply = json!({
        "status": "error", "ename": "QueueFull", "evalue": "too many requests wait for this kernel",
        "traceback": [], "execution_count": kernel.count(),
    });
    let channel = request.received.channel;
    kernel.reply(request.socket, KernelMessage::new(channel, kind, parent, &reply)).await;
    kernel.publish_state(ExecutionState::Idle, parent).await;
}

/// Returns the type of the reply to a request.
fn reply_kind(request: &str) -> Option<&'static str> {
    Some(match request {
        "execute_request" => "execute_reply",
        "complete_request" => "complete_reply",
        "inspect_request" => "inspect_reply",
        "is_complete_request" => "is_complete_reply",
        "history_request" => "history_reply",
        "comm_info_request" => "comm_info_reply",
        _ => return None,
    })
}

/// Answers the requests of a kernel one after the other, until its sandbox ends.
pub(super) async fn serve(kernel: Arc<JupyterKernel>, mut inbox: mpsc::Receiver<Request>) {
    kernel.set_state(ExecutionState::Idle, &Parent::none()).await;
    loop {
        let request = tokio::select! {
            request = inbox.recv() => request,
            () = kernel.session.ended() => None,
        };
        let Some(request) = request else { break };
        let failed = answer(&kernel, request).await;
        if failed {
            abort_waiting(&kernel, &mut inbox).await;
        }
    }
    kernel.set_state(ExecutionState::Dead, &Parent::none()).await;
    kernel.close_sockets();
}

/// Answers one request. Returns whether requests that wait are not to be run.
async fn answer(kernel: &Arc<JupyterKernel>, request: Request) -> bool {
    let Request { socket, received } = request;
    let parent = Parent::of(&received.header);
    kernel.set_state(ExecutionState::Busy, &parent).await;
    let execution = Execution { kernel, socket, parent: &parent, channel: received.channel };
    let mut abort = false;
    match received.header.msg_type.as_str() {
        "execute_request" => {
            abort = match serde_json::from_str::<ExecuteContent>(received.content.get()) {
                Ok(content) => execution.run(content).await,
                Err(_) => execution.refuse_content().await,
            };
        }
        "comm_open" | "comm_msg" | "comm_close" => execution.comm(&received).await,
        kind => {
            if let (Some(kind), Some(reply)) =
                (reply_kind(kind), looked_up(kernel, &received).await)
            {
                let message = KernelMessage::new(received.channel, kind, &parent, &reply);
                kernel.reply(socket, message).await;
            }
        }
    }
    kernel.set_state(ExecutionState::Idle, &parent).await;
    abort
}

/// Returns the reply to a request that runs no cell; `None` for one that is not known.
async fn looked_up(kernel: &JupyterKernel, received: &Received) -> Option<Value> {
    let session = &kernel.session;
    Some(match received.header.msg_type.as_str() {
        "complete_request" => {
            let CodeContent { code, cursor_pos, .. } = content(received);
            let before: String = code.chars().take(cursor_pos.unwrap_or(usize::MAX)).collect();
            let end = before.chars().count();
            let found = session.complete(Some(FIRST_KERNEL), &before).await.unwrap_or_default();
            json!({
                "status": "ok", "matches": found.matches, "cursor_start": found.start.min(end),
                "cursor_end": end, "metadata": {},
            })
        }
        "inspect_request" => {
            let CodeContent { code, cursor_pos, detail_level } = content(received);
            let cursor = cursor_pos.unwrap_or(usize::MAX);
            let found = session.inspect(Some(FIRST_KERNEL), &code, cursor, detail_level).await;
            let text = found.ok().flatten();
            let data = text.as_ref().map_or_else(|| json!({}), |text| json!({"text/plain": text}));
            json!({"status": "ok", "found": text.is_some(), "data": data, "metadata": {}})
        }
        "is_complete_request" => {
            let CodeContent { code, .. } = content(received);
            match session.is_complete(Some(FIRST_KERNEL), &code).await {
                Ok(Completeness::Incomplete { indent }) => {
                    json!({"status": "incomplete", "indent": indent})
                }
                Ok(Completeness::Complete) => json!({"status": "complete"}),
                Ok(Completeness::Invalid) => json!({"status": "invalid"}),
                Err(_) => json!({"status": "unknown"}),
            }
        }
        "history_request" => {
            let most = content::<HistoryContent>(received).n.unwrap_or(usize::MAX);
            json!({"status": "ok", "history": kernel.history(most)})
        }
        "comm_info_request" => {
            let CommInfoContent { target_name } = content(received);
            json!({"status": "ok", "comms": kernel.comms(target_name.as_deref())})
        }
        _ => return None,
    })
}

/// Answers what waits after a failed cell: cells are not run.
async fn abort_waiting(kernel: &Arc<JupyterKernel>, inbox: &mut mpsc::Receiver<Request>) {
    let mut waiting = Vec::new();
    while let Ok(request) = inbox.try_recv() {
        waiting.push(request);
    }
    for request in waiting {
        if request.received.header.msg_type != "execute_request" {
            answer(kernel, request).await;
            continue;
        }
        let parent = Parent::of(&request.received.header);
        kernel.set_state(ExecutionState::Busy, &parent).await;
        let reply = json!({"status": "aborted", "execution_count": kernel.count()});
        let message =
            KernelMessage::new(request.received.channel, "execute_reply", &parent, &reply);
        kernel.reply(request.socket, message).await;
        kernel.set_state(ExecutionState::Idle, &parent).await;
    }
}

/// Returns what the kernel says about itself.
fn info() -> Value {
    json!({
        "status": "ok",
        "protocol_version": PROTOCOL,
        "implementation": "silica",
        "implementation_version": env!("CARGO_PKG_VERSION"),
        "language_info": {
            "name": "python",
            "version": execute::PYTHON_VERSION,
            "mimetype": "text/x-python",
            "file_extension": ".py",
            "pygments_lexer": "ipython3",
            "codemirror_mode": {"name": "ipython", "version": 3},
            "nbconvert_exporter": "python",
        },
        "banner": concat!("Silica ", env!("CARGO_PKG_VERSION")),
        "help_links": [],
        "supported_features": [],
    })
}

/// The channel on which input is asked for.
pub(super) const STDIN: Channel = Channel::Stdin;
