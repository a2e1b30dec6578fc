//! Bytes in both directions, counted, slowed down and ended by the limits.
//!
//! Buffers exist only while bytes are there: an idle connection has none.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::budget::Direction;
use super::connection::OpenConnection;
use super::world::lock;

const BUFFER_BYTES: usize = 64 * 1024;

/// The most buffers that are kept for the next use.
const BUFFERS_MAX: usize = 32;

/// Buffers that no connection uses at the moment.
static BUFFERS: Mutex<Vec<Box<[u8]>>> = Mutex::new(Vec::new());

/// A buffer that goes back when it is dropped.
struct Buffer(Box<[u8]>);

impl Buffer {
    fn take() -> Self {
        let kept = lock(&BUFFERS).pop();
        Self(kept.unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice()))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut buffers = lock(&BUFFERS);
        if buffers.len() < BUFFERS_MAX {
            buffers.push(std::mem::take(&mut self.0));
        }
    }
}

/// Closes a connection so that the other side sees a reset, not an end.
pub(super) fn reset(stream: TcpStream) {
    // If it fails the connection is closed in the usual way.
    let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO));
    drop(stream);
}

/// Passes bytes on until both sides have ended, or one fails. `first` was read from the guest.
pub(super) async fn join(
    open: &OpenConnection,
    guest: TcpStream,
    far: TcpStream,
    first: &[u8],
) -> io::Result<()> {
    let result = async {
        if !first.is_empty() {
            count(open, Direction::Up, first.len()).await?;
            write_all(&far, first).await?;
        }
        let up = pump(open, &guest, &far, Direction::Up);
        let down = pump(open, &far, &guest, Direction::Down);
        tokio::try_join!(up, down).map(drop)
    };
    let result = result.await;
    if result.is_err() {
        reset(guest);
        reset(far);
    }
    result
}

async fn count(open: &OpenConnection, direction: Direction, bytes: usize) -> io::Result<()> {
    let wait = open.spend(direction, bytes).map_err(|refusal| io::Error::other(refusal.code))?;
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    Ok(())
}

async fn pump(
    open: &OpenConnection,
    from: &TcpStream,
    to: &TcpStream,
    direction: Direction,
) -> io::Result<()> {
    loop {
        from.readable().await?;
        let mut buffer = Buffer::take();
        match from.try_read(&mut buffer.0) {
            Ok(0) => {
                // The other side may have closed already.
                let _ = rustix::net::shutdown(to, rustix::net::Shutdown::Write);
                return Ok(());
            }
            Ok(length) => {
                count(open, direction, length).await?;
                write_all(to, &buffer.0[..length]).await?;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn write_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Passes bytes on between streams of any kind. The far one counts its bytes itself; the connection
/// counts as open until this returns.
pub(super) async fn join_streams(
    _open: Arc<OpenConnection>,
    guest: impl AsyncRead + AsyncWrite,
    far: impl AsyncRead + AsyncWrite,
) -> io::Result<()> {
    let (guest_read, guest_write) = tokio::io::split(guest);
    let (far_read, far_write) = tokio::io::split(far);
    let up = pump_stream(guest_read, far_write);
    let down = pump_stream(far_read, guest_write);
    tokio::try_join!(up, down).map(drop)
}

async fn pump_stream(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES / 4];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..length]).await?;
        to.flush().await?;
    }
}
