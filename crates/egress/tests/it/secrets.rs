//! Secrets that guests use and never see.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use silica_domain::RuleDraft;
use silica_egress::{BoundSecret, HeaderInjection, SecretPlace, SecretValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::intercept::{HOST, exchange, get};
use crate::rig::{Plan, Rig, far, rule};

const VALUE: &str = "s3cr3t/Value+with=odd \"chars\"";
const PLACEHOLDER: &str = "silica_secret_token_0123456789abcdef";

fn secret(places: &[SecretPlace]) -> BoundSecret {
    BoundSecret {
        name: "token".to_owned(),
        placeholder: PLACEHOLDER.to_owned(),
        value: SecretValue::new(VALUE.to_owned()).unwrap(),
        hosts: vec![HOST.parse().unwrap()],
        places: places.to_vec(),
        inject: None,
        counts_tokens: false,
    }
}

fn with_secret() -> RuleDraft {
    RuleDraft { secrets: vec!["token".into()], ..rule(HOST, 443, "tls") }
}

/// A far side that says what it got, without the secret in any form that is found.
fn quiet(_: &str) -> Response<Full<Bytes>> {
    Response::new(Full::new(Bytes::from_static(b"ok")))
}

async fn rig(secret: BoundSecret, reply: far::Reply) -> (Rig, far::Far) {
    let site = far::https(HOST, &["h2", "http/1.1"], reply).await;
    let other = far::http(far::echo).await;
    let rig = Rig::start(Plan {
        allow: vec![
            with_secret(),
            RuleDraft { methods: vec!["GET".into()], ..rule("other.example.com", 443, "tls") },
            rule(HOST, 80, "http"),
        ],
        hosts: vec![(HOST, site.address), ("other.example.com", other.address)],
        secrets: vec![secret],
        ..Plan::default()
    })
    .await;
    (rig, site)
}

fn post(kind: &str, body: &str) -> String {
    format!(
        "POST /v1 HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn value_is_put_in_at_each_place() {
    use SecretPlace::{Basic, Body, Header, Path, Query};
    let encoded = "s3cr3t%2FValue%2Bwith%3Dodd%20%22chars%22";
    let basic = STANDARD.encode(format!("user:{PLACEHOLDER}"));
    for (place, request, expected) in [
        (
            Header,
            get("/", &format!("Authorization: Bearer {PLACEHOLDER}\r\n")),
            format!("authorization: Bearer {VALUE}\n"),
        ),
        (
            Basic,
            get("/", &format!("Authorization: Basic {basic}\r\n")),
            format!("authorization: Basic {}\n", STANDARD.encode(format!("user:{VALUE}"))),
        ),
        (Query, get(&format!("/?key={PLACEHOLDER}&x=1"), ""), format!("/?key={encoded}&x=1 ")),
        (Path, get(&format!("/bot{PLACEHOLDER}/x"), ""), format!("/bot{encoded}/x ")),
        (
            Body,
            post("application/json", &format!("{{\"key\": \"{PLACEHOLDER}\"}}")),
            r#"{"key": "s3cr3t/Value+with=odd \"chars\""}"#.to_owned(),
        ),
        (
            Body,
            post("application/x-www-form-urlencoded", &format!("a=1&key={PLACEHOLDER}")),
            format!("a=1&key={encoded}"),
        ),
    ] {
        let (rig, site) = rig(secret(&[place]), quiet).await;
        let answer = exchange(&rig, &request).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{request}: {answer}");
        let seen = &site.requests()[0];
        assert!(seen.contains(&expected), "{place:?}: {seen}");
        let record = rig.recorder.connection(HOST).await;
        assert_eq!(record.requests[0].secrets, ["token"]);
        assert!(!format!("{record:?}").contains("s3cr3t"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholder_at_another_place_is_refused() {
    use SecretPlace::{Body, Header};
    let basic = STANDARD.encode(format!("user:{PLACEHOLDER}"));
    let hidden = PLACEHOLDER.replace('s', "%73");
    let base64 = STANDARD.encode(format!("xx{PLACEHOLDER}yy"));
    for (places, request) in [
        (&[Header][..], get(&format!("/?key={PLACEHOLDER}"), "")),
        (&[Header], get(&format!("/{PLACEHOLDER}"), "")),
        (&[Header], get("/", &format!("Authorization: Basic {basic}\r\n"))),
        (&[Header], get("/", &format!("X-Key: {base64}\r\n"))),
        (&[Header], get(&format!("/?key={hidden}"), "")),
        (&[Header], post("application/json", &format!("\"{PLACEHOLDER}\""))),
        (&[Body], post("multipart/form-data; boundary=x", PLACEHOLDER)),
        (&[Body], get("/", &format!("X-Key: {PLACEHOLDER}\r\n"))),
        (&[Body], post("application/json", &format!("\"{base64}\""))),
    ] {
        let (rig, site) = rig(secret(places), quiet).await;
        let answer = exchange(&rig, &request).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{request}: {answer}");
        assert!(answer.contains("secret_not_allowed"), "{answer}");
        assert!(site.requests().iter().all(|seen| !seen.contains("s3cr3t")));
        assert_eq!(rig.recorder.denial(HOST).await.code, "secret_not_allowed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholder_to_another_host_or_in_the_clear_is_refused() {
    let (rig, _site) = rig(secret(&[SecretPlace::Header]), quiet).await;
    let header = format!("X-Key: {PLACEHOLDER}\r\nConnection: close\r\n\r\n");
    let request = format!("GET http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\n{header}");
    let answer = rig.guest.proxy(request.as_bytes());
    assert!(answer.contains("secret_not_allowed"), "{answer}");
    let address = rig.guest.address("other.example.com");
    let stream = rig.guest.connect_async(std::net::SocketAddrV4::new(address, 443)).unwrap();
    let name = "other.example.com";
    let mut stream = far::guest_tls(stream, name, &rig.authority_pem, &["http/1.1"]).await.unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\n{header}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.contains("secret_not_allowed"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn value_does_not_come_back() {
    let (rig, site) = rig(secret(&[SecretPlace::Header]), |request| {
        let value = request.lines().find_map(|line| line.strip_prefix("x-key: ")).unwrap_or("");
        let encoded = STANDARD.encode(format!("user:{value}"));
        let body = format!("{request}\n{encoded}\n{}", value.replace('/', "%2F"));
        Response::builder()
            .header("x-echo", value)
            .header("set-cookie", format!("token={value}"))
            .body(Full::new(Bytes::from(body)))
            .unwrap()
    })
    .await;
    let headers =
        format!("X-Key: {PLACEHOLDER}\r\nRange: bytes=0-10\r\nAccept-Encoding: gzip, br\r\n");
    let answer = exchange(&rig, &get("/", &headers)).await;
    assert!(site.requests()[0].contains(VALUE));
    assert!(site.requests()[0].contains("accept-encoding: identity"));
    assert!(!site.requests()[0].contains("range:"));
    assert!(answer.contains(&format!("x-echo: {PLACEHOLDER}")), "{answer}");
    assert!(answer.contains(&format!("x-key: {PLACEHOLDER}")), "{answer}");
    assert!(!answer.contains("s3cr3t/Value"), "{answer}");
    assert!(!answer.contains(&STANDARD.encode("s3cr3t/Va")[..10]), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn encoded_answer_is_not_passed_on() {
    let (rig, _site) = rig(secret(&[SecretPlace::Header]), |_| {
        let response = Response::builder().header("content-encoding", "gzip");
        response.body(Full::new(Bytes::from_static(b"\x1f\x8b"))).unwrap()
    })
    .await;
    let answer = exchange(&rig, &get("/", &format!("X-Key: {PLACEHOLDER}\r\n"))).await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn injected_header_replaces_the_guests() {
    let inject = HeaderInjection::new("Authorization", "Bearer {}").unwrap();
    let secret = BoundSecret { inject: Some(inject), ..secret(&[]) };
    let (rig, site) = rig(secret, quiet).await;
    exchange(&rig, &get("/", "Authorization: mine\r\nauthorization: too\r\n")).await;
    let dropping = get("/", "Authorization: mine\r\n");
    exchange(&rig, &dropping.replace("Connection: close", "Connection: close, Authorization"))
        .await;
    assert_eq!(site.requests().len(), 2);
    for seen in site.requests() {
        assert_eq!(seen.matches("authorization").count(), 1, "{seen}");
        assert!(seen.contains(&format!("authorization: Bearer {VALUE}")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_goes_to_no_unverified_host_and_no_other_port() {
    let site = far::serve(443, Some(far::FarAuthority::self_signed(HOST)), far::echo).await;
    let rig = Rig::start(Plan {
        allow: vec![with_secret()],
        hosts: vec![(HOST, site.address)],
        secrets: vec![secret(&[SecretPlace::Header])],
        ..Plan::default()
    })
    .await;
    let answer = exchange(&rig, &get("/", &format!("X-Key: {PLACEHOLDER}\r\n"))).await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    assert_eq!(site.requests(), Vec::<String>::new());
    let mut elsewhere = secret(&[SecretPlace::Header]);
    elsewhere.hosts = vec!["api.example.com:8443".parse().unwrap()];
    rig.attachment.update_secrets(vec![elsewhere]).await.unwrap();
    let answer = exchange(&rig, &get("/", &format!("X-Key: {PLACEHOLDER}\r\n"))).await;
    assert!(answer.contains("secret_not_allowed"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_models_are_counted() {
    let inject = HeaderInjection::new("x-api-key", "{}").unwrap();
    let counting =
        || BoundSecret { inject: Some(inject.clone()), counts_tokens: true, ..secret(&[]) };
    let (json, _site) = rig(counting(), |_| {
        let body = r#"{"usage": {"prompt_tokens": 12, "completion_tokens": 34}}"#;
        Response::new(Full::new(Bytes::from_static(body.as_bytes())))
    })
    .await;
    exchange(&json, &post("application/json", "{}")).await;
    let tokens = json.recorder.wait(&json.recorder.tokens, |_| true).await;
    assert_eq!((tokens.prompt, tokens.completion, tokens.estimated), (12, 34, false));
    let (events, _site) = rig(counting(), |_| {
        let body = "event: message_start\ndata: {\"message\": {\"usage\": {\"input_tokens\": 5, \
                    \"output_tokens\": 1}}}\n\ndata: {\"usage\": {\"output_tokens\": 9}}\n\n";
        let response = Response::builder().header("content-type", "text/event-stream");
        response.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap()
    })
    .await;
    exchange(&events, &post("application/json", "{}")).await;
    let tokens = events.recorder.wait(&events.recorder.tokens, |_| true).await;
    assert_eq!((tokens.prompt, tokens.completion, tokens.estimated), (5, 9, false));
    let (silent, _site) =
        rig(counting(), |_| Response::new(Full::new(Bytes::from(vec![b'a'; 400])))).await;
    exchange(&silent, &post("application/json", &"b".repeat(80))).await;
    let tokens = silent.recorder.wait(&silent.recorder.tokens, |_| true).await;
    assert_eq!((tokens.prompt, tokens.completion, tokens.estimated), (20, 100, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn value_in_frames_and_trailers_does_not_come_back() {
    let acceptor = far::FarAuthority::shared().server(HOST, &["h2"]);
    let (listener, address) = far::listen(443).await;
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let stream = acceptor.accept(stream).await.unwrap();
                let service =
                    hyper::service::service_fn(|request: hyper::Request<hyper::body::Incoming>| {
                        let value = request.headers()["x-key"].to_str().unwrap().to_owned();
                        async move { Ok::<_, std::convert::Infallible>(in_frames(&value)) }
                    });
                let executor = hyper_util::rt::TokioExecutor::new();
                let server = hyper::server::conn::http2::Builder::new(executor);
                let _ =
                    server.serve_connection(hyper_util::rt::TokioIo::new(stream), service).await;
            });
        }
    });
    let rig = Rig::start(Plan {
        allow: vec![with_secret()],
        hosts: vec![(HOST, address)],
        secrets: vec![secret(&[SecretPlace::Header])],
        ..Plan::default()
    })
    .await;
    let stream = crate::intercept::connect(&rig, &["h2"]).await;
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, driver) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(driver);
    let request = hyper::Request::get("https://api.example.com/").header("x-key", PLACEHOLDER);
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let collected = http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
    let trailers = collected.trailers().cloned().unwrap();
    assert_eq!(trailers["x-trailer"], PLACEHOLDER);
    let body = String::from_utf8(collected.to_bytes().to_vec()).unwrap();
    assert_eq!(body, format!("<{PLACEHOLDER}>").repeat(VALUE.len()));
}

/// Answers with the value once for each place at which two frames can divide it, and in trailers.
fn in_frames(
    value: &str,
) -> Response<http_body_util::StreamBody<impl futures_util::Stream<Item = Frames> + use<>>> {
    let mut frames = Vec::new();
    for at in 0..value.len() {
        let whole = format!("<{value}>");
        let (left, right) = whole.split_at(at + 1);
        for part in [left, right] {
            frames.push(Ok(hyper::body::Frame::data(Bytes::from(part.to_owned()))));
        }
    }
    let mut trailers = hyper::HeaderMap::new();
    trailers.insert("x-trailer", value.parse().unwrap());
    frames.push(Ok(hyper::body::Frame::trailers(trailers)));
    Response::new(http_body_util::StreamBody::new(futures_util::stream::iter(frames)))
}

type Frames = Result<hyper::body::Frame<Bytes>, std::convert::Infallible>;
