//! What one key makes the server hold is counted: streamed messages, listings, searches, records of what ran.

use std::io::Write as _;

use serde_json::json;

use crate::harness::http::{Client, Connection};
use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{TIMEOUT, eventually};

/// Returns how much of a budget a key holds.
fn held(client: &Client, resource: &str) -> u64 {
    let stats = client.get("/v1/stats").expect(200).json();
    stats["budgets"][resource]["held"].as_u64().unwrap()
}

/// A sandbox as E2B's clients use it.
struct E2bSandbox {
    client: Client,
    id: String,
    token: String,
}

impl E2bSandbox {
    fn new(client: &Client) -> Self {
        let body = json!({"templateID": "base", "timeout": 120});
        let made = client.post("/v2/sandboxes", &body).expect(201).json();
        Self {
            client: client.clone(),
            id: made["sandboxID"].as_str().unwrap().to_owned(),
            token: made["envdAccessToken"].as_str().unwrap().to_owned(),
        }
    }

    fn headers<'a>(&'a self, kind: &'a str) -> Vec<(&'a str, &'a str)> {
        vec![
            ("X-Access-Token", &*self.token),
            ("E2b-Sandbox-Id", &*self.id),
            ("E2b-Sandbox-Port", "49983"),
            ("Content-Type", kind),
        ]
    }

    /// Sends the beginning of a stream of messages.
    fn begin(&self, path: &str, length: usize, body: &[u8]) -> Connection {
        let headers = self.headers("application/connect+json");
        let mut connection = self.client.connect();
        let head = self.client.head("POST", path, &headers, length);
        connection.send(&[head.as_bytes(), body].concat()).unwrap();
        connection
    }

    /// Sends one message, and returns what comes back.
    fn stream(&self, path: &str, message: &[u8]) -> String {
        let framed = framed(message);
        let mut connection = self.begin(path, framed.len(), &framed);
        assert_eq!(connection.read_head("POST").status, 200);
        String::from_utf8_lossy(&connection.read_body().unwrap()).into_owned()
    }
}

/// Returns a message of Connect.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0_u8][..], &length, message].concat()
}

/// The streamed requests of E2B's facade.
const STREAMED: [&str; 4] = [
    "/process.Process/Start",
    "/process.Process/Connect",
    "/process.Process/StreamInput",
    "/filesystem.Filesystem/WatchDir",
];

#[test]
fn streamed_messages_of_one_key_are_bounded() {
    let server = TestServer::with(&["quota.in_flight_bytes=1M"]);
    let attacker = server.tenant();
    let sandbox = E2bSandbox::new(&attacker);
    let long = framed(&vec![b' '; 600_000]);
    for path in STREAMED {
        // All but the last byte.
        let first = sandbox.begin(path, long.len(), &long[..long.len() - 1]);
        let is_held = || held(&attacker, "in_flight_bytes") > 500_000;
        assert!(eventually(TIMEOUT, is_held), "{path}");
        let answer = sandbox.stream(path, &vec![b' '; 600_000]);
        assert!(answer.contains("resource_exhausted"), "{path}: {answer}");
        drop(first);
        let is_free = || held(&attacker, "in_flight_bytes") == 0;
        assert!(eventually(TIMEOUT, is_free), "{path}");
    }
}

#[test]
fn streamed_messages_of_very_many_values_are_refused() {
    let server = TestServer::new();
    let sandbox = E2bSandbox::new(&server.admin);
    let values = format!("{{\"x\": [{}0]}}", "0,".repeat(200_000));
    for path in STREAMED {
        let answer = sandbox.stream(path, values.as_bytes());
        assert!(answer.contains("resource_exhausted"), "{path}: {answer}");
    }
}

/// A stream of input is as long as it likes: each message counts until the next one.
#[test]
fn messages_of_a_long_stream_count_one_after_the_other() {
    let server = TestServer::with(&["quota.in_flight_bytes=1M"]);
    let sandbox = E2bSandbox::new(&server.tenant());
    let start = json!({"process": {"cmd": "/bin/cat", "args": []}, "tag": "cat", "stdin": true});
    let cat = framed(start.to_string().as_bytes());
    let mut started = sandbox.begin("/process.Process/Start", cat.len(), &cat);
    assert_eq!(started.read_head("POST").status, 200);
    let select = framed(json!({"start": {"process": {"tag": "cat"}}}).to_string().as_bytes());
    let text = "eHh4".repeat(75_000);
    let data = framed(json!({"data": {"input": {"stdin": text}}}).to_string().as_bytes());
    let mut body = select;
    for _ in 0..8 {
        body.write_all(&data).unwrap();
    }
    let reading = std::thread::spawn(move || started.read_body());
    let mut stream = sandbox.begin("/process.Process/StreamInput", body.len(), &body);
    assert_eq!(stream.read_head("POST").status, 200);
    let answer = String::from_utf8_lossy(&stream.read_body().unwrap()).into_owned();
    assert!(!answer.contains("error"), "{answer}");
    let calls = sandbox.headers("application/json");
    let close = json!({"process": {"tag": "cat"}}).to_string();
    let path = "/process.Process/CloseStdin";
    sandbox.client.request("POST", path, &calls, close.as_bytes()).expect(200);
    assert!(reading.join().unwrap().unwrap().len() > 8 * 300_000);
}

#[test]
fn searches_of_one_key_are_bounded() {
    let server = TestServer::with(&["quota.in_flight_bytes=12M"]);
    let attacker = server.tenant();
    let sandbox = TestSandbox::new(&attacker, &json!({}));
    // The log keeps 64 KiB of each.
    for number in 0..150 {
        sandbox.run(&format!("{number}\n# {}", "x".repeat(65_000)));
    }
    let unread = attacker.begin("GET", "/v1/audit?limit=1000", &[], b"");
    assert_eq!(unread.0.status, 200);
    let bytes = held(&attacker, "in_flight_bytes");
    assert!((8 << 20..12 << 20).contains(&bytes), "{bytes}");
    let refused = attacker.get("/v1/audit?limit=1000");
    assert_eq!(refused.problem(), (429, "quota_exceeded".to_owned()));
    // Another key is not affected.
    assert_eq!(server.tenant().get("/v1/audit").expect(200).json()["executions"], json!([]));
    drop(unread);
    assert!(eventually(TIMEOUT, || held(&attacker, "in_flight_bytes") == 0));
    let all = attacker.get("/v1/audit?limit=1000").expect(200).json();
    let found = all["executions"].as_array().unwrap().len();
    assert!((100..150).contains(&found), "{found}");
    assert_eq!(all["truncated"], json!(true));
    let few = attacker.get("/v1/audit?limit=3").expect(200).json();
    assert_eq!(few["truncated"], json!(false));
}

/// Code that makes many files with long names.
const MANY_FILES: &str = "
import os
os.makedirs('many', exist_ok=True)
for number in range(6000): open(f'many/{number:0200}', 'w').close()
";

#[test]
fn listings_of_one_key_are_bounded() {
    let server = TestServer::with(&["quota.in_flight_bytes=3M"]);
    let attacker = server.tenant();
    let sandbox = E2bSandbox::new(&attacker);
    let native = format!("/v1/sandboxes/{}", sandbox.id);
    let ran = attacker.post(&format!("{native}/cells"), &json!({"code": MANY_FILES})).expect(200);
    assert_eq!(ran.json()["outcome"], "ok");
    let path = format!("{native}/files?path=/home/user/many");
    let listed = attacker.get(&path).expect(200).json();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 6000);
    let unread = attacker.begin("GET", &path, &[], b"");
    assert_eq!(unread.0.status, 200);
    assert!(held(&attacker, "in_flight_bytes") > 1 << 20);
    assert_eq!(attacker.get(&path).problem(), (429, "quota_exceeded".to_owned()));
    drop(unread);
    assert!(eventually(TIMEOUT, || held(&attacker, "in_flight_bytes") == 0));
    // Likewise by E2B's own call.
    let headers = sandbox.headers("application/json");
    let list = json!({"path": "/home/user/many"}).to_string();
    let call = "/filesystem.Filesystem/ListDir";
    let listed = attacker.request("POST", call, &headers, list.as_bytes()).expect(200).json();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 6000);
    let unread = attacker.begin("POST", call, &headers, list.as_bytes());
    assert_eq!(unread.0.status, 200);
    assert!(held(&attacker, "in_flight_bytes") > 1 << 20);
    assert_eq!(attacker.request("POST", call, &headers, list.as_bytes()).status, 429);
    drop(unread);
    assert!(eventually(TIMEOUT, || held(&attacker, "in_flight_bytes") == 0));
}

/// Names of changed files, texts of errors, requests of commands and notices of watchers count as output does.
#[test]
fn all_that_is_kept_of_executions_is_counted() {
    let server = TestServer::with(&["quota.kept_bytes=8M"]);
    let client = server.tenant();
    let kept = || held(&client, "kept_bytes");
    let sandbox = E2bSandbox::new(&client);
    let native = format!("/v1/sandboxes/{}", sandbox.id);
    let run = |code: &str| {
        client.post(&format!("{native}/cells"), &json!({"code": code})).expect(200).json()
    };
    let first = run(MANY_FILES);
    assert_eq!(first["files"]["created"].as_array().unwrap().len(), 6000);
    // The list of what was created, and the list of what is there.
    let names = kept();
    assert!(names > 2 * 6000 * 200, "{names}");
    let failed = run("raise ValueError('x' * 300_000)");
    assert_eq!(failed["outcome"], "raised");
    let errors = kept() - names;
    // In its log, and in its report.
    assert!(errors > 100_000, "{errors}");
    let before = kept();
    let command = json!({"command": format!("true {}", "x".repeat(100_000))});
    client.post(&format!("{native}/commands"), &command).expect(200);
    assert!(kept() - before > 200_000, "{} {before}", kept());
    // The oldest is dropped first. What it was is still there.
    let loud = "import sys\nfor _ in range(8): sys.stdout.write('x' * (1 << 20))\nNone";
    let limits = json!({"limits": {"output_bytes": 16 << 20}});
    let other = TestSandbox::new(&client, &limits);
    other.run(loud);
    assert!(kept() <= 8 << 20, "{}", kept());
    let first = client.get(&format!("{native}/cells/c1")).expect(200).json();
    let none = json!({"created": [], "changed": [], "removed": [], "truncated": true});
    assert_eq!((&first["outcome"], &first["files"]), (&json!("ok"), &none));
    let failed = client.get(&format!("{native}/cells/c2")).expect(200).json();
    let dropped = json!({"name": "ValueError", "value": "", "traceback": []});
    assert_eq!(failed["error"], dropped);
}

#[test]
fn notices_of_one_key_are_bounded() {
    let server = TestServer::with(&["quota.kept_bytes=1M"]);
    let client = server.tenant();
    let sandbox = E2bSandbox::new(&client);
    let calls = sandbox.headers("application/json");
    let watch = json!({"path": "/home/user", "recursive": true}).to_string();
    let call = |name: &str, body: &str| {
        let path = format!("/filesystem.Filesystem/{name}");
        client.request("POST", &path, &calls, body.as_bytes())
    };
    let watchers: Vec<String> = (0..8)
        .map(|_| call("CreateWatcher", &watch).expect(200).json()["watcherId"].to_string())
        .collect();
    let path = format!("/v1/sandboxes/{}/cells", sandbox.id);
    client.post(&path, &json!({"code": MANY_FILES})).expect(200);
    let most = held(&client, "kept_bytes");
    assert!(most <= 1 << 20, "{most}");
    // Each has at most a thousand in a response, and says in the end that it missed some.
    let mut missed = 0;
    for id in &watchers {
        let body = format!("{{\"watcherId\": {id}}}");
        loop {
            let answer = call("GetWatcherEvents", &body);
            if answer.status != 200 {
                missed += 1;
                break;
            }
            let events = answer.json()["events"].as_array().unwrap().len();
            assert!(events <= 1000, "{events}");
            if events == 0 {
                break;
            }
        }
    }
    assert!(missed > 0, "no watcher missed anything");
}

/// Commands that print without end and that no client reads.
#[test]
fn running_commands_beyond_the_budget_keep_nothing() {
    let server = TestServer::with(&["quota.kept_bytes=1M"]);
    let client = server.tenant();
    let sandbox = TestSandbox::new(&client, &json!({}));
    let start = |number: usize| {
        let loud = format!("head -c 20M /dev/zero | tr '\\0' x; touch done-{number}; sleep 60");
        let body = json!({"command": loud, "background": true});
        sandbox.post("/commands", &body).expect(202).json()["id"].as_str().unwrap().to_owned()
    };
    let before = resident_bytes(server.pid());
    let ids: Vec<String> = (0..30).map(start).collect();
    let printed = || {
        let listed = sandbox.get("/files?path=/workspace").expect(200).text();
        listed.matches("\"done-").count()
    };
    assert!(eventually(TIMEOUT, || printed() == ids.len()), "{}", printed());
    let grown = resident_bytes(server.pid()).saturating_sub(before);
    println!("grown by {grown} bytes");
    assert!(grown < 40 << 20, "the server has grown by {grown} bytes");
    let mut events = client.events(&sandbox.at(&format!("/commands/{}/events", ids[29])));
    assert_eq!(events.next().unwrap().name, "gap");
}

/// Returns the resident memory of a process.
fn resident_bytes(pid: u32) -> u64 {
    let kilobytes = crate::harness::status_of(pid, "VmRSS");
    kilobytes.split(' ').next().unwrap().parse::<u64>().unwrap() * 1024
}

/// Several keys fill the server's connections: another one is served all the same.
#[test]
fn connections_of_many_keys_lock_no_one_out() {
    let server = TestServer::with(&["quota.connections=8", "capacity.connections=32"]);
    let keys: Vec<Client> = (0..5).map(|_| server.tenant()).collect();
    let mut open = Vec::new();
    for attacker in &keys[..4] {
        for _ in 0..8 {
            let mut connection = attacker.connect();
            connection.send(attacker.head("GET", "/v1/stats", &[], 0).as_bytes()).unwrap();
            if connection.try_read_head("GET").is_ok_and(|head| head.status == 200) {
                connection.read_body().unwrap();
            }
            open.push(connection);
        }
    }
    for _ in 0..20 {
        keys[4].get("/v1/stats").expect(200);
    }
    drop(open);
}

/// A key with a large quota: its sandboxes are listed page by page, and another key goes on.
#[test]
fn very_many_records_of_one_key_slow_down_no_one() {
    let server = TestServer::with(&["quota.requests_per_second=100000"]);
    let (attacker, victim) = (server.tenant(), server.tenant());
    let other = TestSandbox::new(&victim, &json!({}));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let made = attacker.post("/v1/sandboxes", &json!({})).expect(201).json();
                    let id = made["id"].as_str().unwrap();
                    attacker.delete(&format!("/v1/sandboxes/{id}")).expect(204);
                }
            });
        }
        for _ in 0..20 {
            let began = std::time::Instant::now();
            victim.get("/v1/sandboxes").expect(200);
            other.get("/files?path=/workspace").expect(200);
            assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
        }
    });
    let page = attacker.get("/v1/sandboxes?limit=100").expect(200).json();
    assert!(page["sandboxes"].as_array().unwrap().len() <= 100);
}
