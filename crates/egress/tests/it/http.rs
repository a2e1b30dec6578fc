//! Plain HTTP, by the proxy and without it, and CONNECT.

use std::io::{Read, Write};

use http_body_util::Full;
use silica_domain::RuleDraft;
use silica_egress::ConnectionKind;

use crate::rig::guest::{PROXY, text};
use crate::rig::{Plan, Rig, far, rule};

/// A network with one plain host.
async fn plain() -> (Rig, far::Far) {
    let site = far::http(far::echo).await;
    let rig = Rig::start(Plan {
        allow: vec![rule("www.example.com", 80, "http")],
        hosts: vec![("www.example.com", site.address)],
        ..Plan::default()
    })
    .await;
    (rig, site)
}

fn direct(rig: &Rig, request: &str) -> String {
    let mut stream = rig.guest.connect_name("www.example.com", 80).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    text(&mut stream)
}

#[tokio::test(flavor = "multi_thread")]
async fn request_is_rebuilt_and_answered() {
    let (rig, site) = plain().await;
    let answer = direct(
        &rig,
        "GET /a?b=c HTTP/1.1\r\nHost: www.example.com\r\nProxy-Authorization: x\r\n\
         Connection: close, X-Hop\r\nX-Hop: 1\r\nX-Kept: 2\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let seen = &site.requests()[0];
    assert!(seen.starts_with("GET /a?b=c HTTP/1.1\n"), "{seen}");
    assert!(seen.contains("x-kept: 2") && !seen.contains("x-hop") && !seen.contains("proxy-auth"));
    let record = rig.recorder.connection("www.example.com").await;
    assert_eq!(record.kind, ConnectionKind::Http);
    let request = &record.requests[0];
    assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/a"));
    assert_eq!(request.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn host_must_be_the_one_connected_to() {
    let (rig, site) = plain().await;
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "421"),
        ("GET / HTTP/1.1\r\nHost: www.example.com:8080\r\n\r\n", "421"),
        ("GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", "421"),
        ("GET http://evil.test/ HTTP/1.1\r\nHost: www.example.com\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: www.example.com\r\nHost: evil.test\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/1.0\r\nHost: www.example.com\r\n\r\n", "400"),
        ("TRACE / HTTP/1.1\r\nHost: www.example.com\r\n\r\n", "405"),
        ("CONNECT evil.test:443 HTTP/1.1\r\nHost: www.example.com\r\n\r\n", "4"),
    ] {
        let answer =
            direct(&rig, &request.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1));
        assert_eq!(answer.get(9..9 + status.len()), Some(status), "{request}: {answer}");
        if status == "421" {
            assert!(answer.to_lowercase().contains("x-silica-egress: denied"), "{answer}");
        }
    }
    assert_eq!(site.requests(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_of_a_kept_connection_is_judged() {
    let (rig, site) = plain().await;
    let mut stream = rig.guest.connect_name("www.example.com", 80).unwrap();
    stream
        .write_all(
            b"GET /1 HTTP/1.1\r\nHost: www.example.com\r\n\r\n\
              GET /2 HTTP/1.1\r\nHost: evil.test\r\n\r\n\
              GET /3 HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    let answer = text(&mut stream);
    let statuses: Vec<&str> =
        answer.match_indices("HTTP/1.1 ").map(|(at, _)| &answer[at + 9..at + 12]).collect();
    // The echoed request lines contain the version as well, without a status behind it.
    let statuses: Vec<&str> =
        statuses.into_iter().filter(|text| text.parse::<u16>().is_ok()).collect();
    assert_eq!(statuses, ["200", "421", "200"], "{answer}");
    assert_eq!(site.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn smuggled_requests_do_not_reach_the_far_side() {
    let (rig, site) = plain().await;
    let both = "POST / HTTP/1.1\r\nHost: www.example.com\r\nContent-Length: 60\r\n\
                Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    direct(&rig, both);
    for header in [
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: xchunked",
        "Content-Length: 1\r\nContent-Length: 2",
        "X: a\r\n b: c",
        "X: a\0b",
    ] {
        let answer =
            direct(&rig, &format!("POST / HTTP/1.1\r\nHost: www.example.com\r\n{header}\r\n\r\nx"));
        assert!(answer.starts_with("HTTP/1.1 400"), "{header:?}: {answer}");
    }
    assert!(site.requests().iter().all(|request| !request.contains("smuggled")));
    assert!(site.requests().len() <= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_are_bounded() {
    let (rig, site) = plain().await;
    let long =
        format!("GET / HTTP/1.1\r\nHost: www.example.com\r\nX: {}\r\n\r\n", "a".repeat(1 << 20));
    let many = format!("GET / HTTP/1.1\r\nHost: www.example.com\r\n{}\r\n", "X: a\r\n".repeat(101));
    let mut stream = rig.guest.connect_name("www.example.com", 80).unwrap();
    // The answer may come before all of it is sent.
    let _ = stream.write_all(long.as_bytes());
    let answer = text(&mut stream);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert!(direct(&rig, &many).starts_with("HTTP/1.1 431"));
    let started = std::time::Instant::now();
    assert_eq!(direct(&rig, "GET / HTTP/1.1\r\nHost: www.exa").find("HTTP/1.1 2"), None);
    assert!(started.elapsed() < std::time::Duration::from_secs(8));
    assert_eq!(site.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_serves_whole_urls_of_allowed_hosts() {
    let (rig, site) = plain().await;
    let answer = rig.guest.proxy(
        b"GET http://www.example.com/p HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(site.requests()[0].starts_with("GET /p HTTP/1.1"));
    for (target, host, status) in [
        ("http://evil.test/", "evil.test", "403"),
        ("http://127.0.0.1:3128/", "127.0.0.1:3128", "403"),
        ("http://169.254.169.254/", "169.254.169.254", "403"),
        ("http://[::1]:80/", "[::1]:80", "403"),
        ("http://2130706433/", "2130706433", "403"),
        ("http://www.example.com:81/", "www.example.com:81", "403"),
        ("https://www.example.com/", "www.example.com", "400"),
        ("/metrics", "www.example.com", "400"),
        ("http://www.example.com/", "evil.test", "400"),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = rig.guest.proxy(request.as_bytes());
        assert_eq!(answer.get(9..12), Some(status), "{target}: {answer}");
    }
    let body = rig
        .guest
        .proxy(b"GET http://evil.test/x HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n");
    assert!(body.contains(r#""code":"egress_not_allowed""#), "{body}");
    assert!(body.contains(r#""reason":"host_not_allowed""#), "{body}");
    assert_eq!(rig.recorder.denial("evil.test").await.code, "host_not_allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_takes_one_form_of_a_host() {
    let site = far::raw(443, b"").await;
    let rig = Rig::start(Plan {
        allow: vec![rule("allowed.example", 443, "tls")],
        hosts: vec![("allowed.example", site.address)],
        ..Plan::default()
    })
    .await;
    for (target, status) in [
        ("allowed.example:443", "200"),
        ("ALLOWED.example:443", "200"),
        ("evil.test:443", "403"),
        ("allowed.example:22", "403"),
        ("allowed.example.:443", "403"),
        ("169.254.169.254:80", "403"),
        ("2130706433:80", "403"),
        ("0x7f.1:80", "403"),
        ("127.1:80", "403"),
        ("0177.0.0.1:80", "403"),
        ("[::1]:22", "403"),
        ("[::ffff:127.0.0.1]:80", "403"),
        ("evil.test@allowed.example:443", "400"),
        ("allowed.example:443@evil.test", "400"),
        ("evil\0.allowed.example:443", "400"),
        ("allowed%2eexample:443", "400"),
        ("allowed.example", "400"),
        ("xn--llowed-9db.example:443", "403"),
    ] {
        let mut stream = rig.guest.connect(PROXY).unwrap();
        write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(std::str::from_utf8(&answer[9..]), Ok(status), "{target:?}");
    }
    assert_eq!(site.connections(), 0);
    let denial = rig.recorder.denial("evil.test").await;
    assert_eq!((denial.port, denial.code.as_str()), (443, "host_not_allowed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_to_a_plain_host_is_read_as_http() {
    let (rig, site) = plain().await;
    let mut stream = rig.guest.connect(PROXY).unwrap();
    stream
        .write_all(
            b"CONNECT www.example.com:80 HTTP/1.0\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    let answer = text(&mut stream);
    assert!(answer.contains("421"), "{answer}");
    assert_eq!(site.requests(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_and_paths_of_a_rule_are_enforced() {
    let site = far::http(far::echo).await;
    let rig = Rig::start(Plan {
        allow: vec![RuleDraft {
            methods: vec!["GET".into()],
            paths: vec!["/v1/*".into()],
            ..rule("www.example.com", 80, "http")
        }],
        hosts: vec![("www.example.com", site.address)],
        ..Plan::default()
    })
    .await;
    for (line, status) in [
        ("GET /v1/a", "200"),
        ("GET /v1/%61", "200"),
        ("POST /v1/a", "403"),
        ("GET /v2/a", "403"),
        ("GET /v1/../v2", "400"),
        ("GET /v1/%2e%2e/v2", "400"),
        ("GET //v1/a", "400"),
        ("GET /v1/%252e%252e/v2", "400"),
        ("GET /v1/a%2fb", "400"),
        ("GET /v1/..;/v2", "400"),
        ("GET /v1/a%00", "400"),
    ] {
        let answer = direct(
            &rig,
            &format!("{line} HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n\r\n"),
        );
        assert_eq!(answer.get(9..12), Some(status), "{line}: {answer}");
    }
    assert_eq!(site.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_passed_on_and_upgrades_are_not() {
    let site = far::http(|_| {
        let response = hyper::Response::builder().status(302);
        response.header("location", "http://169.254.169.254/").body(Full::default()).unwrap()
    })
    .await;
    let rig = Rig::start(Plan {
        allow: vec![rule("www.example.com", 80, "http")],
        hosts: vec![("www.example.com", site.address)],
        ..Plan::default()
    })
    .await;
    let answer = direct(
        &rig,
        "GET / HTTP/1.1\r\nHost: www.example.com\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\
         Connection: Upgrade, HTTP2-Settings, close\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 302"), "{answer}");
    assert!(answer.contains("location: http://169.254.169.254/"), "{answer}");
    assert!(!site.requests()[0].contains("upgrade"), "{}", site.requests()[0]);
    let answer = direct(
        &rig,
        "GET / HTTP/1.1\r\nHost: www.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: x\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(site.requests().len(), 1);
}
