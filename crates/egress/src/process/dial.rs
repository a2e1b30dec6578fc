//! Connections to the far side: the name is looked up after the verdict, every address is checked,
//! and a checked address is dialled.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Mutex;
use std::time::Duration;

use silica_domain::{DnsName, NetworkHost, OwnAddresses, denied_range};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::refusal::Refusal;
use super::sandbox::Sandbox;
use super::world::{World, lock};
use crate::settings::UpstreamProxy;

/// How many look-ups run at once.
const LOOKUPS_MAX: usize = 16;

/// How long an answer is used.
const KEEP: Duration = Duration::from_mins(1);

/// How many answers are kept.
const KEPT_MAX: usize = 4096;

/// The most addresses of one name.
const ADDRESSES_MAX: usize = 64;

/// How many addresses of a name are tried, and how long one of them may take.
const DIAL_ATTEMPTS: usize = 4;
const DIAL_PATIENCE: Duration = Duration::from_secs(10);

/// How long the list of this machine's addresses is used.
const OWN_KEEP: Duration = Duration::from_secs(10);

/// The longest answer of an upstream proxy.
const PROXY_HEAD_BYTES_MAX: usize = 16 * 1024;

pub(super) struct Resolver {
    answers: Mutex<HashMap<DnsName, (Instant, Vec<IpAddr>)>>,
    slots: Semaphore,
    own: Mutex<Option<(Instant, Vec<IpAddr>)>>,
}

impl Resolver {
    pub(super) fn new() -> Self {
        Self {
            answers: Mutex::default(),
            slots: Semaphore::new(LOOKUPS_MAX),
            own: Mutex::default(),
        }
    }

    async fn resolve(&self, world: &World, name: &DnsName) -> Result<Vec<IpAddr>, Refusal> {
        let fixed: Vec<IpAddr> = world
            .settings
            .hosts
            .iter()
            .filter(|(host, _)| host == name)
            .map(|(_, address)| *address)
            .collect();
        if !fixed.is_empty() {
            return Ok(fixed);
        }
        if let Some((at, addresses)) = lock(&self.answers).get(name)
            && at.elapsed() < KEEP
        {
            return Ok(addresses.clone());
        }
        let failed = |why| Refusal::upstream("name_not_resolved", format!("{name}: {why}"));
        let listed = listed_addresses(name);
        let look_up = async {
            if !listed.is_empty() {
                return Ok(listed);
            }
            let _slot = self.slots.acquire().await;
            // A dot at the end keeps the host's search domains away from the name, and the host's
            // own list of names too, which was read before.
            tokio::net::lookup_host((format!("{name}."), 0)).await.map(|found| {
                let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
                addresses.sort_unstable_by_key(IpAddr::is_ipv6);
                addresses.dedup();
                addresses
            })
        };
        let addresses = timeout(world.settings.dns_timeout, look_up)
            .await
            .map_err(|_| failed("the look-up took too long"))?
            .map_err(|_| failed("the name has no address"))?;
        if addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
            return Err(failed("the name has no address, or too many"));
        }
        let mut answers = lock(&self.answers);
        if answers.len() >= KEPT_MAX {
            answers.clear();
        }
        answers.insert(name.clone(), (Instant::now(), addresses.clone()));
        Ok(addresses)
    }

    fn own(&self) -> Vec<IpAddr> {
        let mut own = lock(&self.own);
        match &*own {
            Some((at, addresses)) if at.elapsed() < OWN_KEEP => addresses.clone(),
            _ => {
                let addresses = interface_addresses();
                *own = Some((Instant::now(), addresses.clone()));
                addresses
            }
        }
    }
}

/// Connects to a host on behalf of a sandbox. The policy has allowed it.
pub(super) async fn dial(
    sandbox: &Sandbox,
    host: &NetworkHost,
    port: u16,
) -> Result<(TcpStream, SocketAddr), Refusal> {
    let world = &sandbox.world;
    if let (Some(proxy), NetworkHost::Name(name)) = (&world.settings.upstream_proxy, host) {
        return through(world, proxy, name, port).await;
    }
    let addresses = checked(sandbox, host, port).await?;
    connect(host, &addresses, port).await
}

/// Looks a host up and checks its addresses, without a connection to it.
pub(super) async fn check(sandbox: &Sandbox, host: &NetworkHost, port: u16) -> Result<(), Refusal> {
    let by_proxy = sandbox.world.settings.upstream_proxy.is_some();
    if by_proxy && matches!(host, NetworkHost::Name(_)) {
        return Ok(());
    }
    checked(sandbox, host, port).await.map(drop)
}

/// Returns the addresses of a host, all of which are allowed.
async fn checked(sandbox: &Sandbox, host: &NetworkHost, port: u16) -> Result<Vec<IpAddr>, Refusal> {
    let world = &sandbox.world;
    let addresses = match host {
        NetworkHost::Name(name) => world.resolver.resolve(world, name).await?,
        NetworkHost::Address(address) => vec![*address],
    };
    let own = OwnAddresses {
        interfaces: world.resolver.own(),
        listeners: world.settings.listeners.clone(),
    };
    let policy = sandbox.policy();
    for &address in &addresses {
        if let Some(why) = denied_range(address, port, &world.settings.private_allowed, &own) {
            return Err(Refusal::forbidden("forbidden_address", format!("{host}: {why}")));
        }
        if let Some(denial) = policy.denies_address(address, port) {
            return Err(denial.into());
        }
    }
    Ok(addresses)
}

async fn connect(
    host: &NetworkHost,
    addresses: &[IpAddr],
    port: u16,
) -> Result<(TcpStream, SocketAddr), Refusal> {
    let mut last = "no address".to_owned();
    for &address in addresses.iter().take(DIAL_ATTEMPTS) {
        let address = SocketAddr::new(address, port);
        match timeout(DIAL_PATIENCE, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Without it small writes wait for acknowledgements.
                let _ = stream.set_nodelay(true);
                return Ok((stream, address));
            }
            Ok(Err(error)) => last = error.kind().to_string(),
            Err(_) => "it took too long".clone_into(&mut last),
        }
    }
    Err(Refusal::upstream("not_connected", format!("cannot connect to {host}:{port}: {last}")))
}

/// Connects through the operator's proxy, which looks the name up itself.
async fn through(
    world: &World,
    proxy: &UpstreamProxy,
    name: &DnsName,
    port: u16,
) -> Result<(TcpStream, SocketAddr), Refusal> {
    let failed = |why: String| Refusal::upstream("upstream_proxy", why);
    let look_up = tokio::net::lookup_host((proxy.host.as_str(), proxy.port));
    let addresses = timeout(world.settings.dns_timeout, look_up)
        .await
        .map_err(|_| failed("the look-up of the upstream proxy took too long".to_owned()))?
        .map_err(|_| failed("the upstream proxy has no address".to_owned()))?;
    let addresses: Vec<IpAddr> = addresses.map(|address| address.ip()).collect();
    let host = NetworkHost::Name(name.clone());
    let (mut stream, address) = connect(&host, &addresses, proxy.port).await?;
    let authorization = match &proxy.authorization {
        Some(value) => format!("Proxy-Authorization: {value}\r\n"),
        None => String::new(),
    };
    let head =
        format!("CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n{authorization}\r\n");
    let exchange = async {
        stream.write_all(head.as_bytes()).await?;
        proxy_status(&mut stream).await
    };
    match timeout(DIAL_PATIENCE, exchange).await {
        Ok(Ok(200..300)) => Ok((stream, address)),
        Ok(Ok(status)) => Err(failed(format!("the upstream proxy answered {status}"))),
        Ok(Err(_)) => Err(failed("the upstream proxy did not answer in HTTP".to_owned())),
        Err(_) => Err(failed("the upstream proxy took too long".to_owned())),
    }
}

/// Reads the head of a proxy's answer, byte by byte, since what follows is the far side's.
async fn proxy_status(stream: &mut TcpStream) -> std::io::Result<u16> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= PROXY_HEAD_BYTES_MAX {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        head.push(stream.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&head);
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    let is_http = text.starts_with("HTTP/1.");
    status.filter(|_| is_http).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

/// Returns the addresses of a name in the host's own list.
fn listed_addresses(name: &DnsName) -> Vec<IpAddr> {
    // A list that cannot be read names no host.
    let list = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    addresses_in(&list, name)
}

/// Reads lines of an address, names and a comment.
fn addresses_in(list: &str, name: &DnsName) -> Vec<IpAddr> {
    let address = |line: &str| {
        let mut fields = line.split('#').next()?.split_whitespace();
        let address = fields.next()?.parse().ok()?;
        fields.any(|field| field.eq_ignore_ascii_case(name.as_str())).then_some(address)
    };
    list.lines().filter_map(address).collect()
}

/// Returns the addresses of this machine's interfaces.
fn interface_addresses() -> Vec<IpAddr> {
    // What cannot be read is left out: the ranges that are not public are forbidden anyway.
    let v4 = std::fs::read_to_string("/proc/self/net/fib_trie").unwrap_or_default();
    let v6 = std::fs::read_to_string("/proc/self/net/if_inet6").unwrap_or_default();
    let mut addresses = local_v4(&v4);
    addresses.extend(local_v6(&v6));
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Reads the kernel's table of routes: `|-- 10.0.0.5` followed by `/32 host LOCAL`.
fn local_v4(table: &str) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    let mut last: Option<Ipv4Addr> = None;
    for line in table.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            addresses.extend(last.map(IpAddr::V4));
        }
    }
    addresses
}

/// Reads lines of 32 hexadecimal digits and other fields.
fn local_v6(table: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let digits = line.split_whitespace().next().filter(|digits| digits.len() == 32)?;
        u128::from_str_radix(digits, 16).ok().map(|bits| Ipv6Addr::from_bits(bits).into())
    };
    table.lines().filter_map(address).collect()
}
