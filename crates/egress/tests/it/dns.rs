//! The DNS server as a guest sees it.

use std::io::{Read, Write};
use std::net::Ipv4Addr;

use silica_domain::{NetworkMode, RuleDraft};

use crate::rig::guest::question;
use crate::rig::{Plan, Rig, list, policy, rule};

const NO_SUCH_NAME: u8 = 3;
const FORMAT_ERROR: u8 = 1;

#[tokio::test(flavor = "multi_thread")]
async fn only_allowed_names_have_addresses() {
    let rig = Rig::start(Plan {
        allow: vec![rule("api.example.com", 443, "tls"), rule("*.cdn.example.com", 443, "tls")],
        deny: vec![RuleDraft { host: Some("bad.cdn.example.com".into()), ..RuleDraft::default() }],
        ..Plan::default()
    })
    .await;
    let first = rig.guest.address("api.example.com");
    assert_eq!(first, Ipv4Addr::new(198, 18, 0, 16));
    assert_eq!(rig.guest.address("API.Example.COM"), first);
    assert_ne!(rig.guest.address("a.cdn.example.com"), first);
    for name in [
        "evil.test",
        "c2VjcmV0.evil.test",
        "cdn.example.com",
        "bad.cdn.example.com",
        "example.com",
        "evil-api.example.com",
        "api.example.com.evil.test",
        "localhost",
    ] {
        assert_eq!(rig.guest.lookup(name), Err(NO_SUCH_NAME), "{name}");
    }
    let denial = rig.recorder.denial("c2vjcmv0.evil.test").await;
    assert_eq!((denial.code.as_str(), denial.port), ("host_not_allowed", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_types_are_empty() {
    let rig =
        Rig::start(Plan { allow: vec![rule("a.example.com", 443, "tls")], ..Plan::default() })
            .await;
    for kind in [28, 65, 255, 16, 15, 5] {
        let answer = rig.guest.ask_dns(&question("a.example.com", kind)).unwrap();
        assert_eq!((answer[3] & 0xf, answer[7]), (0, 0), "type {kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_questions_get_an_error_or_nothing() {
    let rig =
        Rig::start(Plan { allow: vec![rule("a.example.com", 443, "tls")], ..Plan::default() })
            .await;
    let good = question("a.example.com", 1);
    let with = |at: usize, byte: u8| {
        let mut packet = good.clone();
        packet[at] = byte;
        packet
    };
    let nul = question("a\0b.example.com", 1);
    let two = with(5, 2);
    let pointer = [&good[..12], &[0xc0, 12, 0, 1, 0, 1]].concat();
    for (packet, expected) in [
        (nul, FORMAT_ERROR),
        (two, FORMAT_ERROR),
        (pointer, FORMAT_ERROR),
        (with(12, 64), FORMAT_ERROR),
        (good[..16].to_vec(), FORMAT_ERROR),
        (with(2, 0x28), 4),
    ] {
        let answer = rig.guest.ask_dns(&packet).unwrap();
        assert_eq!(answer[3] & 0xf, expected, "{packet:?}");
    }
    assert_eq!(rig.guest.ask_dns(&with(2, 0x80)), None);
    assert!(rig.guest.lookup("a.example.com").is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_over_tcp_are_answered() {
    let rig =
        Rig::start(Plan { allow: vec![rule("a.example.com", 443, "tls")], ..Plan::default() })
            .await;
    let mut stream =
        rig.guest.connect(std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, 53)).unwrap();
    for _ in 0..2 {
        let packet = question("a.example.com", 1);
        stream.write_all(&(packet.len() as u16).to_be_bytes()).unwrap();
        stream.write_all(&packet).unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer[answer.len() - 4..], &[198, 18, 0, 16]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn name_keeps_its_address_when_rules_change() {
    let rules = [rule("a.example.com", 443, "tls"), rule("b.example.com", 443, "tls")];
    let rig = Rig::start(Plan { allow: rules.to_vec(), ..Plan::default() }).await;
    let address = rig.guest.address("b.example.com");
    rig.attachment.update(list(&rules[..1])).await.unwrap();
    assert_eq!(rig.guest.lookup("b.example.com"), Err(NO_SUCH_NAME));
    rig.attachment.update(list(&rules)).await.unwrap();
    rig.guest.address("a.example.com");
    assert_eq!(rig.guest.address("b.example.com"), address);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_network_has_every_public_name_and_none_has_no_name() {
    let rig = Rig::start(Plan { mode: NetworkMode::Open, ..Plan::default() }).await;
    assert!(rig.guest.lookup("anything.example.org").is_ok());
    assert_eq!(rig.guest.lookup("localhost"), Err(NO_SUCH_NAME));
    rig.attachment.update(policy(NetworkMode::None, &[], &[], true)).await.unwrap();
    assert_eq!(rig.guest.lookup("anything.example.org"), Err(NO_SUCH_NAME));
}
