//! A file on its way in: the body of a request, compressed or not, written at constant memory.
//!
//! The body is waited for without a thread. Each piece that is long enough is written on a borrowed one.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use flate2::write::MultiGzDecoder;
use silica_engine::{
    Existing, FileError, FileStat, Files, GuestPath, Metadata, Parents, WriteOptions, Writer,
};
use silica_sessions::{Session, SessionError};
use tokio::sync::mpsc;

use crate::app::App;
use crate::http::files::change;
use crate::http::json::next_piece;
use crate::http::problem::Problem;
use crate::http::transfer::{PIECE_BYTES, Transfer};

/// A body of at most so many bytes needs no permit for a transfer.
const SHORT_BYTES_MAX: usize = 64 * 1024;

/// The compression of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// None.
    Plain,
    /// By gzip.
    Gzip,
}

/// A file on its way in.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) path: GuestPath,
    pub(crate) mode: u32,
    pub(crate) metadata: Metadata,
    pub(crate) encoding: Encoding,
}

/// Writes a file from a body; returns whether it existed before, and its new state. A body that is
/// refused may not have been read to its end.
pub(crate) async fn store(
    app: &App,
    session: &Arc<Session>,
    upload: Upload,
    body: &mut Body,
) -> Result<(bool, FileStat), Problem> {
    let bytes_max = session.disk_bytes();
    let first = gather(app, session, body, SHORT_BYTES_MAX).await?;
    if first.is_last {
        let stored = change(session, move |files| {
            let mut writing = Writing::open(files, &upload, bytes_max)?;
            writing.write(&first.bytes)?;
            writing.finish(files, &upload)
        });
        return stored.await?.ok_or_else(incomplete);
    }
    let _transfer = Transfer::of_session(app, session).await?;
    let upload = Arc::new(upload);
    let opened = Arc::clone(&upload);
    let mut writing = change(session, move |files| {
        let mut writing = Writing::open(files, &opened, bytes_max)?;
        writing.write(&first.bytes)?;
        Ok(writing)
    })
    .await?;
    loop {
        let piece = gather(app, session, body, PIECE_BYTES).await?;
        if piece.is_last {
            let stored = change(session, move |files| {
                writing.write(&piece.bytes)?;
                writing.finish(files, &upload)
            });
            return stored.await?.ok_or_else(incomplete);
        }
        writing = change(session, move |_| {
            writing.write(&piece.bytes)?;
            Ok(writing)
        })
        .await?;
    }
}

fn incomplete() -> Problem {
    Problem::bad("the body ended before it was complete")
}

/// A part of a body.
struct Gathered {
    bytes: Bytes,
    is_last: bool,
}

/// Waits for more than `enough` bytes of a body, or for its end.
async fn gather(
    app: &App,
    session: &Session,
    body: &mut Body,
    enough: usize,
) -> Result<Gathered, Problem> {
    let mut gathered = BytesMut::new();
    while gathered.len() <= enough {
        match next_counted(app, session, body).await? {
            Some(bytes) => gathered.extend_from_slice(&bytes),
            None => return Ok(Gathered { bytes: gathered.freeze(), is_last: true }),
        }
    }
    Ok(Gathered { bytes: gathered.freeze(), is_last: false })
}

/// Waits for the next bytes of a body, and counts them for the key. Ends with the sandbox.
async fn next_counted(
    app: &App,
    session: &Session,
    body: &mut Body,
) -> Result<Option<Bytes>, Problem> {
    let piece = tokio::select! {
        biased;
        piece = next_piece(body) => piece?,
        () = session.ended() => return Err(ended(session)),
    };
    if let Some(piece) = &piece {
        app.sessions.admission().upload(session.tenant(), piece.len() as u64)?;
    }
    Ok(piece)
}

fn ended(session: &Session) -> Problem {
    match session.end_reason() {
        Some(reason) => SessionError::Ended { id: session.id().to_string(), reason }.into(),
        None => incomplete(),
    }
}

/// A file that is being written.
struct Writing {
    sink: Sink,
    existed: bool,
    /// Whether a part of it could not be decompressed. What comes after is not written.
    is_corrupt: bool,
}

enum Sink {
    Plain(Writer),
    Gzip(Box<MultiGzDecoder<Unpacked>>),
}

/// Receives what was decompressed.
struct Unpacked {
    writer: Writer,
    /// Why the file could not be written, which an error of `io::Write` cannot carry.
    failed: Option<FileError>,
}

impl io::Write for Unpacked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.writer.write(bytes) {
            self.failed = Some(error);
            return Err(io::ErrorKind::Other.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writing {
    fn open(files: &Files, upload: &Upload, bytes_max: u64) -> Result<Self, FileError> {
        let options = WriteOptions {
            mode: upload.mode,
            parents: Parents::Create,
            existing: Existing::Replace,
            bytes_max,
        };
        let existed = files.exists(&upload.path)?;
        let writer = files.write(&upload.path, &options)?;
        writer.describe(&upload.metadata)?;
        let sink = match upload.encoding {
            Encoding::Plain => Sink::Plain(writer),
            Encoding::Gzip => {
                Sink::Gzip(Box::new(MultiGzDecoder::new(Unpacked { writer, failed: None })))
            }
        };
        Ok(Self { sink, existed, is_corrupt: false })
    }

    /// Writes a piece. One that cannot be decompressed is refused when the file is finished.
    fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        match &mut self.sink {
            Sink::Plain(writer) => writer.write(bytes),
            Sink::Gzip(decoder) => {
                if self.is_corrupt {
                    return Ok(());
                }
                self.is_corrupt = io::Write::write_all(&mut **decoder, bytes).is_err();
                decoder.get_mut().failed.take().map_or(Ok(()), Err)
            }
        }
    }

    /// Puts the file in its place. Returns `None`, and changes nothing, if it was cut short.
    fn finish(self, files: &Files, upload: &Upload) -> Result<Option<(bool, FileStat)>, FileError> {
        let writer = match self.sink {
            Sink::Plain(writer) => writer,
            Sink::Gzip(_) if self.is_corrupt => return Ok(None),
            Sink::Gzip(decoder) => match decoder.finish() {
                Ok(unpacked) => unpacked.writer,
                Err(_) => return Ok(None),
            },
        };
        writer.finish()?;
        Ok(Some((self.existed, files.stat(&upload.path)?)))
    }
}

/// Sends a body to another thread, piece by piece; an empty piece marks its end.
pub(crate) async fn feed(
    app: &App,
    session: &Session,
    body: &mut Body,
    sender: &mpsc::Sender<Bytes>,
) -> Result<(), Problem> {
    while let Some(bytes) = next_counted(app, session, body).await? {
        if sender.send(bytes).await.is_err() {
            // The receiver has failed, and its own error is returned.
            return Ok(());
        }
    }
    // Fails only if the receiver has failed.
    let _ = sender.send(Bytes::new()).await;
    Ok(())
}

/// Reads the pieces of a body on a thread of its own. A body that was cut short is an error, not an end.
pub(crate) struct Source {
    receiver: mpsc::Receiver<Bytes>,
    piece: Bytes,
    is_complete: bool,
}

impl Source {
    pub(crate) fn new(receiver: mpsc::Receiver<Bytes>) -> Self {
        Self { receiver, piece: Bytes::new(), is_complete: false }
    }
}

impl io::Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() && !self.is_complete {
            match self.receiver.blocking_recv() {
                Some(piece) if piece.is_empty() => self.is_complete = true,
                Some(piece) => self.piece = piece,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let length = into.len().min(self.piece.len());
        into[..length].copy_from_slice(&self.piece.split_to(length));
        Ok(length)
    }
}
