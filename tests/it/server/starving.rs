//! One key does its worst with connections, bodies and transfers; the others go on.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::http::{Client, Connection};
use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{TIMEOUT, eventually};

/// More than the runtime has threads for blocking work.
const MANY: usize = 560;

/// The longest that a call of another key may take.
const PROMPT: Duration = Duration::from_secs(5);

/// Asserts that another key's calls that need a thread are answered.
#[track_caller]
fn assert_prompt(other: &TestSandbox) {
    let began = Instant::now();
    other.client.put(&other.at("/files/content?path=note.txt"), b"note").expect(201);
    other.get("/files/content?path=note.txt").expect(200);
    other.get("/files?path=/workspace").expect(200);
    other.client.get("/v1/sandboxes").expect(200);
    other.client.get("/v1/audit").expect(200);
    other.client.delete(&other.at("/files?path=note.txt")).expect(204);
    assert!(began.elapsed() < PROMPT, "took {:?}", began.elapsed());
}

/// Sends the beginning of many requests, and leaves them.
fn begin_many(client: &Client, request: &str) -> Vec<TcpStream> {
    let begin = |_| {
        let mut stream = TcpStream::connect(client.address).unwrap();
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        stream
    };
    (0..MANY).map(begin).collect()
}

#[test]
fn uploads_that_stall_hold_no_thread() {
    let server = TestServer::new();
    let (attacker, victim) = (server.tenant(), server.tenant());
    let own = TestSandbox::new(&attacker, &json!({}));
    let other = TestSandbox::new(&victim, &json!({}));
    let path = own.at("/files/content?path=slow.bin");
    let head = attacker.head("PUT", &path, &[], 100_000);
    let stalled = begin_many(&attacker, &format!("{head}x"));
    assert_prompt(&other);
    drop(stalled);
}

#[test]
fn downloads_that_are_not_read_hold_no_thread() {
    let server = TestServer::new();
    let (attacker, victim) = (server.tenant(), server.tenant());
    let own = TestSandbox::new(&attacker, &json!({}));
    let other = TestSandbox::new(&victim, &json!({}));
    let path = own.at("/files/content?path=large.bin");
    attacker.put(&path, &vec![0; 32 << 20]).expect(201);
    let head = attacker.head("GET", &path, &[], 0);
    let unread = begin_many(&attacker, &head);
    assert_prompt(&other);
    let archive = attacker.head("GET", &own.at("/files/archive?path=/workspace"), &[], 0);
    let unread_archives = begin_many(&attacker, &archive);
    assert_prompt(&other);
    drop((unread, unread_archives));
}

#[test]
fn transfers_of_one_key_wait_for_each_other() {
    let server = TestServer::with(&["quota.transfers=2"]);
    let (attacker, victim) = (server.tenant(), server.tenant());
    let own = TestSandbox::new(&attacker, &json!({}));
    let other = TestSandbox::new(&victim, &json!({}));
    let path = "/files/content?path=large.bin";
    for sandbox in [&own, &other] {
        sandbox.client.put(&sandbox.at(path), &vec![7; 16 << 20]).expect(201);
    }
    let held: Vec<Connection> = (0..2)
        .map(|_| {
            let (response, connection) = own.client.begin("GET", &own.at(path), &[], b"");
            assert_eq!(response.status, 200);
            connection
        })
        .collect();
    assert_eq!(other.get(path).expect(200).body.len(), 16 << 20);
    let stats = attacker.get("/v1/stats").json();
    assert_eq!(stats["budgets"]["transfers"], json!({"held": 2, "most": 2}));
    // Small files need no permit.
    own.client.put(&own.at("/files/content?path=small.txt"), b"small").expect(201);
    own.get("/files/content?path=small.txt").expect(200);
    let waiting = std::thread::spawn(move || own.get(path).expect(200).body.len());
    drop(held);
    assert_eq!(waiting.join().unwrap(), 16 << 20);
}

#[test]
fn the_end_of_a_sandbox_ends_its_transfers() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let path = sandbox.at("/files/content?path=large.bin");
    sandbox.client.put(&path, &vec![0; 32 << 20]).expect(201);
    let open = || std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    let archive = sandbox.at("/files/archive?path=/workspace");
    let unread: Vec<_> = [&path, &path, &path, &archive]
        .map(|path| sandbox.client.begin("GET", path, &[], b""))
        .into_iter()
        .collect();
    let before = open();
    sandbox.client.delete(&sandbox.path).expect(204);
    // The connections are still open; the files that were read are not. The archive has its directory open, too.
    assert!(
        eventually(TIMEOUT, || open() + 5 <= before),
        "{} of {before} descriptors are open",
        open()
    );
    for (response, mut connection) in unread {
        assert_eq!(response.status, 200);
        assert!(connection.read_body().is_err(), "the body was not complete");
    }
}

#[test]
fn silent_connections_lock_no_one_out() {
    let server = TestServer::with(&["capacity.connections=32"]);
    let silent: Vec<_> =
        (0..64).map(|_| TcpStream::connect(server.admin.address).unwrap()).collect();
    let began = Instant::now();
    server.assert_works();
    assert!(began.elapsed() < PROMPT, "took {:?}", began.elapsed());
    drop(silent);
}

#[test]
fn connections_of_one_key_are_bounded() {
    let server = TestServer::with(&["quota.connections=8"]);
    let (attacker, victim) = (server.tenant(), server.tenant());
    let mut open = Vec::new();
    let mut refused = None;
    for _ in 0..9 {
        let mut connection = attacker.connect();
        connection.send(attacker.head("GET", "/v1/stats", &[], 0).as_bytes()).unwrap();
        let mut response = connection.read_head("GET");
        response.body = connection.read_body().unwrap();
        match response.status {
            200 => open.push(connection),
            _ => refused = Some(response),
        }
    }
    assert_eq!(open.len(), 8);
    let refused = refused.unwrap();
    assert_eq!(refused.problem(), (429, "quota_exceeded".to_owned()));
    assert!(refused.header("retry-after").is_some());
    victim.get("/v1/stats").expect(200);
    drop(open);
    let again = || attacker.get("/v1/stats").status == 200;
    assert!(eventually(TIMEOUT, again), "closed connections count no more");
}

#[test]
fn bodies_of_one_key_are_bounded() {
    let server = TestServer::with(&["quota.in_flight_bytes=1M"]);
    let (attacker, victim) = (server.tenant(), server.tenant());
    let half = json!({"code": "x".repeat(600_000)}).to_string();
    let head = attacker.head("POST", "/v1/run", &[], half.len());
    // All but the last byte: the body is in memory, and the request goes on.
    let mut first = attacker.connect();
    first.send(&[head.as_bytes(), &half.as_bytes()[..half.len() - 1]].concat()).unwrap();
    let in_flight = || {
        let stats = attacker.get("/v1/stats").json();
        stats["budgets"]["in_flight_bytes"]["held"].as_u64().unwrap()
    };
    assert!(eventually(TIMEOUT, || in_flight() > 500_000), "{} bytes are held", in_flight());
    let second = attacker.request("POST", "/v1/run", &[], half.as_bytes());
    assert_eq!(second.problem(), (429, "quota_exceeded".to_owned()));
    let ran = victim.post("/v1/run", &json!({"code": format!("#{}", "x".repeat(600_000))}));
    ran.expect(200);
    first.send(&half.as_bytes()[half.len() - 1..]).unwrap();
    assert_eq!(first.read_head("POST").status, 200);
    assert!(eventually(TIMEOUT, || in_flight() == 0), "{} bytes are held", in_flight());
}

#[test]
fn bodies_of_very_many_values_are_refused() {
    let server = TestServer::new();
    let files: Vec<_> =
        (0..300_000).map(|number| json!({"path": number.to_string(), "content": ""})).collect();
    let began = Instant::now();
    let refused = server.admin.post("/v1/run", &json!({"code": "1", "files": files}));
    assert_eq!(refused.problem(), (413, "too_large".to_owned()));
    let some = json!({"code": "1", "files": &files[..1001]});
    assert_eq!(server.admin.post("/v1/run", &some).problem(), (400, "bad_request".to_owned()));
    assert!(began.elapsed() < PROMPT, "took {:?}", began.elapsed());
}

#[test]
fn a_request_names_one_host() {
    let server = TestServer::new();
    let port = server.admin.address.port();
    let status = |target: &str, hosts: &[&str]| {
        let hosts: Vec<String> = hosts.iter().map(|host| format!("Host: {host}\r\n")).collect();
        let hosts = hosts.concat();
        let mut connection = server.admin.connect();
        let request = format!("GET {target} HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n");
        connection.send(request.as_bytes()).unwrap();
        connection.read_head("GET").status
    };
    let own = format!("127.0.0.1:{port}");
    assert_eq!(status("/healthz", &[&own]), 200);
    assert_eq!(status(&format!("http://{own}/healthz"), &[&own]), 200);
    assert_eq!(status("/healthz", &[&own, &own]), 400);
    assert_eq!(status("/healthz", &[&own, "evil.test"]), 400);
    assert_eq!(status("/healthz", &["[::1].evil.test"]), 400);
    assert_eq!(status("/healthz", &["localhost:evil.test"]), 400);
    assert_eq!(status("/healthz", &["evil.test"]), 403);
    assert_eq!(status("http://evil.test/healthz", &[&own]), 400);
}

/// A message of Connect.
fn message(value: &serde_json::Value) -> Vec<u8> {
    let text = value.to_string();
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    [&[0_u8][..], &length, text.as_bytes()].concat()
}

/// A streamed request whose last chunk comes late: when the response begins, or when it has ended.
struct LateEnd<'a> {
    server: &'a TestServer,
    headers: Vec<(&'a str, &'a str)>,
}

impl LateEnd<'_> {
    /// Sends a body without its last chunk.
    fn begin(&self, path: &str, body: &[u8]) -> Connection {
        let mut headers = self.headers.clone();
        headers.push(("Transfer-Encoding", "chunked"));
        let head = self.server.admin.head("POST", path, &headers, 0);
        let chunk = [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n"].concat();
        let mut connection = self.server.admin.connect();
        connection.send(&[head.as_bytes(), &chunk].concat()).unwrap();
        connection
    }

    /// Asserts that the next request on the connection is answered.
    fn assert_usable(&self, mut connection: Connection, what: &str) {
        connection.send(self.server.admin.head("GET", "/v1/stats", &[], 0).as_bytes()).unwrap();
        let next = connection.try_read_head("GET");
        assert_eq!(next.unwrap_or_else(|error| panic!("{what}: {error}")).status, 200, "{what}");
    }

    /// For responses that do not wait for the end of the body.
    fn check_after_response(&self, path: &str, body: &[u8]) {
        let mut connection = self.begin(path, body);
        assert_eq!(connection.read_head("POST").status, 200, "{path}");
        connection.read_body().unwrap();
        std::thread::sleep(LATE);
        connection.send(b"0\r\n\r\n").unwrap();
        self.assert_usable(connection, path);
    }

    /// For requests that are answered only when their body is complete.
    fn check_before_response(&self, path: &str, body: &[u8]) {
        let mut connection = self.begin(path, body);
        std::thread::sleep(LATE);
        connection.send(b"0\r\n\r\n").unwrap();
        assert_eq!(connection.read_head("POST").status, 200, "{path}");
        connection.read_body().unwrap();
        self.assert_usable(connection, path);
    }
}

/// How late the last chunk is.
const LATE: Duration = Duration::from_millis(50);

/// Every streamed request of E2B's facade: the next request on the connection is answered.
#[test]
fn a_late_end_of_a_body_does_not_close_the_connection() {
    let server = TestServer::new();
    let body = json!({"templateID": "base", "timeout": 120});
    let made = server.admin.post("/v2/sandboxes", &body).expect(201).json();
    let token = made["envdAccessToken"].as_str().unwrap();
    let id = made["sandboxID"].as_str().unwrap();
    let of = |port, kind| {
        let headers = vec![
            ("X-Access-Token", token),
            ("E2b-Sandbox-Id", id),
            ("E2b-Sandbox-Port", port),
            ("Content-Type", kind),
        ];
        LateEnd { server: &server, headers }
    };
    let streams = of("49983", "application/connect+json");
    let start = json!({"process": {"cmd": "/bin/cat", "args": []}, "tag": "cat", "stdin": true});
    let true_ = json!({"process": {"cmd": "/bin/true", "args": []}});
    streams.check_after_response("/process.Process/Start", &message(&true_));
    let missing = message(&json!({"process": {"pid": 9999}}));
    streams.check_before_response("/process.Process/Connect", &missing);
    let nowhere = message(&json!({"path": "/home/user/nowhere"}));
    streams.check_before_response("/filesystem.Filesystem/WatchDir", &nowhere);
    // A command that reads: its input comes by streams and calls of their own.
    let live = |path: &str, body: &serde_json::Value| {
        let mut stream = streams.begin(path, &message(body));
        assert_eq!(stream.read_head("POST").status, 200);
        std::thread::sleep(LATE);
        stream.send(b"0\r\n\r\n").unwrap();
        stream
    };
    let mut cat = live("/process.Process/Start", &start);
    let connect = json!({"process": {"tag": "cat"}});
    let mut connected = live("/process.Process/Connect", &connect);
    let input = json!({"start": {"process": {"tag": "cat"}}});
    streams.check_before_response("/process.Process/StreamInput", &message(&input));
    let calls = of("49983", "application/json");
    let input = json!({"process": {"tag": "cat"}, "input": {"stdin": "eA=="}}).to_string();
    calls.check_before_response("/process.Process/SendInput", input.as_bytes());
    let path = json!({"path": "/"}).to_string();
    calls.check_before_response("/filesystem.Filesystem/ListDir", path.as_bytes());
    let close = json!({"process": {"tag": "cat"}}).to_string();
    calls.check_before_response("/process.Process/CloseStdin", close.as_bytes());
    cat.read_body().unwrap();
    streams.assert_usable(cat, "a Start that ends by itself");
    connected.read_body().unwrap();
    streams.assert_usable(connected, "a Connect that ends by itself");
    let interpreter = of("49999", "application/json");
    let code = json!({"code": "print(1)"}).to_string();
    interpreter.check_before_response("/execute", code.as_bytes());
    let upload = of("49983", "application/octet-stream");
    upload.check_before_response("/files?path=late.txt", b"late");
}

/// A watch that is alive when the end of its request comes, and a client that leaves it.
#[test]
fn a_late_end_of_a_watch_does_not_end_it() {
    let server = TestServer::new();
    let made = server.admin.post("/v2/sandboxes", &json!({"templateID": "base"})).expect(201);
    let made = made.json();
    let headers = vec![
        ("X-Access-Token", made["envdAccessToken"].as_str().unwrap()),
        ("E2b-Sandbox-Id", made["sandboxID"].as_str().unwrap()),
        ("E2b-Sandbox-Port", "49983"),
        ("Content-Type", "application/connect+json"),
    ];
    let late = LateEnd { server: &server, headers };
    let watch = message(&json!({"path": "/home/user"}));
    let mut watching = late.begin("/filesystem.Filesystem/WatchDir", &watch);
    assert_eq!(watching.read_head("POST").status, 200);
    std::thread::sleep(LATE);
    watching.send(b"0\r\n\r\n").unwrap();
    late.check_before_response("/files?path=seen.txt", b"seen");
    let mut events = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&events).contains("EVENT_TYPE_WRITE") {
        let length = std::io::Read::read(&mut watching, &mut piece).unwrap();
        assert_ne!(length, 0, "the watch ended: {}", String::from_utf8_lossy(&events));
        events.extend_from_slice(&piece[..length]);
    }
    let events = String::from_utf8_lossy(&events).into_owned();
    for kind in ["EVENT_TYPE_CREATE", "EVENT_TYPE_CHMOD"] {
        assert!(events.contains(kind), "{events}");
    }
}

/// The native streams: events of a cell, of a run, and of a command.
#[test]
fn a_late_end_of_a_native_stream_does_not_close_the_connection() {
    let server = TestServer::new();
    let sandbox = TestSandbox::new(&server.admin, &json!({}));
    let headers = vec![("Accept", "text/event-stream"), ("Content-Type", "application/json")];
    let late = LateEnd { server: &server, headers };
    let code = json!({"code": "print(1)"}).to_string();
    late.check_before_response(&sandbox.at("/cells"), code.as_bytes());
    late.check_before_response("/v1/run", code.as_bytes());
}

#[test]
fn an_honest_client_in_one_thread_meets_no_rate_limit() {
    let server = TestServer::new();
    let sandbox = TestSandbox::new(&server.tenant(), &json!({}));
    for number in 0..300 {
        let path = sandbox.at(&format!("/files/content?path={number}.txt"));
        sandbox.client.put(&path, b"text").expect(201);
        sandbox.client.get(&path).expect(200);
    }
}

#[test]
fn kept_output_of_one_key_is_bounded() {
    let server = TestServer::with(&["quota.kept_bytes=32M"]);
    let (attacker, victim) = (server.tenant(), server.tenant());
    let other = TestSandbox::new(&victim, &json!({}));
    other.post("/cells", &json!({"code": "print('kept')"})).expect(200);
    let limits = json!({"limits": {"output_bytes": 8 << 20, "result_bytes": 8 << 20}});
    let loud = json!({"code": "import sys\nsys.stdout.write('x' * (6 << 20))\n'y' * (6 << 20)"});
    let sandboxes: Vec<_> = (0..6).map(|_| TestSandbox::new(&attacker, &limits)).collect();
    for sandbox in &sandboxes {
        let cell = sandbox.post("/cells", &loud).expect(200).json();
        assert_eq!(cell["stdout"].as_str().unwrap().len(), 6 << 20);
        assert_eq!(cell["truncated"]["by_budget"], false);
    }
    let held = attacker.get("/v1/stats").json()["budgets"]["kept_bytes"]["held"].as_u64();
    assert!(held.is_some_and(|held| held <= 32 << 20), "{held:?}");
    // The oldest still says how it ended, and how much is missing.
    let oldest = sandboxes[0].get("/cells/c1").expect(200).json();
    assert_eq!((&oldest["outcome"], &oldest["results"]), (&json!("ok"), &json!([])));
    let truncated = json!({"stdout": 6 << 20, "stderr": 0, "results": 1, "by_budget": true});
    assert_eq!(oldest["truncated"], truncated);
    let mut events = attacker.events(&sandboxes[0].at("/cells/c1/events"));
    assert_eq!(events.next().unwrap().name, "gap");
    assert_eq!(events.next().unwrap().name, "done");
    let newest = sandboxes[5].get("/cells/c1").expect(200).json();
    assert_eq!(newest["text"].as_str().unwrap().len(), (6 << 20) + 2);
    assert_eq!(other.get("/cells/c1").expect(200).json()["stdout"], "kept\n");
    drop(sandboxes);
}

#[test]
fn a_cell_beyond_the_budget_is_cut_and_says_so() {
    let server = TestServer::with(&["quota.kept_bytes=2M"]);
    let limits = json!({"limits": {"output_bytes": 16 << 20}});
    let sandbox = TestSandbox::new(&server.admin, &limits);
    let code = "import sys\nfor _ in range(8): sys.stdout.write('x' * (1 << 20))\n'y' * (4 << 20)";
    let cell = sandbox.post("/cells", &json!({"code": code})).expect(200).json();
    let left_out = cell["truncated"]["stdout"].as_u64().unwrap();
    assert!(left_out >= 6 << 20, "{left_out}");
    assert_eq!((&cell["outcome"], &cell["truncated"]["by_budget"]), (&json!("ok"), &json!(true)));
    assert_eq!((&cell["truncated"]["results"], &cell["limits_hit"]), (&json!(1), &json!([])));
    // A stream has it all: its client reads while the code prints.
    let printed: usize = sandbox
        .client
        .stream(&sandbox.at("/cells"), &json!({"code": code}))
        .filter(|event| event.name == "stdout")
        .map(|event| event.data["text"].as_str().unwrap().len())
        .sum();
    assert_eq!(printed, 8 << 20);
}

/// A long answer is written from what is kept; it is not copied for each reader that does not read.
#[test]
fn unread_answers_do_not_fill_the_memory() {
    let server = TestServer::new();
    let limits = json!({"limits": {"output_bytes": 32 << 20}});
    let sandbox = TestSandbox::new(&server.admin, &limits);
    let code =
        "import sys\nfor stream in sys.stdout, sys.stderr: stream.write('\\1' * (30 << 20)); None";
    sandbox.post("/cells", &json!({"code": code})).expect(200);
    let memory = || memory_bytes(server.pid());
    let before = memory();
    let path = sandbox.at("/cells/c1");
    let unread: Vec<_> = (0..16).map(|_| sandbox.client.begin("GET", &path, &[], b"")).collect();
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 << 20, "the server has grown by {grown} bytes");
    drop(unread);
}

/// Returns the resident memory of a process.
fn memory_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Returns the bytes that wait in the kernel to be sent from a port of this machine.
fn unsent_bytes(port: u16) -> u64 {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let from = format!(":{port:04X}");
    let sockets = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    sockets
        .filter(|fields| fields[1].ends_with(&from) && fields[3] == "01")
        .map(|fields| u64::from_str_radix(fields[4].split(':').next().unwrap(), 16).unwrap())
        .sum()
}

#[test]
fn a_client_that_does_not_read_fills_no_send_buffer() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let path = sandbox.at("/files/content?path=large.bin");
    sandbox.client.put(&path, &vec![0; 32 << 20]).expect(201);
    let (response, connection) = sandbox.client.begin("GET", &path, &[], b"");
    assert_eq!(response.status, 200);
    let port = server.admin.address.port();
    assert!(eventually(TIMEOUT, || unsent_bytes(port) > 0));
    std::thread::sleep(Duration::from_secs(1));
    let unsent = unsent_bytes(port);
    assert!(unsent < 1 << 20, "{unsent} bytes wait in the kernel");
    drop(connection);
}
