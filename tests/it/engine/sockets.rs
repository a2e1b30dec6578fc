//! Sockets in a sandbox's network that the host uses.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::process::Signal;
use silica_domain::Enforcement;
use silica_engine::{
    CreateOptions, GUEST_SOCKETS_MAX, GuestPrefix, GuestSocket, KernelOrigin, TierError,
    ZygotePolicy,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

use crate::harness::{
    EVERYTHING, LiveSandbox, PYTHON, TIMEOUT, TestEngine, TestHome, eventually_async, print,
    signal, start_trusting_engine,
};
use crate::jail::init_pool::inits;

const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

fn listener(address: Ipv4Addr, port: u16) -> GuestSocket {
    GuestSocket::Listener { address: SocketAddrV4::new(address, port), backlog: 16 }
}

/// Opens one socket.
pub(crate) async fn open(sandbox: &LiveSandbox, socket: GuestSocket) -> OwnedFd {
    let mut opened = sandbox.open_sockets(&[socket], &[]).await.unwrap();
    assert_eq!(opened.len(), 1);
    opened.remove(0)
}

async fn listen(sandbox: &LiveSandbox, address: Ipv4Addr, port: u16) -> TcpListener {
    TcpListener::from_std(open(sandbox, listener(address, port)).await.into()).unwrap()
}

/// Accepts a connection, answers it with the address that it was made to, and hangs up.
pub(crate) async fn answer(listener: &TcpListener) {
    let accepted = tokio::time::timeout(TIMEOUT, listener.accept()).await.expect("no connection");
    let (mut stream, _) = accepted.unwrap();
    let asked = stream.local_addr().unwrap().to_string();
    stream.write_all(asked.as_bytes()).await.unwrap();
}

/// Code that connects and prints what it reads.
pub(crate) fn fetch(address: &str, port: u16) -> String {
    format!(
        "import socket\nprint(socket.create_connection(('{address}', {port}), 5).recv(99).decode())"
    )
}

/// Code that prints the number of the error of connecting, 0 for none.
fn connect(address: &str, port: u16) -> String {
    format!("import socket\nprint(socket.socket().connect_ex(('{address}', {port})))")
}

/// What the code prints while the host answers one connection.
pub(crate) async fn fetched(
    sandbox: &mut LiveSandbox,
    listener: &TcpListener,
    address: &str,
) -> String {
    let port = listener.local_addr().unwrap().port();
    let code = fetch(address, port);
    let (text, ()) = tokio::join!(print(sandbox, &code), answer(listener));
    text
}

async fn sandbox(home: &TestHome) -> (TestEngine, LiveSandbox) {
    let engine = home.engine().await;
    let sandbox = engine.create(&home.options(KernelOrigin::Warm)).await.unwrap();
    (engine, sandbox)
}

async fn end(engine: TestEngine, sandbox: LiveSandbox) {
    sandbox.destroy().await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn listener_is_reached_at_loopback_and_at_the_synthetic_addresses() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    // A port that no guest may bind to, and one that it may.
    for port in [443, 3128] {
        let listener = listen(&sandbox, ANY, port).await;
        for address in ["127.0.0.1", "198.18.0.1", "198.18.77.5", "198.19.255.254"] {
            let text = fetched(&mut sandbox, &listener, address).await;
            assert_eq!(text, format!("{address}:{port}"));
        }
    }
    // Another port of such an address has no listener; every other address leads nowhere.
    assert_eq!(print(&mut sandbox, &connect("198.18.77.5", 9999)).await, "111");
    for outside in ["198.17.0.1", "198.20.0.1", "10.0.0.1", "1.1.1.1", "169.254.169.254"] {
        assert_eq!(print(&mut sandbox, &connect(outside, 443)).await, "101", "{outside}");
    }
    end(engine, sandbox).await;
}

#[tokio::test]
async fn datagrams_reach_the_host_and_come_back() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let address = SocketAddrV4::new(ANY, 53);
    let socket = open(&sandbox, GuestSocket::Datagram { address }).await;
    let socket = UdpSocket::from_std(socket.into()).unwrap();
    let echo = async {
        let mut buffer = [0; 16];
        let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
        socket.send_to(&buffer[..length], from).await.unwrap();
    };
    let code = "import socket\nu = socket.socket(type=socket.SOCK_DGRAM); u.settimeout(5)\n\
                u.sendto(b'ping', ('127.0.0.1', 53)); print(u.recv(9))";
    let (text, ()) = tokio::join!(print(&mut sandbox, code), echo);
    assert_eq!(text, "b'ping'");
    end(engine, sandbox).await;
}

#[tokio::test]
async fn host_connects_to_a_server_inside() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let code = "import socket, threading\ns = socket.create_server(('127.0.0.1', 0))\n\
                def serve():\n  while True:\n    c, _ = s.accept(); c.sendall(b'inside'); c.close()\n\
                threading.Thread(target=serve, daemon=True).start()\nprint(s.getsockname()[1])";
    let port: u16 = print(&mut sandbox, code).await.parse().unwrap();
    let sockets = sandbox.open_sockets(&[GuestSocket::Stream; 3], &[]).await.unwrap();
    for socket in sockets {
        let mut stream = connect_from_host(socket, port).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "inside");
    }
    let socket = open(&sandbox, GuestSocket::Stream).await;
    let refused = connect_from_host(socket, 9).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    end(engine, sandbox).await;
}

async fn connect_from_host(socket: OwnedFd, port: u16) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::from_std_stream(socket.into());
    socket.connect(SocketAddr::from(([127, 0, 0, 1], port))).await
}

#[tokio::test]
async fn unbound_socket_can_become_a_listener_later() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let socket = TcpSocket::from_std_stream(open(&sandbox, GuestSocket::Stream).await.into());
    socket.bind("198.18.0.13:5432".parse().unwrap()).unwrap();
    let listener = socket.listen(4).unwrap();
    assert_eq!(fetched(&mut sandbox, &listener, "198.18.0.13").await, "198.18.0.13:5432");
    assert_eq!(print(&mut sandbox, &connect("198.18.0.14", 5432)).await, "111");
    // The guest's own server on loopback keeps its port.
    let serve = "import socket\ns = socket.create_server(('127.0.0.1', 5432)); print('bound')";
    assert_eq!(print(&mut sandbox, serve).await, "bound");
    end(engine, sandbox).await;
}

#[tokio::test]
async fn guest_cannot_bind_to_an_address_of_the_hosts_sockets() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let _listener = listen(&sandbox, ANY, 3128).await;
    let _named = listen(&sandbox, Ipv4Addr::new(198, 18, 0, 9), 5432).await;
    let address = SocketAddrV4::new(ANY, 5353);
    let _datagram = open(&sandbox, GuestSocket::Datagram { address }).await;
    let code = "import socket\n\
                for kind, address in ((1, ('127.0.0.1', 3128)), (1, ('0.0.0.0', 3128)), \
                (1, ('198.18.0.9', 5432)), (2, ('127.0.0.1', 5353)), (2, ('0.0.0.0', 5353)), \
                (1, ('0.0.0.0', 443)), (2, ('127.0.0.1', 53))):\n  \
                s = socket.socket(type=kind)\n  \
                for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):\n    \
                s.setsockopt(socket.SOL_SOCKET, option, 1)\n  \
                try:\n    s.bind(address)\n    kind == 1 and s.listen()\n    print('bound', address)\n  \
                except OSError as error: print(error.errno, end=' ')";
    assert_eq!(print(&mut sandbox, code).await, "98 98 98 98 98 13 13");
    end(engine, sandbox).await;
}

#[tokio::test]
async fn addresses_of_further_ranges_become_local() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let range = GuestPrefix::new(Ipv4Addr::new(93, 184, 215, 0), 24).unwrap();
    let single = GuestPrefix::new(Ipv4Addr::new(192, 0, 2, 7), 32).unwrap();
    let listener = listen(&sandbox, ANY, 443).await;
    assert_eq!(print(&mut sandbox, &connect("93.184.215.14", 443)).await, "101");
    // Twice: a range that is local already stays so.
    for _ in 0..2 {
        assert!(sandbox.open_sockets(&[], &[range, single]).await.unwrap().is_empty());
        for address in ["93.184.215.14", "93.184.215.255", "192.0.2.7"] {
            let text = fetched(&mut sandbox, &listener, address).await;
            assert_eq!(text, format!("{address}:443"));
        }
    }
    for outside in ["93.184.214.255", "93.184.216.0", "192.0.2.6", "192.0.2.8"] {
        assert_eq!(print(&mut sandbox, &connect(outside, 443)).await, "101", "{outside}");
    }
    end(engine, sandbox).await;
}

#[tokio::test]
async fn sandboxes_do_not_meet_through_the_hosts_sockets() {
    let home = TestHome::new(PYTHON);
    let (engine, mut first) = sandbox(&home).await;
    let mut second = engine.create(&home.options(KernelOrigin::Warm)).await.unwrap();
    let of_first = listen(&first, ANY, 8443).await;
    assert_eq!(print(&mut second, &connect("127.0.0.1", 8443)).await, "111");
    // Nor is a synthetic address known to a sandbox without sockets of the host.
    assert_eq!(print(&mut second, &connect("198.18.0.1", 8443)).await, "101");
    let of_second = listen(&second, ANY, 8443).await;
    assert_eq!(fetched(&mut first, &of_first, "198.18.0.1").await, "198.18.0.1:8443");
    assert_eq!(fetched(&mut second, &of_second, "198.18.0.2").await, "198.18.0.2:8443");
    // On the host's own loopback there is none of them.
    assert!(TcpStream::connect("127.0.0.1:8443").await.is_err());
    second.destroy().await.unwrap();
    assert_eq!(fetched(&mut first, &of_first, "127.0.0.1").await, "127.0.0.1:8443");
    end(engine, first).await;
}

#[tokio::test]
async fn sandbox_from_the_pool_gets_sockets_too() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let options = home.options(KernelOrigin::Warm);
    engine.keep_ready(&options, 2).unwrap();
    assert!(eventually_async(TIMEOUT, || engine.ready_count() == 2).await);
    let mut sandbox = engine.create(&options).await.unwrap();
    let listener = listen(&sandbox, ANY, 80).await;
    assert_eq!(fetched(&mut sandbox, &listener, "198.18.3.4").await, "198.18.3.4:80");
    end(engine, sandbox).await;
}

#[tokio::test]
async fn nothing_is_opened_after_the_end_or_beyond_the_bound() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let too_many = vec![GuestSocket::Stream; GUEST_SOCKETS_MAX + 1];
    let refused = sandbox.open_sockets(&too_many, &[]).await.unwrap_err();
    assert!(matches!(refused, TierError::TooLong), "{refused:?}");
    let most = sandbox.open_sockets(&too_many[1..], &[]).await.unwrap();
    assert_eq!(most.len(), GUEST_SOCKETS_MAX);
    let _taken = listen(&sandbox, ANY, 4000).await;
    let twice = sandbox.open_sockets(&[listener(ANY, 4000)], &[]).await.unwrap_err();
    assert!(matches!(&twice, TierError::Step(failure) if failure.errno == Some(98)), "{twice:?}");
    sandbox.kill().await.unwrap();
    let refused = sandbox.open_sockets(&[GuestSocket::Stream], &[]).await.unwrap_err();
    assert!(refused.to_string().contains("open-sockets"), "{refused:?}");
    end(engine, sandbox).await;
}

#[tokio::test]
async fn sandbox_that_died_gets_no_sockets() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    for pid in inits(&engine) {
        signal(pid, Signal::KILL);
    }
    tokio::time::timeout(TIMEOUT, sandbox.died()).await.unwrap();
    let refused = sandbox.open_sockets(&[GuestSocket::Stream], &[]).await.unwrap_err();
    assert!(matches!(&refused, TierError::Step(_)), "{refused:?}");
    end(engine, sandbox).await;
}

#[tokio::test]
async fn containment_says_what_the_network_is() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let network = || {
        let measures = sandbox.containment().measures;
        let network = measures.into_iter().find(|measure| measure.name == "network").unwrap();
        network.enforcement
    };
    let full = |text: &str| Enforcement::Full(text.to_owned());
    assert_eq!(network(), full("loopback only"));
    open(&sandbox, GuestSocket::Stream).await;
    assert_eq!(network(), full("loopback, and sockets of the host"));
    sandbox.report_network(full("proxy, 3 rules"));
    open(&sandbox, GuestSocket::Stream).await;
    assert_eq!(network(), full("proxy, 3 rules"));
    let of_engine: BTreeMap<&str, Enforcement> = engine
        .containment()
        .measures
        .iter()
        .map(|measure| (measure.name, measure.enforcement.clone()))
        .collect();
    assert_eq!(of_engine["network"], full("loopback only"));
    end(engine, sandbox).await;
}

/// Prints how many certificates the usual places hold, and whether one is Silica's.
const TRUST: &str = "import ssl\n\
    for place in ('/etc/ssl/certs/ca-certificates.crt', '/etc/ssl/cert.pem', '/opt/silica/trust/bundle.pem'):\n  \
    text = open(place).read(); print(text.count('BEGIN') > 100, 'extra' in text, end=' ')\n\
    context = ssl.create_default_context(); context.load_verify_locations(place)\n\
    print(len(context.get_ca_certs()) > 100)";

#[tokio::test]
async fn programs_trust_the_public_authorities_and_those_of_the_engine() {
    let home = TestHome::new(PYTHON);
    for (trust, expected) in [
        (None, "True False True False True False True"),
        (Some(b"# extra\n".to_vec()), "True True True True True True True"),
    ] {
        let zygotes = ZygotePolicy::default();
        let engine = start_trusting_engine(home.path(), PYTHON, zygotes, EVERYTHING, trust).await;
        let options = CreateOptions { kernel: KernelOrigin::Fresh, ..CreateOptions::new(PYTHON) };
        let mut sandbox = engine.create(&options).await.unwrap();
        assert_eq!(print(&mut sandbox, TRUST).await, expected);
        end(engine, sandbox).await;
    }
}
