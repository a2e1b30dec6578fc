//! Servers in sandboxes, reached from outside: below a path, by headers, under a host of their own.

use std::io::Read;

use serde_json::{Value, json};

use crate::harness::http::{Client, Connection, Response};
use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{TIMEOUT, descriptors, eventually};

const SERVER: &str = include_str!("ports/server.py");

/// The domain of ports in these tests.
const DOMAIN: &str = "ports.domain=ports.test";

/// A sandbox that exposes some ports, with a server on port 8000.
fn sandbox(client: &Client) -> TestSandbox {
    let sandbox = TestSandbox::new(client, &json!({"network": {"expose": [8000, 9000]}}));
    assert_eq!(sandbox.print(SERVER), "up");
    sandbox
}

/// The host of a port.
fn host(sandbox: &TestSandbox, port: u16) -> String {
    format!("{port}-{}.ports.test", sandbox.id)
}

/// The server on port 9000 answers each connection with these bytes, and hangs up if told to.
fn answer_with(sandbox: &TestSandbox, bytes: &str, after: &str) {
    let code = format!(
        "import socket, threading, time\n\
         try: raw.shutdown(2); raw.close()\n\
         except NameError: pass\n\
         raw = socket.socket(); raw.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
         raw.bind(('127.0.0.1', 9000)); raw.listen(64)\n\
         def serve(raw):\n  \
         while True:\n    \
         try: c, _ = raw.accept()\n    \
         except OSError: return\n    \
         c.recv(65536)\n    \
         try:\n      c.sendall({bytes})\n      {after}\n    \
         except OSError: pass\n\
         threading.Thread(target=serve, args=(raw,), daemon=True).start(); print('up')"
    );
    assert_eq!(sandbox.print(&code), "up");
}

fn headers_of(echoed: &Value) -> Vec<&str> {
    echoed["headers"].as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn requests_are_passed_on_and_answers_come_back() {
    let server = TestServer::new();
    let sandbox = sandbox(&server.tenant());
    for method in ["GET", "DELETE", "OPTIONS"] {
        let answer = sandbox.client.request(method, &sandbox.at("/ports/8000/a?b=c"), &[], b"");
        let echoed = answer.expect(200).json();
        assert_eq!((&echoed["method"], &echoed["path"]), (&method.into(), &"/a?b=c".into()));
    }
    // As they are: nothing of a path is decoded, joined or shortened.
    for path in
        ["/", "//a///b/", "/a%2fb/%2e%2e/c", "/..%5c", "/a;b=c", "/link", "/?", "/ports/8000/"]
    {
        let answer = sandbox.get(&format!("/ports/8000{path}"));
        assert_eq!(answer.expect(200).json()["path"], path);
    }
    let echoed =
        sandbox.client.put(&sandbox.at("/ports/8000/up"), b"\0\xffbody").expect(200).json();
    assert_eq!((&echoed["method"], &echoed["body"]), (&"PUT".into(), &"\0\u{ff}body".into()));
    let chunked = [("Transfer-Encoding", "chunked")];
    let body = b"4\r\nwiki\r\n5\r\npedia\r\n0\r\n\r\n";
    let echoed = sandbox.client.request("POST", &sandbox.at("/ports/8000/up"), &chunked, body);
    assert_eq!(echoed.expect(200).json()["body"], "wikipedia");
    let large = vec![b'x'; 4 << 20];
    let echoed = sandbox.client.put(&sandbox.at("/ports/8000/up"), &large).expect(200).json();
    assert_eq!(echoed["size"], large.len());
    assert_eq!(sandbox.get("/ports/8000/large").expect(200).body.len(), 8 << 20);
    let missing = sandbox.get("/ports/8000/missing").expect(404);
    assert_eq!(
        (missing.text().as_str(), missing.header("content-type")),
        ("not here", Some("text/plain"))
    );
    let head = sandbox.client.request("HEAD", &sandbox.at("/ports/8000/large"), &[], b"");
    assert_eq!(head.expect(200).header("content-length"), Some("8388608"));
    let slash = sandbox.get("/ports/8000?a=b").expect(308);
    assert_eq!(slash.header("location"), Some(sandbox.at("/ports/8000/?a=b").as_str()));
    for method in ["TRACE", "CONNECT"] {
        let refused = sandbox.client.request(method, &sandbox.at("/ports/8000/"), &[], b"");
        assert!(matches!(refused.status, 400 | 405), "{method} {}", refused.status);
    }
}

#[test]
fn nothing_is_reached_that_is_not_exposed() {
    let server = TestServer::new();
    let (owner, other) = (server.tenant(), server.tenant());
    let sandbox = sandbox(&owner);
    let path = sandbox.at("/ports/8000/");
    let problem = |client: &Client, path: &str| client.get(path).problem();
    assert_eq!(problem(&owner.with_key(None), &path), (401, "unauthorized".to_owned()));
    assert_eq!(problem(&other, &path), (404, "sandbox_not_found".to_owned()));
    for (port, expected) in [
        ("8001", (403, "port_not_exposed")),
        ("80", (403, "port_not_exposed")),
        ("3128", (403, "port_not_exposed")),
        ("9000", (502, "port_closed")),
        ("0", (400, "bad_request")),
        ("65536", (400, "bad_request")),
        ("+8000", (400, "bad_request")),
        ("08000", (400, "bad_request")),
        ("x", (400, "bad_request")),
    ] {
        let found = problem(&owner, &sandbox.at(&format!("/ports/{port}/")));
        assert_eq!(found, (expected.0, expected.1.to_owned()), "{port}");
    }
    for port in [0, 53, 80, 443, 1023, 3128, 49983, 49999, 65536] {
        let refused = owner.post("/v1/sandboxes", &json!({"network": {"expose": [port]}}));
        assert_eq!(refused.problem(), (400, "bad_request".to_owned()), "{port}");
    }
    let closed = TestSandbox::new(&owner, &json!({}));
    assert_eq!(closed.print(SERVER), "up");
    assert_eq!(closed.get("/ports/8000/").problem(), (403, "port_not_exposed".to_owned()));
    assert_eq!(closed.get("/ports").expect(200).json()["ports"], json!([]));
    let ports = sandbox.get("/ports").expect(200).json();
    let open: Vec<(u64, bool)> = ports["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| (port["port"].as_u64().unwrap(), port["open"].as_bool().unwrap()))
        .collect();
    assert_eq!(open, [(8000, true), (9000, false)], "{ports}");
    sandbox.client.delete(&sandbox.path).expect(204);
    assert_eq!(problem(&owner, &path), (409, "sandbox_ended".to_owned()));
}

#[test]
fn no_right_of_the_client_goes_in_and_nothing_acts_on_the_apis_origin() {
    let server = TestServer::new();
    let sandbox = sandbox(&server.tenant());
    let key = sandbox.client.key.clone().unwrap();
    let bearer = format!("Bearer {key}");
    let sent = [
        ("Authorization", bearer.as_str()),
        ("Cookie", "session=1"),
        ("Referer", "http://api/"),
        ("X-Forwarded-For", "6.6.6.6"),
        ("X-Own", "1"),
        ("Connection", "keep-alive, X-Hop"),
        ("X-Hop", "1"),
    ];
    let answer = sandbox.client.request("GET", &sandbox.at("/ports/8000/"), &sent, b"").expect(200);
    assert!(!answer.text().contains(&key), "{}", answer.text());
    let echoed = answer.json();
    let mut names = headers_of(&echoed);
    names.sort_unstable();
    let expected = ["host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-prefix", "x-own"];
    assert_eq!(names, expected);
    assert_eq!(echoed["headers"]["host"], "localhost:8000");
    assert_eq!(echoed["headers"]["x-forwarded-for"], "127.0.0.1");
    assert_eq!(answer.header("content-security-policy"), Some("sandbox"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    let login = sandbox.get("/ports/8000/login").expect(302);
    assert_eq!(login.header("location"), Some(sandbox.at("/ports/8000/welcome").as_str()));
    assert_eq!(login.header("set-cookie"), None);
    // A page of another origin is refused as everywhere.
    let page = [("Origin", "https://evil.example")];
    let refused = sandbox.client.request("GET", &sandbox.at("/ports/8000/"), &page, b"");
    assert_eq!(refused.problem(), (403, "wrong_origin".to_owned()));
}

#[test]
fn events_come_one_by_one() {
    let server = TestServer::new();
    let sandbox = sandbox(&server.tenant());
    let mut events = sandbox.client.events(&sandbox.at("/ports/8000/events"));
    for number in 0..3 {
        assert_eq!(events.next().unwrap().data, number);
        // Only now may the next one be sent: nothing on the way waits for more.
        assert_eq!(
            sandbox.print(&format!("print(open('/tmp/event-{}', 'w').close())", number + 1)),
            "None"
        );
    }
}

/// A WebSocket through the proxy.
struct Socket(Connection);

impl Socket {
    fn open(client: &Client, path: &str, headers: &[(&str, &str)]) -> (Response, Self) {
        let upgrade = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let (head, connection) = client.begin("GET", path, &[headers, &upgrade].concat(), b"");
        (head, Self(connection))
    }

    fn echo(&mut self, text: &str) -> String {
        let size = u16::try_from(text.len()).unwrap().to_be_bytes();
        let mask = [7, 7, 7, 7];
        let mut frame = vec![0x81];
        if text.len() < 126 {
            frame.push(0x80 | size[1]);
        } else {
            frame.extend([0xfe, size[0], size[1]]);
        }
        frame.extend(mask);
        frame.extend(text.bytes().map(|byte| byte ^ 7));
        self.0.send(&frame).unwrap();
        let header = if text.len() < 126 { 2 } else { 4 };
        let mut answer = vec![0; header + text.len()];
        self.0.read_exact(&mut answer).unwrap();
        assert_eq!(answer[0], 0x81);
        String::from_utf8(answer.split_off(header)).unwrap()
    }
}

#[test]
fn websockets_work_and_end_with_their_sandbox() {
    let server = TestServer::with(&[DOMAIN]);
    let sandbox = sandbox(&server.tenant());
    let (head, mut socket) = Socket::open(&sandbox.client, &sandbox.at("/ports/8000/socket"), &[]);
    assert_eq!(head.status, 101);
    assert_eq!(head.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    let own = host(&sandbox, 8000);
    let (head, mut other) = Socket::open(&sandbox.client, "/socket", &[("Host", &own)]);
    assert_eq!(head.status, 101);
    let long = "long ".repeat(10_000);
    for text in ["hello", &long, ""] {
        assert_eq!(socket.echo(text), text);
        assert_eq!(other.echo(text), text);
    }
    sandbox.client.delete(&sandbox.path).expect(204);
    assert!(socket.0.is_closed() && other.0.is_closed());
}

#[test]
fn requests_share_connections_and_survive_their_end() {
    let server = TestServer::new();
    let sandbox = sandbox(&server.tenant());
    for _ in 0..30 {
        sandbox.get("/ports/8000/").expect(200);
    }
    assert_eq!(sandbox.get("/ports/8000/connections").expect(200).text(), "1");
    for _ in 0..3 {
        // The server ends, with every connection that is kept, and another one takes its place.
        let again = "server.shutdown(); server.server_close()\n\
                     import gc, socket\n\
                     for thing in gc.get_objects():\n  \
                     if isinstance(thing, Handler): thing.connection.shutdown(socket.SHUT_RDWR)\n";
        assert_eq!(sandbox.print(&format!("{again}{SERVER}")), "up");
        sandbox.get("/ports/8000/").expect(200);
    }
}

#[test]
fn hostile_answers_are_refused() {
    let server = TestServer::new();
    let sandbox = sandbox(&server.tenant());
    let failed = (502, "port_failed".to_owned());
    for (bytes, after) in [
        ("b'HTTP/1.1 200 OK\\r\\n' + b'a: ' + b'x' * (1 << 20)", "c.close()"),
        (
            "b'HTTP/1.1 200 OK\\r\\n' + b''.join(b'h%d: x\\r\\n' % n for n in range(200)) + b'\\r\\n'",
            "c.close()",
        ),
        (
            "b'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: upgrade\\r\\n\\r\\n'",
            "time.sleep(9)",
        ),
        (
            "b'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: h2c\\r\\nConnection: upgrade\\r\\n\\r\\n'",
            "time.sleep(9)",
        ),
        ("b'SSH-2.0-OpenSSH_9\\r\\n'", "c.close()"),
        ("b'HTTP/0.9 plain'", "c.close()"),
        (
            "b'HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\nContent-Length: 6\\r\\n\\r\\nhello'",
            "c.close()",
        ),
        ("b'HTTP/1.1 200 OK\\r\\nContent-Length: -1\\r\\n\\r\\n'", "c.close()"),
        ("b'HTTP/1.1 200 OK\\r\\nbad name: x\\r\\n\\r\\n'", "c.close()"),
        ("b''", "c.close()"),
    ] {
        answer_with(&sandbox, bytes, after);
        assert_eq!(sandbox.get("/ports/9000/").problem(), failed, "{bytes}");
    }
    // One that asked for a WebSocket gets none of another protocol.
    answer_with(
        &sandbox,
        "b'HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: h2c\\r\\nConnection: upgrade\\r\\n\\r\\n'",
        "time.sleep(9)",
    );
    let (refused, _) = Socket::open(&sandbox.client, &sandbox.at("/ports/9000/"), &[]);
    assert_eq!(refused.status, 502);
    // A body that is shorter than its length never looks complete.
    answer_with(
        &sandbox,
        "b'HTTP/1.1 200 OK\\r\\nContent-Length: 9\\r\\n\\r\\nhello'",
        "c.close()",
    );
    let (head, mut connection) = sandbox.client.begin("GET", &sandbox.at("/ports/9000/"), &[], b"");
    assert_eq!(head.status, 200);
    assert!(connection.read_body().is_err());
    // A second answer that nobody asked for reaches nobody.
    let two = "b'HTTP/1.1 200 OK\\r\\nContent-Length: 1\\r\\n\\r\\n1HTTP/1.1 200 OK\\r\\nContent-Length: 1\\r\\n\\r\\n2'";
    answer_with(&sandbox, two, "time.sleep(1)");
    for _ in 0..3 {
        assert_eq!(sandbox.get("/ports/9000/").expect(200).text(), "1");
    }
    // Every other sandbox, and the server, go on.
    sandbox.get("/ports/8000/").expect(200);
    server.assert_works();
}

#[test]
fn host_of_a_port_is_for_that_port_alone() {
    let server = TestServer::with(&[DOMAIN]);
    let owner = server.tenant();
    let sandbox = sandbox(&owner);
    let own = host(&sandbox, 8000);
    let at = |client: &Client, path: &str, host: &str| {
        client.request("GET", path, &[("Host", host)], b"")
    };
    // No route of the API, of the page or of a facade: all paths are the server's in the sandbox.
    for path in [
        "/",
        "/v1/sandboxes",
        "/healthz",
        "/docs",
        "/metrics",
        "/sandboxes",
        "/files",
        "//x//y",
        "/interpret",
    ] {
        let answer = at(&owner, path, &own).expect(200);
        assert_eq!(answer.json()["path"], path);
        assert_eq!(answer.header("content-security-policy"), None);
        assert_eq!(answer.header("x-content-type-options"), None);
        assert_eq!(answer.json()["headers"]["host"], own);
    }
    let key = owner.key.clone().unwrap();
    assert!(!at(&owner, "/", &own).text().contains(&key));
    let e2b =
        [("Host", own.as_str()), ("E2b-Sandbox-Id", &sandbox.id), ("E2b-Sandbox-Port", "49983")];
    assert_eq!(owner.request("GET", "/health", &e2b, b"").expect(200).json()["path"], "/health");
    let refused = |client: &Client, host: &str| at(client, "/", host).problem();
    let nobody = owner.with_key(None);
    assert_eq!(refused(&nobody, &own), (401, "unauthorized".to_owned()));
    assert_eq!(refused(&server.tenant(), &own), (404, "sandbox_not_found".to_owned()));
    for (name, expected) in [
        (host(&sandbox, 8001), (403, "port_not_exposed")),
        (host(&sandbox, 9000), (502, "port_closed")),
        (host(&sandbox, 49983), (403, "port_not_exposed")),
        ("8000-sbx00000000000000000000.ports.test".to_owned(), (404, "sandbox_not_found")),
        (format!("x.{own}"), (404, "not_found")),
        ("api.ports.test".to_owned(), (404, "not_found")),
        // Not below the domain: the server's own check of hosts.
        ("ports.test".to_owned(), (403, "wrong_origin")),
        ("ports.test.evil.example".to_owned(), (403, "wrong_origin")),
    ] {
        assert_eq!(refused(&owner, &name), (expected.0, expected.1.to_owned()), "{name}");
    }
    let login = at(&owner, "/login", &own).expect(302);
    assert_eq!(login.header("set-cookie"), Some("a=1; Path=/"));
    assert_eq!(login.header("location"), Some("/welcome"));
}

#[test]
fn link_lets_a_browser_in_by_a_cookie() {
    let server = TestServer::with(&[DOMAIN]);
    let owner = server.tenant();
    let sandbox = sandbox(&owner);
    let browser = owner.with_key(None);
    let made = sandbox.post("/ports/8000/link", &json!({"path": "/app?x=1"})).expect(200).json();
    let port = owner.address.port();
    let own = format!("{}:{port}", host(&sandbox, 8000));
    let url = made["url"].as_str().unwrap().to_owned();
    let path = url.strip_prefix(&format!("http://{own}")).unwrap_or_else(|| panic!("{url}"));
    let opened = browser.request("GET", path, &[("Host", &own)], b"").expect(303);
    assert_eq!(opened.header("location"), Some("/app?x=1"));
    assert_eq!(opened.header("referrer-policy"), Some("no-referrer"));
    let cookie = opened.header("set-cookie").unwrap();
    assert!(
        cookie.contains("; HttpOnly; SameSite=Lax; Max-Age=35") && !cookie.contains("Domain"),
        "{cookie}"
    );
    let cookie = format!("theme=dark; {}", cookie.split(';').next().unwrap());
    let visit = |path: &str, host: &str, more: &[(&str, &str)]| {
        let headers = [&[("Host", host), ("Cookie", cookie.as_str())], more].concat();
        browser.request("GET", path, &headers, b"")
    };
    let echoed = visit("/app?x=1", &own, &[]).expect(200).json();
    assert_eq!(
        (&echoed["path"], &echoed["headers"]["cookie"]),
        (&"/app?x=1".into(), &"theme=dark".into())
    );
    // Credentials of the application's own are its own business here.
    let basic = visit("/", &own, &[("Authorization", "Basic dTpw")]).expect(200).json();
    assert_eq!(basic["headers"]["authorization"], "Basic dTpw");
    // Pages of other sandboxes are of the same site.
    let origin = format!("http://{}:{port}", host(&sandbox, 9000));
    for page in [("Origin", origin.as_str()), ("Sec-Fetch-Site", "same-site")] {
        assert_eq!(visit("/", &own, &[page]).problem(), (403, "wrong_origin".to_owned()));
    }
    let (refused, _) = Socket::open(
        &browser,
        "/socket",
        &[("Host", &own), ("Cookie", &cookie), ("Origin", &origin)],
    );
    assert_eq!(refused.status, 403);
    let of_own = format!("http://{own}");
    let (head, mut socket) = Socket::open(
        &browser,
        "/socket",
        &[("Host", &own), ("Cookie", &cookie), ("Origin", &of_own)],
    );
    assert_eq!((head.status, socket.echo("hello").as_str()), (101, "hello"));
    // The cookie is good for this port of this sandbox.
    let other_port = format!("{}:{port}", host(&sandbox, 9000));
    assert_eq!(visit("/", &other_port, &[]).problem(), (401, "unauthorized".to_owned()));
    let other = TestSandbox::new(&owner, &json!({"network": {"expose": [8000]}}));
    let other = format!("{}:{port}", host(&other, 8000));
    assert_eq!(visit("/", &other, &[]).problem(), (401, "unauthorized".to_owned()));
}

#[test]
fn link_to_a_port_is_nothing_else() {
    let server = TestServer::with(&[DOMAIN]);
    let owner = server.tenant();
    let sandbox = TestSandbox::new(&owner, &json!({"network": {"expose": [8000]}}));
    let browser = owner.with_key(None);
    let made = sandbox.post("/ports/8000/link", &json!({})).expect(200).json();
    let own = format!("{}:{}", host(&sandbox, 8000), owner.address.port());
    let url = made["url"].as_str().unwrap().to_owned();
    let path = url.strip_prefix(&format!("http://{own}")).unwrap();
    let token = path.rsplit('/').next().unwrap();
    assert_eq!(
        browser.get(&format!("/v1/links/{token}")).problem(),
        (403, "link_invalid".to_owned())
    );
    let forged = format!("{path}x");
    let refused = browser.request("GET", &forged, &[("Host", &own)], b"");
    assert_eq!(refused.problem(), (403, "link_invalid".to_owned()));
    for body in [
        json!({"path": "//evil.example"}),
        json!({"path": "x"}),
        json!({"path": "/a\r\nb"}),
        json!({"expires_seconds": 0}),
    ] {
        assert_eq!(
            sandbox.post("/ports/8000/link", &body).problem(),
            (400, "bad_request".to_owned())
        );
    }
    assert_eq!(
        sandbox.post("/ports/8001/link", &json!({})).problem(),
        (403, "port_not_exposed".to_owned())
    );
}

#[test]
fn link_without_a_domain_shows_pages_that_do_nothing() {
    let server = TestServer::new();
    let sandbox = sandbox(&server.tenant());
    let made = sandbox.post("/ports/8000/link", &json!({})).expect(200).json();
    let path = made["url"].as_str().unwrap().strip_prefix(&server.url()).unwrap().to_owned();
    let token = path.trim_matches('/').rsplit('/').next().unwrap().to_owned();
    let browser = sandbox.client.with_key(None);
    let referer = format!("{}{path}", server.url());
    let answer = browser
        .request("GET", &format!("{path}page"), &[("Referer", &referer), ("Cookie", "a=1")], b"")
        .expect(200);
    assert_eq!(answer.json()["path"], "/page");
    assert_eq!(answer.header("content-security-policy"), Some("sandbox"));
    assert!(!answer.text().contains(&token), "{}", answer.text());
    let login = browser.get(&format!("{path}login")).expect(302);
    assert_eq!(login.header("location"), Some(format!("{path}welcome").as_str()));
    assert_eq!(login.header("set-cookie"), None);
    assert_eq!(
        browser.get(&format!("/v1/ports/{token}x/")).problem(),
        (403, "link_invalid".to_owned())
    );
}

#[test]
fn connections_are_bounded_and_none_is_left() {
    let server = TestServer::new();
    let owner = server.tenant();
    let sandbox = sandbox(&owner);
    sandbox.get("/ports/8000/").expect(200);
    let before = descriptors(server.pid()).unwrap();
    let path = sandbox.at("/ports/8000/socket");
    let mut sockets: Vec<Socket> = Vec::new();
    let refused = loop {
        let (head, socket) = Socket::open(&owner, &path, &[]);
        if head.status != 101 {
            break head.status;
        }
        sockets.push(socket);
        assert!(sockets.len() <= 64, "more than the bound");
    };
    assert_eq!((refused, sockets.len() >= 60), (429, true), "{}", sockets.len());
    assert_eq!(sockets[0].echo("still here"), "still here");
    // The server and other sandboxes go on.
    let other = self::sandbox(&owner);
    other.get("/ports/8000/").expect(200);
    drop(sockets);
    assert!(eventually(TIMEOUT, || sandbox.get("/ports/8000/").status == 200));
    sandbox.client.delete(&sandbox.path).expect(204);
    other.client.delete(&other.path).expect(204);
    assert!(eventually(TIMEOUT, || descriptors(server.pid()).unwrap() <= before));
}

#[test]
fn traffic_counts_as_use() {
    let server = TestServer::new();
    let options = json!({"network": {"expose": [8000]}, "idle_seconds": 2});
    let sandbox = TestSandbox::new(&server.tenant(), &options);
    assert_eq!(sandbox.print(SERVER), "up");
    let (_, mut socket) = Socket::open(&sandbox.client, &sandbox.at("/ports/8000/socket"), &[]);
    let begin = std::time::Instant::now();
    while begin.elapsed() < std::time::Duration::from_secs(5) {
        assert_eq!(socket.echo("tick"), "tick");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    assert_eq!(sandbox.state().0, "running");
    sandbox.assert_ends("idle");
}

#[test]
fn e2b_reaches_ports_by_headers_and_by_host() {
    let server = TestServer::with(&[DOMAIN]);
    let owner = server.tenant();
    let nobody = owner.with_key(None);
    let port = owner.address.port();
    let create = |network: Value| {
        let body = json!({"templateID": "base", "network": network});
        let made = owner.post("/sandboxes", &body).expect(201).json();
        let id = made["sandboxID"].as_str().unwrap().to_owned();
        let sandbox =
            TestSandbox { client: owner.clone(), path: format!("/v1/sandboxes/{id}"), id };
        assert_eq!(sandbox.print(SERVER), "up");
        (made, sandbox)
    };
    let at_port = |client: &Client, id: &str, port: &str, more: &[(&str, &str)]| {
        let named = [("E2b-Sandbox-Id", id), ("E2b-Sandbox-Port", port)];
        client.request("GET", "/a", &[&named, more].concat(), b"")
    };
    let by_headers = |client: &Client, sandbox: &TestSandbox, more: &[(&str, &str)]| {
        at_port(client, &sandbox.id, "8000", more)
    };
    let (made, public) = create(json!({"allowPublicTraffic": true}));
    assert_eq!(made["domain"], format!("ports.test:{port}"));
    let own = host(&public, 8000);
    assert_eq!(
        nobody.request("GET", "/a", &[("Host", &own)], b"").expect(200).json()["path"],
        "/a"
    );
    assert_eq!(by_headers(&nobody, &public, &[]).expect(200).json()["path"], "/a");
    let (made, private) = create(json!({"allowPublicTraffic": false}));
    assert_eq!(by_headers(&nobody, &private, &[]).status, 401);
    let token = made["trafficAccessToken"].as_str().unwrap();
    let shown = [("E2b-Traffic-Access-Token", token)];
    let echoed = by_headers(&nobody, &private, &shown).expect(200).json();
    assert!(!echoed.to_string().contains(token));
    assert_eq!(at_port(&nobody, &public.id, "8001", &[]).status, 502);
    let (_, closed) = create(json!({}));
    let refused = by_headers(&owner, &closed, &[]).expect(502).json();
    assert_eq!(refused["message"], "The sandbox is running but port is not open");
}
