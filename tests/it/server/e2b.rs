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
    // The key is refused while the sandbox ends; after that the sandbox is not found.
    let contexts = one.inside("49999", one.code_token(), "GET", "/contexts", b"");
    assert!([401, 502].contains(&contexts.status), "{contexts:?}");
}

#[test]
fn what_cannot_be_had_is_refused_and_not_ignored() {
    let server = TestServer::new();
    let owner = server.tenant();
    for (field, value) in [
        ("autoPause", json!(true)),
        ("network", json!({"dnsServers": ["1.1.1.1"]})),
        ("volumeMounts", json!([{"name": "a", "path": "/b"}])),
        ("something", json!("new")),
    ] {
        let refused = owner.post("/v2/sandboxes", &json!({"templateID": "base", field: value}));
        let message = refused.expect(400).json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(field), "{message}");
    }
    let network = json!({"templateID": "base", "network": {"allowOut": ["example.org"]}});
    let message = owner.post("/v2/sandboxes", &network).expect(403).json()["message"].clone();
    assert!(message.as_str().unwrap().contains("network"), "{message}");
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

impl Theirs {
    fn call(&self, method: &str, body: &Value) -> Response {
        let path = format!("/filesystem.Filesystem/{method}");
        self.inside("49983", self.files_token(), "POST", &path, body.to_string().as_bytes())
    }
}

/// E2B's first example lists the root. What the guest can read, the API reads; what it may not change, is refused.
#[test]
fn files_outside_home_are_read_and_not_changed() {
    let server = TestServer::new();
    let one = Theirs::create(&server.tenant());
    let listed = one.call("ListDir", &json!({"path": "/", "depth": 1})).expect(200).json();
    let names = listed["entries"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap());
    let names: Vec<&str> = names.collect();
    assert!(["etc", "home", "usr"].iter().all(|name| names.contains(name)), "{names:?}");
    let read = |path: &str| {
        one.inside("49983", one.files_token(), "GET", &format!("/files?path={path}"), b"")
    };
    let said = one.execute(&json!({"code": "print(open('/etc/os-release').read(), end='')"}));
    let theirs: String = said.iter().filter_map(|line| line["text"].as_str()).collect();
    assert_eq!(read("/etc/os-release").expect(200).text(), theirs);
    read("/nowhere").expect(404);
    read("/etc").expect(400);
    let stat = one.call("Stat", &json!({"path": "/etc"})).expect(200).json();
    assert_eq!(stat["entry"]["type"], "FILE_TYPE_DIRECTORY");
    one.call("MakeDir", &json!({"path": "/etc/x"})).expect(403);
    one.call("Remove", &json!({"path": "/etc/os-release"})).expect(403);
    let written =
        one.inside("49983", one.files_token(), "POST", "/files?path=/etc/x", b"x").expect(403);
    assert!(written.text().contains("/home/user"), "{}", written.text());
}

#[test]
fn links_show_what_they_lead_to() {
    let server = TestServer::new();
    let one = Theirs::create(&server.tenant());
    let code = "import os; open('a', 'w').write('four'); os.symlink('a', 'to-a'); os.symlink('/usr', 'to-usr'); os.symlink('none', 'broken')";
    one.execute(&json!({"code": code}));
    let stat = |path: &str| one.call("Stat", &json!({"path": path})).expect(200).json();
    let link = stat("to-a")["entry"].clone();
    assert_eq!(link["type"], "FILE_TYPE_FILE", "{link}");
    assert_eq!(link["symlinkTarget"], "/home/user/a");
    assert_eq!(link["path"], "/home/user/to-a");
    let listed = one.call("ListDir", &json!({"path": "."})).expect(200).json();
    let kinds: Vec<_> = listed["entries"].as_array().unwrap().iter().collect();
    let kinds: Vec<_> = kinds.iter().map(|it| (it["name"].clone(), it["type"].clone())).collect();
    let expected = [
        ("a", "FILE_TYPE_FILE"),
        ("broken", "FILE_TYPE_SYMLINK"),
        ("to-a", "FILE_TYPE_FILE"),
        ("to-usr", "FILE_TYPE_DIRECTORY"),
    ];
    assert_eq!(kinds, expected.map(|(name, kind)| (json!(name), json!(kind))));
    let read = one.inside("49983", one.files_token(), "GET", "/files?path=to-a", b"");
    assert_eq!(read.expect(200).body, b"four");
}

#[test]
fn metadata_are_attributes_that_the_guest_knows() {
    let server = TestServer::new();
    let one = Theirs::create(&server.tenant());
    let said = one.execute(&json!({"code": "import os; open('a', 'w').close(); os.setxattr('a', 'user.e2b.author', b'me')"}));
    if said.iter().any(|line| line["type"] == "error") {
        // tmpfs keeps attributes of users since Linux 6.6.
        assert!(
            said.iter().any(|line| line["value"].to_string().contains("not supported")),
            "{said:?}"
        );
        return;
    }
    let stat = one.call("Stat", &json!({"path": "a"})).expect(200).json();
    assert_eq!(stat["entry"]["metadata"], json!({"author": "me"}));
}

#[test]
fn a_context_in_a_directory_that_is_not_there_is_refused_in_their_words() {
    let server = TestServer::new();
    let one = Theirs::create(&server.tenant());
    let body = json!({"cwd": "/home/user/nowhere"}).to_string();
    let refused = one.inside("49999", one.code_token(), "POST", "/contexts", body.as_bytes());
    let words = refused.expect(400).text();
    assert!(words.starts_with("Failed to set working directory"), "{words}");
}

fn frames(bytes: &[u8]) -> Vec<Value> {
    let mut rest = bytes;
    let mut found = Vec::new();
    while let Some((head, more)) = rest.split_first_chunk::<5>() {
        let length = u32::from_be_bytes(*head.last_chunk().unwrap()) as usize;
        found.push(serde_json::from_slice(&more[..length]).unwrap());
        rest = &more[length..];
    }
    found
}

/// Starts a command; returns its stream and its process id.
fn start(one: &Theirs, process: &Value) -> (crate::harness::http::Connection, u64) {
    let text = json!({"process": process}).to_string();
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    let body = [&[0_u8][..], &length, text.as_bytes()].concat();
    let headers = [
        ("E2b-Sandbox-Id", one.id()),
        ("E2b-Sandbox-Port", "49983"),
        ("X-Access-Token", one.files_token()),
        ("Content-Type", "application/connect+json"),
    ];
    let (response, mut stream) =
        one.client.begin("POST", "/process.Process/Start", &headers, &body);
    assert_eq!(response.status, 200);
    let mut bytes = [0; 4096];
    let length = std::io::Read::read(&mut stream, &mut bytes).unwrap();
    let pid = frames(&bytes[..length])[0]["event"]["start"]["pid"].as_u64().unwrap();
    (stream, pid)
}

/// Their clients then ask whether the sandbox is live, and say that it was killed.
#[test]
fn a_command_killed_with_its_sandbox_breaks_its_stream() {
    let server = TestServer::new();
    let owner = server.tenant();
    let one = Theirs::create(&owner);
    let (mut stream, _) = start(&one, &json!({"cmd": "/bin/sleep", "args": ["60"]}));
    owner.delete(&format!("/sandboxes/{}", one.id())).expect(204);
    let error = stream.read_body().expect_err("the stream ends as if all were well");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    one.inside("49983", one.files_token(), "GET", "/health", b"").expect(502);
}

/// `pty.kill` and `commands.kill` return when the process is gone.
#[test]
fn a_killed_process_is_gone_when_the_call_returns() {
    let server = TestServer::new();
    let one = Theirs::create(&server.tenant());
    for _ in 0..5 {
        let (_stream, pid) = start(&one, &json!({"cmd": "/bin/sleep", "args": ["60"]}));
        let body = json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}).to_string();
        let path = "/process.Process/SendSignal";
        one.inside("49983", one.files_token(), "POST", path, body.as_bytes()).expect(200);
        let listed = one.inside("49983", one.files_token(), "POST", "/process.Process/List", b"{}");
        let listed = listed.expect(200).json();
        assert_eq!(listed["processes"], json!([]), "it runs after it was killed");
        let code = format!("import os; print(os.path.exists('/proc/{pid}'))");
        let said = one.execute(&json!({"code": code}));
        assert!(said.iter().any(|line| line["text"] == "False\n"), "{said:?}");
    }
}

/// Programs look for the variable, and pictures that are saved are shown as in a sandbox of E2B.
#[test]
fn a_sandbox_says_that_it_is_one_of_e2b() {
    let server = TestServer::new();
    let one = Theirs::create(&server.tenant());
    let said = one.execute(&json!({"code": "import os; print(os.environ['E2B_SANDBOX'])"}));
    assert!(said.iter().any(|line| line["text"] == "true\n"), "{said:?}");
}
