//! Listeners that are made while a sandbox lives: on the addresses of names, and for ranges.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use silica_domain::{DnsName, NameVerdict};

use super::accept;
use super::refusal::Refusal;
use super::sandbox::Sandbox;
use super::world::lock;
use crate::events::ConnectionKind;
use crate::sockets::{BACKLOG, SPARES, SocketSpec};

/// The most listeners of one sandbox beside the first ones.
const LISTENERS_MAX: usize = 2048;

/// Ports that no guest can bind are bound by the parent.
const PORT_UNPRIVILEGED: u16 = 1024;

/// Makes one listener. If it fails, a connection to it is refused by the kernel.
pub(super) async fn listen_on(sandbox: &Arc<Sandbox>, address: Ipv4Addr, port: u16) {
    {
        let mut listening = lock(&sandbox.listening);
        if listening.len() >= LISTENERS_MAX || !listening.insert((address, port)) {
            return;
        }
    }
    let made = bound(sandbox, SocketAddrV4::new(address, port)).await;
    match made.and_then(|fd| accept::listener(fd).map_err(|error| error.to_string())) {
        Ok(listener) => accept::serve_port(sandbox, listener, port),
        Err(error) => {
            lock(&sandbox.listening).remove(&(address, port));
            let refusal = Refusal::upstream("not_listening", error);
            sandbox.deny(&address.to_string(), port, ConnectionKind::Tcp, &refusal);
        }
    }
}

/// Returns a listening socket: a spare one that is bound here, or one that the parent binds.
async fn bound(sandbox: &Arc<Sandbox>, address: SocketAddrV4) -> Result<OwnedFd, String> {
    let spare = if address.port() >= PORT_UNPRIVILEGED { spare(sandbox) } else { None };
    let Some(spare) = spare else {
        let specs = vec![SocketSpec::listener(address)];
        let mut sockets = sandbox.world.parent.sockets(sandbox.number, specs).await?;
        return sockets.pop().ok_or_else(|| "no socket came".to_owned());
    };
    // Connections of an earlier process may still be in TIME_WAIT at this address.
    rustix::net::sockopt::set_socket_reuseaddr(&spare, true).map_err(|error| error.to_string())?;
    // Else the connections of a process that has died keep the port for a minute. The kernel lets no
    // second socket bind to a port on which one listens.
    let reuse = rustix::net::sockopt::set_socket_reuseaddr(&spare, true);
    reuse.map_err(|error| error.to_string())?;
    rustix::net::bind(&spare, &address).map_err(|error| error.to_string())?;
    rustix::net::listen(&spare, BACKLOG as i32).map_err(|error| error.to_string())?;
    Ok(spare)
}

/// Takes a spare socket, and asks for more if few are left.
fn spare(sandbox: &Arc<Sandbox>) -> Option<OwnedFd> {
    let mut spares = lock(&sandbox.spares);
    let spare = spares.pop();
    if spares.len() == SPARES / 2 || spare.is_none() {
        let task = Arc::clone(sandbox);
        sandbox.spawn(async move {
            let specs = vec![SocketSpec::spare(); SPARES / 2];
            if let Ok(more) = task.world.parent.sockets(task.number, specs).await {
                let mut spares = lock(&task.spares);
                let room = SPARES.saturating_sub(spares.len());
                spares.extend(more.into_iter().take(room));
            }
        });
    }
    spare
}

/// Listens again for the names that an earlier process had given addresses.
pub(super) fn restore_listeners(sandbox: &Arc<Sandbox>) {
    let names: Vec<DnsName> = lock(&sandbox.names).all().to_vec();
    let task = Arc::clone(sandbox);
    sandbox.spawn(async move {
        for name in names {
            let address = lock(&task.names).address(&name);
            let verdict = task.policy().decide_name(&name);
            if let (NameVerdict::Allowed(ports), Some(address)) = (verdict, address) {
                for port in ports.into_iter().filter(|port| ![80, 443].contains(port)) {
                    listen_on(&task, address, port).await;
                }
            }
        }
    });
}

/// Listens on the ports of rules for ranges, on every address.
pub(super) fn open_ranges(sandbox: &Arc<Sandbox>) {
    let mut ports: Vec<u16> =
        sandbox.policy().ranges().into_iter().flat_map(|(_, ports)| ports).collect();
    ports.retain(|port| ![80, 443].contains(port));
    ports.sort_unstable();
    ports.dedup();
    if ports.is_empty() {
        return;
    }
    let task = Arc::clone(sandbox);
    sandbox.spawn(async move {
        for port in ports {
            listen_on(&task, Ipv4Addr::UNSPECIFIED, port).await;
        }
    });
}
