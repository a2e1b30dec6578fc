//! The host's end of a kernel's control socket.
//!
//! It is watched for reading alone. A socket that is watched for writing too wakes a thread
//! whenever the guest takes a frame out of it, once in every cell and for nothing: what is written
//! nearly always fits. Where it does not, the writer waits for room on a descriptor of its own.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::net::unix::pipe;

/// The most descriptors that are sent at once.
const DESCRIPTORS_MAX: usize = 4;

/// The half that is read. The runtime's pipes are watched in one direction, its sockets in both; to
/// read from one is the same as from the other.
pub(crate) type FromGuestEnd = pipe::Receiver;

/// The half that is written.
#[derive(Debug)]
pub(crate) struct ToGuestEnd(OwnedFd);

/// Takes over a stream socket that does not block.
pub(crate) fn split(socket: OwnedFd) -> io::Result<(FromGuestEnd, ToGuestEnd)> {
    // A duplicate: epoll tells two descriptors of one socket apart by their numbers, so each can be
    // watched for its own events (epoll(7)).
    let to_guest = ToGuestEnd(socket.try_clone()?);
    Ok((pipe::Receiver::from_owned_fd_unchecked(socket)?, to_guest))
}

impl ToGuestEnd {
    /// Writes all of it, waiting for room if there is none.
    pub(crate) async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let left = write_some(self.as_fd(), bytes)?;
        if left.is_empty() { Ok(()) } else { self.write_patiently(left).await }
    }

    /// Sends descriptors with one byte, which the guest waits for.
    pub(crate) fn send_descriptors(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let parts = [io::IoSlice::new(b"d")];
        // The guest has read all that was sent before, so there is room.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(&self.0, &parts, &mut ancillary, flags)?;
        Ok(())
    }

    async fn write_patiently(&self, mut left: &[u8]) -> io::Result<()> {
        // Registered for writing only while a frame waits for room, and gone with this call.
        let room = pipe::Sender::from_owned_fd_unchecked(self.0.try_clone()?)?;
        while !left.is_empty() {
            room.writable().await?;
            match room.try_write(left) {
                Ok(length) => left = &left[length..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsFd for ToGuestEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Writes as much as there is room for; returns the rest.
fn write_some<'a>(socket: BorrowedFd<'_>, mut bytes: &'a [u8]) -> io::Result<&'a [u8]> {
    while !bytes.is_empty() {
        // Without MSG_NOSIGNAL a guest that has closed its end would raise SIGPIPE here (send(2)).
        match rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
