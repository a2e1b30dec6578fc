//! Connections without proxy variables: to addresses that stand for names.

use std::io::{ErrorKind, Read, Write};

use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::TokioIo;
use silica_egress::{ConnectionKind, ConnectionState};

use crate::rig::{Plan, Rig, far, rule};

#[tokio::test(flavor = "multi_thread")]
async fn raw_bytes_reach_an_allowed_name_and_port() {
    let database = far::raw(5432, b"hello ").await;
    let rig = Rig::start(Plan {
        allow: vec![rule("db.example.com", 5432, "tcp")],
        hosts: vec![("db.example.com", database.address)],
        ..Plan::default()
    })
    .await;
    let mut stream = rig.guest.connect_name("db.example.com", 5432).unwrap();
    stream.write_all(b"ping").unwrap();
    let mut answer = [0; 10];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello ping");
    drop(stream);
    let record = rig.recorder.connection("db.example.com").await;
    assert_eq!(record.kind, ConnectionKind::Tcp);
    assert_eq!(record.state, ConnectionState::Closed);
    assert_eq!((record.bytes_up, record.bytes_down), (4, 10));
    assert_eq!(record.address, Some(far::at(&database, 5432)));
    assert_eq!(record.rule.as_deref(), Some("db.example.com:5432/tcp"));
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_port_is_bound_by_the_parent() {
    let shell = far::raw(22, b"SSH-2.0-test").await;
    let rig = Rig::start(Plan {
        allow: vec![rule("git.example.com", 22, "tcp")],
        hosts: vec![("git.example.com", shell.address)],
        ..Plan::default()
    })
    .await;
    let mut stream = rig.guest.connect_name("git.example.com", 22).unwrap();
    let mut banner = [0; 12];
    stream.read_exact(&mut banner).unwrap();
    assert_eq!(&banner, b"SSH-2.0-test");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_passes_through_with_the_far_sides_own_certificate() {
    let site = far::https("api.example.com", &["h2", "http/1.1"], far::echo).await;
    let rig = Rig::start(Plan {
        allow: vec![rule("api.example.com", 443, "tls")],
        hosts: vec![("api.example.com", site.address)],
        ..Plan::default()
    })
    .await;
    let address = rig.guest.address("api.example.com");
    let stream = rig.guest.connect_async(std::net::SocketAddrV4::new(address, 443)).unwrap();
    let roots = &far::FarAuthority::shared().pem;
    let stream = far::guest_tls(stream, "api.example.com", roots, &["http/1.1"]).await.unwrap();
    let (mut sender, driver) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(driver);
    let request = Request::get("/x").header("host", "api.example.com");
    let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
    let body = sender.send_request(request).await.unwrap().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"GET /x HTTP/1.1"));
    drop(sender);
    let record = rig.recorder.connection("api.example.com").await;
    assert_eq!((record.kind, record.request_count), (ConnectionKind::Pass, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn port_that_no_rule_names_is_refused_at_once() {
    let rig =
        Rig::start(Plan { allow: vec![rule("db.example.com", 5432, "tcp")], ..Plan::default() })
            .await;
    let error = rig.guest.connect_name("db.example.com", 5433).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test(flavor = "multi_thread")]
async fn address_without_a_name_is_reset_and_recorded() {
    let rig = Rig::start(Plan::default()).await;
    for address in ["198.18.7.7:443", "198.18.0.1:80", "127.0.0.1:443"] {
        let address: std::net::SocketAddrV4 = address.parse().unwrap();
        assert_eq!(rig.guest.reset(address), "");
        let denial = rig.recorder.denial(&address.ip().to_string()).await;
        assert_eq!(denial.code, "unknown_address");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_addresses_are_unreachable() {
    let rig = Rig::start(Plan { mode: silica_domain::NetworkMode::Open, ..Plan::default() }).await;
    for address in ["1.1.1.1:443", "169.254.169.254:80", "8.8.8.8:53", "10.0.0.1:22"] {
        let address: std::net::SocketAddrV4 = address.parse().unwrap();
        let error = rig.guest.connect(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NetworkUnreachable, "{address}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_looked_up_by_the_hosts_resolver() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"reached").unwrap();
    });
    let mut plan = Plan {
        allow: vec![rule("localhost", port, "tcp"), rule("none.invalid", 443, "tls")],
        ..Plan::default()
    };
    // The name may have both addresses, and all of them must be allowed.
    plan.settings.private_allowed.push("::1".parse().unwrap());
    let rig = Rig::start(plan).await;
    let mut stream = rig.guest.connect_name("localhost", port).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "reached");
    let request =
        b"CONNECT none.invalid:443 HTTP/1.1\r\nHost: none.invalid:443\r\nConnection: close\r\n\r\n";
    let answer = rig.guest.proxy(request);
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("name_not_resolved"), "{answer}");
}
