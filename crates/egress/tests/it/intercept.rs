//! TLS that ends in the process, because a rule needs to see requests.

use std::net::SocketAddrV4;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use silica_domain::{NetworkLimits, RuleDraft};
use silica_egress::ConnectionKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::rig::{Plan, Rig, far, rule};

pub(crate) const HOST: &str = "api.example.com";

/// A rule that has to be enforced on requests.
pub(crate) fn reading_rule() -> RuleDraft {
    RuleDraft {
        methods: vec!["GET".into(), "POST".into()],
        paths: vec!["/v1/*".into()],
        ..rule(HOST, 443, "tls")
    }
}

async fn rig(protocols: &[&str], rule: RuleDraft) -> (Rig, far::Far) {
    let site = far::https(HOST, protocols, far::echo).await;
    let rig = Rig::start(Plan {
        allow: vec![rule],
        hosts: vec![(HOST, site.address)],
        ..Plan::default()
    })
    .await;
    (rig, site)
}

/// Connects as a guest that trusts the authority of the process.
pub(crate) async fn connect(rig: &Rig, protocols: &[&str]) -> TlsStream<TcpStream> {
    let address = rig.guest.address(HOST);
    let stream = rig.guest.connect_async(SocketAddrV4::new(address, 443)).unwrap();
    far::guest_tls(stream, HOST, &rig.authority_pem, protocols).await.unwrap()
}

/// Sends raw bytes inside TLS and returns all that comes back.
pub(crate) async fn exchange(rig: &Rig, request: &str) -> String {
    let mut stream = connect(rig, &["http/1.1"]).await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

pub(crate) fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {HOST}\r\n{headers}Connection: close\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_judged_by_method_and_path() {
    for protocols in [&["http/1.1"][..], &["h2", "http/1.1"][..]] {
        let (rig, site) = rig(protocols, reading_rule()).await;
        assert!(exchange(&rig, &get("/v1/a", "")).await.starts_with("HTTP/1.1 200"));
        let answer = exchange(&rig, &get("/v2/a", "")).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(answer.contains("path_not_allowed"), "{answer}");
        let answer = exchange(&rig, &get("/v1/a", "").replace("GET", "DELETE")).await;
        assert!(answer.contains("method_not_allowed"), "{answer}");
        assert_eq!(site.requests().len(), 1);
        let record = rig.recorder.connection(HOST).await;
        assert_eq!(record.kind, ConnectionKind::Intercept);
        assert_eq!(record.requests[0].path, "/v1/a");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_other_hosts_are_refused() {
    let (rig, site) = rig(&["http/1.1"], reading_rule()).await;
    for (request, status) in [
        (get("/v1/a", "").replace(HOST, "evil.test"), "421"),
        (get("/v1/a", "").replace(HOST, "api.example.com:8443"), "421"),
        (get("https://evil.test/v1/a", "").replace(HOST, "evil.test"), "421"),
        (get("http://api.example.com/v1/a", ""), "421"),
        (get("/v1/a", "Host: evil.test\r\n"), "400"),
        (get("/v1/a", "").replace("GET", "TRACE"), "405"),
    ] {
        let answer = exchange(&rig, &request).await;
        assert_eq!(answer.get(9..12), Some(status), "{request}: {answer}");
    }
    assert_eq!(site.requests(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_stream_of_http2_is_judged() {
    for protocols in [&["h2"][..], &["http/1.1"][..]] {
        let (rig, site) = rig(protocols, reading_rule()).await;
        let stream = connect(&rig, &["h2"]).await;
        let (mut sender, driver) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(driver);
        for (uri, host, status) in [
            ("https://api.example.com/v1/a", None, 200),
            ("https://evil.test/v1/a", None, 421),
            ("https://api.example.com/v1/b", Some("evil.test"), 400),
            ("https://api.example.com/v2/b", None, 403),
            ("https://api.example.com/v1/c", None, 200),
        ] {
            let mut request = Request::post(uri);
            if let Some(host) = host {
                request = request.header("host", host);
            }
            let request = request.body(Full::new(Bytes::from_static(b"body"))).unwrap();
            let response = sender.send_request(request).await.unwrap();
            assert_eq!(response.status().as_u16(), status, "{uri}");
            let body = response.collect().await.unwrap().to_bytes();
            assert_eq!(status == 200, body.ends_with(b"body"), "{uri}");
        }
        assert_eq!(site.requests().len(), 2);
        assert_eq!(site.connections(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn far_side_must_be_verified() {
    let site = far::serve(443, Some(far::FarAuthority::self_signed(HOST)), far::echo).await;
    let wrong = far::https("wrong.example.com", &["http/1.1"], far::echo).await;
    for far in [site, wrong] {
        let rig = Rig::start(Plan {
            allow: vec![reading_rule()],
            hosts: vec![(HOST, far.address)],
            ..Plan::default()
        })
        .await;
        let answer = exchange(&rig, &get("/v1/a", "")).await;
        assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
        assert!(answer.contains("tls_failed"), "{answer}");
        assert!(answer.contains("x-silica-egress: failed"), "{answer}");
        assert_eq!(far.requests(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn websocket_passes_where_the_rule_allows_it() {
    let acceptor = far::FarAuthority::shared().server(HOST, &["http/1.1"]);
    let (listener, address) = far::listen(443).await;
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                assert!(String::from_utf8_lossy(&head).contains("sec-websocket-key: x"));
                let answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
                stream.write_all(answer).await.unwrap();
                let mut frame = [0; 5];
                stream.read_exact(&mut frame).await.unwrap();
                stream.write_all(&frame).await.unwrap();
                let _ = stream.shutdown().await;
            });
        }
    });
    let request = format!(
        "GET /v1/ws HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: x\r\n\r\n"
    );
    let plan = |websocket| Plan {
        allow: vec![RuleDraft { websocket, ..reading_rule() }],
        hosts: vec![(HOST, address)],
        ..Plan::default()
    };
    let rig = Rig::start(plan(true)).await;
    let mut stream = connect(&rig, &["http/1.1"]).await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    stream.write_all(b"frame").await.unwrap();
    let mut frame = [0; 5];
    stream.read_exact(&mut frame).await.unwrap();
    assert_eq!(&frame, b"frame");
    let rig = Rig::start(plan(false)).await;
    let answer = exchange(&rig, &request.replace("\r\n\r\n", "\r\nX: 1\r\n\r\n")).await;
    assert!(answer.contains("websocket_not_allowed"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rapid_resets_end_the_connection() {
    let site = far::https(HOST, &["http/1.1"], far::echo).await;
    let rig = Rig::start(Plan {
        allow: vec![reading_rule()],
        hosts: vec![(HOST, site.address)],
        limits: NetworkLimits { connections_burst: 20, ..NetworkLimits::default() },
        ..Plan::default()
    })
    .await;
    let mut stream = connect(&rig, &["h2"]).await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    // A literal head: GET, https, /v1/a and the authority, each by its name's place in the table.
    let mut head = vec![0x82, 0x87, 0x04, 5];
    head.extend(b"/v1/a");
    head.extend([0x01, HOST.len() as u8]);
    head.extend(HOST.as_bytes());
    let mut closed = false;
    for number in 0..20_000_u32 {
        let id = (number * 2 + 1).to_be_bytes();
        bytes.extend([0, 0, head.len() as u8, 1, 5]);
        bytes.extend(id);
        bytes.extend(&head);
        bytes.extend([0, 0, 4, 3, 0]);
        bytes.extend(id);
        bytes.extend([0, 0, 0, 8]);
        if stream.write_all(&std::mem::take(&mut bytes)).await.is_err() {
            closed = true;
            break;
        }
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    // GOAWAY, frame type 7, is among the frames that came.
    let goaway = answer.windows(9).any(|frame| frame[3] == 7 && frame[5..9] == [0; 4]);
    assert!(closed || goaway);
    // Streams that were reset do not become a flood of connections.
    assert!(site.connections() <= 60, "{}", site.connections());
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert_eq!(exchange(&rig, &get("/v1/a", "")).await.get(9..12), Some("200"));
}

#[tokio::test(flavor = "multi_thread")]
async fn header_floods_end_the_connection() {
    let (rig, site) = rig(&["http/1.1"], reading_rule()).await;
    let mut stream = connect(&rig, &["h2"]).await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    // A head that does not end, and continuations of it.
    bytes.extend([0, 0, 1, 1, 1, 0, 0, 0, 1, 0x82]);
    stream.write_all(&bytes).await.unwrap();
    let mut continuation = vec![0, 0x40, 0, 9, 0, 0, 0, 0, 1];
    let mut field = vec![0x00, 1, b'x', 127, 0x80 + 0x7d, 0x7e];
    field.resize(0x4000, b'a');
    continuation.extend(field);
    let mut sent = 0;
    while sent < 4096 && stream.write_all(&continuation).await.is_ok() {
        sent += 1;
    }
    assert!(sent < 4096);
    assert_eq!(site.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_keep_their_status_length_and_trailing_headers() {
    let site = far::https(HOST, &["h2"], |_| {
        let response = hyper::Response::builder().status(StatusCode::CREATED);
        let response =
            response.header("alt-svc", "h3=\":443\"").header("x-silica-egress", "denied");
        response.header("x-own", "1").body(Full::new(Bytes::from_static(b"12345"))).unwrap()
    })
    .await;
    let rig = Rig::start(Plan {
        allow: vec![reading_rule()],
        hosts: vec![(HOST, site.address)],
        ..Plan::default()
    })
    .await;
    let answer = exchange(&rig, &get("/v1/a", "")).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert!(answer.contains("content-length: 5") && answer.contains("x-own: 1"), "{answer}");
    assert!(!answer.contains("alt-svc") && !answer.contains("x-silica-egress"), "{answer}");
}

/// A far side whose answer does not end.
async fn endless(protocols: &[&str]) -> std::net::IpAddr {
    let acceptor = far::FarAuthority::shared().server(HOST, protocols);
    let (listener, address) = far::listen(443).await;
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let upgrade = String::from_utf8_lossy(&head).contains("upgrade");
                let answer: &[u8] = if upgrade {
                    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
                } else {
                    b"HTTP/1.1 200 OK\r\n\r\n"
                };
                stream.write_all(answer).await.unwrap();
                while stream.write_all(&[b'x'; 1000]).await.is_ok() {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn narrowed_rules_end_downloads_and_websockets() {
    for (upgrade, protocol) in
        [("", "http/1.1"), ("", "h2"), ("Upgrade: websocket\r\n", "http/1.1")]
    {
        let address = endless(&["http/1.1"]).await;
        let rig = Rig::start(Plan {
            allow: vec![RuleDraft { websocket: true, ..reading_rule() }],
            hosts: vec![(HOST, address)],
            ..Plan::default()
        })
        .await;
        let download = async {
            let mut stream = connect(&rig, &[protocol]).await;
            if protocol == "h2" {
                let (mut sender, driver) =
                    http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
                tokio::spawn(driver);
                let request = Request::get("https://api.example.com/v1/a");
                let request = request.body(Full::new(Bytes::new())).unwrap();
                let response = sender.send_request(request).await.unwrap();
                return response.into_body().collect().await.is_err();
            }
            let request = get("/v1/a", upgrade).replace("close", "Upgrade");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            !answer.is_empty()
        };
        let narrowing = async {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            assert_eq!(rig.attachment.usage().await.connections_open, 1);
            rig.attachment.update(crate::rig::list(&[])).await.unwrap();
            std::time::Instant::now()
        };
        let (broken, narrowed) = tokio::join!(download, narrowing);
        assert!(broken, "{upgrade} {protocol}");
        assert!(narrowed.elapsed() < std::time::Duration::from_secs(1), "{upgrade} {protocol}");
        let record = rig.recorder.connection(HOST).await;
        assert_eq!(record.code.as_deref(), Some("host_not_allowed"));
        assert_eq!(rig.attachment.usage().await.connections_open, 0);
    }
}
