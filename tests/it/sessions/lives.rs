//! Ends: of interpreters, kernels and sandboxes, and what is said and left after them.

use serde_json::{Value, json};

use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{TIMEOUT, eventually};

#[test]
fn lost_interpreter_is_reported_and_replaced() {
    let server = TestServer::new();
    let limits = json!({"memory_bytes": 256 << 20, "disk_bytes": 16 << 20, "cpu_seconds": 60});
    let sandbox = TestSandbox::new(&server.admin, &json!({"limits": limits}));
    sandbox.run("open('kept', 'w').write('kept')");
    for (code, outcome, exit_code) in [
        ("import os; os.abort()", "crashed", 134),
        ("import os; os.kill(os.getpid(), 11)", "crashed", 139),
        ("import os; os.kill(os.getpid(), 9)", "crashed", 137),
        ("import os; os._exit(7)", "vanished", 7),
        ("import os; os._exit(0)", "vanished", 0),
        ("a = bytearray(1 << 30)\nfor i in range(0, len(a), 4096): a[i] = 1", "out_of_memory", 137),
    ] {
        sandbox.run("variable = 1");
        let cell = sandbox.run(&format!("print('before', flush=True)\n{code}"));
        assert_eq!(cell["outcome"], outcome, "{code}: {cell}");
        assert_eq!(cell["exit_code"], exit_code, "{code}: {cell}");
        assert_eq!(cell["stdout"], "before\n", "{code}: {cell}");
        assert_eq!(cell["kernel_state"], "restarted", "{code}: {cell}");
        assert!(cell["lost"].as_str().unwrap().contains("variables of kernel k1"), "{cell}");
        let after = "print(open('kept').read(), 'variable' in globals())";
        assert_eq!(sandbox.print(after), "kept False", "{code}");
    }
    assert_eq!(sandbox.get("/kernels/k1").json()["restarts"], 6);
    let raised = sandbox.run("raise SystemExit(3)");
    assert_eq!((&raised["outcome"], &raised["exit_code"]), (&json!("exited"), &json!(3)));
    assert_eq!(sandbox.state().0, "running");
}

#[test]
fn interpreter_that_ends_between_cells_is_replaced() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let code = "import os, threading, time\n\
                def end():\n while not os.path.exists('go'): time.sleep(0.01)\n os._exit(1)\n\
                threading.Thread(target=end).start()";
    sandbox.run(code);
    sandbox.client.put(&sandbox.at("/files/content?path=go"), b"").expect(201);
    assert!(eventually(TIMEOUT, || sandbox.get("/kernels/k1").json()["restarts"] == 1));
    assert_eq!(sandbox.print("print('os' in globals())"), "False");
}

#[test]
fn kernels_have_variables_of_their_own_and_run_side_by_side() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let made = sandbox.post("/kernels", &json!({"env": {"WHO": "two"}, "directory": "/tmp"}));
    assert_eq!(made.expect(201).json()["id"], "k2");
    sandbox.cell(&json!({"code": "a = 'one'", "kernel": "k1"}));
    let two = sandbox.cell(&json!({"kernel": "k2",
        "code": "import os; a = os.environ['WHO']; print(os.getcwd())"}));
    assert_eq!(two["stdout"], "/tmp\n", "{two}");
    // Each waits for the other: one after the other would never end.
    let meet = |own: &str, other: &str| {
        format!(
            "import os, time\nopen('/workspace/{own}', 'w').close()\n\
                 while not os.path.exists('/workspace/{other}'): time.sleep(0.01)\nprint(a)"
        )
    };
    let one = sandbox.start(&json!({"code": meet("x", "y"), "kernel": "k1"}));
    let two = sandbox.start(&json!({"code": meet("y", "x"), "kernel": "k2"}));
    assert_eq!(sandbox.ended(&one)["stdout"], "one\n");
    assert_eq!(sandbox.ended(&two)["stdout"], "two\n");
}

#[test]
fn kernel_is_interrupted_restarted_and_deleted() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    sandbox.post("/kernels", &json!({})).expect(201);
    let sleep = "print('up', flush=True)\nimport time; time.sleep(600)";
    sandbox.post("/kernels/k1/interrupt", &json!({})).expect(204);
    sandbox.run("a = 1");
    let cell = sandbox.start_until_up(sleep);
    sandbox.post("/kernels/k1/interrupt", &json!({})).expect(204);
    assert_eq!(sandbox.ended(&cell)["outcome"], "interrupted");
    assert_eq!(sandbox.print("print(a)"), "1");
    let restart = || sandbox.post("/kernels/k1/restart", &json!({})).expect(200).json();
    assert_eq!(restart()["restarts"], 1);
    assert_eq!(sandbox.print("print('a' in globals())"), "False");
    let cell = sandbox.start_until_up(sleep);
    assert_eq!(restart()["restarts"], 2);
    let ended = sandbox.ended(&cell);
    assert_eq!(
        (&ended["outcome"], &ended["kernel_state"]),
        (&json!("interrupted"), &json!("restarted"))
    );
    assert_eq!(sandbox.print("print(1)"), "1");
    let cell = sandbox.start_until_up(sleep);
    let waiting = sandbox.start(&json!({"code": "1"}));
    sandbox.client.delete(&sandbox.at("/kernels/k1")).expect(204);
    let ended = sandbox.ended(&cell);
    assert_eq!(
        (&ended["outcome"], &ended["kernel_state"]),
        (&json!("interrupted"), &json!("ended"))
    );
    assert_eq!(sandbox.ended(&waiting)["outcome"], "interrupted");
    assert_eq!(sandbox.get("/kernels/k1").problem(), (404, "kernel_not_found".to_owned()));
    assert_eq!(sandbox.cell(&json!({"code": "print(2)", "kernel": "k2"}))["stdout"], "2\n");
}

/// A kernel whose directory the code has removed is there again after a crash, and not in a circle of
/// ends and restarts.
#[test]
fn kernel_comes_back_without_its_directory() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    sandbox.run("import os; os.mkdir('d')");
    sandbox.post("/kernels", &json!({"directory": "/workspace/d"})).expect(201);
    let inside = |code: &str| sandbox.cell(&json!({"code": code, "kernel": "k2"}));
    assert_eq!(inside("import os; print(os.getcwd())")["stdout"], "/workspace/d\n");
    let lost = inside("os.rmdir('/workspace/d'); os._exit(1)");
    assert_eq!(lost["kernel_state"], "restarted", "{lost}");
    assert_eq!(inside("print(1)")["stdout"], "1\n");
    assert_eq!(sandbox.get("/kernels/k2").expect(200).json()["restarts"], 1);
}

/// A restart that is asked for while the kernel's cell waits for its turn is a restart all the same.
#[test]
fn restart_reaches_a_kernel_whose_cell_waits() {
    let server = TestServer::with(&["cells.running_max=1"]);
    let (busy, sandbox) = (server.sandbox(), server.sandbox());
    sandbox.run("a = 1");
    let first = busy.start_until_up("print('up', flush=True)\nimport time; time.sleep(600)");
    let waiting = sandbox.start(&json!({"code": "print('waited')"}));
    let behind = sandbox.start(&json!({"code": "print('a' in globals())"}));
    assert!(eventually(TIMEOUT, || sandbox.get("/kernels/k1").json()["cell"] == waiting.as_str()));
    sandbox.post("/kernels/k1/restart", &json!({})).expect(200);
    assert_eq!(sandbox.ended(&waiting)["outcome"], "interrupted");
    busy.post(&format!("/cells/{first}/interrupt"), &json!({})).expect(204);
    assert_eq!(sandbox.ended(&behind)["stdout"], "False\n");
}

#[test]
fn too_many_kernels_are_refused() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    for _ in 1..16 {
        sandbox.post("/kernels", &json!({})).expect(201);
    }
    assert_eq!(sandbox.post("/kernels", &json!({})).problem(), (429, "quota_exceeded".to_owned()));
    sandbox.client.delete(&sandbox.at("/kernels/k5")).expect(204);
    sandbox.post("/kernels", &json!({})).expect(201);
}

#[test]
fn sandbox_ends_when_its_time_is_up() {
    let server = TestServer::new();
    let make = |options: Value| TestSandbox::new(&server.admin, &options);
    let (short, idle) = (make(json!({"ttl_seconds": 1})), make(json!({"idle_seconds": 1})));
    let extended = make(json!({"ttl_seconds": 2}));
    let longer = extended.post("/extend", &json!({"ttl_seconds": 600})).expect(200).json();
    // Asking for less than there is changes nothing.
    let shorter = extended.post("/extend", &json!({"ttl_seconds": 1})).expect(200).json();
    assert_eq!(shorter["expires_at"], longer["expires_at"]);
    short.assert_ends("expired");
    idle.assert_ends("idle");
    let spent = make(json!({"max_cells": 2}));
    spent.run("1");
    spent.run("2");
    let third = spent.post("/cells", &json!({"code": "3"}));
    assert_eq!(third.problem(), (409, "sandbox_ended".to_owned()));
    spent.assert_ends("max_cells");
    assert_eq!(extended.print("print(1)"), "1");
    for sandbox in [short, idle, spent] {
        let cell = sandbox.post("/cells", &json!({"code": "1"}));
        assert_eq!(cell.problem(), (409, "sandbox_ended".to_owned()));
        let file = sandbox.get("/files?path=/workspace");
        assert_eq!(file.problem(), (409, "sandbox_ended".to_owned()));
    }
    let listed = || server.admin.get("/v1/sandboxes?state=ended").expect(200).json();
    assert!(eventually(TIMEOUT, || listed()["sandboxes"].as_array().unwrap().len() == 3));
}

#[test]
fn use_keeps_a_sandbox_from_being_idle() {
    let server = TestServer::new();
    let sandbox = TestSandbox::new(&server.admin, &json!({"idle_seconds": 1}));
    let cell = sandbox.run("import time; time.sleep(3)");
    assert_eq!(cell["outcome"], "ok", "{cell}");
    sandbox.assert_ends("idle");
}

#[test]
fn deleting_ends_what_runs() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let cell =
        sandbox.start(&json!({"code": "print('up', flush=True)\nimport time; time.sleep(600)"}));
    let mut events = sandbox.client.events(&sandbox.at(&format!("/cells/{cell}/events")));
    events.until("stdout");
    let waiting = std::thread::spawn({
        let sandbox = sandbox.clone();
        move || sandbox.get("/cells/c1?wait=60")
    });
    sandbox.client.delete(&sandbox.path).expect(204);
    assert_eq!(events.until("done").data["outcome"], "sandbox_died");
    let waited = waiting.join().unwrap();
    assert!(waited.status == 200 || waited.status == 409, "{}", waited.text());
    sandbox.assert_ends("deleted");
    let again = sandbox.client.delete(&sandbox.path);
    assert_eq!(again.problem(), (409, "sandbox_ended".to_owned()));
    let stats = server.admin.get("/v1/stats").json();
    assert_eq!((&stats["sandboxes"], &stats["cells_running"]), (&json!(0), &json!(0)));
}

/// The states that many looks at a sandbox see, one after the other, until some time after its end.
fn states_seen(sandbox: &TestSandbox) -> Vec<String> {
    let (mut connection, mut seen, mut ended) = (sandbox.client.connect(), Vec::<String>::new(), 0);
    let request = sandbox.client.head("GET", &sandbox.path, &[], 0);
    while ended < 50 {
        connection.send(request.as_bytes()).unwrap();
        assert_eq!(connection.read_head("GET").status, 200);
        let body: Value = serde_json::from_slice(&connection.read_body().unwrap()).unwrap();
        let state = body["state"].as_str().unwrap().to_owned();
        ended += u32::from(state == "ended");
        if seen.last() != Some(&state) {
            seen.push(state);
        }
    }
    seen
}

/// Between its being there and its being a record, an ended sandbox is never seen as running.
#[test]
fn ended_sandbox_never_looks_alive_again() {
    let server =
        TestServer::with(&["quota.request_burst=1000000", "quota.requests_per_second=100000"]);
    for _ in 0..20 {
        let sandbox = server.sandbox();
        let watching: Vec<_> = (0..4)
            .map(|_| {
                let sandbox = sandbox.clone();
                std::thread::spawn(move || states_seen(&sandbox))
            })
            .collect();
        sandbox.client.delete(&sandbox.path).expect(204);
        for watching in watching {
            let seen = watching.join().unwrap();
            assert!(seen == ["running", "ended"] || seen == ["ended"], "{seen:?}");
        }
    }
}

#[test]
fn list_is_filtered_and_paged() {
    let server = TestServer::new();
    let make = |user: &str| TestSandbox::new(&server.admin, &json!({"metadata": {"user": user}}));
    let sandboxes = [make("a"), make("b"), make("b")];
    let ids = |query: &str| -> Vec<String> {
        let listed = server.admin.get(&format!("/v1/sandboxes?{query}")).expect(200).json();
        let listed = listed["sandboxes"].as_array().unwrap().clone();
        listed.iter().map(|sandbox| sandbox["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("").len(), 3);
    assert_eq!(ids("metadata.user=a"), [sandboxes[0].id.clone()]);
    assert_eq!(ids("template=python").len(), 3);
    assert!(ids("template=other").is_empty() && ids("state=ended").is_empty());
    let (mut seen, mut page) = (Vec::new(), String::new());
    loop {
        let query = format!("/v1/sandboxes?limit=1{page}");
        let listed = server.admin.get(&query).expect(200).json();
        let found = listed["sandboxes"].as_array().unwrap();
        seen.extend(found.iter().map(|sandbox| sandbox["id"].as_str().unwrap().to_owned()));
        match listed["next_page"].as_str() {
            Some(next) => page = format!("&page={next}"),
            None => break,
        }
    }
    seen.sort_unstable();
    let mut all: Vec<String> = sandboxes.iter().map(|sandbox| sandbox.id.clone()).collect();
    all.sort_unstable();
    assert_eq!(seen, all);
}
