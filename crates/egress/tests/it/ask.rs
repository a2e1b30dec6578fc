//! Questions to a person.

use std::io::Write;
use std::time::{Duration, Instant};

use silica_domain::RuleDraft;
use silica_egress::HostAnswer;

use crate::rig::guest::text;
use crate::rig::{Plan, Rig, far};

async fn asking(answer: Option<HostAnswer>) -> (Rig, far::Far) {
    let site = far::http(far::echo).await;
    let rig = Rig::start(Plan {
        ask: true,
        deny: vec![RuleDraft { host: Some("never.example.com".into()), ..RuleDraft::default() }],
        hosts: vec![("new.example.com", site.address)],
        ..Plan::default()
    })
    .await;
    *rig.recorder.answer.lock().unwrap() = answer;
    (rig, site)
}

fn get(rig: &Rig, path: &str) -> String {
    let mut stream = rig.guest.connect_name("new.example.com", 80).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: new.example.com\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    text(&mut stream)
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_for_the_sandbox_is_asked_for_once() {
    let (rig, site) = asking(Some(HostAnswer::AllowForSandbox)).await;
    for _ in 0..3 {
        assert!(get(&rig, "/a").starts_with("HTTP/1.1 200"));
    }
    let questions = rig.recorder.questions.lock().unwrap().clone();
    assert_eq!(questions.len(), 1);
    assert_eq!((questions[0].host.as_str(), questions[0].port), ("new.example.com", 80));
    assert_eq!(questions[0].path.as_deref(), Some("/a"));
    assert_eq!(site.requests().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_for_one_connection_holds_for_it_alone() {
    let (rig, _site) = asking(Some(HostAnswer::AllowOnce)).await;
    assert!(get(&rig, "/a").starts_with("HTTP/1.1 200"));
    *rig.recorder.answer.lock().unwrap() = Some(HostAnswer::Deny);
    let answer = get(&rig, "/b");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(answer.contains("not_approved"), "{answer}");
    assert_eq!(rig.recorder.questions.lock().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn question_without_an_answer_fails_in_time_and_names_the_approval() {
    let (rig, site) = asking(None).await;
    let started = Instant::now();
    let answer = get(&rig, "/a");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(answer.contains(r#""approval":"approval-1""#), "{answer}");
    assert!(answer.contains("not_decided"), "{answer}");
    let waited = started.elapsed();
    assert!(waited > Duration::from_millis(1500) && waited < Duration::from_secs(4), "{waited:?}");
    assert_eq!(site.connections(), 0);
    // A retry finds the decision.
    *rig.recorder.answer.lock().unwrap() = Some(HostAnswer::AllowForSandbox);
    assert!(get(&rig, "/a").starts_with("HTTP/1.1 200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_connections_are_held_and_reset() {
    let (rig, _site) = asking(Some(HostAnswer::Deny)).await;
    let mut stream = rig.guest.connect_name("new.example.com", 443).unwrap();
    let _ = stream.write_all(b"\x16\x03\x01");
    assert_eq!(text(&mut stream), "");
    assert_eq!(rig.recorder.denial("new.example.com").await.code, "not_approved");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_forbidden_is_asked_about() {
    let (rig, _site) = asking(Some(HostAnswer::AllowForSandbox)).await;
    assert_eq!(rig.guest.lookup("never.example.com"), Err(3));
    for target in ["never.example.com:443", "169.254.169.254:80", "[::1]:80"] {
        let request =
            format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n");
        let answer = rig.guest.proxy(request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    }
    assert_eq!(rig.recorder.questions.lock().unwrap().len(), 0);
}
