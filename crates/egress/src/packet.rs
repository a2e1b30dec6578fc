//! Messages over a `SOCK_SEQPACKET` socket: JSON in one or more packets, with descriptors.
//!
//! The first byte of a packet says whether more of its message follows. Descriptors come with the
//! last packet. Both ends are of this crate, so what does not parse is an error that ends the
//! process.

#[cfg(test)]
mod tests;

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Mutex;

/// The longest part of a message in one packet.
const PART_BYTES_MAX: usize = 60 * 1024;

/// The longest message.
const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The most descriptors of one message.
pub(crate) const FDS_MAX: usize = 32;

const LAST: u8 = 0;
const MORE: u8 = 1;

/// One end of the socket. One task receives; any task sends.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    /// A `UnixStream` only to wait with: packets are sent and received by `sendmsg` and `recvmsg`.
    socket: UnixStream,
    /// Keeps the packets of one message together.
    sending: Mutex<()>,
}

/// Returns two connected ends, the second for a child process.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

impl PacketSocket {
    /// Takes an end over. It must be called within a runtime.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self { socket: UnixStream::from_std(socket)?, sending: Mutex::new(()) })
    }

    /// Sends one message.
    pub(crate) async fn send(
        &self,
        message: &impl Serialize,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = serde_json::to_vec(message).map_err(io::Error::other)?;
        if bytes.len() > MESSAGE_BYTES_MAX || fds.len() > FDS_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"));
        }
        let _sending = self.sending.lock().await;
        let mut parts = bytes.chunks(PART_BYTES_MAX).peekable();
        while let Some(part) = parts.next() {
            let last = parts.peek().is_none();
            let mark = [if last { LAST } else { MORE }];
            let fds = if last { fds } else { &[] };
            let send = || send_packet(self.socket.as_fd(), &mark, part, fds);
            self.socket.async_io(Interest::WRITABLE, send).await?;
        }
        Ok(())
    }

    /// Receives one message; `None` when the other end is closed. Dropping the future between two
    /// packets of a message would lose it, so its caller must not.
    pub(crate) async fn receive<T: DeserializeOwned>(
        &self,
    ) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut message = Vec::new();
        loop {
            let received = self.receive_packet().await?;
            let Some((packet, fds)) = received else {
                return Ok(None);
            };
            let [mark, part @ ..] = packet.as_slice() else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            message.extend_from_slice(part);
            if message.len() > MESSAGE_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if *mark == LAST {
                let parsed = serde_json::from_slice(&message);
                return parsed
                    .map(|message| Some((message, fds)))
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }
}

fn send_packet(
    socket: BorrowedFd<'_>,
    mark: &[u8],
    part: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    let parts = [IoSlice::new(mark), IoSlice::new(part)];
    Ok(rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL).map(drop)?)
}

/// The bytes of a packet and its descriptors.
type Packet = (Vec<u8>, Vec<OwnedFd>);

impl PacketSocket {
    async fn receive_packet(&self) -> io::Result<Option<Packet>> {
        let receive = || receive_packet(self.socket.as_fd());
        self.socket.async_io(Interest::READABLE, receive).await
    }
}

fn receive_packet(socket: BorrowedFd<'_>) -> io::Result<Option<Packet>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut packet = vec![0; PART_BYTES_MAX + 1];
    let mut parts = [IoSliceMut::new(&mut packet)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match rustix::net::recvmsg(socket, &mut parts, &mut ancillary, flags) {
            // The other end was closed before it had read everything. The kernel says so once, and
            // then returns what was sent.
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNRESET) => {}
            other => break other?,
        }
    };
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    if received.bytes == 0 && fds.is_empty() {
        return Ok(None);
    }
    packet.truncate(received.bytes);
    Ok(Some((packet, fds)))
}
