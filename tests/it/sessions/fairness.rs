//! Fair use: how much one key may have, and that it takes nothing from another.

use serde_json::json;

use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{TIMEOUT, eventually};

const SLEEP: &str = "print('up', flush=True)\nimport time; time.sleep(600)";

#[test]
fn too_many_requests_are_told_when_to_come_back() {
    let server = TestServer::with(&["quota.requests_per_second=1", "quota.request_burst=20"]);
    let (one, other) = (server.tenant(), server.tenant());
    let limited = (0..1000).map(|_| one.get("/v1/stats")).find(|answer| answer.status != 200);
    let limited = limited.unwrap();
    assert_eq!(limited.problem(), (429, "rate_limited".to_owned()));
    let seconds: u64 = limited.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    other.get("/v1/stats").expect(200);
    one.with_key(None).get("/healthz").expect(200);
    assert!(eventually(TIMEOUT, || one.get("/v1/stats").status == 200));
}

#[test]
fn sandboxes_of_a_key_are_counted() {
    let server = TestServer::with(&["quota.sandboxes=2", "sandboxes.count_max=3"]);
    let (one, other) = (server.tenant(), server.tenant());
    let kept = [TestSandbox::new(&one, &json!({})), TestSandbox::new(&one, &json!({}))];
    for path in ["/v1/sandboxes", "/v1/run"] {
        let refused = one.post(path, &json!({"code": "1"}));
        let refused = if path == "/v1/run" { refused } else { one.post(path, &json!({})) };
        assert_eq!(refused.problem(), (429, "quota_exceeded".to_owned()));
        assert!(refused.header("retry-after").is_some());
    }
    let others = TestSandbox::new(&other, &json!({}));
    // The whole server is full.
    assert_eq!(other.post("/v1/sandboxes", &json!({})).problem().1, "quota_exceeded");
    one.delete(&kept[0].path).expect(204);
    assert!(eventually(TIMEOUT, || one.post("/v1/run", &json!({"code": "1"})).status == 200));
    assert_eq!(others.print("print(1)"), "1");
}

#[test]
fn queue_of_a_key_is_bounded() {
    let server = TestServer::with(&["quota.cells_queued=3", "quota.cells_running=1"]);
    let (one, other) = (server.tenant(), server.tenant());
    let sandbox = TestSandbox::new(&one, &json!({}));
    let running = sandbox.start_until_up(SLEEP);
    let queued: Vec<_> = (0..3).map(|_| sandbox.start(&json!({"code": "1"}))).collect();
    let refused = sandbox.post("/cells", &json!({"code": "1"}));
    assert_eq!(refused.problem(), (429, "queue_full".to_owned()));
    assert!(refused.header("retry-after").is_some());
    let command = sandbox.post("/commands", &json!({"command": "true"}));
    assert_eq!(command.problem(), (429, "queue_full".to_owned()));
    let stats = one.get("/v1/stats").expect(200).json();
    assert_eq!((&stats["cells_running"], &stats["cells_queued"]), (&json!(1), &json!(3)));
    other.post("/v1/run", &json!({"code": "1"})).expect(200);
    sandbox.post(&format!("/cells/{running}/interrupt"), &json!({})).expect(204);
    for cell in &queued {
        assert_eq!(sandbox.ended(cell)["outcome"], "ok");
    }
    let stats = one.get("/v1/stats").expect(200).json();
    assert_eq!((&stats["cells_running"], &stats["cells_queued"]), (&json!(0), &json!(0)));
}

#[test]
fn queue_of_the_server_is_bounded() {
    let server = TestServer::with(&["cells.queue_max=2", "cells.running_max=1"]);
    let (one, other) = (server.tenant(), server.tenant());
    let (first, second) =
        (TestSandbox::new(&one, &json!({})), TestSandbox::new(&other, &json!({})));
    let running = first.start_until_up(SLEEP);
    let queued = [first.start(&json!({"code": "1"})), first.start(&json!({"code": "1"}))];
    let refused = second.post("/cells", &json!({"code": "1"}));
    assert_eq!(refused.problem(), (429, "queue_full".to_owned()));
    first.post(&format!("/cells/{running}/interrupt"), &json!({})).expect(204);
    for cell in &queued {
        first.ended(cell);
    }
    assert_eq!(second.print("print(1)"), "1");
}

/// One key has all places, for as long as it likes, and two hundred cells waiting; another key's only cell runs
/// at once, and what it wants beside that comes in turn.
#[test]
fn one_key_does_not_starve_another() {
    let server = TestServer::with(&[
        "cells.running_max=4",
        "cells.queue_max=1000",
        "quota.cells_queued=1000",
        "quota.cells_running=100",
        "quota.request_burst=10000",
    ]);
    let (many, single) = (server.tenant(), server.tenant());
    let crowd: Vec<TestSandbox> = (0..8).map(|_| TestSandbox::new(&many, &json!({}))).collect();
    let lonely = TestSandbox::new(&single, &json!({}));
    let endless = json!({"code": "import time; time.sleep(600)", "timeout_seconds": 900});
    let cells: Vec<(&TestSandbox, String)> = (0..200)
        .map(|number| {
            let sandbox = &crowd[number % crowd.len()];
            (sandbox, sandbox.start(&endless))
        })
        .collect();
    let running = || {
        let state = |(sandbox, cell): &&(&TestSandbox, String)| {
            sandbox.get(&format!("/cells/{cell}")).json()["state"] == "running"
        };
        cells.iter().take(16).filter(state).collect::<Vec<_>>()
    };
    assert!(eventually(TIMEOUT, || running().len() == 4));
    for _ in 0..3 {
        assert_eq!(lonely.print("print('mine')"), "mine");
    }
    assert_eq!(running().len(), 4);
    // A key with a running cell queues like the others. The first place that is freed was lent; its cell
    // gets one of the next two.
    lonely.start(&endless);
    let other = TestSandbox::new(&single, &json!({}));
    let own = other.start(&json!({"code": "print('mine too')"}));
    let queued = || other.get(&format!("/cells/{own}")).json()["state"] == "queued";
    assert!(queued());
    for _ in 0..3 {
        if let Some((sandbox, cell)) = running().first().copied().filter(|_| queued()) {
            sandbox.post(&format!("/cells/{cell}/interrupt"), &json!({})).expect(204);
            sandbox.ended(cell);
        }
    }
    assert_eq!(other.ended(&own)["stdout"], "mine too\n");
    let stats = many.get("/v1/stats").expect(200).json();
    assert!(stats["cells_queued"].as_u64().unwrap() > 190, "{stats}");
}

#[test]
fn records_are_counted_before_code_runs() {
    let server = TestServer::with(&["quota.audit_bytes_per_minute=1M"]);
    let (one, other) = (server.tenant(), server.tenant());
    let sandbox = TestSandbox::new(&one, &json!({}));
    let code = format!("open('ran', 'a').write('x')  #{}", "x".repeat(60_000));
    let mut ran = 0;
    let refused = loop {
        let response = sandbox.post("/cells", &json!({"code": code}));
        if response.status != 200 {
            break response;
        }
        ran += 1;
        assert!(ran < 50, "it is never refused");
    };
    assert_eq!(refused.problem(), (429, "quota_exceeded".to_owned()));
    assert!(refused.header("retry-after").is_some());
    assert!((10..20).contains(&ran), "{ran} cells of 60 kB each in 1 MiB");
    // What was refused did not run, and everything that ran has its record.
    let executions = one.get("/v1/audit?limit=100").expect(200).json();
    assert_eq!(executions["executions"].as_array().unwrap().len(), ran);
    assert_eq!(sandbox.print("print(len(open('ran').read()))"), ran.to_string());
    // Commands, and other keys.
    let long = "x".repeat(60_000);
    let command = json!({"command": format!("true {long}")});
    assert_eq!(sandbox.post("/commands", &command).problem(), (429, "quota_exceeded".to_owned()));
    let others = TestSandbox::new(&other, &json!({}));
    others.run(&code);
    let stats = one.get("/v1/stats").expect(200).json();
    assert_eq!(stats["quota"]["audit_bytes_per_minute"], 1 << 20, "{stats}");
}

#[test]
fn uploads_and_output_are_counted() {
    let server = TestServer::with(&[
        "quota.upload_bytes_per_minute=1000000",
        "quota.output_bytes_per_minute=1000000",
    ]);
    let (one, other) = (server.tenant(), server.tenant());
    let sandbox = TestSandbox::new(&one, &json!({}));
    let path = sandbox.at("/files/content?path=f");
    one.put(&path, &vec![0; 600_000]).expect(201);
    let refused = one.put(&path, &vec![0; 900_000]);
    assert_eq!(refused.problem(), (429, "quota_exceeded".to_owned()));
    assert!(refused.header("retry-after").is_some());
    sandbox.run("print('x' * 2_000_000)");
    let refused = sandbox.post("/cells", &json!({"code": "1"}));
    assert_eq!(refused.problem(), (429, "quota_exceeded".to_owned()));
    let others = TestSandbox::new(&other, &json!({}));
    other.put(&others.at("/files/content?path=f"), &vec![0; 600_000]).expect(201);
    assert_eq!(others.print("print(1)"), "1");
}

#[test]
fn many_clients_at_once_all_get_their_answer() {
    let server = TestServer::with(&["quota.sandboxes=100"]);
    let clients: Vec<_> = (0..30)
        .map(|number: u32| {
            let client = server.admin.clone();
            std::thread::spawn(move || {
                let body = json!({"code": format!("print({number})")});
                client.post("/v1/run", &body).expect(200).json()["stdout"].clone()
            })
        })
        .collect();
    for (number, client) in clients.into_iter().enumerate() {
        assert_eq!(client.join().unwrap(), format!("{number}\n"));
    }
    let stats = || server.admin.get("/v1/stats").json()["sandboxes"].as_u64().unwrap();
    assert!(eventually(TIMEOUT, || stats() == 0));
}
