//! The process dies, sandboxes come and go, rules change.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::{Duration, Instant};

use silica_domain::NetworkLimits;
use silica_egress::{AttachSpec, ConnectionState, ProcessChange};

use crate::rig::guest::{Guest, text};
use crate::rig::{Plan, Rig, far, list, rule};

async fn database() -> (Rig, far::Far) {
    let database = far::raw(5432, b"").await;
    let rig = Rig::start(Plan {
        allow: vec![rule("db.example.com", 5432, "tcp")],
        hosts: vec![("db.example.com", database.address)],
        ..Plan::default()
    })
    .await;
    (rig, database)
}

fn ping(stream: &mut std::net::TcpStream) -> std::io::Result<()> {
    stream.write_all(b"ping")?;
    stream.read_exact(&mut [0; 4])
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_process_is_replaced_and_names_keep_their_addresses() {
    let (rig, _database) = database().await;
    let mut stream = rig.guest.connect_name("db.example.com", 5432).unwrap();
    ping(&mut stream).unwrap();
    let address = rig.guest.address("db.example.com");
    let before = rig.egress.process_id().unwrap();
    let pid = rustix::process::Pid::from_raw(before as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_eq!(text(&mut stream), "");
    let changes = &rig.recorder.changes;
    rig.recorder.wait(changes, |change| *change == ProcessChange::Died).await;
    let started = |change: &ProcessChange| matches!(change, ProcessChange::Started(process) if *process != before);
    rig.recorder.wait(changes, started).await;
    // Without a new look-up, as a program does that has the address.
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let connected = rig.guest.connect(SocketAddrV4::new(address, 5432));
        if let Ok(mut stream) = connected
            && ping(&mut stream).is_ok()
        {
            break;
        }
        assert!(Instant::now() < deadline, "the network did not come back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(rig.guest.address("db.example.com"), address);
}

#[tokio::test(flavor = "multi_thread")]
async fn narrowed_rules_close_connections() {
    let (rig, _database) = database().await;
    let mut stream = rig.guest.connect_name("db.example.com", 5432).unwrap();
    ping(&mut stream).unwrap();
    let started = Instant::now();
    rig.attachment.update(list(&[])).await.unwrap();
    assert_eq!(text(&mut stream), "");
    assert!(started.elapsed() < Duration::from_millis(500));
    let record = rig.recorder.connection("db.example.com").await;
    assert_eq!(record.state, ConnectionState::Refused);
    assert_eq!(record.code.as_deref(), Some("host_not_allowed"));
    let address = SocketAddrV4::new("198.18.0.16".parse().unwrap(), 5432);
    assert_eq!(rig.guest.reset(address), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn detached_sandbox_has_no_sockets() {
    let (rig, _database) = database().await;
    let mut stream = rig.guest.connect_name("db.example.com", 5432).unwrap();
    ping(&mut stream).unwrap();
    let Rig { egress, attachment, guest, recorder, .. } = rig;
    attachment.detach().await;
    assert_eq!(recorder.finished.lock().unwrap().len(), 1);
    assert_eq!(text(&mut stream), "");
    let deadline = Instant::now() + Duration::from_secs(5);
    for address in ["127.0.0.1:53", "127.0.0.1:3128", "127.0.0.1:443", "198.18.0.16:5432"] {
        let address: SocketAddrV4 = address.parse().unwrap();
        loop {
            match guest.connect(address) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => break,
                _ => assert!(Instant::now() < deadline, "{address} is still open"),
            }
        }
    }
    assert!(egress.process_id().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_have_networks_of_their_own() {
    let (rig, _database) = database().await;
    let other = Arc::new(Guest::new());
    let spec = AttachSpec {
        sandbox: "sandbox-2".to_owned(),
        key: "key-2".to_owned(),
        policy: list(&[rule("api.example.com", 443, "tls")]),
        secrets: Vec::new(),
        limits: NetworkLimits::default(),
    };
    let sockets = Arc::clone(&other);
    let attachment = rig.egress.attach(spec, sockets).await.unwrap();
    assert!(other.lookup("db.example.com").is_err());
    assert!(other.lookup("api.example.com").is_ok());
    assert!(rig.guest.lookup("api.example.com").is_err());
    drop(rig.attachment);
    assert!(other.lookup("api.example.com").is_ok());
    assert_eq!(attachment.usage().await.denials, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_listed_while_open_and_after() {
    let (rig, _database) = database().await;
    let mut stream = rig.guest.connect_name("db.example.com", 5432).unwrap();
    ping(&mut stream).unwrap();
    let records = rig.attachment.connections().await.unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].state, records[0].bytes_up), (ConnectionState::Open, 4));
    let usage = rig.attachment.usage().await;
    assert_eq!((usage.bytes_up, usage.bytes_down, usage.connections_open), (4, 4, 1));
    drop(stream);
    rig.recorder.connection("db.example.com").await;
    let records = rig.attachment.connections().await.unwrap();
    assert_eq!(records[0].state, ConnectionState::Closed);
}

#[tokio::test(flavor = "multi_thread")]
async fn process_cannot_write_files_and_is_not_dumpable() {
    let (rig, _database) = database().await;
    let process = rig.egress.process_id().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(field("CapEff:"), "0000000000000000");
    assert_eq!(field("CapPrm:"), "0000000000000000");
    assert_eq!(field("NoNewPrivs:"), "1");
    assert_eq!(field("Seccomp:"), "2");
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert!(core.split_whitespace().nth(4) == Some("0"), "{core}");
}
