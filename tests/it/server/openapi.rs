//! The OpenAPI document against a real server: every operation is called, and every answer is one
//! that the document knows, field by field.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::interpret::{Scripted, python, script, scripted};
use crate::harness::http::{Client, Response};

const DOCUMENT: &str = include_str!("../../../crates/server/openapi.json");

/// The document, and which of its operations have been seen to work.
struct Contract {
    document: Value,
    worked: BTreeSet<String>,
}

/// A server's answers must not say more than the document: objects are closed for the test.
fn close(schema: &mut Value) {
    if schema["type"] == "object" && schema.get("properties").is_some() {
        schema["additionalProperties"] = false.into();
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(close),
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

impl Contract {
    fn new() -> Self {
        let mut document: Value = serde_json::from_str(DOCUMENT).unwrap();
        document["components"]["schemas"].as_object_mut().unwrap().values_mut().for_each(close);
        Self { document, worked: BTreeSet::new() }
    }

    #[track_caller]
    fn assert_fits(&self, schema: &Value, value: &Value, what: &str) {
        let mut root = schema.clone();
        root["components"] = self.document["components"].clone();
        let validator = jsonschema::validator_for(&root).unwrap();
        let problems: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("{}: {error}", error.instance_path))
            .collect();
        assert!(problems.is_empty(), "{what}: {value:#}: {problems:#?}");
    }

    /// The operation of a name, with its method and path.
    fn operation(&self, id: &str) -> (String, String, Value) {
        for (path, item) in self.document["paths"].as_object().unwrap() {
            for (method, value) in item.as_object().unwrap() {
                if value["operationId"] == id {
                    return (method.to_uppercase(), path.clone(), value.clone());
                }
            }
        }
        panic!("there is no operation {id}");
    }

    /// What the document says about such an answer, which it must know.
    #[track_caller]
    fn check(&mut self, id: &str, called: &Response) {
        let (.., operation) = self.operation(id);
        let response = &operation["responses"][called.status.to_string()];
        let response = match response["$ref"].as_str() {
            Some(place) => self.document.pointer(&place[1..]).unwrap(),
            None => response,
        };
        assert!(response.is_object(), "{id} answers {}: {}", called.status, called.text());
        assert!(called.header("x-request-id").is_some_and(|value| !value.is_empty()), "{id}");
        if response.get("content").is_none() {
            assert!(called.body.is_empty(), "{id}: {}", called.text());
        } else {
            let mime = called.header("content-type").unwrap_or_default().split(';').next().unwrap();
            let content = response["content"].get(mime);
            let content = content.unwrap_or_else(|| panic!("{id} answers with {mime}"));
            match content.get("schema") {
                Some(schema) if mime == "text/event-stream" => {
                    let place = schema["$ref"].as_str().unwrap();
                    let events = self.document.pointer(&place[1..]).unwrap();
                    self.check_events(id, &events["x-events"], &called.text());
                }
                Some(schema) => self.assert_fits(schema, &called.json(), id),
                None => {}
            }
        }
        if called.status < 400 {
            self.worked.insert(id.to_owned());
        }
    }

    #[track_caller]
    fn check_events(&self, id: &str, known: &Value, text: &str) {
        let mut names = Vec::new();
        for event in text.split("\n\n").filter(|event| !event.is_empty()) {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            let name = field("event: ").unwrap();
            let schema = known.get(name).unwrap_or_else(|| panic!("{id}: unknown event {name}"));
            let data = serde_json::from_str(field("data: ").unwrap()).unwrap();
            self.assert_fits(schema, &data, &format!("{id}, {name}"));
            names.push(name);
        }
        assert_eq!((names.first(), names.last()), (Some(&"start"), Some(&"done")), "{id}");
    }
}

/// Calls of one server, each looked up in the contract.
struct Caller {
    on: Scripted,
    contract: Contract,
    /// What stands in paths.
    names: Vec<(&'static str, String)>,
}

impl Caller {
    fn admin(&self) -> &Client {
        &self.on.server.admin
    }

    fn call_with(
        &mut self,
        id: &str,
        query: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        let (method, mut path, _) = self.contract.operation(id);
        for (name, value) in &self.names {
            path = path.replace(&format!("{{{name}}}"), value);
        }
        assert!(!path.contains('{'), "{path}");
        let path = format!("{path}{query}");
        let called = self.admin().request(&method, &path, headers, body);
        self.contract.check(id, &called);
        called
    }

    /// Calls, wants this status, and returns the answer.
    #[track_caller]
    fn want(&mut self, status: u16, id: &str, query: &str, body: &str) -> Response {
        let called = self.call_with(id, query, &[], body.as_bytes());
        assert_eq!(called.status, status, "{id}: {}", called.text());
        called
    }

    /// The same with JSON in both directions.
    #[track_caller]
    fn json(&mut self, status: u16, id: &str, body: &Value) -> Value {
        self.want(status, id, "", &body.to_string()).json()
    }

    fn name(&mut self, name: &'static str, value: &str) {
        self.names.retain(|(known, _)| *known != name);
        self.names.push((name, value.to_owned()));
    }

    fn events(&mut self, id: &str, body: &str) {
        let called = self.call_with(id, "", &[("Accept", "text/event-stream")], body.as_bytes());
        assert_eq!(called.header("content-type"), Some("text/event-stream"), "{id}");
    }
}

#[test]
fn every_operation_does_what_the_document_says() {
    let names = vec![("name", "python".to_owned())];
    let turns = script(&[("contract", &python("print(1)"))]);
    let on = scripted(&turns, &["quota.request_burst=10000"]);
    let mut caller = Caller { on, contract: Contract::new(), names };
    service(&mut caller);
    run_and_sandboxes(&mut caller);
    kernels_and_cells(&mut caller);
    commands(&mut caller);
    files(&mut caller);
    ports(&mut caller);
    network_and_secrets(&mut caller);
    approvals(&mut caller);
    prompts(&mut caller);
    keys_and_audit(&mut caller);
    failures(&mut caller);
    let document = &caller.contract.document;
    let all = document["paths"].as_object().unwrap().values();
    let all = all.flat_map(|item| item.as_object().unwrap().values());
    let all: BTreeSet<String> =
        all.map(|value| value["operationId"].as_str().unwrap().to_owned()).collect();
    assert_eq!(caller.contract.worked, all);
    caller.on.server.terminate();
}

fn service(caller: &mut Caller) {
    for id in ["getService", "isAlive", "isReady", "getMetrics"] {
        caller.want(200, id, "", "");
    }
    let document = caller.want(200, "getDocument", "", "").json();
    assert_eq!(document, serde_json::from_str::<Value>(DOCUMENT).unwrap());
    let page = caller.want(200, "getPage", "", "");
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none';"));
    for id in ["listTemplates", "getTemplate", "getStats"] {
        caller.want(200, id, "", "");
    }
}

fn run_and_sandboxes(caller: &mut Caller) {
    let run = json!({
        "code": "import sys\nopen('out.txt', 'w').write(sys.argv[1])\n1 / 0",
        "arguments": ["x"],
        "files": [{"path": "data.csv", "content": "a"}],
        "outputs": ["out.txt", "missing.txt"],
    });
    let report = caller.json(200, "run", &run);
    assert_eq!(
        (&report["outcome"], &report["error"]["name"]),
        (&json!("raised"), &json!("ZeroDivisionError"))
    );
    let create = json!({
        "metadata": {"user": "42"}, "ttl_seconds": 600, "env": {"K": "V"},
        "inputs": [{"name": "input.txt", "content": "a"}], "network": {"expose": [8000, 9000]},
    });
    let sandbox = caller.json(201, "createSandbox", &create);
    caller.name("sandbox", sandbox["id"].as_str().unwrap());
    caller.want(200, "getSandbox", "", "");
    let listed = caller.want(200, "listSandboxes", "?metadata.user=42&limit=1&state=running", "");
    assert_eq!(listed.json()["sandboxes"].as_array().unwrap().len(), 1);
    caller.json(200, "extendSandbox", &json!({"ttl_seconds": 700}));
    caller.want(200, "getUsage", "", "");
    let forked = caller.json(201, "forkSandbox", &json!({"metadata": {"user": "twin"}}));
    let twin = forked["sandboxes"][0]["id"].as_str().unwrap();
    caller.name("sandbox", twin);
    caller.want(204, "deleteSandbox", "", "");
    caller.name("sandbox", sandbox["id"].as_str().unwrap());
    let snapshot = caller.json(201, "createSnapshot", &json!({"name": "kept"}));
    caller.name("snapshot", snapshot["id"].as_str().unwrap());
    caller.want(200, "listSnapshots", "", "");
    caller.want(200, "getSnapshot", "", "");
    caller.want(204, "deleteSnapshot", "", "");
    let mark = caller.want(201, "createMark", "", "").json();
    assert_eq!(caller.json(200, "undo", &json!({"mark": mark["id"]})), mark);
    let watched = caller.want(200, "watchSandboxes", "", "").json();
    assert_eq!(watched["sandboxes"][0]["id"], sandbox["id"]);
}

fn network_and_secrets(caller: &mut Caller) {
    let network = json!({"mode": "none", "expose": [8000, 9000]}).to_string();
    caller.want(204, "setNetwork", "", &network);
    let shown = caller.want(200, "getNetwork", "", "").json();
    assert_eq!((&shown["mode"], &shown["expose"]), (&json!("none"), &json!([8000, 9000])));
    let checked = caller.json(200, "checkNetwork", &json!({"host": "api.example.com"}));
    assert_eq!(checked["code"], "no_network");
    caller.want(200, "listConnections", "", "");
    let secret = json!({"value": "sk-0123456789", "hosts": ["api.example.com"], "env": "KEY"});
    caller.name("secret", "far");
    caller.json(201, "putSecret", &secret);
    caller.json(200, "putSecret", &secret);
    caller.want(200, "getSecret", "", "");
    assert_eq!(caller.want(200, "listSecrets", "", "").json()["secrets"][0]["name"], "far");
    caller.want(204, "deleteSecret", "", "");
}

fn kernels_and_cells(caller: &mut Caller) {
    let kernel = caller.json(201, "createKernel", &json!({"directory": "/tmp"}));
    caller.name("kernel", kernel["id"].as_str().unwrap());
    caller.want(200, "listKernels", "", "");
    caller.want(200, "getKernel", "", "");
    caller.want(200, "restartKernel", "", "");
    caller.want(204, "interruptKernel", "", "");
    let found = caller.json(200, "completeCode", &json!({"code": "import math; prin"}));
    assert_eq!(found, json!({"matches": ["print"], "start": 13, "end": 17}));
    let found = caller.json(200, "inspectName", &json!({"code": "print", "cursor": 2}));
    assert!(found["text"].as_str().unwrap().contains("sep"), "{found}");
    let checked = caller.json(200, "checkCode", &json!({"code": "if True:"}));
    assert_eq!(checked, json!({"state": "incomplete", "indent": "    "}));
    caller.want(204, "deleteKernel", "", "");
    let code = "import sys; print('x'); print('y', file=sys.stderr); open('n', 'w').close(); 7";
    let cell = caller.json(200, "createCell", &json!({"code": code, "kernel": "k1"}));
    assert_eq!((&cell["outcome"], &cell["text"]), (&json!("ok"), &json!("7")));
    caller.events("createCell", &json!({"code": "print(1)\n1 / 0"}).to_string());
    let cell = json!({"code": "while True: pass", "background": true});
    let cell = caller.json(202, "createCell", &cell);
    caller.name("cell", cell["id"].as_str().unwrap());
    caller.json(200, "extendCell", &json!({"seconds": 5}));
    caller.want(204, "answerCell", "", &json!({"value": "unasked"}).to_string());
    caller.want(204, "interruptCell", "", "");
    let cell = caller.want(200, "getCell", "?wait=60", "").json();
    assert_eq!(cell["outcome"], "interrupted");
    caller.want(409, "interruptCell", "", "");
    caller.want(200, "watchCell", "?after=0", "");
    caller.want(200, "listCells", "", "");
}

fn commands(caller: &mut Caller) {
    let done = caller.json(200, "createCommand", &json!({"command": "echo hi; exit 3"}));
    assert_eq!((&done["stdout"], &done["exit_code"]), (&json!("hi\n"), &json!(3)));
    caller.events("createCommand", r#"{"arguments": ["printf", "\\377"]}"#);
    let command = json!({
        "arguments": ["cat"], "background": true, "terminal": {"columns": 80, "rows": 24},
    });
    let command = caller.json(202, "createCommand", &command);
    caller.name("command", command["id"].as_str().unwrap());
    caller.want(204, "resizeTerminal", "", r#"{"columns": 100, "rows": 30}"#);
    caller.want(204, "writeStdin", "?close=false", "some text\n");
    caller.want(204, "signalCommand", "", r#"{"signal": "KILL"}"#);
    let command = caller.want(200, "getCommand", "?wait=60", "").json();
    assert_eq!((&command["outcome"], &command["signal"]), (&json!("killed"), &json!(9)));
    caller.want(200, "watchCommand", "", "");
    caller.want(200, "listCommands", "", "");
    caller.want(422, "createCommand", "", r#"{"arguments": ["no-such-program"]}"#);
}

fn files(caller: &mut Caller) {
    caller.want(201, "writeFile", "?path=a.txt&mode=600", "abc");
    caller.want(200, "writeFile", "?path=a.txt", "abcdef");
    caller.want(200, "statFile", "?path=a.txt", "");
    caller.json(201, "makeDirectory", &json!({"path": "d/e"}));
    caller.json(200, "makeDirectory", &json!({"path": "d/e"}));
    caller.json(200, "moveFile", &json!({"from": "a.txt", "to": "d/b.txt"}));
    let listed = caller.want(200, "listFiles", "?path=d&depth=2", "").json();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 2);
    let range = [("Range", "bytes=1-2")];
    let part = caller.call_with("readFile", "?path=d/b.txt", &range, b"");
    assert_eq!((part.status, part.text()), (206, "bc".to_owned()));
    let beyond = [("Range", "bytes=100-200")];
    assert_eq!(caller.call_with("readFile", "?path=d/b.txt", &beyond, b"").status, 416);
    let archive = caller.want(200, "readArchive", "?path=d", "");
    let unpacked = caller.call_with("unpackArchive", "?path=copy", &[], &archive.body);
    assert_eq!((unpacked.status, &unpacked.json()["files"]), (200, &json!(1)));
    for (method, id, body) in [("GET", "readLink", ""), ("PUT", "writeLink", "new")] {
        let link = json!({"path": "d/b.txt", "method": method, "expires_seconds": 60});
        let link = caller.json(200, "makeLink", &link);
        let url = link["url"].as_str().unwrap().to_owned();
        caller.name("token", url.rsplit('/').next().unwrap());
        caller.want(200, id, "", body);
    }
    assert_eq!(caller.want(200, "readFile", "?path=d/b.txt", "").text(), "new");
    caller.want(204, "removeFile", "?path=d", "");
    for (status, id, query) in [
        (200, "statFile", "?path=/etc/passwd"),
        (400, "statFile", "?path=a%00b"),
        (404, "readFile", "?path=missing"),
        (422, "readFile", "?path=copy"),
        (422, "readArchive", "?path=n"),
        (400, "listFiles", "?path=.&unknown=1"),
    ] {
        caller.want(status, id, query, "");
    }
}

fn ports(caller: &mut Caller) {
    let serve = "import socket, threading\ns = socket.create_server(('127.0.0.1', 8000))\n\
                 def serve():\n  while True:\n    c, _ = s.accept()\n    if c.recv(9999): c.sendall(b\"\
                 HTTP/1.0 200 OK\\r\\nContent-Type: application/octet-stream\\r\\n\\r\\nserved\")\n    c.close()\n\
                 threading.Thread(target=serve, daemon=True).start()";
    caller.name("port", "8000");
    caller.json(200, "createCell", &json!({"code": serve, "kernel": "k1"}));
    assert_eq!(caller.want(200, "getPort", "", "").text(), "served");
    let ports = caller.want(200, "listPorts", "", "").json();
    let open = |at: usize| ports["ports"][at]["open"].as_bool().unwrap();
    assert_eq!((open(0), open(1)), (true, false), "{ports}");
    caller.json(200, "makePortLink", &json!({"expires_seconds": 60}));
    for (port, status) in [("8001", 403), ("9000", 502)] {
        caller.name("port", port);
        caller.want(status, "getPort", "", "");
    }
    caller.name("port", "8001");
    caller.want(403, "makePortLink", "", "{}");
}

fn prompts(caller: &mut Caller) {
    for id in ["prompt", "interpret"] {
        let answer = caller.json(200, id, &json!({"prompt": "Keep the contract"}));
        assert_eq!(
            (&answer["success"], &answer["output"]),
            (&json!(true), &json!("1")),
            "{answer}"
        );
    }
}

/// With cells of another key, because a key cannot approve its own.
fn approvals(caller: &mut Caller) {
    let policy = "name = 'asks'\n[[rule]]\nid = 'p'\nkind = 'call'\nseverity = 'low'\n\
                  action = 'ask'\nwhy = 'w'\nnames = ['print']\n";
    let key = caller.json(201, "createKey", &json!({"name": "asker"}));
    let asker = caller.admin().with_key(key["key"].as_str());
    let sandbox = asker.post("/v1/sandboxes", &json!({})).json();
    let cells = format!("/v1/sandboxes/{}/cells", sandbox["id"].as_str().unwrap());
    for decision in ["approve", "deny"] {
        let cell = asker.post(&cells, &json!({"code": "print(1)", "policy": policy}));
        caller.contract.check("createCell", &cell);
        assert_eq!(cell.status, 202, "{}", cell.text());
        let id = cell.json()["approval"]["id"].as_str().unwrap().to_owned();
        caller.name("approval", &id);
        caller.want(200, "listApprovals", "", "");
        caller.want(200, "getApproval", "", "");
        caller.json(200, decision, &json!({"reason": "so"}));
        caller.want(409, decision, "", "");
    }
    let blocked = json!({"code": "import socket", "policy": "data"});
    let blocked = asker.post(&cells, &blocked);
    assert_eq!(blocked.status, 422);
    caller.contract.check("createCell", &blocked);
}

fn keys_and_audit(caller: &mut Caller) {
    let key = caller.json(201, "createKey", &json!({"name": "other"}));
    caller.name("id", key["id"].as_str().unwrap());
    caller.want(200, "listKeys", "", "");
    // A key does not see the sandbox of another, and only an admin key sees all of them.
    let others = caller.admin().with_key(key["key"].as_str());
    let sandbox = caller.names.iter().find(|(name, _)| *name == "sandbox").unwrap().1.clone();
    let hidden = others.get(&format!("/v1/sandboxes/{sandbox}"));
    assert_eq!((hidden.status, &hidden.json()["code"]), (404, &json!("sandbox_not_found")));
    for id in ["watchSandboxes", "listKeys", "verifyAudit"] {
        let (method, path, _) = caller.contract.operation(id);
        let refused = others.request(&method, &path, &[], b"");
        assert_eq!(refused.json()["code"], "forbidden", "{id}");
        caller.contract.check(id, &refused);
    }
    caller.want(204, "revokeKey", "", "");
    let found = caller.want(200, "searchAudit", "?limit=5&outcome=ok", "").json();
    assert!(!found["executions"].as_array().unwrap().is_empty());
    assert_eq!(caller.want(200, "verifyAudit", "", "").json()["ok"], true);
    caller.want(204, "deleteSandbox", "", "");
    caller.want(200, "getSandbox", "", "");
    caller.want(200, "listSandboxes", "?state=ended", "");
}

/// Without a key, with nonsense, and after the sandbox's end: a problem the document knows, and
/// never one that says that there is no such route.
fn failures(caller: &mut Caller) {
    let paths = caller.contract.document["paths"].as_object().unwrap().clone();
    for (path, item) in &paths {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let mut path = path.clone();
            for (name, value) in &caller.names {
                path = path.replace(&format!("{{{name}}}"), value);
            }
            let method = method.to_uppercase();
            let nobody = caller.admin().with_key(None).request(&method, &path, &[], b"");
            caller.contract.check(id, &nobody);
            let open = operation["security"].is_array();
            assert_eq!(nobody.status == 401, !open, "{id}: {}", nobody.text());
            if id == "getPage" || id == "getMetrics" {
                continue;
            }
            let nonsense = caller.admin().request(&method, &path, &[], br#"{"unknown": 1}"#);
            caller.contract.check(id, &nonsense);
            if nonsense.status == 204 {
                continue;
            }
            let code = nonsense.json()["code"].clone();
            assert!(code != "not_found" && code != "method_not_allowed", "{id}");
            if operation["requestBody"]["content"]["application/json"].is_object() {
                assert_eq!(code, "bad_request", "{id} takes unknown fields");
            }
        }
    }
}
