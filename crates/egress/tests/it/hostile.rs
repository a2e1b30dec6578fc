//! Hellos that lie, and names that lead where they must not.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use silica_domain::RuleDraft;

use crate::rig::guest::{PROXY, text};
use crate::rig::{Plan, Rig, far, rule};

/// Makes a hello that names a host, with a first extension of some length.
fn hello(name: Option<&str>, padding: usize) -> Vec<u8> {
    let mut extensions = Vec::new();
    extensions.extend([0, 21]);
    extensions.extend((padding as u16).to_be_bytes());
    extensions.extend(vec![0; padding]);
    if let Some(name) = name {
        let length = name.len() as u16;
        extensions.extend([0, 0]);
        extensions.extend((length + 5).to_be_bytes());
        extensions.extend((length + 3).to_be_bytes());
        extensions.push(0);
        extensions.extend(length.to_be_bytes());
        extensions.extend(name.as_bytes());
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1];
    message.extend(&(body.len() as u32).to_be_bytes()[1..]);
    message.extend(body);
    message
}

/// Puts a message into records of some length.
fn records(message: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in message.chunks(length) {
        bytes.extend([22, 3, 1]);
        bytes.extend((part.len() as u16).to_be_bytes());
        bytes.extend(part);
    }
    bytes
}

async fn tls_host() -> (Rig, far::Far) {
    let site = far::raw(443, b"").await;
    let rig = Rig::start(Plan {
        allow: vec![rule("good.example.com", 443, "tls"), rule("other.example.com", 443, "tls")],
        hosts: vec![("good.example.com", site.address), ("other.example.com", site.address)],
        ..Plan::default()
    })
    .await;
    (rig, site)
}

#[tokio::test(flavor = "multi_thread")]
async fn hello_must_name_the_host_connected_to() {
    let (rig, site) = tls_host().await;
    for (bytes, what) in [
        (records(&hello(Some("evil.test"), 0), 9999), "another host"),
        (records(&hello(Some("other.example.com"), 0), 9999), "another allowed host"),
        (records(&hello(Some("good.example.com."), 0), 9999), "a dot at the end"),
        (records(&hello(None, 0), 9999), "no host"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "plain HTTP"),
        (b"SSH-2.0-OpenSSH_9.0\r\n".to_vec(), "SSH"),
        (vec![22, 3, 1, 0, 4, 2, 0, 0, 0], "a server's hello"),
    ] {
        let mut stream = rig.guest.connect_name("good.example.com", 443).unwrap();
        stream.write_all(&bytes).unwrap();
        assert_eq!(text(&mut stream), "", "{what}");
        let mut stream = rig.guest.connect(PROXY).unwrap();
        stream
            .write_all(
                b"CONNECT good.example.com:443 HTTP/1.1\r\nHost: good.example.com:443\r\n\r\n",
            )
            .unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        stream.write_all(&bytes).unwrap();
        assert!(!text(&mut stream).contains('\u{16}'), "{what}");
    }
    assert_eq!(site.connections(), 0);
    let record = rig.recorder.connection("good.example.com").await;
    assert_eq!(record.code.as_deref(), Some("hello_differs"));
    assert_eq!(record.bytes_up, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn hello_may_come_in_any_pieces() {
    let (rig, _site) = tls_host().await;
    for (padding, record, piece) in
        [(0, 9999, 1), (4000, 9999, 333), (4000, 100, 4096), (200, 1, 7)]
    {
        let bytes = records(&hello(Some("good.example.com"), padding), record);
        let mut stream = rig.guest.connect_name("good.example.com", 443).unwrap();
        stream.set_nodelay(true).unwrap();
        for part in bytes.chunks(piece) {
            stream.write_all(part).unwrap();
        }
        let mut back = vec![0; bytes.len()];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, bytes, "{padding} {record} {piece}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hello_that_does_not_end_is_closed() {
    let (rig, site) = tls_host().await;
    let bytes = records(&hello(Some("good.example.com"), 0), 9999);
    let started = Instant::now();
    let mut stream = rig.guest.connect_name("good.example.com", 443).unwrap();
    stream.write_all(&bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(text(&mut stream), "");
    assert!(started.elapsed() > Duration::from_secs(4));
    assert!(started.elapsed() < Duration::from_secs(8));
    let mut long = records(&hello(Some("good.example.com"), 60_000), 16_000);
    // A length of 200 000 bytes.
    long[6..9].copy_from_slice(&[3, 13, 64]);
    let mut stream = rig.guest.connect_name("good.example.com", 443).unwrap();
    let _ = stream.write_all(&long);
    assert_eq!(text(&mut stream), "");
    assert_eq!(site.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_lead_to_forbidden_addresses_are_refused() {
    let cases: Vec<(&'static str, IpAddr)> = vec![
        ("ten.example.com", "10.1.2.3".parse().unwrap()),
        ("loop.example.com", "::1".parse().unwrap()),
        ("meta.example.com", "169.254.169.254".parse().unwrap()),
        ("mapped.example.com", "::ffff:10.0.0.1".parse().unwrap()),
        ("nat.example.com", "64:ff9b::a00:1".parse().unwrap()),
        ("cloud.example.com", "fd00:ec2::254".parse().unwrap()),
        ("mixed.example.com", "93.184.215.14".parse().unwrap()),
        ("mixed.example.com", "192.168.1.1".parse().unwrap()),
    ];
    let mut allow: Vec<RuleDraft> = Vec::new();
    for (name, _) in &cases {
        allow.push(rule(name, 443, "tls"));
        allow.push(rule(name, 80, "http"));
    }
    let rig = Rig::start(Plan { allow, hosts: cases.clone(), ..Plan::default() }).await;
    for (name, _) in &cases {
        let request = format!("CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n");
        let mut stream = rig.guest.connect(PROXY).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer[9..], b"403", "{name}");
        let request =
            format!("GET http://{name}/ HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
        let answer = rig.guest.proxy(request.as_bytes());
        assert!(answer.contains("forbidden_address"), "{name}: {answer}");
        let mut stream = rig.guest.connect_name(name, 443).unwrap();
        stream.write_all(&records(&hello(Some(name), 0), 9999)).unwrap();
        assert_eq!(text(&mut stream), "", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_own_port_is_never_reached() {
    let api = far::http(far::echo).await;
    let mut plan = Plan {
        allow: vec![rule("me.example.com", 80, "http")],
        hosts: vec![("me.example.com", api.address)],
        ..Plan::default()
    };
    plan.settings.listeners = vec!["0.0.0.0:80".parse().unwrap()];
    let rig = Rig::start(plan).await;
    let request =
        b"GET http://me.example.com/ HTTP/1.1\r\nHost: me.example.com\r\nConnection: close\r\n\r\n";
    let answer = rig.guest.proxy(request);
    assert!(answer.contains("is the server itself"), "{answer}");
    assert_eq!(api.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn guest_cannot_take_our_sockets() {
    let rig =
        Rig::start(Plan { allow: vec![rule("db.example.com", 5432, "tcp")], ..Plan::default() })
            .await;
    let address = rig.guest.address("db.example.com");
    let taken: Vec<SocketAddrV4> = vec![
        "127.0.0.1:53".parse().unwrap(),
        "127.0.0.1:3128".parse().unwrap(),
        SocketAddrV4::new(address, 5432),
    ];
    for address in taken {
        let bound = rig.guest.inside(|| {
            use rustix::net::{AddressFamily, SocketType, socket, sockopt};
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            sockopt::set_socket_reuseport(&socket, true).unwrap();
            sockopt::set_socket_reuseaddr(&socket, true).unwrap();
            rustix::net::bind(&socket, &address).and_then(|()| rustix::net::listen(&socket, 8))
        });
        assert_eq!(bound, Err(rustix::io::Errno::ADDRINUSE), "{address}");
    }
    // A server of the guest's own on its loopback works.
    let own: SocketAddrV4 = "127.0.0.1:5432".parse().unwrap();
    assert!(rig.guest.inside(|| std::net::TcpListener::bind(own)).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_a_range_are_reached_by_rule() {
    let rig = Rig::start(Plan {
        allow: vec![RuleDraft {
            cidr: Some("127.88.0.0/16".into()),
            ports: vec![9000],
            protocol: Some("tcp".into()),
            ..RuleDraft::default()
        }],
        ..Plan::default()
    })
    .await;
    let listener = std::net::TcpListener::bind("127.88.0.7:9000").unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"reached").unwrap();
    });
    let mut stream = rig.guest.connect("127.88.0.7:9000".parse::<SocketAddrV4>().unwrap()).unwrap();
    assert_eq!(text(&mut stream), "reached");
    assert_eq!(rig.guest.reset("127.89.0.7:9000".parse().unwrap()), "");
}
