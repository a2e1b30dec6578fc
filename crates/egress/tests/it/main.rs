//! The real process, with sockets in a network namespace of the test's own and hostile far sides on
//! loopback. The namespace needs root.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod ask;
mod clients;
mod corporate;
mod dns;
mod flood;
mod hostile;
mod http;
mod intercept;
mod lifecycle;
mod limits;
mod rig;
mod secrets;
mod transparent;
