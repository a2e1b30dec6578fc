//! Invalid requests: each is answered by a problem document, and the server goes on.

use serde_json::{Value, json};

use crate::harness::http::Client;
use crate::harness::server::{TestSandbox, TestServer};

/// The most a JSON body may hold in these tests.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// An endpoint that takes JSON: method, path, a good body, and whether all of it can be left out.
struct Endpoint {
    path: String,
    good: Value,
    empty_is_good: bool,
}

fn endpoints(sandbox: &TestSandbox) -> Vec<Endpoint> {
    let endpoint = |path: &str, good: Value, empty_is_good: bool| Endpoint {
        path: path.replace("{}", &sandbox.path),
        good,
        empty_is_good,
    };
    let size = json!({"columns": 80, "rows": 24});
    vec![
        endpoint(
            "/v1/run",
            json!({"code": "1", "template": "python", "tier": "jail", "policy": "data",
            "limits": {"cpus": 1}, "env": {"A": "B"}, "arguments": ["a"], "timeout_seconds": 5,
            "files": [{"path": "f", "content": "x"}], "outputs": ["f"]}),
            false,
        ),
        endpoint(
            "/v1/sandboxes",
            json!({"template": "python", "tier": "jail", "limits": {"cpus": 1}, "env": {},
            "metadata": {"a": "b"}, "ttl_seconds": 60, "idle_seconds": 60, "max_cells": 5,
            "inputs": [{"name": "i", "content": "x"}], "interpreter": "forked", "snapshot": null}),
            true,
        ),
        endpoint("{}/extend", json!({"ttl_seconds": 60}), false),
        endpoint("{}/snapshots", json!({"name": "s"}), true),
        endpoint("{}/undo", json!({"cells": 1, "mark": null}), true),
        endpoint(
            "{}/fork",
            json!({"count": 1, "metadata": {"a": "b"}, "ttl_seconds": 60, "threads": "leave",
            "shared": "leave", "processes": "leave", "same_random": true}),
            true,
        ),
        endpoint("{}/kernels", json!({"env": {"A": "B"}, "directory": "/tmp"}), true),
        endpoint(
            "{}/cells",
            json!({"code": "1", "kernel": "k1", "timeout_seconds": 5, "policy": "open",
            "background": false, "mark": false, "on_disconnect": "continue"}),
            false,
        ),
        endpoint("{}/cells/c1/extend", json!({"seconds": 1}), false),
        endpoint(
            "{}/commands",
            json!({"arguments": ["true"], "env": {"A": "B"},
            "directory": "/tmp", "stdin": false, "timeout_seconds": 5, "background": false,
            "terminal": size}),
            false,
        ),
        endpoint("{}/commands/p1/signal", json!({"signal": "TERM"}), false),
        endpoint("{}/commands/p1/resize", size, false),
        endpoint("{}/files/directory", json!({"path": "d"}), false),
        endpoint("{}/files/move", json!({"from": "a", "to": "b", "overwrite": true}), false),
        endpoint(
            "{}/files/link",
            json!({"path": "a", "method": "GET", "expires_seconds": 5}),
            false,
        ),
        endpoint("/v1/keys", json!({"name": "n", "admin": false, "approve": false}), false),
    ]
}

/// Bodies that are wrong for an endpoint, with what is wrong about them.
fn wrong_bodies(endpoint: &Endpoint) -> Vec<(String, Vec<u8>)> {
    let mut wrong: Vec<(String, Vec<u8>)> = [
        ("no JSON", b"{not json".to_vec()),
        ("half of it", endpoint.good.to_string().as_bytes()[..5].to_vec()),
        ("two of it", format!("{0}{0}", endpoint.good).into_bytes()),
        ("a list", b"[]".to_vec()),
        ("a number", b"17".to_vec()),
        ("null", b"null".to_vec()),
        ("NUL", b"\0".to_vec()),
        ("no UTF-8", b"{\"code\": \"\xff\xfe\"}".to_vec()),
        ("deep", [b"[".repeat(30_000), b"]".repeat(30_000)].concat()),
        ("deep in a field", format!("{{\"x\":{}", "[".repeat(30_000)).into_bytes()),
        ("a huge number", b"{\"x\": 1e999999}".to_vec()),
        ("the same field twice", b"{\"code\":\"1\",\"code\":\"2\"}".to_vec()),
    ]
    .map(|(what, bytes)| (what.to_owned(), bytes))
    .to_vec();
    let mut changed = |what: String, change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
        let mut body = endpoint.good.clone();
        change(body.as_object_mut().unwrap());
        wrong.push((what, body.to_string().into_bytes()));
    };
    changed("an unknown field".to_owned(), &|body| {
        body.insert("surprise".to_owned(), 1.into());
    });
    for name in endpoint.good.as_object().unwrap().keys() {
        for value in [json!({"a": []}), json!([[]]), json!(-1.5e300), json!(true), json!("\0")] {
            let same =
                std::mem::discriminant(&value) == std::mem::discriminant(&endpoint.good[name]);
            // Of the right type: looked at in tests of their own.
            if !same {
                changed(format!("{name}: {value}"), &|body| {
                    body.insert(name.clone(), value.clone());
                });
            }
        }
    }
    if !endpoint.empty_is_good {
        wrong.push(("nothing".to_owned(), Vec::new()));
        wrong.push(("no field".to_owned(), b"{}".to_vec()));
    }
    wrong
}

#[track_caller]
fn assert_refused(client: &Client, method: &str, path: &str, what: &str, body: &[u8]) {
    let response = client.request(method, path, &[], body);
    let (status, code) = response.problem();
    assert!((400..500).contains(&status), "{path} with {what}: {}", response.text());
    assert!(!code.is_empty() && response.header("x-request-id").is_some());
    assert!(response.header("access-control-allow-origin").is_none());
}

fn server() -> TestServer {
    let bytes = format!("server.request_body_bytes_max={BODY_BYTES_MAX}");
    TestServer::with(&[&bytes, "quota.requests_per_second=100000", "quota.request_burst=100000"])
}

#[test]
fn wrong_body_is_refused_everywhere() {
    let server = server();
    let sandbox = server.sandbox();
    sandbox.run("pass");
    sandbox.post("/commands", &json!({"command": "true"})).expect(200);
    for endpoint in endpoints(&sandbox) {
        for (what, body) in wrong_bodies(&endpoint) {
            assert_refused(&server.admin, "POST", &endpoint.path, &what, &body);
        }
    }
    server.assert_works();
    assert_eq!(sandbox.print("print(1)"), "1");
}

#[test]
fn body_that_is_too_long_is_refused_with_words() {
    let server = server();
    let sandbox = server.sandbox();
    for endpoint in endpoints(&sandbox) {
        for length in [BODY_BYTES_MAX + 1, 8 << 20] {
            let response = server.admin.request("POST", &endpoint.path, &[], &b" ".repeat(length));
            assert_eq!(response.problem(), (413, "too_large".to_owned()), "{}", endpoint.path);
        }
        // The same without saying how long it will be.
        let (mut connection, chunked) =
            (server.admin.connect(), [("Transfer-Encoding", "chunked")]);
        let head = server.admin.head("POST", &endpoint.path, &chunked, 0);
        connection.send(head.as_bytes()).unwrap();
        let chunk = format!("8000\r\n{}\r\n", " ".repeat(0x8000));
        let mut sent = 0;
        while sent < 4 * BODY_BYTES_MAX && connection.send(chunk.as_bytes()).is_ok() {
            sent += 0x8000;
        }
        // The server may have closed already.
        let _ = connection.send(b"0\r\n\r\n");
        assert_eq!(connection.read_head("POST").status, 413, "{}", endpoint.path);
    }
    server.assert_works();
}

/// Runs that are refused.
fn impossible_runs() -> Vec<(&'static str, Value)> {
    let long = "x".repeat(1 << 20);
    vec![
        ("/v1/run", json!({"code": "1", "timeout_seconds": 1e6})),
        ("/v1/run", json!({"code": "1", "timeout_seconds": 0})),
        ("/v1/run", json!({"code": "1", "timeout_seconds": -1})),
        ("/v1/run", json!({"code": "1", "timeout_seconds": 1e300})),
        ("/v1/run", json!({"code": "x".repeat(2 << 20)})),
        ("/v1/run", json!({"code": "1", "template": "nope"})),
        ("/v1/run", json!({"code": "1", "template": "../python"})),
        ("/v1/run", json!({"code": "1", "template": "\0"})),
        ("/v1/run", json!({"code": "1", "env": {"": "x"}})),
        ("/v1/run", json!({"code": "1", "env": {"A=B": "x"}})),
        ("/v1/run", json!({"code": "1", "env": {"A": "\0"}})),
        ("/v1/run", json!({"code": "1", "env": {"A": long}})),
        ("/v1/run", json!({"code": "1", "files": [{"path": "/etc/passwd", "content": ""}]})),
        ("/v1/run", json!({"code": "1", "files": [{"path": "../x", "content": ""}]})),
        ("/v1/run", json!({"code": "1", "files": [{"path": "x"}]})),
        ("/v1/run", json!({"code": "1", "files": [{"path": "x", "content_base64": "?"}]})),
        ("/v1/run", json!({"code": "1", "files": [{"path": "/workspace", "content": ""}]})),
        ("/v1/run", json!({"code": "1", "outputs": ["/proc/self/environ"]})),
        ("/v1/run", json!({"code": "1", "arguments": [long]})),
        ("/v1/run", json!({"code": "1", "arguments": ["\0"]})),
    ]
}

/// Sandboxes that are refused.
fn impossible_sandboxes() -> Vec<(&'static str, Value)> {
    let long = "x".repeat(1 << 20);
    let many: serde_json::Map<_, _> =
        (0..1000).map(|number| (number.to_string(), json!("x"))).collect();
    let files: Vec<Value> =
        (0..3000).map(|number| json!({"name": format!("i{number}"), "content": ""})).collect();
    vec![
        ("/v1/sandboxes", json!({"limits": {"memory_bytes": 1}})),
        ("/v1/sandboxes", json!({"limits": {"memory_bytes": u64::MAX}})),
        ("/v1/sandboxes", json!({"limits": {"disk_bytes": u64::MAX}})),
        ("/v1/sandboxes", json!({"limits": {"cpus": 0}})),
        ("/v1/sandboxes", json!({"limits": {"cpus": -1}})),
        ("/v1/sandboxes", json!({"limits": {"cpus": 1e300}})),
        ("/v1/sandboxes", json!({"limits": {"processes": 0}})),
        ("/v1/sandboxes", json!({"limits": {"wall_seconds": 1e300}})),
        ("/v1/sandboxes", json!({"limits": {"cpu_seconds": -0.1}})),
        ("/v1/sandboxes", json!({"ttl_seconds": 0})),
        ("/v1/sandboxes", json!({"ttl_seconds": 1e9})),
        ("/v1/sandboxes", json!({"idle_seconds": 1e9})),
        ("/v1/sandboxes", json!({"max_cells": 0})),
        ("/v1/sandboxes", json!({"max_cells": u64::MAX})),
        ("/v1/sandboxes", json!({"interpreter": "golden"})),
        ("/v1/sandboxes", json!({"metadata": many})),
        ("/v1/sandboxes", json!({"metadata": {"a": long}})),
        ("/v1/sandboxes", json!({"inputs": [{"name": "../x", "content": ""}]})),
        ("/v1/sandboxes", json!({"inputs": [{"name": "", "content": ""}]})),
        ("/v1/sandboxes", json!({"inputs": [{"name": "a\0", "content": ""}]})),
        ("/v1/sandboxes", json!({"inputs": [{"name": "x"}]})),
        ("/v1/sandboxes", json!({"inputs": [{"name": "x", "shared": "/etc"}]})),
        (
            "/v1/sandboxes",
            json!({"inputs": [{"name": "x", "content": ""}, {"name": "x", "content": ""}]}),
        ),
        ("/v1/sandboxes", json!({"inputs": [{"name": "x".repeat(300), "content": ""}]})),
        ("/v1/sandboxes", json!({"inputs": files})),
    ]
}

/// Commands that are refused; `p1` runs without a terminal.
fn impossible_commands() -> Vec<(&'static str, Value)> {
    vec![
        ("{}/commands", json!({})),
        ("{}/commands", json!({"command": "true", "arguments": ["true"]})),
        ("{}/commands", json!({"arguments": []})),
        ("{}/commands", json!({"arguments": [""]})),
        ("{}/commands", json!({"arguments": ["a\0b"]})),
        ("{}/commands", json!({"command": "a\0b"})),
        ("{}/commands", json!({"command": "true", "directory": "/nowhere"})),
        ("{}/commands", json!({"command": "true", "directory": "a\0"})),
        ("{}/commands", json!({"command": "true", "env": {"A": "\0"}})),
        ("{}/commands", json!({"command": "true", "env": {"": ""}})),
        ("{}/commands", json!({"command": "true", "timeout_seconds": 1e300})),
        ("{}/commands", json!({"command": "true", "timeout_seconds": 1e19})),
        ("{}/commands", json!({"command": "true", "timeout_seconds": 0})),
        ("{}/commands", json!({"command": "x".repeat(8 << 20)})),
        ("{}/commands", json!({"command": "true", "terminal": {"columns": 70_000, "rows": 1}})),
        ("{}/commands/p1/signal", json!({"signal": "NOPE"})),
        ("{}/commands/p1/signal", json!({"signal": 0})),
        ("{}/commands/p1/signal", json!({"signal": 65})),
        ("{}/commands/p1/signal", json!({"signal": -9})),
        ("{}/commands/p1/resize", json!({"columns": 80, "rows": 24})),
        ("{}/commands/p9/signal", json!({"signal": 9})),
    ]
}

/// Other requests that are refused; `c1` has ended.
fn impossible_rest() -> Vec<(&'static str, Value)> {
    let long = "x".repeat(1 << 20);
    vec![
        ("{}/extend", json!({"ttl_seconds": 1e300})),
        ("{}/extend", json!({"ttl_seconds": 0})),
        ("{}/kernels", json!({"directory": "/nowhere"})),
        ("{}/kernels", json!({"directory": "\0"})),
        ("{}/kernels", json!({"env": {"A": "\0"}})),
        ("{}/kernels", json!({"env": {"=": "x"}})),
        ("{}/kernels", json!({"env": {"A": long}})),
        ("{}/cells", json!({"code": "1", "kernel": "k9"})),
        ("{}/cells", json!({"code": "1", "kernel": "\0"})),
        ("{}/cells", json!({"code": "1", "timeout_seconds": 1e300})),
        ("{}/cells", json!({"code": "1", "timeout_seconds": 0})),
        ("{}/cells", json!({"code": "x".repeat(2 << 20)})),
        ("{}/cells/c1/extend", json!({"seconds": 1e300})),
        ("{}/cells/c9/extend", json!({"seconds": 1})),
        ("{}/cells/c9/interrupt", json!({})),
        ("{}/files/directory", json!({"path": "/etc"})),
        ("{}/files/directory", json!({"path": ""})),
        ("{}/files/move", json!({"from": "a", "to": "b"})),
        ("{}/files/move", json!({"from": "a", "to": "../b"})),
        ("{}/files/link", json!({"path": "/etc/passwd", "method": "PUT"})),
        ("{}/files/link", json!({"path": "a", "method": "DELETE"})),
        ("{}/files/link", json!({"path": "a", "expires_seconds": 0})),
        ("{}/files/link", json!({"path": "a", "expires_seconds": 1e9})),
        ("/v1/keys", json!({"name": ""})),
        ("/v1/keys", json!({"name": "a\nb"})),
        ("/v1/keys", json!({"name": "x".repeat(1000)})),
    ]
}

#[test]
fn values_of_the_right_type_that_cannot_be_had_are_refused() {
    let server = TestServer::with(&["quota.request_burst=10000"]);
    let sandbox = server.sandbox();
    sandbox.run("pass");
    let command = sandbox.post("/commands", &json!({"command": "sleep 600", "background": true}));
    assert_eq!(command.expect(202).json()["id"], "p1");
    let mut cases = [impossible_runs(), impossible_sandboxes()].concat();
    cases.extend([impossible_commands(), impossible_rest()].concat());
    for (path, body) in cases {
        let path = path.replace("{}", &sandbox.path);
        let bytes = body.to_string();
        let what: String = bytes.chars().take(100).collect();
        assert_refused(&server.admin, "POST", &path, &what, bytes.as_bytes());
    }
    server.assert_works();
    assert_eq!(sandbox.print("print(1)"), "1");
    let stats = server.admin.get("/v1/stats").expect(200).json();
    assert_eq!((&stats["cells_running"], &stats["cells_queued"]), (&json!(0), &json!(0)));
}

/// Ids of nothing.
const STRANGE_IDS: &[&str] = &[
    "x",
    "c0",
    "c99",
    "C1",
    "k1",
    "..",
    "%2e%2e",
    "c1%00",
    "%00",
    "%ff%fe",
    "%c0%ae",
    "c1%2f",
    "c1%0d%0aX-Evil:%201",
    "%F0%9F%92%A9",
];

/// Questions about a sandbox that make no sense.
const STRANGE_QUERIES: &[&str] = &[
    "/cells/c1?wait=x",
    "/cells/c1?wait=%00",
    "/cells/c1?wait=-1&wait=2",
    "/cells/c1?when=1",
    "/cells/c1/events?after=-1",
    "/cells/c1/events?after=x",
    "/cells/c1/events?after=99999999999999999999",
    "/files",
    "/files?path=",
    "/files?path=a&path=b",
    "/files?path=%ff",
    "/files?path=%00",
    "/files?path=/workspace&depth=x",
    "/files?path=/workspace&depth=-1",
    "/files/stat",
    "/files/content?path=a&surprise=1",
    "/files/archive",
    "/files/nothing",
];

#[test]
fn strange_addresses_are_refused() {
    let server = server();
    let sandbox = server.sandbox();
    sandbox.run("pass");
    let long = "c".repeat(5000);
    for id in STRANGE_IDS.iter().copied().chain([long.as_str()]) {
        for path in [
            format!("/v1/sandboxes/{id}"),
            format!("/v1/sandboxes/{id}/cells"),
            format!("/v1/templates/{id}"),
            sandbox.at(&format!("/kernels/{}", if id == "k1" { "k9" } else { id })),
            sandbox.at(&format!("/cells/{id}")),
            sandbox.at(&format!("/cells/{id}/events")),
            sandbox.at(&format!("/commands/{id}")),
            format!("/v1/links/{id}"),
            format!("/{id}"),
        ] {
            assert_refused(&server.admin, "GET", &path, "nothing", b"");
        }
        assert_refused(&server.admin, "DELETE", &format!("/v1/keys/{id}"), "nothing", b"");
    }
    for rest in STRANGE_QUERIES {
        assert_refused(&server.admin, "GET", &sandbox.at(rest), "nothing", b"");
    }
    for query in [
        "state=x",
        "state=",
        "limit=0",
        "limit=101",
        "limit=x",
        "page=x",
        "page=%00",
        "x=1",
        "%ff=1",
    ] {
        let path = format!("/v1/sandboxes?{query}");
        assert_refused(&server.admin, "GET", &path, "nothing", b"");
    }
    for query in ["sandbox=x", "since=yesterday", "until=%00", "limit=-1", "x=1"] {
        assert_refused(&server.admin, "GET", &format!("/v1/audit?{query}"), "nothing", b"");
    }
    assert_refused(&server.admin, "PUT", &sandbox.at("/files/content?path=a&mode=999"), "", b"");
    assert_refused(&server.admin, "PUT", &sandbox.at("/files/content?path=a&mode=7777"), "", b"");
    server.assert_works();
}

/// Every address, and the methods it understands.
const ROUTES: &[(&str, &str)] = &[
    ("/v1/run", "POST"),
    ("/v1/sandboxes", "GET POST"),
    ("{}", "GET DELETE"),
    ("{}/extend", "POST"),
    ("{}/usage", "GET"),
    ("{}/kernels", "GET POST"),
    ("{}/kernels/k1", "GET DELETE"),
    ("{}/kernels/k1/interrupt", "POST"),
    ("{}/kernels/k1/restart", "POST"),
    ("{}/cells", "GET POST"),
    ("{}/cells/c1", "GET"),
    ("{}/cells/c1/events", "GET"),
    ("{}/cells/c1/interrupt", "POST"),
    ("{}/cells/c1/extend", "POST"),
    ("{}/commands", "GET POST"),
    ("{}/commands/p1", "GET"),
    ("{}/commands/p1/events", "GET"),
    ("{}/commands/p1/stdin", "POST"),
    ("{}/commands/p1/signal", "POST"),
    ("{}/commands/p1/resize", "POST"),
    ("{}/files", "GET DELETE"),
    ("{}/files/stat", "GET"),
    ("{}/files/content", "GET PUT"),
    ("{}/files/directory", "POST"),
    ("{}/files/move", "POST"),
    ("{}/files/archive", "GET PUT"),
    ("{}/files/link", "POST"),
    ("/v1/links/x", "GET PUT"),
    ("/v1/templates", "GET"),
    ("/v1/templates/x", "GET"),
    ("/v1/keys", "GET POST"),
    ("/v1/keys/x", "DELETE"),
    ("/v1/audit", "GET"),
    ("/v1/audit/verify", "GET"),
    ("/v1/stats", "GET"),
    ("/", "GET"),
    ("/healthz", "GET"),
    ("/readyz", "GET"),
    ("/metrics", "GET"),
];

#[test]
fn wrong_method_is_refused_everywhere() {
    let server = server();
    let sandbox = server.sandbox();
    sandbox.run("pass");
    for (path, allowed) in ROUTES {
        let path = path.replace("{}", &sandbox.path);
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
            if !allowed.contains(method) {
                let response = server.admin.request(method, &path, &[], b"");
                let problem = response.problem();
                assert_eq!(problem, (405, "method_not_allowed".to_owned()), "{method} {path}");
            }
        }
    }
    assert_eq!(sandbox.print("print(1)"), "1");
}
