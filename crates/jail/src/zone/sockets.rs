//! Sockets, addresses and routes, made in the network namespace that the calling thread is in.
//!
//! None of the sockets has `SO_REUSEPORT`, and no datagram socket `SO_REUSEADDR`: with either a
//! guest that sets it too could bind to the address of one of ours and receive in its place.
//!
//! Tests: `tests/it/engine/sockets.rs`.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, listen, recv, sendto,
    socket_with,
};

use crate::protocol::{LocalPrefix, SYNTHETIC, ZoneSocket};
use crate::sys;

/// Makes every address of [`SYNTHETIC`] local.
pub(crate) fn add_synthetic() -> io::Result<()> {
    let first = Ipv4Addr::from_bits(SYNTHETIC.address.to_bits() + 1);
    sys::loopback_alias(first, SYNTHETIC.length)
}

/// Makes a socket.
pub(crate) fn open(spec: &ZoneSocket) -> io::Result<OwnedFd> {
    match *spec {
        ZoneSocket::Stream => unbound(SocketType::STREAM),
        ZoneSocket::Listener { address, backlog } => listener(address, backlog),
        ZoneSocket::Datagram { address } => {
            let socket = unbound(SocketType::DGRAM)?;
            bind(&socket, &address)?;
            Ok(socket)
        }
    }
}

fn listener(address: SocketAddrV4, backlog: u16) -> io::Result<OwnedFd> {
    let socket = unbound(SocketType::STREAM)?;
    // Else the port of a listener that was closed could not be used while its last connections
    // time out. The kernel lets no second socket bind to a port on which one listens.
    set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, backlog.into())?;
    Ok(socket)
}

fn unbound(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::INET, kind, flags, None)?)
}

/// Makes every address of these ranges local. A range that is local already stays so.
pub(crate) fn add_local(prefixes: &[LocalPrefix]) -> io::Result<()> {
    if prefixes.is_empty() {
        return Ok(());
    }
    let flags = SocketFlags::CLOEXEC;
    // No protocol is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    for prefix in prefixes {
        match route(&socket, *prefix) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            other => other?,
        }
    }
    Ok(())
}

/// The length of `nlmsghdr`; netlink(7).
const HEADER_BYTES: usize = 16;
/// The length of `rtmsg`; rtnetlink(7).
const ROUTE_BYTES: usize = 12;
/// The length of a `rtattr` with four bytes.
const ATTRIBUTE_BYTES: usize = 8;
const MESSAGE_BYTES: usize = HEADER_BYTES + ROUTE_BYTES + 2 * ATTRIBUTE_BYTES;

/// The index of the loopback interface, the first of every network namespace.
const LOOPBACK_INDEX: u32 = 1;

/// More than the kernel's reply to one message: a header, an error number, the message itself.
const REPLY_BYTES_MAX: usize = 1024;

/// Adds a route of type `local` over loopback for a range.
fn route(socket: &OwnedFd, prefix: LocalPrefix) -> io::Result<()> {
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(socket, &local_route(prefix), SendFlags::empty(), &kernel)?;
    let mut reply = [0; REPLY_BYTES_MAX];
    // The kernel has handled the message by the time `sendto` returns, so its reply is there.
    let (length, _) = recv(socket, &mut reply[..], RecvFlags::DONTWAIT)?;
    acknowledged(&reply[..length])
}

/// Returns the message that asks for the route.
fn local_route(prefix: LocalPrefix) -> [u8; MESSAGE_BYTES] {
    let kind = libc::RTM_NEWROUTE;
    // Fails if there is such a route, rather than replacing one that the kernel made.
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut message = [0; MESSAGE_BYTES];
    message[0..4].copy_from_slice(&(MESSAGE_BYTES as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
    // Of `rtmsg`: family, length of the destination, table, protocol, scope, type.
    message[HEADER_BYTES] = libc::AF_INET as u8;
    message[HEADER_BYTES + 1] = prefix.length;
    message[HEADER_BYTES + 4] = libc::RT_TABLE_LOCAL;
    message[HEADER_BYTES + 5] = libc::RTPROT_STATIC;
    message[HEADER_BYTES + 6] = libc::RT_SCOPE_HOST;
    message[HEADER_BYTES + 7] = libc::RTN_LOCAL;
    let attributes =
        [(libc::RTA_DST, prefix.address.octets()), (libc::RTA_OIF, LOOPBACK_INDEX.to_ne_bytes())];
    let places = message[HEADER_BYTES + ROUTE_BYTES..].chunks_exact_mut(ATTRIBUTE_BYTES);
    for (place, (kind, value)) in places.zip(attributes) {
        place[0..2].copy_from_slice(&(ATTRIBUTE_BYTES as u16).to_ne_bytes());
        place[2..4].copy_from_slice(&kind.to_ne_bytes());
        place[4..8].copy_from_slice(&value);
    }
    message
}

/// Reads the kernel's reply: the number of an error after the header, 0 for none.
fn acknowledged(reply: &[u8]) -> io::Result<()> {
    let malformed = || io::Error::from_raw_os_error(libc::EPROTO);
    let kind = reply.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    if kind.map(i32::from) != Some(libc::NLMSG_ERROR) {
        return Err(malformed());
    }
    let number = reply.get(HEADER_BYTES..HEADER_BYTES + 4);
    match number.and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        None => Err(malformed()),
    }
}
