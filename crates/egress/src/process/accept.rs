//! The first sockets of a sandbox, and the connections that they accept.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::refusal::Refusal;
use super::sandbox::Sandbox;
use super::world::lock;
use super::{carry, listeners, lookup, proxy, tunnel};
use crate::events::ConnectionKind;

/// The pause after a failed accept, such as for lack of descriptors.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// The buffers of a guest's connection, which count as the host's memory.
const SOCKET_BUFFER_BYTES: usize = 256 * 1024;

/// What a listener is.
#[derive(Clone, Copy)]
enum Role {
    Dns,
    Proxy,
    /// It looks like this port of the far side.
    Port(u16),
}

/// Starts to serve the first sockets of a sandbox.
pub(super) fn start(sandbox: &Arc<Sandbox>, fds: Vec<OwnedFd>) -> io::Result<()> {
    let mut fds = fds.into_iter();
    let mut next = || fds.next().ok_or_else(|| io::Error::other("too few sockets"));
    let datagrams = std::net::UdpSocket::from(next()?);
    datagrams.set_nonblocking(true)?;
    let datagrams = UdpSocket::from_std(datagrams)?;
    let roles = [Role::Dns, Role::Proxy, Role::Port(80), Role::Port(443)];
    let mut accepting = Vec::new();
    for role in roles {
        accepting.push((listener(next()?)?, role));
    }
    *lock(&sandbox.spares) = fds.collect();
    sandbox.spawn(lookup::answer_datagrams(Arc::clone(sandbox), datagrams));
    for (listener, role) in accepting {
        sandbox.spawn(accept(Arc::clone(sandbox), listener, role));
    }
    listeners::restore_listeners(sandbox);
    listeners::open_ranges(sandbox);
    Ok(())
}

pub(super) fn listener(fd: OwnedFd) -> io::Result<TcpListener> {
    use rustix::net::sockopt;
    // Accepted connections inherit them.
    sockopt::set_socket_recv_buffer_size(&fd, SOCKET_BUFFER_BYTES)?;
    sockopt::set_socket_send_buffer_size(&fd, SOCKET_BUFFER_BYTES)?;
    let listener = std::net::TcpListener::from(fd);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Serves a listener that looks like a port of the far side.
pub(super) fn serve_port(sandbox: &Arc<Sandbox>, listener: TcpListener, port: u16) {
    sandbox.spawn(accept(Arc::clone(sandbox), listener, Role::Port(port)));
}

async fn accept(sandbox: Arc<Sandbox>, listener: TcpListener, role: Role) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => take(&sandbox, stream, role),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of a sandbox");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Gives a connection a place among the limits and a task.
fn take(sandbox: &Arc<Sandbox>, stream: TcpStream, role: Role) {
    // Without it small writes wait for acknowledgements.
    let _ = stream.set_nodelay(true);
    let place = match sandbox.budgets.open_connection() {
        Ok(place) if !sandbox.world.parent.is_behind() => place,
        Ok(_) => return tunnel::reset(stream),
        Err(used_up) => {
            let refusal = Refusal::limit(used_up.0);
            // The name is not looked for: there may be very many of these.
            sandbox.deny("*", 0, ConnectionKind::Tcp, &refusal);
            return tunnel::reset(stream);
        }
    };
    let task = Arc::clone(sandbox);
    match role {
        Role::Dns => sandbox.spawn(lookup::answer_stream(task, stream, place)),
        Role::Proxy => sandbox.spawn(proxy::serve(task, stream, place)),
        Role::Port(port) => sandbox.spawn(carry::transparent(task, stream, port, place)),
    }
}
