//! A guest: a network namespace with the synthetic range on its loopback device.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use silica_egress::{SandboxSockets, SocketKind, SocketSpec, SocketsUnavailable};

/// What the namespace is prepared with. It ends when the test's end of the pipe closes.
const SETUP: &str =
    "ip link set lo up && ip addr add 198.18.0.1/15 dev lo && echo ready && exec cat";

/// How long a guest waits for anything.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Guest {
    process: Child,
    namespace: File,
}

impl Guest {
    pub(crate) fn new() -> Self {
        let mut process = Command::new("unshare")
            .args(["--net", "sh", "-c", SETUP])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let output = process.stdout.as_mut().unwrap();
        BufReader::new(output).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n", "the tests of this crate need root");
        let namespace = File::open(format!("/proc/{}/ns/net", process.id())).unwrap();
        Self { process, namespace }
    }

    /// Returns where the namespace is found by other programs.
    pub(crate) fn namespace_path(&self) -> String {
        format!("/proc/{}/ns/net", self.process.id())
    }

    /// Runs a function inside.
    pub(crate) fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(std::os::fd::AsFd::as_fd(&self.namespace), kind).unwrap();
                act()
            });
            thread.join().unwrap()
        })
    }

    /// Connects from inside.
    pub(crate) fn connect(&self, address: impl Into<SocketAddrV4>) -> io::Result<TcpStream> {
        let address = address.into();
        self.inside(move || {
            let stream = TcpStream::connect_timeout(&address.into(), PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        })
    }

    /// Connects from inside, for use in a runtime.
    pub(crate) fn connect_async(
        &self,
        address: impl Into<SocketAddrV4>,
    ) -> io::Result<tokio::net::TcpStream> {
        let stream = self.connect(address)?;
        stream.set_nonblocking(true)?;
        tokio::net::TcpStream::from_std(stream)
    }

    /// Connects to where a reset is expected, which may come before the connection is known to be
    /// made, and returns what came before it.
    pub(crate) fn reset(&self, address: SocketAddrV4) -> String {
        match self.connect(address) {
            Ok(mut stream) => {
                let _ = stream.write_all(b"x");
                text(&mut stream)
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => String::new(),
            Err(error) => panic!("{address}: {error}"),
        }
    }

    /// Looks a name up and connects to it.
    pub(crate) fn connect_name(&self, name: &str, port: u16) -> io::Result<TcpStream> {
        let address = self.address(name);
        self.connect(SocketAddrV4::new(address, port))
    }

    pub(crate) fn address(&self, name: &str) -> Ipv4Addr {
        self.lookup(name).unwrap_or_else(|code| panic!("{name} has no address: {code}"))
    }

    /// Looks a name up as every program does; an error is the response code.
    pub(crate) fn lookup(&self, name: &str) -> Result<Ipv4Addr, u8> {
        let answer = self.ask_dns(&question(name, 1)).unwrap();
        let code = answer[3] & 0xf;
        if code != 0 || answer[7] == 0 {
            return Err(code);
        }
        let octets: [u8; 4] = answer[answer.len() - 4..].try_into().unwrap();
        Ok(octets.into())
    }

    /// Sends a packet to the DNS server; `None` if there is no answer.
    pub(crate) fn ask_dns(&self, packet: &[u8]) -> Option<Vec<u8>> {
        self.inside(|| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
            socket.send_to(packet, (Ipv4Addr::LOCALHOST, 53)).unwrap();
            let mut answer = vec![0; 1024];
            let length = socket.recv(&mut answer).ok()?;
            answer.truncate(length);
            Some(answer)
        })
    }

    /// Sends bytes to the proxy and returns all that comes back.
    pub(crate) fn proxy(&self, request: &[u8]) -> String {
        let mut stream = self.connect(PROXY).unwrap();
        stream.write_all(request).unwrap();
        text(&mut stream)
    }
}

/// Where the proxy is.
pub(crate) const PROXY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128);

/// Reads what comes until the end, a reset or a time-out.
pub(crate) fn text(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(length) = stream.read(&mut buffer) {
        if length == 0 {
            break;
        }
        bytes.extend_from_slice(&buffer[..length]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Makes a question.
pub(crate) fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut packet = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        packet.push(label.len() as u8);
        packet.extend(label.as_bytes());
    }
    packet.push(0);
    packet.extend(kind.to_be_bytes());
    packet.extend(1_u16.to_be_bytes());
    packet
}

impl Drop for Guest {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

impl SandboxSockets for Guest {
    fn open(
        &self,
        specs: Vec<SocketSpec>,
    ) -> BoxFuture<'_, Result<Vec<OwnedFd>, SocketsUnavailable>> {
        let opened = self.inside(|| specs.iter().map(open).collect::<io::Result<Vec<OwnedFd>>>());
        let opened = opened.map_err(|error| SocketsUnavailable(error.to_string()));
        Box::pin(std::future::ready(opened))
    }
}

fn open(spec: &SocketSpec) -> io::Result<OwnedFd> {
    let kind = match spec.kind {
        SocketKind::Stream => SocketType::STREAM,
        SocketKind::Datagram => SocketType::DGRAM,
    };
    let family = AddressFamily::INET;
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    if let Some(address) = spec.address {
        if spec.kind == SocketKind::Stream {
            rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
        }
        rustix::net::bind(&socket, &address)?;
        if spec.kind == SocketKind::Stream {
            rustix::net::listen(&socket, spec.backlog as i32)?;
        }
    }
    Ok(socket)
}
