//! The operator's own proxy, through which every connection goes.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use silica_domain::RuleDraft;
use silica_egress::UpstreamProxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::intercept::{HOST, exchange, get, reading_rule};
use crate::rig::{Plan, Rig, far, rule};

/// A proxy that leads every name to one far side, and keeps the heads it was sent.
async fn proxy(to: std::net::IpAddr) -> (std::net::IpAddr, Arc<Mutex<Vec<String>>>) {
    let (listener, address) = far::listen(3129).await;
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&heads);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let kept = Arc::clone(&kept);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                let port: u16 = head.split([' ', ':']).nth(2).unwrap().parse().unwrap();
                kept.lock().unwrap().push(head);
                let mut far = tokio::net::TcpStream::connect((to, port)).await.unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n").await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut far).await;
            });
        }
    });
    (address, heads)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_connection_goes_through_it() {
    let site = far::https(HOST, &["h2", "http/1.1"], far::echo).await;
    let (address, heads) = proxy(site.address).await;
    let mut plan = Plan {
        allow: vec![reading_rule(), rule("raw.example.com", 443, "tcp")],
        ..Plan::default()
    };
    plan.settings.upstream_proxy = Some(UpstreamProxy {
        host: address.to_string(),
        port: 3129,
        authorization: Some("Basic b3BlcmF0b3I6cGFzcw==".to_owned()),
    });
    let rig = Rig::start(plan).await;
    let answer = exchange(&rig, &get("/v1/a", "")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut stream = rig.guest.connect_name("raw.example.com", 443).unwrap();
    stream.write_all(b"not tls\r\n\r\n").unwrap();
    let _ = stream.read(&mut [0; 10]);
    let heads = heads.lock().unwrap().clone();
    assert_eq!(heads.len(), 2);
    assert!(heads[0].starts_with("CONNECT api.example.com:443 HTTP/1.1\r\n"), "{heads:?}");
    assert!(heads[1].starts_with("CONNECT raw.example.com:443 HTTP/1.1\r\n"), "{heads:?}");
    assert!(heads.iter().all(|head| head.contains("Proxy-Authorization: Basic b3Bl")));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_denied_do_not_reach_it() {
    let site = far::http(far::echo).await;
    let (address, heads) = proxy(site.address).await;
    let mut plan = Plan {
        mode: silica_domain::NetworkMode::Open,
        deny: vec![RuleDraft { host: Some("*.evil.test".into()), ..RuleDraft::default() }],
        ..Plan::default()
    };
    let host = address.to_string();
    plan.settings.upstream_proxy = Some(UpstreamProxy { host, port: 3129, authorization: None });
    let rig = Rig::start(plan).await;
    let request =
        b"GET http://x.evil.test/ HTTP/1.1\r\nHost: x.evil.test\r\nConnection: close\r\n\r\n";
    assert!(rig.guest.proxy(request).starts_with("HTTP/1.1 403"));
    assert_eq!(heads.lock().unwrap().len(), 0);
    let request =
        b"GET http://x.good.test/ HTTP/1.1\r\nHost: x.good.test\r\nConnection: close\r\n\r\n";
    assert!(rig.guest.proxy(request).starts_with("HTTP/1.1 200"));
}
