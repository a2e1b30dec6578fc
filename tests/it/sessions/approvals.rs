//! The check in front of cells, and the people it asks.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use silica_store::{Access, DATABASE_NAME, Store, StoreOptions};

use crate::harness::http::Client;
use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{CommandOutput, SILICA, TIMEOUT, eventually, finish};

/// A policy that asks about one function and blocks another.
const ASKS: &str = "name = 'asks'\n\
    [[rule]]\nid = 'careful'\nkind = 'call'\nseverity = 'high'\naction = 'ask'\nwhy = '{name} needs a word'\n\
    names = ['os.remove', 'print']\n\
    [[rule]]\nid = 'never'\nkind = 'call'\nseverity = 'high'\naction = 'block'\nwhy = 'no'\nnames = ['eval']\n";

/// A server, its admin, a key that may approve, and a sandbox of a key that may not.
struct Scene {
    server: TestServer,
    boss: Client,
    sandbox: TestSandbox,
}

impl Scene {
    fn new(settings: &[&str]) -> Self {
        let server = TestServer::with(settings);
        let boss = new_key(&server, &json!({"name": "boss", "approve": true}));
        let sandbox = TestSandbox::new(&server.tenant(), &json!({}));
        Self { server, boss, sandbox }
    }

    /// Has code wait; returns the cell and the approval's id.
    #[track_caller]
    fn park(&self, code: &str) -> (Value, String) {
        let body = json!({"code": code, "policy": ASKS});
        let cell = self.sandbox.post("/cells", &body).expect(202).json();
        assert_eq!(cell["state"], "awaiting_approval", "{cell}");
        let id = cell["approval"]["id"].as_str().unwrap().to_owned();
        (cell, id)
    }

    /// The cell when it has ended.
    fn ended(&self, cell: &Value) -> Value {
        self.sandbox.ended(cell["id"].as_str().unwrap())
    }

    /// What the audit log says beside executions, newest last.
    fn notes(&self) -> Vec<Value> {
        let path = self.server.home().path().join(DATABASE_NAME);
        let store = Store::open(&path, StoreOptions::new(Access::ReadOnly)).unwrap();
        let records = store.audit().tail(1000).wait().unwrap();
        let bodies = records.iter().map(|record| serde_json::from_str(&record.body).unwrap());
        bodies.filter(|body: &Value| body["event"].is_string()).collect()
    }

    #[track_caller]
    fn assert_noted(&self, event: &str, id: &str) {
        let notes = self.notes();
        let fits = |note: &Value| note["event"] == event && note["details"]["approval"] == id;
        assert!(notes.iter().any(fits), "{event} {id}: {notes:#?}");
    }
}

fn decide(by: &Client, id: &str, verb: &str) -> crate::harness::http::Response {
    by.post(&format!("/v1/approvals/{id}/{verb}"), &json!({"reason": "because"}))
}

fn new_key(server: &TestServer, body: &Value) -> Client {
    let key = server.admin.post("/v1/keys", body).expect(201).json();
    server.admin.with_key(key["key"].as_str())
}

#[test]
fn what_is_blocked_never_runs_and_says_why() {
    let scene = Scene::new(&[]);
    let body = json!({"code": "x = 1\neval('2')", "policy": ASKS});
    let response = scene.sandbox.post("/cells", &body);
    assert_eq!(response.problem(), (422, "policy_blocked".to_owned()));
    let problem = response.json();
    assert_eq!((&problem["policy"], &problem["findings"][0]["line"]), (&json!("asks"), &json!(2)));
    assert_eq!(problem["findings"][0]["rule"], "never");
    // Nothing is left of it but a note.
    assert_eq!(scene.sandbox.get("/cells").json()["cells"], json!([]));
    let notes = scene.notes();
    assert!(notes.iter().any(|note| note["event"] == "policy_blocked"), "{notes:#?}");
    let run = json!({"code": "import socket", "policy": "data"});
    let response = scene.sandbox.client.post("/v1/run", &run);
    assert_eq!(response.problem(), (422, "policy_blocked".to_owned()));
    assert_eq!(scene.sandbox.print("print('open by default')"), "open by default");
}

#[test]
fn findings_that_only_warn_are_in_the_answer_and_the_audit_log() {
    let scene = Scene::new(&[]);
    let cell = scene.sandbox.run("eval('1 + 1')");
    assert_eq!((&cell["outcome"], &cell["text"]), (&json!("ok"), &json!("2")));
    assert_eq!(
        (&cell["policy"], &cell["findings"][0]["rule"]),
        (&json!("open"), &json!("dynamic-code"))
    );
    assert_eq!(cell["findings"][0]["action"], "warn");
    let quiet = scene.sandbox.run("1 + 1");
    assert!(quiet.get("findings").is_none() && quiet.get("policy").is_none(), "{quiet}");
    let executions = scene.server.admin.get("/v1/audit?limit=10").expect(200).json();
    let checks: Vec<&Value> = executions["executions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["begin"]["check"])
        .collect();
    assert_eq!(checks, ["open: allow", "open: warn (dynamic-code)"]);
}

#[test]
fn policies_that_are_none_are_refused() {
    let scene = Scene::new(&[]);
    for policy in ["lax", "", "name = 1", "name = 'a'\nextends = 'b'", &"#=".repeat(70_000)] {
        let response = scene.sandbox.post("/cells", &json!({"code": "1", "policy": policy}));
        assert_eq!(response.problem(), (400, "bad_request".to_owned()), "{policy:.20}");
    }
}

#[test]
fn nobody_goes_below_the_operators_minimum() {
    let scene = Scene::new(&["policy.minimum=data"]);
    let body = json!({"code": "import socket", "policy": "open"});
    let response = scene.sandbox.post("/cells", &body);
    assert_eq!(response.problem(), (422, "policy_blocked".to_owned()));
    assert_eq!(response.json()["policy"], "open+data");
    // One can still ask for more.
    let body = json!({"code": "import numpy", "policy": "strict"});
    assert_eq!(scene.sandbox.post("/cells", &body).problem().0, 422);
    assert_eq!(scene.sandbox.print("import math; print(math.floor(2.5))"), "2");
}

#[test]
fn what_is_approved_runs_and_tells_so() {
    let scene = Scene::new(&[]);
    let body = json!({"code": "print('ran')", "policy": ASKS});
    let mut events = scene.sandbox.client.stream(&scene.sandbox.at("/cells"), &body);
    let asked = events.until("approval").data;
    assert_eq!(asked["state"], "pending");
    let id = asked["id"].as_str().unwrap().to_owned();
    // Nothing runs meanwhile, and the sandbox is free for others.
    let listed = scene.boss.get("/v1/approvals").expect(200).json();
    let shown = &listed["approvals"][0];
    assert_eq!((&shown["id"], &shown["code"]), (&json!(id), &json!("print('ran')")));
    assert_eq!(
        (&shown["runnable"], &shown["findings"][0]["rule"]),
        (&json!(true), &json!("careful"))
    );
    assert_eq!(scene.sandbox.run("41 + 1")["text"], "42");
    let approved = scene.boss.post(
        &format!("/v1/approvals/{id}/approve"),
        &json!({"reason": "looks good", "sha256": shown["sha256"]}),
    );
    let approved = approved.expect(200).json();
    assert_eq!((&approved["state"], &approved["code"]), (&json!("approved"), &Value::Null));
    let news = events.until("approval").data;
    assert_eq!((&news["state"], &news["reason"]), (&json!("approved"), &json!("looks good")));
    assert_eq!(events.until("stdout").data["text"], "ran\n");
    let done = events.until("done").data;
    assert_eq!((&done["outcome"], &done["approval"]["state"]), (&json!("ok"), &json!("approved")));
    scene.assert_noted("approval_asked", &id);
    scene.assert_noted("approval_approved", &id);
    let executions = scene.server.admin.get("/v1/audit?text=ran").expect(200).json();
    let begin = &executions["executions"][0]["begin"];
    assert_eq!(begin["details"]["approval"], *id);
    assert_eq!(begin["details"]["approved_sha256"], shown["sha256"]);
}

#[test]
fn what_is_denied_never_runs() {
    let scene = Scene::new(&[]);
    let (cell, id) = scene.park("open('made', 'w'); print(1)");
    decide(&scene.boss, &id, "deny").expect(200);
    let cell = scene.ended(&cell);
    assert_eq!((&cell["outcome"], &cell["exit_code"]), (&json!("denied"), &json!(126)));
    assert_eq!(
        (&cell["approval"]["state"], &cell["approval"]["reason"]),
        (&json!("denied"), &json!("because"))
    );
    assert_eq!(scene.sandbox.run("import os; os.path.exists('made')")["text"], "False");
    scene.assert_noted("approval_denied", &id);
    assert_eq!(scene.boss.get("/v1/approvals").json()["approvals"], json!([]));
    let all = scene.boss.get("/v1/approvals?state=all").json();
    assert_eq!(all["approvals"][0]["state"], "denied");
}

#[test]
fn the_second_decision_comes_too_late() {
    let scene = Scene::new(&[]);
    let (cell, id) = scene.park("print(1)");
    decide(&scene.boss, &id, "approve").expect(200);
    for verb in ["approve", "deny"] {
        let late = decide(&scene.boss, &id, verb);
        assert_eq!(late.problem(), (409, "already_decided".to_owned()), "{verb}");
    }
    assert_eq!(scene.ended(&cell)["outcome"], "ok");
    scene.assert_noted("approval_refused", &id);
    let (_, denied) = scene.park("print(2)");
    decide(&scene.boss, &denied, "deny").expect(200);
    let late = decide(&scene.boss, &denied, "approve");
    assert_eq!(late.problem(), (409, "already_decided".to_owned()));
    // However many decide at once, one does.
    let (cell, contested) = scene.park("print(3)");
    let (boss, admin) = (scene.boss.clone(), scene.server.admin.clone());
    let path = format!("/v1/approvals/{contested}");
    let deciding: Vec<_> =
        [(boss.clone(), "approve"), (admin.clone(), "approve"), (boss, "deny"), (admin, "deny")]
            .map(|(client, verb)| {
                let path = format!("{path}/{verb}");
                std::thread::spawn(move || client.post(&path, &json!({})).status)
            })
            .into();
    let mut answers: Vec<u16> = deciding.into_iter().map(|one| one.join().unwrap()).collect();
    answers.sort_unstable();
    assert_eq!(answers, [200, 409, 409, 409]);
    scene.ended(&cell);
}

#[test]
fn only_those_who_may_decide_and_not_about_their_own() {
    let scene = Scene::new(&[]);
    let (_, id) = scene.park("print(1)");
    let other = scene.server.tenant();
    for client in [&scene.sandbox.client, &other] {
        assert_eq!(decide(client, &id, "approve").problem(), (403, "forbidden".to_owned()));
    }
    // Other keys do not see it; the key that asked does.
    assert_eq!(other.get("/v1/approvals").json()["approvals"], json!([]));
    assert_eq!(other.get(&format!("/v1/approvals/{id}")).problem().0, 404);
    let own = scene.sandbox.client.get(&format!("/v1/approvals/{id}")).expect(200).json();
    assert_eq!(own["code"], "print(1)");
    // Not even an admin approves what it asked for itself, but it may take it back.
    let sandbox = scene.server.sandbox();
    let cell =
        sandbox.post("/cells", &json!({"code": "print(2)", "policy": ASKS})).expect(202).json();
    let own = cell["approval"]["id"].as_str().unwrap();
    let refused = decide(&scene.server.admin, own, "approve");
    assert_eq!(refused.problem(), (403, "own_approval".to_owned()));
    scene.assert_noted("approval_refused", own);
    decide(&scene.server.admin, own, "deny").expect(200);
    for id in ["apr_0", "nonsense", "apr_00000000000000000000"] {
        assert_eq!(
            decide(&scene.boss, id, "deny").problem(),
            (404, "approval_not_found".to_owned())
        );
    }
}

#[test]
fn an_operator_may_let_keys_approve_their_own() {
    let scene = Scene::new(&["approvals.self=true"]);
    let sandbox = scene.server.sandbox();
    let cell =
        sandbox.post("/cells", &json!({"code": "print(2)", "policy": ASKS})).expect(202).json();
    let id = cell["approval"]["id"].as_str().unwrap();
    decide(&scene.server.admin, id, "approve").expect(200);
    assert_eq!(sandbox.ended(cell["id"].as_str().unwrap())["stdout"], "2\n");
}

#[test]
fn another_digest_is_not_what_was_looked_at() {
    let scene = Scene::new(&[]);
    let (cell, id) = scene.park("print(1)");
    let path = format!("/v1/approvals/{id}/approve");
    for sha256 in ["0".repeat(64), "short".to_owned()] {
        let refused = scene.boss.post(&path, &json!({"sha256": sha256}));
        assert_eq!(refused.problem(), (409, "conflict".to_owned()));
    }
    let waiting = scene.sandbox.get(&format!("/cells/{}", cell["id"].as_str().unwrap())).json();
    assert_eq!(waiting["state"], "awaiting_approval");
    scene.boss.post(&path, &json!({"sha256": waiting["approval"]["sha256"]})).expect(200);
    assert_eq!(scene.ended(&cell)["outcome"], "ok");
}

#[test]
fn nothing_that_is_not_shown_changes_what_runs() {
    let scene = Scene::new(&[]);
    let body = json!({"code": "print(1)", "policy": ASKS, "env": {"A": "B"}});
    assert_eq!(scene.sandbox.post("/cells", &body).problem(), (400, "bad_request".to_owned()));
    assert_eq!(scene.boss.get("/v1/approvals").json()["approvals"], json!([]));
}

#[test]
fn no_decision_in_time_is_a_no() {
    let scene = Scene::new(&["approvals.timeout_seconds=1"]);
    let (cell, id) = scene.park("print(1)");
    let cell = scene.ended(&cell);
    assert_eq!(
        (&cell["outcome"], &cell["approval"]["state"]),
        (&json!("denied"), &json!("expired"))
    );
    assert_eq!(decide(&scene.boss, &id, "approve").problem(), (409, "already_decided".to_owned()));
    scene.assert_noted("approval_expired", &id);
}

#[test]
fn an_approval_after_the_sandbox_died_runs_nothing() {
    let scene = Scene::new(&[]);
    let (_, id) = scene.park("print(1)");
    scene.sandbox.client.delete(&scene.sandbox.path).expect(204);
    let shown = scene.boss.get(&format!("/v1/approvals/{id}")).expect(200).json();
    assert_eq!((&shown["state"], &shown["runnable"]), (&json!("pending"), &json!(false)));
    let refused = decide(&scene.boss, &id, "approve");
    assert_eq!(refused.problem(), (409, "sandbox_ended".to_owned()));
    scene.assert_noted("approval_refused", &id);
    decide(&scene.boss, &id, "deny").expect(200);
}

#[test]
fn a_restart_keeps_what_waits_and_says_that_it_cannot_run() {
    let mut scene = Scene::new(&[]);
    let (_, id) = scene.park("print('kept')");
    scene.server = scene.server.kill_and_restart();
    let boss = scene.server.admin.with_key(scene.boss.key.as_deref());
    let listed = boss.get("/v1/approvals").expect(200).json();
    let kept = &listed["approvals"][0];
    assert_eq!((&kept["id"], &kept["code"]), (&json!(id), &json!("print('kept')")));
    assert_eq!((&kept["state"], &kept["runnable"]), (&json!("pending"), &json!(false)));
    let refused = decide(&boss, &id, "approve");
    assert_eq!(refused.problem(), (409, "sandbox_ended".to_owned()));
    decide(&boss, &id, "deny").expect(200);
    scene.assert_noted("approval_denied", &id);
}

#[test]
fn the_requester_can_take_it_back() {
    let scene = Scene::new(&[]);
    let (cell, id) = scene.park("print(1)");
    let path = format!("/cells/{}/interrupt", cell["id"].as_str().unwrap());
    scene.sandbox.post(&path, &json!({})).expect(204);
    assert_eq!(scene.ended(&cell)["outcome"], "interrupted");
    let shown = scene.boss.get(&format!("/v1/approvals/{id}")).expect(200).json();
    assert_eq!(shown["state"], "denied");
    assert_eq!(decide(&scene.boss, &id, "approve").problem().0, 409);
}

#[test]
fn where_everything_is_asked_nothing_goes_around_it() {
    let scene = Scene::new(&["approvals.ask=always"]);
    let cell = scene.sandbox.post("/cells", &json!({"code": "40 + 2"})).expect(202).json();
    assert_eq!(cell["state"], "awaiting_approval");
    assert!(cell.get("findings").is_none(), "{cell}");
    let refused = scene.sandbox.post("/commands", &json!({"command": "true"}));
    assert_eq!(refused.problem(), (403, "not_approvable".to_owned()));
    let id = cell["approval"]["id"].as_str().unwrap();
    decide(&scene.boss, id, "approve").expect(200);
    assert_eq!(scene.ended(&cell)["text"], "42");
}

#[test]
fn one_key_cannot_have_everything_wait() {
    let scene = Scene::new(&[]);
    for _ in 0..20 {
        scene.park("print(1)");
    }
    let more = scene.sandbox.post("/cells", &json!({"code": "print(1)", "policy": ASKS}));
    assert_eq!(more.problem(), (429, "quota_exceeded".to_owned()));
    assert_eq!(scene.sandbox.run("1 + 1")["text"], "2");
    let cells = scene.sandbox.get("/cells").json();
    assert_eq!(cells["cells"].as_array().unwrap().len(), 21);
}

fn silica(scene: &Scene, key: &Client, arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new(SILICA);
    let url = format!("http://{}", scene.server.admin.address);
    let key = key.key.as_deref().unwrap();
    finish(
        command
            .args(arguments)
            .envs([("SILICA_URL", url.as_str()), ("SILICA_KEY", key)])
            .stdin(Stdio::null()),
    )
}

#[test]
fn the_terminal_lists_shows_approves_and_denies() {
    let scene = Scene::new(&[]);
    let (cell, id) = scene.park("print('\u{1b}[31m')");
    let (other, denied) = scene.park("print(2)");
    let listed = silica(&scene, &scene.boss, &["approvals", "list"]);
    assert_eq!(listed.status, 0, "{listed:?}");
    assert!(listed.stdout.contains(&id) && listed.stdout.contains("careful"), "{listed:?}");
    let shown = silica(&scene, &scene.boss, &["approvals", "show", &id]);
    assert!(shown.stdout.contains("print needs a word"), "{shown:?}");
    assert!(!shown.stdout.contains('\u{1b}'), "{shown:?}");
    let ran = silica(&scene, &scene.boss, &["approvals", "approve", &id, "--reason", "fine"]);
    assert_eq!((ran.status, ran.stderr), (0, format!("silica: {id} is approved\n")));
    let ran = silica(&scene, &scene.boss, &["approvals", "deny", &denied, "--json"]);
    assert_eq!(ran.json()["state"], "denied");
    assert_eq!(scene.ended(&cell)["outcome"], "ok");
    assert_eq!(scene.ended(&other)["outcome"], "denied");
    let again = silica(&scene, &scene.boss, &["approvals", "approve", &id]);
    assert_eq!(again.status, 125);
    assert!(again.stderr.contains("is already approved"), "{again:?}");
    let nobody = silica(&scene, &scene.sandbox.client, &["approvals", "deny", &id]);
    assert!(nobody.stderr.contains("403"), "{nobody:?}");
    let odd = silica(&scene, &scene.boss, &["approvals", "show", "../keys"]);
    assert!(odd.stderr.contains("is not the id of an approval"), "{odd:?}");
}

/// Takes one request, answers with this status, and returns its head and body.
fn take(listener: &TcpListener, status: &str) -> (String, String) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let length = stream.read(&mut piece).unwrap();
        bytes.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let wanted = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
        });
        if body.len() >= wanted.unwrap() {
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .unwrap();
            return (head.to_owned(), body.to_owned());
        }
    }
}

#[test]
fn the_webhook_is_signed_and_sent_again_if_it_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::TempDir::new().unwrap();
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "0123456789abcdef\n").unwrap();
    let url = format!("approvals.webhook_url=http://{}/hook", listener.local_addr().unwrap());
    let file = format!("approvals.webhook_secret_file={}", secret.display());
    let scene = Scene::new(&[&url, &file]);
    let (_, id) = scene.park("print('secret code')");
    // The first answer is a failure, so it comes again with the same body.
    let (_, first) = take(&listener, "500 No");
    let (head, body) = take(&listener, "204 Yes");
    assert_eq!(first, body);
    let told: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&told["event"], &told["approval"]["id"]), (&json!("approval.pending"), &json!(id)));
    assert!(!body.contains("secret code"), "{body}");
    let signature =
        head.lines().find_map(|line| line.strip_prefix("x-silica-signature: ")).unwrap();
    let (time, digest) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    let expected = hmac(&directory.path().join("message"), &format!("{time}.{body}"));
    assert_eq!(digest, expected);
    decide(&scene.boss, &id, "deny").expect(200);
    let (_, body) = take(&listener, "200 OK");
    assert!(body.contains("approval.denied"), "{body}");
    let waits = || scene.boss.get("/v1/approvals").json()["approvals"] == json!([]);
    assert!(eventually(TIMEOUT, waits));
}

/// The signature as Python computes it.
fn hmac(file: &std::path::Path, message: &str) -> String {
    std::fs::write(file, message).unwrap();
    let program = "import hmac, sys\n\
        print(hmac.new(b'0123456789abcdef', open(sys.argv[1], 'rb').read(), 'sha256').hexdigest())";
    let done = Command::new("python3").args(["-c", program]).arg(file).output().unwrap();
    String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn settings_that_cannot_be_had_end_the_start() {
    let home = crate::harness::TestHome::new(crate::harness::PYTHON);
    let missing = home.working_directory().join("missing.toml");
    let minimum = format!("policy.minimum={}", missing.display());
    for (settings, said) in [
        (vec![minimum], "missing.toml"),
        (vec!["approvals.webhook_url=http://127.0.0.1:1/".to_owned()], "both or neither"),
        (vec!["policy.default=lax".to_owned()], "policy.default"),
        (vec!["approvals.self=maybe".to_owned()], "true or false"),
    ] {
        let mut command = crate::harness::server::serve_command(&home, &settings);
        let ran = finish(&mut command);
        assert_eq!(ran.status, 125, "{ran:?}");
        assert!(ran.stderr.contains(said), "{ran:?}");
    }
}

/// A client of `/v1/run` is not left waiting for a person: it learns where the result will be.
#[test]
fn a_run_that_waits_is_answered_and_can_be_fetched() {
    let scene = Scene::new(&[]);
    let client = &scene.sandbox.client;
    let code = "open('made', 'w').write('x'); print(6 * 7)";
    let body = json!({"code": code, "policy": ASKS, "outputs": ["/workspace/made"]});
    let response = client.post("/v1/run", &body).expect(202);
    let location = response.header("location").unwrap().to_owned();
    let waiting = response.json();
    assert_eq!(waiting["state"], "awaiting_approval", "{waiting}");
    let sandbox = waiting["sandbox"].as_str().unwrap();
    assert_eq!(location, format!("/v1/sandboxes/{sandbox}/cells/c1"));
    // Another key finds nothing there.
    scene.server.tenant().get(&location).expect(404);
    decide(&scene.boss, waiting["approval"]["id"].as_str().unwrap(), "approve").expect(200);
    let ended = client.get(&format!("{location}?wait=60")).expect(200).json();
    assert_eq!((&ended["outcome"], &ended["stdout"]), (&json!("ok"), &json!("42\n")), "{ended}");
    let made = client.get(&format!("/v1/sandboxes/{sandbox}/files/content?path=made")).expect(200);
    assert_eq!(made.body, b"x");
    client.request("DELETE", &format!("/v1/sandboxes/{sandbox}"), &[], b"").expect(204);
    client.get(&location).expect(404);
    // One that is decided soon is answered as ever.
    let boss = scene.boss.clone();
    let deciding = std::thread::spawn(move || {
        let mut found = None;
        eventually(TIMEOUT, || {
            let waits = boss.get("/v1/approvals").expect(200).json();
            found = waits["approvals"][0]["id"].as_str().map(str::to_owned);
            found.is_some()
        });
        decide(&boss, &found.unwrap(), "approve").expect(200);
    });
    let soon = client.post("/v1/run", &body).expect(200).json();
    assert_eq!(soon["stdout"], "42\n", "{soon}");
    deciding.join().unwrap();
}
