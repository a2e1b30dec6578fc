//! Answers the look-ups of a guest, over UDP and TCP.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use silica_domain::{DnsName, NameVerdict};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::accept::ACCEPT_PAUSE;
use super::budget::ConnectionPlace;
use super::dns::{self, Outcome, Parsed, Query};
use super::listeners::listen_on;
use super::refusal::Refusal;
use super::sandbox::Sandbox;
use super::world::lock;
use crate::events::ConnectionKind;
use crate::wire::Report;

/// How long a question over TCP may take, and how many one connection may ask.
const DNS_PATIENCE: Duration = Duration::from_secs(5);
const DNS_QUESTIONS_MAX: usize = 16;

pub(super) async fn answer_datagrams(sandbox: Arc<Sandbox>, socket: UdpSocket) {
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

pub(super) async fn answer_stream(
    sandbox: Arc<Sandbox>,
    mut stream: TcpStream,
    _place: ConnectionPlace,
) {
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
