//! Sockets for the egress process, made inside the sandbox of a session.

use std::os::fd::OwnedFd;
use std::sync::Weak;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use silica_domain::{Cidr, EffectivePolicy};
use silica_egress::{SandboxSockets, SocketKind, SocketSpec, SocketsUnavailable};
use silica_engine::{GuestPrefix, GuestSocket, Sandbox};

use crate::session::Session;

/// Makes sockets inside the sandbox of a session, as long as the session lives.
pub(super) struct SessionSockets(pub(super) Weak<Session>);

impl SandboxSockets for SessionSockets {
    fn open(
        &self,
        specs: Vec<SocketSpec>,
    ) -> BoxFuture<'_, Result<Vec<OwnedFd>, SocketsUnavailable>> {
        async move {
            let session = self.0.upgrade().filter(|session| session.end_reason().is_none());
            let session =
                session.ok_or_else(|| SocketsUnavailable("the sandbox has ended".to_owned()))?;
            open_in(&session.sandbox, &specs, &session.network.prefixes()).await
        }
        .boxed()
    }
}

/// The sockets of one sandbox that belongs to no session, for a program with an engine of its own.
#[derive(Debug)]
pub struct LoneSockets {
    /// The sandbox, as long as it lives.
    pub sandbox: Weak<Sandbox>,
    /// What it may reach.
    pub policy: EffectivePolicy,
}

impl SandboxSockets for LoneSockets {
    fn open(
        &self,
        specs: Vec<SocketSpec>,
    ) -> BoxFuture<'_, Result<Vec<OwnedFd>, SocketsUnavailable>> {
        async move {
            let sandbox = self.sandbox.upgrade();
            let sandbox =
                sandbox.ok_or_else(|| SocketsUnavailable("the sandbox has ended".to_owned()))?;
            open_in(&sandbox, &specs, &prefixes(&self.policy)).await
        }
        .boxed()
    }
}

async fn open_in(
    sandbox: &Sandbox,
    specs: &[SocketSpec],
    prefixes: &[GuestPrefix],
) -> Result<Vec<OwnedFd>, SocketsUnavailable> {
    let sockets: Vec<GuestSocket> = specs.iter().map(guest_socket).collect();
    let opened = sandbox.open_sockets(&sockets, prefixes).await;
    opened.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        SocketsUnavailable(cause.unwrap_or_else(|| error.to_string()))
    })
}

fn guest_socket(spec: &SocketSpec) -> GuestSocket {
    match (spec.kind, spec.address) {
        (SocketKind::Stream, None) => GuestSocket::Stream,
        (SocketKind::Stream, Some(address)) => {
            let backlog = u16::try_from(spec.backlog).unwrap_or(u16::MAX);
            GuestSocket::Listener { address, backlog }
        }
        (SocketKind::Datagram, address) => {
            let unspecified = std::net::SocketAddrV4::new(std::net::Ipv4Addr::UNSPECIFIED, 0);
            GuestSocket::Datagram { address: address.unwrap_or(unspecified) }
        }
    }
}

/// Returns the ranges of addresses that the guest may use itself. IPv6 does not leave a sandbox.
pub(super) fn prefixes(policy: &EffectivePolicy) -> Vec<GuestPrefix> {
    let prefix = |range: &Cidr| match range.first() {
        std::net::IpAddr::V4(first) => GuestPrefix::new(first, range.prefix()),
        std::net::IpAddr::V6(_) => None,
    };
    policy.ranges().iter().filter_map(|(range, _)| prefix(range)).collect()
}
