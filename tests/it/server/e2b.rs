//! What E2B's clients say, said by hand: the way in, tokens, and what is refused. Their own SDKs are
//! driven by `tests/conformance/e2b`.

use serde_json::{Value, json};

use crate::harness::http::{Client, Response};
use crate::harness::server::TestServer;
use crate::harness::{TIMEOUT, eventually};

/// A sandbox as E2B's clients see it.
struct Theirs {
    client: Client,
    made: Value,
}

impl Theirs {
    fn create(owner: &Client) -> Self {
        let body =
            json!({"templateID": "code-interpreter-v1", "timeout": 120, "envVars": {"K": "V"}});
        let made = owner.post("/v2/sandboxes", &body).expect(201).json();
        Self { client: owner.with_key(None), made }
    }

    fn id(&self) -> &str {
        self.made["sandboxID"].as_str().unwrap()
    }

    /// A request to a port inside, with a token.
    fn inside(&self, port: &str, token: &str, method: &str, path: &str, body: &[u8]) -> Response {
        let headers = [
            ("E2b-Sandbox-Id", self.id()),
            ("E2b-Sandbox-Port", port),
            (if port == "49999" { "E2b-Traffic-Access-Token" } else { "X-Access-Token" }, token),
        ];
        self.client.request(method, path, &headers, body)
    }

    fn code_token(&self) -> &str {
        self.made["trafficAccessToken"].as_str().unwrap()
    }

    fn files_token(&self) -> &str {
        self.made["envdAccessToken"].as_str().unwrap()
    }

    fn execute(&self, body: &Value) -> Vec<Value> {
        let body = body.to_string();
        let said = self.inside("49999", self.code_token(), "POST", "/execute", body.as_bytes());
        said.expect(200).text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn code_files_and_lives_go_by_their_rules() {
    let server = TestServer::new();
    let owner = server.tenant();
    let key = owner.key.clone().unwrap().replace("silica_", "e2b_");
    let owner = owner.with_key(Some(&key));
    let one = Theirs::create(&owner);
    let code = "import os; print(os.environ['K'], os.environ.get('Q'), os.getcwd())";
    let lines = one.execute(&json!({"code": code, "env_vars": {"Q": "ä"}}));
    let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["number_of_executions", "stdout", "end_of_execution"]);
    assert_eq!(lines[0]["execution_count"], 1);
    assert_eq!(lines[1]["text"], "V ä /home/user\n");
    let file = "/files?path=~/a.txt";
    one.inside("49983", one.files_token(), "POST", file, b"text").expect(200);
    assert_eq!(one.inside("49983", one.files_token(), "GET", file, b"").expect(200).text(), "text");
    // The same sandbox, by our own API.
    let ours = owner.get(&format!("/v1/sandboxes/{}", one.id())).expect(200).json();
    assert_eq!(ours["cells_run"], 1);
    let place = format!("/sandboxes/{}", one.id());
    owner.post(&format!("{place}/timeout"), &json!({"timeout": 10})).expect(204);
    let pause = owner.post(&format!("{place}/pause"), &json!({})).expect(501).json();
    assert_eq!(pause["code"], 501);
    owner.delete(&place).expect(204);
    assert_eq!(owner.delete(&place).expect(404).json()["code"], 404);
    let gone = one.inside("49983", one.files_token(), "GET", "/health", b"").expect(502).json();
    assert_eq!(
        gone,
        json!({"sandboxId": one.id(), "message": "The sandbox was not found", "code": 502})
    );
}

#[test]
fn a_token_opens_one_door_of_one_sandbox() {
    let server = TestServer::new();
    let (mine, theirs) = (Theirs::create(&server.tenant()), Theirs::create(&server.tenant()));
    let list = |token: &str| {
        let body = br#"{"path":"."}"#;
        mine.inside("49983", token, "POST", "/filesystem.Filesystem/ListDir", body).status
    };
    assert_eq!(list(mine.files_token()), 200);
    for wrong in [theirs.files_token(), mine.code_token(), ""] {
        assert_eq!(list(wrong), 401, "{wrong}");
    }
    let contexts = |token: &str| mine.inside("49999", token, "GET", "/contexts", b"").status;
    assert_eq!(contexts(mine.code_token()), 200);
    for wrong in [theirs.code_token(), mine.files_token(), ""] {
        assert_eq!(contexts(wrong), 401, "{wrong}");
    }
    let other = server.tenant();
    other.get(&format!("/sandboxes/{}", mine.id())).expect(404);
    other.delete(&format!("/sandboxes/{}", mine.id())).expect(404);
}

#[test]
fn a_revoked_key_closes_its_sandboxes() {
    let server = TestServer::new();
    let (owner, key) = server.new_key();
    let one = Theirs::create(&owner);
    server.admin.delete(&format!("/v1/keys/{key}")).expect(204);
    let contexts = one.inside("49999", one.code_token(), "GET", "/contexts", b"");
    contexts.expect(401);
}

#[test]
fn what_cannot_be_had_is_refused_and_not_ignored() {
    let server = TestServer::new();
    let owner = server.tenant();
    for (field, value) in [
        ("autoPause", json!(true)),
        ("network", json!({"allowOut": ["example.org"]})),
        ("volumeMounts", json!([{"name": "a", "path": "/b"}])),
        ("something", json!("new")),
    ] {
        let refused = owner.post("/v2/sandboxes", &json!({"templateID": "base", field: value}));
        let message = refused.expect(400).json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(field), "{message}");
    }
    let nothing = json!({"templateID": "base", "autoPause": false, "network": {"denyOut": ["0.0.0.0/0"]},
        "something": null, "autoResume": {"enabled": false}, "allow_internet_access": true});
    let made = owner.post("/sandboxes", &nothing).expect(201).json();
    let detail = owner.get(&format!("/sandboxes/{}", made["sandboxID"].as_str().unwrap()));
    assert_eq!(detail.expect(200).json()["allowInternetAccess"], false);
}

/// Their clients have no word for it: they hear that the line is alive, and then what came of it.
#[test]
fn what_a_person_has_to_approve_is_waited_for() {
    let server = TestServer::with(&["approvals.ask=always"]);
    let one = Theirs::create(&server.tenant());
    let pending = || {
        let listed = server.admin.get("/v1/approvals").expect(200).json();
        listed["approvals"][0]["id"].as_str().map(str::to_owned)
    };
    let lines = std::thread::scope(|scope| {
        let running = scope.spawn(|| one.execute(&json!({"code": "print(6 * 7)"})));
        assert!(eventually(TIMEOUT, || pending().is_some()));
        let path = format!("/v1/approvals/{}/approve", pending().unwrap());
        server.admin.post(&path, &json!({})).expect(200);
        running.join().unwrap()
    });
    let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    let told: Vec<_> = kinds.into_iter().filter(|kind| *kind != "keepalive").collect();
    assert_eq!(told, ["number_of_executions", "stdout", "end_of_execution"]);
}
