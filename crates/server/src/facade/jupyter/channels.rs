//! The WebSocket of a kernel: frames in, frames out, and a sign of life every now and then.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::auth::Visit;
use super::framing::{self, FRAME_BYTES_MAX, Framing, V1};
use super::kernel::JupyterKernel;
use super::kernels::named;
use super::message::KernelMessage;
use super::requests;
use crate::http::connection::Connection;
use crate::http::problem::{Code, Problem};

/// How often a ping is sent.
const PING_PAUSE: Duration = Duration::from_secs(30);

/// How long a client may be silent: three pings without an answer.
const SILENCE_MAX: Duration = Duration::from_secs(100);

/// How long a client may take to read a frame.
const SEND_PATIENCE: Duration = Duration::from_secs(30);

/// The longest id of a client's session.
const SESSION_ID_BYTES_MAX: usize = 256;

/// `GET /api/kernels/{kernel}/channels`
pub(super) async fn open(visit: Visit, request: Request) -> Result<Response, Problem> {
    let kernel = named(&visit)?;
    let (mut parts, _) = request.into_parts();
    let connection = parts.extensions.get::<Arc<Connection>>().cloned();
    let session_id = session_id(parts.uri.query().unwrap_or_default());
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &visit.app).await;
    let upgrade = upgrade.map_err(|_| Problem::bad("this route is for WebSockets"))?;
    let upgrade =
        upgrade.protocols([V1]).max_message_size(FRAME_BYTES_MAX).max_frame_size(FRAME_BYTES_MAX);
    let framing = match upgrade.selected_protocol() {
        Some(protocol) if protocol == V1 => Framing::V1,
        _ => Framing::Json,
    };
    let (number, queue) = kernel.join(session_id).ok_or_else(|| {
        Problem::new(Code::QuotaExceeded, "the kernel has as many connections as it may")
    })?;
    let leaving = Leaving { kernel: Arc::clone(&kernel), number };
    let response = upgrade.on_upgrade(move |socket| async move {
        // Counts for the key as long as the socket is open.
        let _connection = connection;
        serve(visit, kernel, number, framing, socket, queue).await;
        drop(leaving);
    });
    Ok(response.into_response())
}

/// Removes a socket from its kernel when it is dropped, also if the upgrade never happens.
struct Leaving {
    kernel: Arc<JupyterKernel>,
    number: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.kernel.leave(self.number);
    }
}

fn session_id(query: &str) -> Option<String> {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query).ok()?;
    let (_, id) = pairs.into_iter().find(|(name, _)| name == "session_id")?;
    (!id.is_empty() && id.len() <= SESSION_ID_BYTES_MAX).then_some(id)
}

async fn serve(
    visit: Visit,
    kernel: Arc<JupyterKernel>,
    number: u64,
    framing: Framing,
    socket: WebSocket,
    queue: mpsc::Receiver<Arc<KernelMessage>>,
) {
    let (sink, stream) = socket.split();
    // The two halves do not wait for each other: a client that sends and does not read is closed for
    // not reading, and meanwhile its interrupts are taken.
    let reading = read(&visit, &kernel, number, framing, stream);
    tokio::select! {
        () = reading => {}
        () = write(sink, framing, queue) => {}
    }
}

async fn read(
    visit: &Visit,
    kernel: &Arc<JupyterKernel>,
    number: u64,
    framing: Framing,
    mut stream: SplitStream<WebSocket>,
) {
    loop {
        let next = tokio::time::timeout(SILENCE_MAX, stream.next()).await;
        let Ok(Some(Ok(message))) = next else { return };
        let received = match &message {
            Message::Text(text) => framing::decode_text(framing, text),
            Message::Binary(bytes) => framing::decode_binary(framing, bytes),
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => return,
        };
        // A frame that is no message says that the two sides do not speak alike.
        let Ok(received) = received else { return };
        // Each message counts as a request of the key, so that a flood is slowed like any other.
        if visit.app.sessions.admission().request(&visit.caller.tenant).await.is_err() {
            return;
        }
        requests::take(kernel, &visit.app.sessions, number, received).await;
    }
}

async fn write(
    mut sink: SplitSink<WebSocket, Message>,
    framing: Framing,
    mut queue: mpsc::Receiver<Arc<KernelMessage>>,
) {
    let mut pings = tokio::time::interval_at(Instant::now() + PING_PAUSE, PING_PAUSE);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let frame = tokio::select! {
            message = queue.recv() => match message {
                Some(message) => framing::encode(framing, &message),
                // The kernel has ended, or has waited too long for this socket.
                None => Message::Close(Some(CloseFrame {
                    code: close_code::AWAY,
                    reason: "the kernel has ended".into(),
                })),
            },
            _ = pings.tick() => Message::Ping(Vec::new().into()),
        };
        let is_last = matches!(frame, Message::Close(_));
        let sent = tokio::time::timeout(SEND_PATIENCE, sink.send(frame)).await;
        if is_last || !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}
