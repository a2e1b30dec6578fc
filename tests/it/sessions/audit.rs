//! What is written down: a beginning and an end of everything, whatever happens to the server.

use serde_json::{Value, json};

use crate::harness::http::Client;
use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{TIMEOUT, eventually};

fn executions(client: &Client, query: &str) -> Vec<Value> {
    let answer = client.get(&format!("/v1/audit?{query}")).expect(200).json();
    answer["executions"].as_array().unwrap().clone()
}

/// Activity, code and outcome of executions, oldest first.
fn told(client: &Client, query: &str) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let tell = |one: &Value| {
        (
            text(&one["begin"]["activity"]),
            text(&one["begin"]["code"]["text"]),
            text(&one["outcome"]),
        )
    };
    executions(client, query).iter().rev().map(tell).collect()
}

#[track_caller]
fn assert_whole(server: &TestServer) -> Value {
    let verdict = server.admin.get("/v1/audit/verify").expect(200).json();
    assert_eq!(verdict["ok"], true, "{verdict}");
    verdict
}

#[test]
fn everything_that_runs_has_a_beginning_and_an_end() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    server.admin.post("/v1/run", &json!({"code": "run"})).expect(200);
    sandbox.run("good = 1");
    sandbox.run("1 / 0");
    sandbox.run("import os; os._exit(1)");
    sandbox.cell(&json!({"code": "while True: pass", "timeout_seconds": 0.2}));
    sandbox.post("/commands", &json!({"command": "exit 3"})).expect(200);
    sandbox.post("/commands", &json!({"arguments": ["nope", "x"]})).expect(422);
    let busy = sandbox.start_until_up("print('up', flush=True); import time; time.sleep(600)");
    let waiting = sandbox.start(&json!({"code": "never"}));
    sandbox.post("/commands", &json!({"command": "sleep 600", "background": true})).expect(202);
    assert_eq!(sandbox.get(&format!("/cells/{waiting}")).json()["state"], "queued");
    assert_eq!(sandbox.get(&format!("/cells/{busy}")).json()["state"], "running");
    sandbox.client.delete(&sandbox.path).expect(204);
    let unfinished = || executions(&server.admin, "outcome=unfinished").len();
    assert!(eventually(TIMEOUT, || unfinished() == 0), "{} are open", unfinished());
    let expected = [
        ("run", "run", "raised"),
        ("cell", "good = 1", "ok"),
        ("cell", "1 / 0", "raised"),
        ("cell", "import os; os._exit(1)", "vanished"),
        ("cell", "while True: pass", "timed_out"),
        ("command", "exit 3", "exited"),
        ("command", "nope x", "cannot_start"),
        ("cell", "print('up', flush=True); import time; time.sleep(600)", "sandbox_died"),
        ("cell", "never", "sandbox_died"),
        ("command", "sleep 600", "sandbox_died"),
    ];
    let expected = expected.map(|(activity, code, outcome)| {
        (activity.to_owned(), code.to_owned(), outcome.to_owned())
    });
    assert_eq!(told(&server.admin, ""), expected);
    assert_eq!(told(&server.admin, &format!("sandbox={}", sandbox.id)).len(), 9);
    assert_eq!(told(&server.admin, "text=exit")[0].1, "import os; os._exit(1)");
    assert_eq!(told(&server.admin, "limit=2").len(), 2);
    assert_eq!(told(&server.admin, "until=2000-01-01T00:00:00Z").len(), 0);
    assert_eq!(assert_whole(&server)["unfinished"], json!(0));
}

#[test]
fn killed_server_leaves_the_truth() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    sandbox.run("done = 1");
    sandbox.start_until_up("print('up', flush=True); import time; time.sleep(600)");
    let ended = TestSandbox::new(&server.admin, &json!({}));
    server.admin.delete(&ended.path).expect(204);
    let server = server.kill_and_restart();
    let again = TestSandbox { client: server.admin.clone(), ..sandbox };
    assert_eq!(
        again.state(),
        ("lost".to_owned(), Some("the server stopped without ending it".to_owned()))
    );
    let ended = TestSandbox { client: server.admin.clone(), ..ended };
    assert_eq!(ended.state().0, "ended");
    let cell = again.get("/cells/c1");
    assert_eq!(cell.problem(), (409, "sandbox_ended".to_owned()));
    assert!(cell.text().contains("the server stopped"), "{}", cell.text());
    let outcomes: Vec<String> = told(&server.admin, "").into_iter().map(|told| told.2).collect();
    assert_eq!(outcomes, ["ok", "unfinished"]);
    assert_eq!(assert_whole(&server)["unfinished"], json!(1));
    let listed = server.admin.get("/v1/sandboxes?state=lost").expect(200).json();
    assert_eq!(listed["sandboxes"].as_array().unwrap().len(), 1);
    server.assert_works();
}

#[test]
fn killed_again_and_again_the_chain_holds() {
    let mut server = TestServer::new();
    for round in 0..4 {
        let client = server.admin.clone();
        let running = std::thread::spawn(move || {
            let mut connection = client.connect();
            let body = json!({"code": "pass"}).to_string();
            let request = client.head("POST", "/v1/run", &[], body.len()) + &body;
            // For as long as the server answers.
            while connection.send(request.as_bytes()).is_ok()
                && connection.try_read_head("POST").is_ok_and(|answer| answer.status == 200)
                && connection.read_body().is_ok()
            {}
        });
        let ran = |server: &TestServer| executions(&server.admin, "outcome=ok").len();
        assert!(eventually(TIMEOUT, || ran(&server) > 3 * round));
        server = server.kill_and_restart();
        running.join().unwrap();
        assert_whole(&server);
    }
}

#[test]
fn code_is_kept_as_the_operator_wants() {
    let server = TestServer::with(&["audit.code=digest"]);
    server.admin.post("/v1/run", &json!({"code": "secret = 1"})).expect(200);
    let executions = executions(&server.admin, "");
    let code = &executions[0]["begin"]["code"];
    assert_eq!(code["bytes"], 10);
    assert!(code["sha256"].is_string() && code.get("text").is_none(), "{code}");
}
