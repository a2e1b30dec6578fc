//! Guests that use as much as they can, beside one that works.

use std::io::{Read, Write};
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::{Duration, Instant};

use silica_domain::NetworkLimits;
use silica_egress::AttachSpec;

use crate::rig::guest::{Guest, question};
use crate::rig::{Plan, Rig, far, list, rule};

/// How much memory a process has resident.
fn resident_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn flooding_guest_does_not_stop_its_neighbour() {
    let database = far::raw(5432, b"").await;
    let rig = Rig::start(Plan {
        allow: vec![rule("db.example.com", 5432, "tcp")],
        hosts: vec![("db.example.com", database.address)],
        ..Plan::default()
    })
    .await;
    let neighbour = Arc::new(Guest::new());
    let spec = AttachSpec {
        sandbox: "sandbox-2".to_owned(),
        key: "key-2".to_owned(),
        policy: list(&[rule("db.example.com", 5432, "tcp")]),
        secrets: Vec::new(),
        limits: NetworkLimits::default(),
    };
    let sockets = Arc::clone(&neighbour);
    let attachment = rig.egress.attach(spec, sockets).await.unwrap();
    let mut working = neighbour.connect_name("db.example.com", 5432).unwrap();
    let address = SocketAddrV4::new(rig.guest.address("db.example.com"), 5432);
    let guest = Arc::clone(&rig.guest);
    let flood = std::thread::spawn(move || {
        guest.inside(|| {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let packet = question("data.evil.test", 1);
            let mut kept = Vec::new();
            for number in 0..3000 {
                for _ in 0..10 {
                    let _ = socket.send_to(&packet, "127.0.0.1:53");
                }
                // A reader that does not read, with as much sent to it as it takes.
                if let Ok(mut stream) = std::net::TcpStream::connect(address) {
                    stream.set_nonblocking(true).unwrap();
                    let _ = stream.write(&vec![0; 64 * 1024]);
                    kept.push(stream);
                }
                if number % 500 == 0 {
                    kept.clear();
                }
            }
        });
    });
    let mut slowest = Duration::ZERO;
    let mut turns = 0;
    while !flood.is_finished() || turns < 50 {
        let started = Instant::now();
        working.write_all(b"ping").unwrap();
        working.read_exact(&mut [0; 4]).unwrap();
        slowest = slowest.max(started.elapsed());
        turns += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    flood.join().unwrap();
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    let usage = rig.attachment.usage().await;
    assert!(usage.limit_hit && usage.connections_open <= 64, "{usage:?}");
    assert!(!attachment.usage().await.limit_hit);
    let resident = resident_bytes(rig.egress.process_id().unwrap());
    assert!(resident < 100 * 1024 * 1024, "{resident}");
}
