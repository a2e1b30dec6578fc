//! Limits that are used up.

use std::io::{Read, Write};
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use silica_domain::NetworkLimits;
use silica_egress::ConnectionState;

use crate::rig::guest::text;
use crate::rig::{Plan, Rig, far, rule};

async fn limited(limits: NetworkLimits) -> (Rig, far::Far) {
    let database = far::raw(5432, b"").await;
    let rig = Rig::start(Plan {
        allow: vec![rule("db.example.com", 5432, "tcp"), rule("*.names.example.com", 443, "tls")],
        hosts: vec![("db.example.com", database.address)],
        limits,
        ..Plan::default()
    })
    .await;
    (rig, database)
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_bounded() {
    let (rig, _database) =
        limited(NetworkLimits { connections: 3, ..NetworkLimits::default() }).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut stream = rig.guest.connect_name("db.example.com", 5432).unwrap();
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        open.push(stream);
    }
    let address = SocketAddrV4::new(rig.guest.address("db.example.com"), 5432);
    assert_eq!(rig.guest.reset(address), "");
    let usage = rig.attachment.usage().await;
    assert!(usage.limit_hit);
    open.pop();
    rig.recorder.connection("db.example.com").await;
    let mut stream = rig.guest.connect_name("db.example.com", 5432).unwrap();
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_bounded() {
    let limits = NetworkLimits { bytes_up: 100_000, ..NetworkLimits::default() };
    let (rig, _database) = limited(limits).await;
    let mut stream = rig.guest.connect_name("db.example.com", 5432).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let drain = std::thread::spawn(move || text(&mut reader).len());
    let mut failed = false;
    for _ in 0..10_000 {
        failed = failed || stream.write_all(&[0; 10_000]).is_err();
    }
    assert!(failed);
    assert!(drain.join().unwrap() <= 200_000);
    let record = rig.recorder.connection("db.example.com").await;
    assert_eq!(record.state, ConnectionState::Refused);
    assert_eq!(record.code.as_deref(), Some("network_limit"));
    let address = SocketAddrV4::new(rig.guest.address("db.example.com"), 5432);
    assert_eq!(rig.guest.reset(address), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_is_bounded() {
    let limits = NetworkLimits { bytes_per_second: 1_000_000, ..NetworkLimits::default() };
    let (rig, _database) = limited(limits).await;
    let mut stream = rig.guest.connect_name("db.example.com", 5432).unwrap();
    let started = Instant::now();
    let mut buffer = vec![0; 100_000];
    // One million at once, and one more in a second; both ways count.
    for _ in 0..10 {
        stream.write_all(&buffer.clone()).unwrap();
        stream.read_exact(&mut buffer).unwrap();
    }
    assert!(started.elapsed() > Duration::from_millis(800), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_lookups_are_bounded() {
    let limits = NetworkLimits { names: 5, lookups_per_second: 30, ..NetworkLimits::default() };
    let (rig, _database) = limited(limits).await;
    for number in 0..5 {
        assert!(rig.guest.lookup(&format!("n{number}.names.example.com")).is_ok());
    }
    assert_eq!(rig.guest.lookup("n5.names.example.com"), Err(2));
    assert!(rig.guest.lookup("n0.names.example.com").is_ok());
    let codes: Vec<_> = (0..200).map(|_| rig.guest.lookup("n0.names.example.com")).collect();
    assert!(codes.contains(&Err(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_are_closed() {
    let limits = NetworkLimits { idle: Duration::from_secs(1), ..NetworkLimits::default() };
    let (rig, _database) = limited(limits).await;
    let mut stream = rig.guest.connect_name("db.example.com", 5432).unwrap();
    let started = Instant::now();
    assert_eq!(text(&mut stream), "");
    assert!(started.elapsed() < Duration::from_secs(4));
    let record = rig.recorder.connection("db.example.com").await;
    assert!(record.message.unwrap().contains("idle_seconds"));
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_reported_once_and_then_counted() {
    let (rig, _database) = limited(NetworkLimits::default()).await;
    for _ in 0..20 {
        assert!(rig.guest.lookup("evil.test").is_err());
    }
    rig.recorder.denial("evil.test").await;
    assert_eq!(rig.attachment.usage().await.denials, 20);
    let recorder = std::sync::Arc::clone(&rig.recorder);
    rig.attachment.detach().await;
    // What was counted is reported at the latest when the sandbox ends.
    let denied = recorder.denied.lock().unwrap();
    let counts: Vec<u64> = denied.iter().map(|denial| denial.count).collect();
    assert_eq!(counts, [1, 19]);
}
