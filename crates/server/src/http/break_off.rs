//! Breaking a response off, so that its client sees that it is not complete.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Extensions;

use super::connection::Connection;

/// How long a client has to read what was sent. A reset discards what it has not read.
const READ_PAUSE: Duration = Duration::from_millis(100);

/// Resets the connection of a response. Some clients take a connection that is only closed for a mistake of the
/// server.
#[derive(Clone, Debug)]
pub(crate) struct BreakOff(Option<Arc<Connection>>);

impl BreakOff {
    /// Returns that of a request.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        // Only a request of a test has no connection.
        Self(extensions.get::<Arc<Connection>>().cloned())
    }

    /// Returns the error with which a body ends, once what came before it was sent.
    pub(crate) async fn error(&self, words: &'static str) -> io::Error {
        // The connection flushes when a body has nothing ready.
        tokio::time::sleep(READ_PAUSE).await;
        if let Some(connection) = &self.0 {
            connection.reset_at_end();
        }
        io::Error::other(words)
    }
}
