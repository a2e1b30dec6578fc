//! Changing names and directories, and watching, as `filesystem.Filesystem` of Connect.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Extensions, HeaderMap};
use axum::response::IntoResponse;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use silica_domain::WatcherId;
use silica_engine::{
    FileError, GuestPath, Happening, Made, Notice, Overwrite, Parents, Reach, Removal,
};
use silica_sessions::{FileWatch, Session};

use super::access::{E2bJson, EnvdSession};
use super::entries::{PathMessage, look};
use super::error::{E2bError, E2bResult, SANDBOX_ENDED};
use super::frames::{self, Frames};
use super::paths;
use super::process::ping;
use crate::app::App;
use crate::http::break_off::BreakOff;
use crate::http::files::{change, read};
use crate::http::in_flight::InFlight;
use crate::http::json::Answer;
use crate::http::long_answer::{Holding, LongText, hold, long_answer};
use crate::http::problem::{Code, Problem};

/// `MakeDir`
pub(super) async fn make_directory(
    EnvdSession(session): EnvdSession,
    E2bJson(message): E2bJson<PathMessage>,
) -> E2bResult {
    let path = paths::guest(&message.path)?;
    let shown = path.to_string();
    let (made, entry) = change(&session, move |files| {
        let made = files.make_directory(&path, Parents::Create)?;
        Ok((made, look(&files.into(), &path)?))
    })
    .await?;
    match made {
        Made::Created => Ok(Answer(json!({"entry": entry})).into_response()),
        Made::Existed => {
            let words = format!("directory already exists: {shown}");
            Err(Problem::new(Code::Conflict, words).into())
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct MoveMessage {
    source: String,
    destination: String,
}

/// `Move`: creates parent directories, and replaces the destination.
pub(super) async fn rename(
    EnvdSession(session): EnvdSession,
    E2bJson(message): E2bJson<MoveMessage>,
) -> E2bResult {
    let from = paths::guest(&message.source)?;
    let to = paths::guest(&message.destination)?;
    let entry = change(&session, move |files| {
        files.stat(&from)?;
        if let Some((parent, _)) = to.to_string().rsplit_once('/') {
            files.make_directory(&GuestPath::parse(parent)?, Parents::Create)?;
        }
        files.rename(&from, &to, Overwrite::Replace)?;
        look(&files.into(), &to)
    })
    .await?;
    Ok(Answer(json!({"entry": entry})).into_response())
}

/// `Remove`: succeeds if there is nothing to remove.
pub(super) async fn remove(
    EnvdSession(session): EnvdSession,
    E2bJson(message): E2bJson<PathMessage>,
) -> E2bResult {
    let path = paths::guest(&message.path)?;
    change(&session, move |files| match files.remove(&path, Removal::Tree) {
        Ok(_) | Err(FileError::Missing(_)) => Ok(()),
        Err(error) => Err(error),
    })
    .await?;
    Ok(Answer(json!({})).into_response())
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WatchMessage {
    path: String,
    recursive: bool,
    include_entry: bool,
}

impl WatchMessage {
    fn reach(&self) -> Reach {
        if self.recursive { Reach::Tree } else { Reach::Directory }
    }
}

/// Renders a change of files as E2B does.
async fn event(session: &Session, root: &GuestPath, notice: Notice, with_entry: bool) -> Value {
    let kind = match notice.happening {
        Happening::Created => "EVENT_TYPE_CREATE",
        Happening::Written => "EVENT_TYPE_WRITE",
        Happening::Removed => "EVENT_TYPE_REMOVE",
        Happening::Renamed => "EVENT_TYPE_RENAME",
        Happening::Changed => "EVENT_TYPE_CHMOD",
    };
    let mut event = json!({"name": notice.name, "type": kind});
    if let (true, Ok(path)) = (with_entry, root.join(&notice.name)) {
        // A file that was removed since has no entry.
        if let Ok(entry) = read(session, move |files| look(files, &path)).await {
            event["entry"] = entry;
        }
    }
    event
}

/// `WatchDir`: streams changes as they happen.
pub(super) async fn watch(
    State(app): State<App>,
    EnvdSession(session): EnvdSession,
    headers: HeaderMap,
    extensions: Extensions,
    body: Body,
) -> E2bResult {
    let mut frames = Frames::of(body, app.options.body_bytes_max, InFlight::of(&extensions));
    let message: WatchMessage =
        frames.next().await?.ok_or_else(|| E2bError::bad("there is no message"))?;
    let root = paths::guest(&message.path)?;
    let watching = session.watch(&root, message.reach()).await?;
    let watched = WatchStream {
        session,
        root,
        watching,
        with_entry: message.include_entry,
        ping: ping(&headers),
        stage: Stage::Start,
        break_off: BreakOff::of(&extensions),
    };
    let pieces = futures_util::stream::unfold(watched, |mut watched| async move {
        let piece = watched.next().await?;
        Some((piece, watched))
    });
    Ok(frames::stream(pieces))
}

/// The progress of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Start,
    Middle,
    Over,
}

struct WatchStream {
    session: Arc<Session>,
    root: GuestPath,
    watching: FileWatch,
    with_entry: bool,
    ping: Duration,
    stage: Stage,
    break_off: BreakOff,
}

impl WatchStream {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let mut chunk = Vec::new();
        match self.stage {
            Stage::Over => return None,
            Stage::Start => {
                self.stage = Stage::Middle;
                frames::message(&mut chunk, &json!({"start": {}}));
            }
            Stage::Middle => {
                let ended = self.session.ended();
                let next = tokio::time::timeout(self.ping, self.watching.next());
                tokio::select! {
                    biased;
                    next = next => self.write(&mut chunk, next.ok()).await,
                    () = ended => {
                        self.stage = Stage::Over;
                        return Some(Err(self.break_off.error(SANDBOX_ENDED).await));
                    }
                }
            }
        }
        Some(Ok(chunk.into()))
    }

    async fn write(&mut self, chunk: &mut Vec<u8>, next: Option<Result<Notice, FileError>>) {
        match next {
            None => frames::message(chunk, &json!({"keepalive": {}})),
            Some(Ok(notice)) => {
                let event = event(&self.session, &self.root, notice, self.with_entry).await;
                frames::message(chunk, &json!({"filesystem": event}));
            }
            Some(Err(error)) => {
                frames::failed(chunk, &E2bError::from(error).in_stream());
                self.stage = Stage::Over;
            }
        }
    }
}

/// `CreateWatcher`: buffers changes until the client polls.
pub(super) async fn create_watcher(
    EnvdSession(session): EnvdSession,
    E2bJson(message): E2bJson<WatchMessage>,
) -> E2bResult {
    let watcher = session.create_watcher(&paths::guest(&message.path)?, message.reach()).await?;
    let id = if message.include_entry {
        format!("{}{WITH_ENTRY}", watcher.id)
    } else {
        watcher.id.to_string()
    };
    Ok(Answer(json!({"watcherId": id})).into_response())
}

/// The suffix of the id of a watcher whose events carry the entry of the file.
const WITH_ENTRY: &str = "e";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WatcherMessage {
    watcher_id: String,
}

impl WatcherMessage {
    /// Returns the watcher's own id, and whether events carry entries.
    fn split(&self) -> (&str, bool) {
        match self.watcher_id.strip_suffix(WITH_ENTRY) {
            Some(id) => (id, true),
            None => (&self.watcher_id, false),
        }
    }
}

/// The most events in one response. A client that polls again gets the next ones.
const EVENTS_MAX: usize = 1000;

/// What the events of one response count in memory: paths and entries are short.
const EVENTS_BYTES: u64 = 1 << 20;

/// Events that a client polled.
#[derive(Debug, Serialize)]
struct PolledEvents {
    events: Vec<Value>,
}

impl LongText for PolledEvents {
    fn bytes_least(&self) -> u64 {
        0
    }
}

/// `GetWatcherEvents`
pub(super) async fn events(
    State(app): State<App>,
    EnvdSession(session): EnvdSession,
    E2bJson(message): E2bJson<WatcherMessage>,
) -> E2bResult {
    let (id, with_entry) = message.split();
    let watcher = session.watcher(WatcherId::parse(id)?)?;
    let mut events = Vec::new();
    // Counted first: events that are taken and then refused would be lost.
    let held = hold(&app, session.tenant(), EVENTS_BYTES)?;
    for notice in watcher.take(EVENTS_MAX)? {
        events.push(event(&session, &watcher.path, notice, with_entry).await);
    }
    let value = PolledEvents { events };
    Ok(long_answer(&app, session.tenant(), Holding { value, _held: held }).await?)
}

/// `RemoveWatcher`
pub(super) async fn remove_watcher(
    EnvdSession(session): EnvdSession,
    E2bJson(message): E2bJson<WatcherMessage>,
) -> E2bResult {
    session.delete_watcher(WatcherId::parse(message.split().0)?)?;
    Ok(Answer(json!({})).into_response())
}
