//! Copies of live sandboxes over HTTP.

use serde_json::{Value, json};

use crate::harness::http::Client;
use crate::harness::server::{TestSandbox, TestServer};

/// Makes copies of a sandbox; returns them and the whole answer.
fn fork(sandbox: &TestSandbox, body: &Value) -> (Vec<TestSandbox>, Value) {
    let answer = sandbox.post("/fork", body).expect(201).json();
    let twins = answer["sandboxes"].as_array().unwrap().iter();
    let twins = twins.map(|twin| known(&sandbox.client, twin["id"].as_str().unwrap()));
    (twins.collect(), answer)
}

fn known(client: &Client, id: &str) -> TestSandbox {
    TestSandbox { client: client.clone(), path: format!("/v1/sandboxes/{id}"), id: id.to_owned() }
}

#[test]
fn twins_are_sandboxes_of_their_own() {
    let server = TestServer::new();
    let create = json!({"metadata": {"a": "b"}, "env": {"MINE": "yes"}, "ttl_seconds": 300});
    let original = TestSandbox::new(&server.admin, &create);
    original.run("import os; x = 1; open('notes', 'w').write('kept')");
    let (twins, answer) = fork(&original, &json!({"count": 3}));
    assert_eq!(answer["left_behind"], json!([]));
    for (index, twin) in twins.iter().enumerate() {
        let look = "x += 1; print(x, open('notes').read(), os.environ['MINE'])";
        assert_eq!(twin.print(look), "2 kept yes");
        twin.run(&format!("x = 'twin {index}'; open('notes', 'w').write('twin {index}')"));
        let shown = twin.get("").expect(200).json();
        assert_eq!(shown["metadata"], json!({"a": "b"}));
        assert_eq!(shown["limits"], answer["sandboxes"][0]["limits"]);
        // The number of cells goes on in the interpreter, and is the sandbox's own outside.
        assert_eq!(shown["cells_run"], 2);
    }
    assert_eq!(original.print("print(x, open('notes').read())"), "1 kept");
    server.admin.delete(&original.path).expect(204);
    for (index, twin) in twins.iter().enumerate() {
        let kept = format!("twin {index} twin {index}");
        assert_eq!(twin.print("print(x, open('notes').read())"), kept);
        let restarted = twin.post("/kernels/k1/restart", &json!({})).expect(200);
        assert_eq!(restarted.json()["restarts"], 1);
        assert_eq!(twin.run("x")["error"]["name"], "NameError");
        server.admin.delete(&twin.path).expect(204);
    }
}

#[test]
fn terms_of_the_copies_can_be_given() {
    let server = TestServer::new();
    let original = TestSandbox::new(&server.admin, &json!({"metadata": {"a": "b"}}));
    let body = json!({"metadata": {"branch": "1"}, "ttl_seconds": 30});
    let (twins, _) = fork(&original, &body);
    let shown = twins[0].get("").expect(200).json();
    assert_eq!(shown["metadata"], json!({"branch": "1"}));
    for (body, word) in [
        (json!({"count": 0}), "count"),
        (json!({"count": 33}), "count"),
        (json!({"ttl_seconds": 1e9}), "ttl_seconds"),
        (json!({"threads": "maybe"}), "threads"),
        (json!({"unknown": 1}), "unknown"),
    ] {
        let (status, detail) = {
            let refused = original.post("/fork", &body);
            (refused.status, refused.text())
        };
        assert_eq!(status, 400, "{body}: {detail}");
        assert!(detail.contains(word) || word == "threads", "{body}: {detail}");
    }
}

#[test]
fn refusals_name_what_is_in_the_way() {
    let server = TestServer::new();
    let original = TestSandbox::new(&server.admin, &json!({}));
    original.run("import subprocess; child = subprocess.Popen(['sleep', '900'])");
    let refused = original.post("/fork", &json!({}));
    assert_eq!(refused.problem(), (409, "cannot_fork".to_owned()));
    assert!(refused.text().contains("process sleep"), "{}", refused.text());
    let (twins, answer) = fork(&original, &json!({"processes": "leave"}));
    assert_eq!(answer["left_behind"], json!([{"kind": "process", "name": "sleep"}]));
    assert_eq!(twins[0].print("print(child.pid > 0)"), "True");
    let (other, _) = server.new_key();
    let unknown = known(&other, &original.id).post("/fork", &json!({}));
    assert_eq!(unknown.problem(), (404, "sandbox_not_found".to_owned()));
}

#[test]
fn fork_waits_for_a_cell_and_its_records_are_kept() {
    let server = TestServer::new();
    let original = TestSandbox::new(&server.admin, &json!({}));
    let cell =
        original.start_until_up("print('up', flush=True); import time; time.sleep(1); x = 5");
    let (twins, _) = fork(&original, &json!({}));
    assert_eq!(original.ended(&cell)["outcome"], "ok");
    assert_eq!(twins[0].print("print(x)"), "5");
    let audit = server.admin.get(&format!("/v1/audit?sandbox={}", original.id)).expect(200).json();
    let executions = audit["executions"].as_array().unwrap().iter();
    let mut forks = executions.filter(|execution| execution["begin"]["activity"] == "fork");
    let fork = forks.next().expect("the fork is recorded");
    assert!(fork["finish"].to_string().contains(&twins[0].id), "{fork}");
}

#[test]
fn copies_count_for_the_quota_of_their_key() {
    let server = TestServer::with(&["quota.sandboxes=3"]);
    let original = TestSandbox::new(&server.admin, &json!({}));
    let refused = original.post("/fork", &json!({"count": 3}));
    assert_eq!(refused.problem(), (429, "quota_exceeded".to_owned()));
    let (twins, _) = fork(&original, &json!({"count": 2}));
    assert_eq!(original.post("/fork", &json!({})).problem().0, 429);
    server.admin.delete(&twins[0].path).expect(204);
    fork(&twins[1], &json!({}));
}

#[test]
fn sandboxes_start_from_a_snapshot_after_its_own_has_ended() {
    let server = TestServer::new();
    let original = TestSandbox::new(&server.admin, &json!({"metadata": {"a": "b"}}));
    original.run("x = [1]; open('notes', 'w').write('kept')");
    let snapshot = original.post("/snapshots", &json!({"name": "loaded"})).expect(201).json();
    assert_eq!(snapshot["sandbox"], original.id);
    assert!(snapshot["bytes"].as_u64().unwrap() > 0);
    original.run("x.append('later')");
    server.admin.delete(&original.path).expect(204);
    let id = snapshot["id"].as_str().unwrap();
    for number in 0..3 {
        let create = json!({"snapshot": id, "ttl_seconds": 60, "metadata": {"n": "1"}});
        let sandbox = TestSandbox::new(&server.admin, &create);
        let code = format!("x.append({number}); print(x, open('notes').read())");
        assert_eq!(sandbox.print(&code), format!("[1, {number}] kept"));
        assert_eq!(sandbox.get("").expect(200).json()["metadata"], json!({"n": "1"}));
        server.admin.delete(&sandbox.path).expect(204);
    }
    let listed = server.admin.get("/v1/snapshots").expect(200).json();
    assert_eq!(listed["snapshots"], json!([snapshot]));
    let (other, _) = server.new_key();
    assert_eq!(other.get("/v1/snapshots").expect(200).json()["snapshots"], json!([]));
    let path = format!("/v1/snapshots/{id}");
    for refused in [other.get(&path), other.delete(&path)] {
        assert_eq!(refused.problem(), (404, "snapshot_not_found".to_owned()));
    }
    let both = json!({"snapshot": id, "template": "python"});
    assert_eq!(server.admin.post("/v1/sandboxes", &both).status, 400);
    server.admin.delete(&path).expect(204);
    let gone = server.admin.post("/v1/sandboxes", &json!({"snapshot": id}));
    assert_eq!(gone.problem(), (404, "snapshot_not_found".to_owned()));
}

#[test]
fn undo_sets_variables_and_files_back() {
    let server = TestServer::new();
    let sandbox = TestSandbox::new(&server.admin, &json!({}));
    let none = sandbox.post("/undo", &json!({}));
    assert_eq!(none.problem(), (404, "not_found".to_owned()));
    sandbox.run("x = 1; open('notes', 'w').write('one')");
    let look = "import os; print(x, open('notes').read(), sorted(os.listdir('.')))";
    for value in [2, 3] {
        let code =
            format!("x = {value}; open('notes', 'w').write('{value}'); open('f{value}', 'w')");
        let cell = sandbox.cell(&json!({"code": code, "mark": true}));
        assert_eq!(cell["outcome"], "ok", "{cell}");
    }
    assert_eq!(sandbox.print(look), "3 3 ['f2', 'f3', 'notes']");
    // The print is a cell too, so two are undone to get behind the last marked one.
    let back = sandbox.post("/undo", &json!({"cells": 2})).expect(200).json();
    assert_eq!((&back["id"], &back["cells"]), (&json!("m2"), &json!(2)));
    for _ in 0..3 {
        assert_eq!(sandbox.print(look), "2 2 ['f2', 'notes']");
        sandbox.run("x = 'wrong'; os.remove('notes')");
        sandbox.post("/undo", &json!({"mark": "m2"})).expect(200);
    }
    sandbox.post("/undo", &json!({"mark": "m1"})).expect(200);
    assert_eq!(sandbox.print(look), "1 one ['notes']");
    assert_eq!(sandbox.post("/undo", &json!({"mark": "m2"})).status, 404);
    let both = sandbox.post("/undo", &json!({"mark": "m1", "cells": 1}));
    assert_eq!(both.status, 400);
}

#[test]
fn crash_costs_what_came_after_the_mark_and_not_the_session() {
    let server = TestServer::new();
    let sandbox = TestSandbox::new(&server.admin, &json!({}));
    sandbox.run("x = 'kept'; open('notes', 'w').write('kept')");
    sandbox.post("/marks", &json!({})).expect(201);
    let crashes = [
        "import os; os.kill(os.getpid(), 11)",
        "import os; os._exit(3)",
        "x = 'lost'; y = bytearray(b'x' * (2 << 30))",
    ];
    for crash in crashes {
        let cell = sandbox.run(crash);
        assert_eq!(cell["kernel_state"], "restarted", "{cell}");
        assert!(cell["lost"].as_str().unwrap().contains("set back to mark m1"), "{cell}");
        assert_eq!(sandbox.print("print(x, open('notes').read())"), "kept kept");
    }
}
