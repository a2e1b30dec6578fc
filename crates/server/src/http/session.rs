//! The one lookup of a sandbox that a request names.

use std::sync::Arc;

use silica_sessions::Session;
use silica_store::Tenant;

use crate::app::App;

/// Who asks for a sandbox.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Requester<'a> {
    /// The holder of a key: finds its own sandboxes only.
    Tenant(&'a Tenant),
    /// The holder of a token or signature of that one sandbox, which the caller has yet to check.
    TokenHolder,
}

/// A sandbox that is there.
#[derive(Debug)]
pub(crate) enum Found {
    /// It takes requests.
    Live(Arc<Session>),
    /// It has begun to end: operations on it fail with the reason.
    Ending(Arc<Session>),
}

impl Found {
    /// Returns the sandbox only if it takes requests.
    pub(crate) fn live(self) -> Option<Arc<Session>> {
        match self {
            Self::Live(session) => Some(session),
            Self::Ending(_) => None,
        }
    }
}

/// Looks up a sandbox by its id.
pub(crate) fn find(app: &App, requester: Requester<'_>, id: &str) -> Option<Found> {
    let found = match requester {
        Requester::Tenant(tenant) => app.sessions.find(tenant, id).ok(),
        Requester::TokenHolder => app.sessions.find_unchecked(id),
    };
    found.map(classify)
}

/// Looks up the sandbox that a token or signature belongs to, of which no id is given.
pub(crate) fn find_by(app: &App, is_meant: impl Fn(&Session) -> bool) -> Option<Arc<Session>> {
    let mut all = app.sessions.all().into_iter();
    let found = all.find(|session| is_meant(session))?;
    classify(found).live()
}

fn classify(session: Arc<Session>) -> Found {
    if session.end_reason().is_none() { Found::Live(session) } else { Found::Ending(session) }
}
