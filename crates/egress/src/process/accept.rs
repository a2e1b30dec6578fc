//! Sockets inside a sandbox: DNS, the proxy, and what looks like the far side.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use silica_domain::{DnsName, Grant, NameVerdict, NetworkHost, RuleProtocol};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::ask::{self, Leave};
use super::budget::ConnectionPlace;
use super::connection::{OpenConnection, Opening};
use super::dns::{self, Outcome, Parsed, Query};
use super::hello::HelloReader;
use super::intercept::{self, Intercepted};
use super::refusal::Refusal;
use super::sandbox::Sandbox;
use super::world::lock;
use super::{dial, http, proxy, tunnel};
use crate::events::ConnectionKind;
use crate::sockets::{BACKLOG, SPARES, SocketSpec};
use crate::wire::Report;

/// How long a hello may take.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);

/// How long a question over TCP may take, and how many one connection may ask.
const DNS_PATIENCE: Duration = Duration::from_secs(5);
const DNS_QUESTIONS_MAX: usize = 16;

/// The pause after a failed accept, such as for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// The most listeners of one sandbox beside the first ones.
const LISTENERS_MAX: usize = 2048;

/// The buffers of a guest's connection, which count as the host's memory.
const SOCKET_BUFFER_BYTES: usize = 256 * 1024;

/// Ports that no guest can bind are bound by the parent.
const PORT_UNPRIVILEGED: u16 = 1024;

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
    let mut listeners = Vec::new();
    for role in roles {
        listeners.push((listener(next()?)?, role));
    }
    *lock(&sandbox.spares) = fds.collect();
    sandbox.spawn(answer_datagrams(Arc::clone(sandbox), datagrams));
    for (listener, role) in listeners {
        sandbox.spawn(accept(Arc::clone(sandbox), listener, role));
    }
    restore_listeners(sandbox);
    open_ranges(sandbox);
    Ok(())
}

fn listener(fd: OwnedFd) -> io::Result<TcpListener> {
    use rustix::net::sockopt;
    // Accepted connections inherit them.
    sockopt::set_socket_recv_buffer_size(&fd, SOCKET_BUFFER_BYTES)?;
    sockopt::set_socket_send_buffer_size(&fd, SOCKET_BUFFER_BYTES)?;
    let listener = std::net::TcpListener::from(fd);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
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
            sandbox.deny("", 0, ConnectionKind::Tcp, &refusal);
            return tunnel::reset(stream);
        }
    };
    let task = Arc::clone(sandbox);
    match role {
        Role::Dns => sandbox.spawn(answer_stream(task, stream, place)),
        Role::Proxy => sandbox.spawn(proxy::serve(task, stream, place)),
        Role::Port(port) => sandbox.spawn(transparent(task, stream, port, place)),
    }
}

/// Serves a connection to an address that stands for a name or is in an allowed range.
async fn transparent(sandbox: Arc<Sandbox>, stream: TcpStream, port: u16, _place: ConnectionPlace) {
    let Some(host) = host_of(&sandbox, &stream, port) else {
        return tunnel::reset(stream);
    };
    // Plain HTTP is judged request by request, so that a refusal can be said in HTTP.
    let closing = Arc::new(Notify::new());
    let closed = Arc::clone(&closing);
    let served = async {
        match decide_transparent(&sandbox, &host, port).await {
            Ok(Way::Http) => http::serve_plain(&sandbox, stream, host, port, closing).await,
            Ok(Way::Leave(leave)) => {
                let request = Request { host, port, closing };
                carry(&sandbox, stream, request, leave, Vec::new()).await;
            }
            Err(refusal) => {
                sandbox.deny(&host.to_string(), port, ConnectionKind::Tcp, &refusal);
                tunnel::reset(stream);
            }
        }
    };
    tokio::select! {
        () = served => {}
        () = closed.notified() => {}
    }
}

enum Way {
    Http,
    Leave(Leave),
}

async fn decide_transparent(
    sandbox: &Arc<Sandbox>,
    host: &NetworkHost,
    port: u16,
) -> Result<Way, Refusal> {
    use silica_domain::NetworkVerdict;
    let verdict = sandbox.policy().decide_connection(host, port);
    match verdict {
        NetworkVerdict::Allowed(grant) if grant.protocol == RuleProtocol::Http => Ok(Way::Http),
        NetworkVerdict::Allowed(grant) => Ok(Way::Leave(Leave { grant, once: false })),
        NetworkVerdict::Ask | NetworkVerdict::Denied(_) if port == 80 => Ok(Way::Http),
        NetworkVerdict::Ask => ask::decide(sandbox, host, port, None).await.map(Way::Leave),
        NetworkVerdict::Denied(denial) => Err(denial.into()),
    }
}

/// Returns what the guest connected to, by the address it used.
fn host_of(sandbox: &Sandbox, stream: &TcpStream, port: u16) -> Option<NetworkHost> {
    let IpAddr::V4(address) = stream.local_addr().ok()?.ip() else {
        return None;
    };
    if let Some(name) = lock(&sandbox.names).name(address) {
        return Some(NetworkHost::Name(name.clone()));
    }
    let in_range = |(range, _): &(silica_domain::Cidr, Vec<u16>)| range.contains(address.into());
    if sandbox.policy().ranges().iter().any(in_range) {
        return Some(NetworkHost::Address(address.into()));
    }
    let refusal = Refusal::forbidden("unknown_address", "no name has this address");
    sandbox.deny(&address.to_string(), port, ConnectionKind::Tcp, &refusal);
    None
}

/// What a guest wants to connect to.
pub(super) struct Request {
    pub(super) host: NetworkHost,
    pub(super) port: u16,
    /// Ends the guest's connection.
    pub(super) closing: Arc<Notify>,
}

/// Carries a connection that is allowed, by the protocol of its rule. `first` was read already.
pub(super) async fn carry(
    sandbox: &Arc<Sandbox>,
    stream: TcpStream,
    request: Request,
    leave: Leave,
    first: Vec<u8>,
) {
    let kind = match leave.grant.protocol {
        RuleProtocol::Tls if leave.grant.intercept => ConnectionKind::Intercept,
        RuleProtocol::Tls => ConnectionKind::Pass,
        RuleProtocol::Http => ConnectionKind::Http,
        RuleProtocol::Tcp => ConnectionKind::Tcp,
    };
    let Request { host, port, closing } = request;
    let opening = Opening { host: host.clone(), port, kind, closing: Arc::clone(&closing) };
    let open = Arc::new(OpenConnection::new(sandbox, opening, &leave.grant));
    let once = &open.connection().once;
    once.store(leave.once, std::sync::atomic::Ordering::Relaxed);
    let carried = match kind {
        ConnectionKind::Intercept | ConnectionKind::Pass => {
            let tls = Tls { grant: leave.grant, closing, first };
            carry_tls(sandbox, stream, &open, tls).await
        }
        _ => connect_and_join(sandbox, stream, &open, &first).await,
    };
    if let Err((stream, refusal)) = carried {
        open.connection().note(&refusal);
        if refusal.by_rule {
            sandbox.deny(&host.to_string(), port, kind, &refusal);
        }
        if let Some(stream) = stream {
            tunnel::reset(stream);
        }
    }
}

/// A refusal, with the guest's connection if it is still there to be reset.
type Failed = (Option<TcpStream>, Refusal);

/// A TLS connection that is allowed.
struct Tls {
    grant: Grant,
    closing: Arc<Notify>,
    first: Vec<u8>,
}

async fn carry_tls(
    sandbox: &Arc<Sandbox>,
    stream: TcpStream,
    open: &Arc<OpenConnection>,
    tls: Tls,
) -> Result<(), Failed> {
    let (hello, bytes) = match timeout(HELLO_PATIENCE, read_hello(&stream, &tls.first)).await {
        Ok(Ok(read)) => read,
        Ok(Err(why)) => return Err((Some(stream), Refusal::forbidden("not_tls", why))),
        Err(_) => {
            let refusal = Refusal::forbidden("not_tls", "the hello took longer than 5 s");
            return Err((Some(stream), refusal));
        }
    };
    let connection = open.connection();
    if let NetworkHost::Name(name) = &connection.host {
        let said = hello.as_deref().map(str::to_ascii_lowercase);
        if said.as_deref() != Some(name.as_str()) {
            let why = match hello {
                Some(_) => "the hello names another host",
                None => "the hello names no host",
            };
            return Err((Some(stream), Refusal::forbidden("hello_differs", why)));
        }
        if tls.grant.intercept {
            let intercepted = Intercepted { name, closing: tls.closing };
            let served = intercept::serve(sandbox, stream, open, intercepted, bytes);
            return served.await.map_err(|refusal| (None, refusal));
        }
    }
    connect_and_join(sandbox, stream, open, &bytes).await
}

async fn connect_and_join(
    sandbox: &Arc<Sandbox>,
    stream: TcpStream,
    open: &OpenConnection,
    first: &[u8],
) -> Result<(), Failed> {
    let connection = open.connection();
    match dial::dial(sandbox, &connection.host, connection.port).await {
        Ok((far, address)) => {
            connection.dialled(address);
            // How a connection ends is either side's business.
            let _ = tunnel::join(open, stream, far, first).await;
            Ok(())
        }
        Err(refusal) => Err((Some(stream), refusal)),
    }
}

/// Reads until the hello is whole. Returns the name in it and all bytes read.
async fn read_hello(
    stream: &TcpStream,
    first: &[u8],
) -> Result<(Option<String>, Vec<u8>), &'static str> {
    let mut reader = HelloReader::default();
    let mut buffer = vec![0; 4096];
    let mut hello = reader.push(first).map_err(|not| not.0)?;
    loop {
        if let Some(hello) = hello {
            return Ok((hello.server_name, reader.into_bytes()));
        }
        stream.readable().await.map_err(|_| "the connection ended")?;
        let length = match stream.try_read(&mut buffer) {
            Ok(0) => return Err("the connection ended before its hello did"),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => return Err("the connection ended before its hello did"),
        };
        hello = reader.push(&buffer[..length]).map_err(|not| not.0)?;
    }
}

async fn answer_datagrams(sandbox: Arc<Sandbox>, socket: UdpSocket) {
    let socket = Arc::new(socket);
    let mut packet = vec![0; dns::PACKET_BYTES_MAX + 1];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut packet).await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        match dns::parse(&packet[..length]) {
            Parsed::Drop => {}
            Parsed::Answer(answer) => {
                // A guest that does not read loses answers, as with any DNS server.
                let _ = socket.try_send_to(&answer, from);
            }
            Parsed::Query(query) => match answer_at_once(&sandbox, &query) {
                Ok(outcome) => {
                    let _ = socket.try_send_to(&query.answer(outcome), from);
                }
                Err(missing) => {
                    let socket = Arc::clone(&socket);
                    let task = Arc::clone(&sandbox);
                    sandbox.spawn(async move {
                        let outcome = listen(&task, missing).await;
                        let _ = socket.try_send_to(&query.answer(outcome), from);
                    });
                }
            },
        }
    }
}

async fn answer_stream(sandbox: Arc<Sandbox>, mut stream: TcpStream, _place: ConnectionPlace) {
    for _ in 0..DNS_QUESTIONS_MAX {
        let exchange = async {
            let length = stream.read_u16().await?;
            if usize::from(length) > dns::PACKET_BYTES_MAX {
                return Err(io::Error::from(io::ErrorKind::InvalidData));
            }
            let mut packet = vec![0; length.into()];
            stream.read_exact(&mut packet).await?;
            let answer = match dns::parse(&packet) {
                Parsed::Drop => return Err(io::ErrorKind::InvalidData.into()),
                Parsed::Answer(answer) => answer,
                Parsed::Query(query) => {
                    let outcome = match answer_at_once(&sandbox, &query) {
                        Ok(outcome) => outcome,
                        Err(missing) => listen(&sandbox, missing).await,
                    };
                    query.answer(outcome)
                }
            };
            stream.write_u16(answer.len() as u16).await?;
            stream.write_all(&answer).await
        };
        if !matches!(timeout(DNS_PATIENCE, exchange).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// Ports of a name's address on which nothing listens yet.
struct MissingListeners {
    address: Ipv4Addr,
    ports: Vec<u16>,
}

/// Answers a question, unless listeners have to be made first.
fn answer_at_once(sandbox: &Arc<Sandbox>, query: &Query) -> Result<Outcome, MissingListeners> {
    let name = &query.name;
    let refused = |refusal: &Refusal, outcome| {
        sandbox.deny(name.as_str(), 0, ConnectionKind::Dns, refusal);
        Ok(outcome)
    };
    if let Err(used_up) = sandbox.budgets.take_lookup() {
        return refused(&Refusal::limit(used_up.0), Outcome::Failure);
    }
    let ports = match sandbox.policy().decide_name(name) {
        NameVerdict::Allowed(ports) => ports,
        NameVerdict::Ask => Vec::new(),
        NameVerdict::Denied(denial) => return refused(&denial.into(), Outcome::NoSuchName),
    };
    if !query.wants_address {
        return Ok(Outcome::Address(Ipv4Addr::UNSPECIFIED));
    }
    let address = match address_for(sandbox, name) {
        Ok(address) => address,
        Err(refusal) => return refused(&refusal, Outcome::Failure),
    };
    let listening = lock(&sandbox.listening);
    let missing: Vec<u16> = ports
        .into_iter()
        .filter(|port| ![80, 443].contains(port))
        .filter(|&port| !listening.contains(&(address, port)))
        .filter(|&port| !listening.contains(&(Ipv4Addr::UNSPECIFIED, port)))
        .collect();
    if missing.is_empty() {
        Ok(Outcome::Address(address))
    } else {
        Err(MissingListeners { address, ports: missing })
    }
}

fn address_for(sandbox: &Sandbox, name: &DnsName) -> Result<Ipv4Addr, Refusal> {
    let mut names = lock(&sandbox.names);
    if let Some(address) = names.address(name) {
        return Ok(address);
    }
    sandbox.budgets.take_name().map_err(|used_up| Refusal::limit(used_up.0))?;
    let (place, address) = names.add(name).ok_or_else(|| Refusal::limit("names"))?;
    let sandbox_number = sandbox.number;
    let name = name.to_string();
    sandbox.world.parent.report(Report::Named { sandbox: sandbox_number, name, place });
    Ok(address)
}

/// Makes listeners, and returns what the question is answered with.
async fn listen(sandbox: &Arc<Sandbox>, missing: MissingListeners) -> Outcome {
    for port in missing.ports {
        listen_on(sandbox, missing.address, port).await;
    }
    Outcome::Address(missing.address)
}

/// Makes one listener. If it fails, a connection to it is refused by the kernel.
async fn listen_on(sandbox: &Arc<Sandbox>, address: Ipv4Addr, port: u16) {
    {
        let mut listening = lock(&sandbox.listening);
        if listening.len() >= LISTENERS_MAX || !listening.insert((address, port)) {
            return;
        }
    }
    let made = bound(sandbox, SocketAddrV4::new(address, port)).await;
    match made.and_then(|fd| listener(fd).map_err(|error| error.to_string())) {
        Ok(listener) => sandbox.spawn(accept(Arc::clone(sandbox), listener, Role::Port(port))),
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
fn restore_listeners(sandbox: &Arc<Sandbox>) {
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
