//! A provider on loopback: sends prepared answers, and remembers its requests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use serde_json::{Value, json};

/// What it does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A status, headers and a body.
    Status(u16, Vec<(&'static str, String)>, String),
    /// A stream of events that ends as it should.
    Events(Vec<String>),
    /// A stream of events that breaks off.
    Cut(Vec<String>),
    /// Events, and then nothing, for as long as the client waits.
    Silence(Vec<String>),
    /// The same event, for as long as the client listens.
    Endless(String),
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

/// A provider on loopback.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// Hears of each client that left before its answer had ended.
    left: Mutex<mpsc::Receiver<()>>,
}

impl Provider {
    /// One that answers with these, one after the other, and then with the last again and again.
    pub(crate) fn new(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (tell, left) = mpsc::channel();
        let (kept, next) = (Arc::clone(&seen), Arc::new(AtomicUsize::new(0)));
        // It ends with the process, which is the test.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (replies, kept, tell) = (replies.clone(), Arc::clone(&kept), tell.clone());
                let next = Arc::clone(&next);
                std::thread::spawn(move || {
                    let Some(seen) = read(&stream) else { return };
                    kept.lock().expect("no panic").push(seen);
                    let index = next.fetch_add(1, Ordering::SeqCst).min(replies.len() - 1);
                    if answer(stream, &replies[index]).is_none() {
                        // A test that has heard enough is gone.
                        let _ = tell.send(());
                    }
                });
            }
        });
        Self { url, seen, left: Mutex::new(left) }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic").clone()
    }

    /// Waits until a client has left before its answer had ended.
    pub(crate) fn wait_until_left(&self) {
        let left = self.left.lock().expect("no panic");
        left.recv_timeout(std::time::Duration::from_mins(1)).expect("the client leaves");
    }
}

fn read(stream: &TcpStream) -> Option<Seen> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let length = headers.get("content-length")?.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { method, path, headers, body: serde_json::from_slice(&body).ok()? })
}

/// Answers; `None` if the client left before the end.
fn answer(mut stream: TcpStream, reply: &Reply) -> Option<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                transfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    let mut send = |text: &str| stream.write_all(text.as_bytes()).ok();
    let chunk = |event: &str| format!("{:x}\r\n{event}\r\n", event.len());
    match reply {
        Reply::Status(status, headers, body) => {
            let mut text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
            text.extend(headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
            send(&format!(
                "{text}content-type: application/json\r\nconnection: close\r\n\r\n{body}"
            ))
        }
        Reply::Events(events) => {
            send(head)?;
            for event in events {
                send(&chunk(event))?;
            }
            send("0\r\n\r\n")
        }
        Reply::Cut(events) => {
            send(head)?;
            events.iter().try_for_each(|event| send(&chunk(event)))
        }
        Reply::Silence(events) => {
            send(head)?;
            events.iter().try_for_each(|event| send(&chunk(event)))?;
            // Ends when the client hangs up.
            let _ = stream.read(&mut [0]);
            None
        }
        Reply::Endless(event) => {
            send(head)?;
            loop {
                send(&chunk(event))?;
            }
        }
    }
}

/// An event with a name.
pub(crate) fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// How Anthropic says a text, in pieces.
pub(crate) fn anthropic(pieces: &[&str]) -> Vec<String> {
    let usage = json!({"input_tokens": 11, "output_tokens": 1,
                       "cache_read_input_tokens": 5, "cache_creation_input_tokens": 0});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1",
                         "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage});
    let mut events = vec![
        event("message_start", &json!({"type": "message_start", "message": message})),
        event("ping", &json!({"type": "ping"})),
        event(
            "content_block_start",
            &json!({"type": "content_block_start", "index": 0,
                    "content_block": {"type": "text", "text": ""}}),
        ),
    ];
    events.extend(pieces.iter().map(|piece| {
        let delta = json!({"type": "text_delta", "text": piece});
        event(
            "content_block_delta",
            &json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        )
    }));
    events.extend(anthropic_end(0, "end_turn"));
    events
}

/// The end of a message of Anthropic's.
pub(crate) fn anthropic_end(index: u32, reason: &str) -> Vec<String> {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    vec![
        event("content_block_stop", &json!({"type": "content_block_stop", "index": index})),
        event(
            "message_delta",
            &json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}),
        ),
        event("message_stop", &json!({"type": "message_stop"})),
    ]
}

/// A piece of a chat completion.
pub(crate) fn chunk(delta: &Value, reason: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
    let data = json!({"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m-1",
                      "choices": [choice]});
    format!("data: {data}\n\n")
}

/// The end of a chat completion.
pub(crate) fn chat_end() -> Vec<String> {
    let usage = json!({"prompt_tokens": 16, "completion_tokens": 7, "total_tokens": 23});
    let data = json!({"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m-1",
                      "choices": [], "usage": usage});
    vec![format!("data: {data}\n\n"), "data: [DONE]\n\n".to_owned()]
}

/// How others say a text, in pieces.
pub(crate) fn chat(pieces: &[&str]) -> Vec<String> {
    let mut events = vec![chunk(&json!({"role": "assistant", "content": ""}), None)];
    events.extend(pieces.iter().map(|piece| chunk(&json!({"content": piece}), None)));
    events.push(chunk(&json!({}), Some("stop")));
    events.extend(chat_end());
    events
}
