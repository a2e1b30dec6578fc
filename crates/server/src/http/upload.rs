//! A file on its way in: the body of a request, compressed or not, written at constant memory.

use std::io;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use silica_engine::{
    Existing, FileError, FileStat, Files, GuestPath, Metadata, Parents, WriteOptions, Writer,
};
use silica_sessions::Session;
use silica_store::Tenant;
use tokio::sync::mpsc;

use crate::app::App;
use crate::http::download::{CHUNK_BYTES, CHUNKS_WAITING};
use crate::http::problem::{Code, Problem};

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
    session: &Session,
    upload: Upload,
    body: &mut Body,
) -> Result<(bool, FileStat), Problem> {
    let (sender, receiver) = mpsc::channel::<Bytes>(CHUNKS_WAITING);
    let bytes_max = session.disk_bytes();
    let writing = session.change_files(move |files| {
        let source = Source::new(receiver);
        write_from(files, &upload, bytes_max, source)
    })?;
    let fed = feed(app, session.tenant(), body, &sender).await;
    drop(sender);
    let lost = |_| Problem::new(Code::Internal, "the file was not written");
    let written = writing.await.map_err(lost)?;
    // If both failed, the error of the disk is the cause.
    let written = written?;
    fed?;
    written.ok_or_else(|| Problem::bad("the body ended before it was complete"))
}

/// Returns `None`, and changes nothing, if the client disconnected in the middle.
fn write_from(
    files: &Files,
    upload: &Upload,
    bytes_max: u64,
    source: Source,
) -> Result<Option<(bool, FileStat)>, FileError> {
    let options = WriteOptions {
        mode: upload.mode,
        parents: Parents::Create,
        existing: Existing::Replace,
        bytes_max,
    };
    let existed = files.exists(&upload.path)?;
    let mut writer = files.write(&upload.path, &options)?;
    writer.describe(&upload.metadata)?;
    let complete = match upload.encoding {
        Encoding::Plain => copy_plain(source, &mut writer)?,
        Encoding::Gzip => copy_unpacked(source, &mut writer)?,
    };
    if !complete {
        return Ok(None);
    }
    writer.finish()?;
    Ok(Some((existed, files.stat(&upload.path)?)))
}

/// Returns whether the body was complete.
fn copy_plain(mut source: Source, writer: &mut Writer) -> Result<bool, FileError> {
    while let Some(chunk) = source.receiver.blocking_recv() {
        if chunk.is_empty() {
            return Ok(true);
        }
        writer.write(&chunk)?;
    }
    Ok(false)
}

/// Returns whether the body was complete. One that cannot be decompressed is not.
fn copy_unpacked(source: Source, writer: &mut Writer) -> Result<bool, FileError> {
    let mut unpacker = flate2::read::MultiGzDecoder::new(source);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match io::Read::read(&mut unpacker, &mut chunk) {
            Ok(0) => return Ok(true),
            Ok(length) => writer.write(&chunk[..length])?,
            Err(_) => return Ok(false),
        }
    }
}

/// Sends a body to a blocking thread, piece by piece; an empty piece marks its end.
pub(crate) async fn feed(
    app: &App,
    tenant: &Tenant,
    body: &mut Body,
    sender: &mpsc::Sender<Bytes>,
) -> Result<(), Problem> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::bad("the body ended before it was complete"))?;
        let Ok(bytes) = frame.into_data() else { continue };
        if bytes.is_empty() {
            continue;
        }
        app.sessions.admission().upload(tenant, bytes.len() as u64)?;
        if sender.send(bytes).await.is_err() {
            // The writer has failed, and its own error is returned.
            return Ok(());
        }
    }
    // Fails only if the writer has failed.
    let _ = sender.send(Bytes::new()).await;
    Ok(())
}

/// Reads the pieces of a body. A body that was cut short is an error, not an end.
pub(crate) struct Source {
    receiver: mpsc::Receiver<Bytes>,
    chunk: Bytes,
    complete: bool,
}

impl Source {
    pub(crate) fn new(receiver: mpsc::Receiver<Bytes>) -> Self {
        Self { receiver, chunk: Bytes::new(), complete: false }
    }
}

impl io::Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.chunk.is_empty() && !self.complete {
            match self.receiver.blocking_recv() {
                Some(chunk) if chunk.is_empty() => self.complete = true,
                Some(chunk) => self.chunk = chunk,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let length = into.len().min(self.chunk.len());
        into[..length].copy_from_slice(&self.chunk.split_to(length));
        Ok(length)
    }
}
