//! Who may do what: keys in all forms, and what others' things look like.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::http::{Client, Response};
use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{SILICA, TIMEOUT, eventually, finish};

#[test]
fn key_is_taken_in_every_form_and_nothing_else_is() {
    let server = TestServer::new();
    let key = server.admin.key.clone().unwrap();
    let digits = key.strip_prefix("silica_").unwrap();
    let nobody = server.admin.with_key(None);
    let status = |name: &str, value: &str| {
        let response = nobody.request("GET", "/v1/sandboxes", &[(name, value)], b"");
        if response.status == 401 {
            assert_eq!(response.problem(), (401, "unauthorized".to_owned()));
            assert_eq!(response.header("www-authenticate"), Some("Bearer"));
        }
        response.status
    };
    for (name, value) in [
        ("X-API-Key", key.clone()),
        ("x-api-key", format!("e2b_{digits}")),
        ("Authorization", format!("Bearer {key}")),
        ("authorization", format!("bearer e2b_{digits}")),
    ] {
        assert_eq!(status(name, &value), 200, "{name}");
    }
    let other = if digits.ends_with('0') { '1' } else { '0' };
    let wrong = format!("silica_{}{other}", &digits[..digits.len() - 1]);
    for (name, value) in [
        ("X-Nothing", ""),
        ("X-API-Key", ""),
        ("X-API-Key", "silica_"),
        ("X-API-Key", digits),
        ("X-API-Key", &wrong),
        ("X-API-Key", &format!("{key}0")),
        ("X-API-Key", &format!("sk_{digits}")),
        ("X-API-Key", &"a".repeat(10_000)),
        ("X-API-Key", "%00' OR 1=1 --"),
        ("X-API-Key", "\u{e9}\u{2028}"),
        ("Authorization", &key),
        ("Authorization", &format!("Basic {key}")),
        ("Authorization", "Bearer"),
        ("Authorization", "Bearer "),
    ] {
        assert_eq!(status(name, value), 401, "{name}: {value}");
    }
    assert_eq!(nobody.get("/v1/sandboxes").status, 401);
    server.assert_works();
}

#[test]
fn revoked_key_is_worth_nothing() {
    let server = TestServer::new();
    let (tenant, id) = server.new_key();
    tenant.get("/v1/sandboxes").expect(200);
    server.admin.delete(&format!("/v1/keys/{id}")).expect(204);
    assert_eq!(tenant.get("/v1/sandboxes").problem(), (401, "unauthorized".to_owned()));
    server.admin.delete(&format!("/v1/keys/{id}")).expect(204);
    let listed = server.admin.get("/v1/keys").expect(200).json();
    let listed = listed["keys"].as_array().unwrap().clone();
    let revoked = listed.iter().find(|key| key["id"] == id.as_str()).unwrap();
    assert!(revoked["revoked_at"].is_string(), "{revoked}");
    assert!(listed.iter().all(|key| key.get("key").is_none()), "{listed:?}");
}

#[test]
fn key_of_another_process_works_at_once() {
    let server = TestServer::new();
    for number in 0..8 {
        // So that the server has just read its keys.
        server.admin.get("/v1/sandboxes").expect(200);
        let mut command = Command::new(SILICA);
        command.args(["key", "create", &format!("new {number}")]);
        let made = finish(command.env("SILICA_HOME", server.home().path()).stdin(Stdio::null()));
        assert_eq!(made.status, 0, "{made:?}");
        let client = server.admin.with_key(Some(made.stdout.trim_end()));
        assert_eq!(client.get("/v1/sandboxes").status, 200, "try {number}");
    }
}

#[test]
fn admin_routes_are_for_admins() {
    let server = TestServer::new();
    let (tenant, id) = server.new_key();
    let forbidden = |response: Response| {
        assert_eq!(response.problem(), (403, "forbidden".to_owned()));
    };
    forbidden(tenant.get("/v1/keys"));
    forbidden(tenant.post("/v1/keys", &json!({"name": "mine", "admin": true})));
    forbidden(tenant.delete(&format!("/v1/keys/{id}")));
    forbidden(tenant.get("/v1/audit/verify"));
    assert_eq!(server.admin.get("/v1/keys").json()["keys"].as_array().unwrap().len(), 2);
    assert!(tenant.get("/v1/stats").json().get("server").is_none());
}

#[test]
fn audit_shows_each_key_its_own() {
    let server = TestServer::new();
    let (one, other) = (server.tenant(), server.tenant());
    one.post("/v1/run", &json!({"code": "print('one')"})).expect(200);
    other.post("/v1/run", &json!({"code": "print('other')"})).expect(200);
    let codes = |client: &Client| {
        let answer = client.get("/v1/audit").expect(200).json();
        let code = |execution: &Value| execution["begin"]["code"]["text"].to_string();
        answer["executions"].as_array().unwrap().iter().map(code).collect::<Vec<_>>()
    };
    assert_eq!(codes(&one), ["\"print('one')\""]);
    assert_eq!(codes(&other), ["\"print('other')\""]);
    assert_eq!(codes(&server.admin).len(), 2);
}

/// Everything that can be asked of a sandbox: method, rest of the path, body.
fn requests() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("GET", "", Value::Null),
        ("POST", "/extend", json!({"ttl_seconds": 60})),
        ("GET", "/usage", Value::Null),
        ("GET", "/kernels", Value::Null),
        ("POST", "/kernels", json!({})),
        ("GET", "/kernels/k1", Value::Null),
        ("POST", "/kernels/k1/interrupt", json!({})),
        ("POST", "/kernels/k1/restart", json!({})),
        ("DELETE", "/kernels/k1", Value::Null),
        ("GET", "/cells", Value::Null),
        ("POST", "/cells", json!({"code": "print(secret)"})),
        ("GET", "/cells/c1", Value::Null),
        ("GET", "/cells/c1/events", Value::Null),
        ("POST", "/cells/c1/interrupt", json!({})),
        ("POST", "/cells/c1/extend", json!({"seconds": 1})),
        ("GET", "/commands", Value::Null),
        ("POST", "/commands", json!({"command": "cat secret"})),
        ("GET", "/commands/p1", Value::Null),
        ("GET", "/commands/p1/events", Value::Null),
        ("POST", "/commands/p1/stdin", json!("x")),
        ("POST", "/commands/p1/signal", json!({"signal": 9})),
        ("POST", "/commands/p1/resize", json!({"columns": 1, "rows": 1})),
        ("GET", "/files?path=/workspace", Value::Null),
        ("DELETE", "/files?path=secret", Value::Null),
        ("GET", "/files/stat?path=secret", Value::Null),
        ("GET", "/files/content?path=secret", Value::Null),
        ("PUT", "/files/content?path=secret", json!("overwritten")),
        ("POST", "/files/directory", json!({"path": "d"})),
        ("POST", "/files/move", json!({"from": "secret", "to": "mine"})),
        ("GET", "/files/archive?path=/workspace", Value::Null),
        ("PUT", "/files/archive?path=/workspace", Value::Null),
        ("POST", "/files/link", json!({"path": "secret"})),
        ("DELETE", "", Value::Null),
    ]
}

/// A problem without what is different in every answer.
fn essence(response: &Response, id: &str) -> (u16, String) {
    let mut body = response.json();
    body["request_id"] = Value::Null;
    (response.status, body.to_string().replace(id, "ID"))
}

#[test]
fn anothers_sandbox_looks_like_none() {
    let server = TestServer::new();
    let (owner, stranger) = (server.tenant(), server.tenant());
    let sandbox = TestSandbox::new(&owner, &json!({}));
    sandbox.run("open('secret', 'w').write('secret'); secret = 1");
    sandbox.post("/commands", &json!({"command": "true"})).expect(200);
    let mut unknown = sandbox.id.clone();
    let last = unknown.pop().unwrap();
    unknown.push(if last == '0' { '1' } else { '0' });
    for client in [&stranger, &server.admin] {
        for (method, rest, body) in requests() {
            let body = if body.is_null() { String::new() } else { body.to_string() };
            let ask = |id: &str| {
                let path = format!("/v1/sandboxes/{id}{rest}");
                essence(&client.request(method, &path, &[], body.as_bytes()), id)
            };
            let anothers = ask(&sandbox.id);
            assert_eq!(anothers, ask(&unknown), "{method} {rest}");
            assert!(anothers.0 == 404 && anothers.1.contains("sandbox_not_found"), "{anothers:?}");
        }
    }
    for query in ["", "?state=running,ended,lost"] {
        let seen = stranger.get(&format!("/v1/sandboxes{query}")).expect(200).json();
        assert_eq!(seen["sandboxes"], json!([]));
    }
    assert_eq!(sandbox.print("print(secret, open('secret').read())"), "1 secret");
    // An ended one is no different.
    owner.delete(&sandbox.path).expect(204);
    assert!(eventually(TIMEOUT, || sandbox.state().0 == "ended"));
    assert_eq!(stranger.get(&sandbox.path).problem(), (404, "sandbox_not_found".to_owned()));
    assert_eq!(sandbox.get("/cells").problem(), (409, "sandbox_ended".to_owned()));
}

#[test]
fn ids_of_one_sandbox_mean_nothing_in_another() {
    let server = TestServer::new();
    let (one, other) = (server.sandbox(), server.sandbox());
    one.run("pass");
    one.post("/kernels", &json!({})).expect(201);
    one.post("/commands", &json!({"command": "true"})).expect(200);
    for (rest, code) in [
        ("/cells/c1", "cell_not_found"),
        ("/cells/c1/events", "cell_not_found"),
        ("/kernels/k2", "kernel_not_found"),
        ("/commands/p1", "command_not_found"),
        ("/commands/p1/events", "command_not_found"),
    ] {
        one.get(rest).expect(200);
        assert_eq!(other.get(rest).problem(), (404, code.to_owned()), "{rest}");
    }
}
