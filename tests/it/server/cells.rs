//! Cells: how they are waited for, streamed, resumed, interrupted and given more time.

use serde_json::{Value, json};

use crate::harness::http::Event;
use crate::harness::server::TestServer;
use crate::harness::{TIMEOUT, eventually};

#[test]
fn variables_live_on_and_results_are_told() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    sandbox.run("a = 20");
    let cell = sandbox.run("import sys; print('out'); print('err', file=sys.stderr); a + 22");
    assert_eq!(
        (&cell["stdout"], &cell["stderr"], &cell["text"], &cell["kernel_state"], &cell["lost"]),
        (&json!("out\n"), &json!("err\n"), &json!("42"), &json!("ready"), &Value::Null)
    );
    assert_eq!(
        cell["results"],
        json!([{"main": true, "data": {"text/plain": "42"}, "metadata": {}}])
    );
    let failed = sandbox.run("a / 0");
    assert_eq!((&failed["outcome"], &failed["exit_code"]), (&json!("raised"), &json!(1)));
    assert_eq!(failed["error"]["name"], "ZeroDivisionError");
    assert_eq!(sandbox.print("print(a)"), "20");
    let listed = sandbox.get("/cells").expect(200).json();
    let ids: Vec<_> = listed["cells"].as_array().unwrap().iter().map(|cell| &cell["id"]).collect();
    assert_eq!(ids, ["c4", "c3", "c2", "c1"]);
    assert_eq!(sandbox.get("/cells/c2").expect(200).json(), cell);
}

#[test]
fn variables_of_the_environment_can_be_for_one_cell() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let code = "import os; print(os.environ.get('Q'), os.environ['HOME'])";
    let body = json!({"code": code, "env": {"Q": "5", "HOME": "/elsewhere"}});
    let cell = sandbox.client.post(&sandbox.at("/cells"), &body).expect(200).json();
    assert_eq!(cell["stdout"], "5 /elsewhere\n");
    assert_eq!(sandbox.print(code), "None /home/user");
    let wrong =
        sandbox.client.post(&sandbox.at("/cells"), &json!({"code": "1", "env": {"A=": ""}}));
    assert_eq!(wrong.problem(), (400, "bad_request".to_owned()));
}

#[test]
fn files_of_a_cell_are_told() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let put = sandbox.client.put(&sandbox.at("/files/content?path=given"), b"given");
    put.expect(201);
    let paths = |cell: &Value, kind: &str| -> Vec<String> {
        let files = cell["files"][kind].as_array().unwrap();
        files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
    };
    let cell = sandbox.run("open('a', 'w').write('1'); open('b', 'w').write('1')");
    assert_eq!(paths(&cell, "created"), ["/workspace/a", "/workspace/b"]);
    assert!(paths(&cell, "changed").is_empty() && paths(&cell, "removed").is_empty(), "{cell}");
    let cell =
        sandbox.run("import os; open('a', 'w').write('22'); os.remove('b'); os.remove('given')");
    assert_eq!(paths(&cell, "changed"), ["/workspace/a"]);
    assert_eq!(paths(&cell, "removed"), ["/workspace/b", "/workspace/given"]);
    assert!(paths(&cell, "created").is_empty(), "{cell}");
    let cell = sandbox.run("open('a').read()");
    assert_eq!(
        cell["files"],
        json!({"created": [], "changed": [], "removed": [], "truncated": false})
    );
}

#[test]
fn stream_tells_what_happens_in_order() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let code =
        "import sys\nprint('one', flush=True)\ndisplay(1)\nprint('two', file=sys.stderr)\n1 / 0";
    let events: Vec<Event> =
        sandbox.client.stream(&sandbox.at("/cells"), &json!({"code": code})).collect();
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["start", "stdout", "result", "stderr", "error", "done"], "{events:?}");
    let ids: Vec<_> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids, (1..=6).map(Some).collect::<Vec<_>>());
    assert_eq!(events[0].data, json!({"cell": "c1", "kernel": "k1"}));
    let mut whole = sandbox.get("/cells/c1").expect(200).json();
    for streamed in ["stdout", "stderr", "results"] {
        whole.as_object_mut().unwrap().remove(streamed);
    }
    assert_eq!(events[5].data, whole);
}

#[test]
fn progress_arrives_while_the_cell_runs() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let code = "import os, sys, time\nsys.stdout.write('10%\\r'); sys.stdout.flush()\n\
                while not os.path.exists('go'): time.sleep(0.01)\nprint('100%')";
    let mut events = sandbox.client.stream(&sandbox.at("/cells"), &json!({"code": code}));
    assert_eq!(events.until("stdout").data, json!({"text": "10%\r"}));
    assert_eq!(sandbox.get("/cells/c1").json()["state"], "running");
    sandbox.client.put(&sandbox.at("/files/content?path=go"), b"").expect(201);
    assert_eq!(events.until("stdout").data, json!({"text": "100%\n"}));
    assert_eq!(events.until("done").data["outcome"], "ok");
    assert_eq!(events.next(), None);
}

#[test]
fn background_cell_is_fetched_later() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let code = "import os, time\nprint('up', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)";
    let cell = sandbox.start_until_up(code);
    let next = sandbox.start(&json!({"code": "print('next')"}));
    assert_eq!(sandbox.get(&format!("/cells/{cell}")).json()["state"], "running");
    assert_eq!(sandbox.get(&format!("/cells/{next}?wait=0.01")).json()["state"], "queued");
    let kernel = sandbox.get("/kernels/k1").json();
    assert_eq!((&kernel["state"], &kernel["cell"]), (&json!("busy"), &json!(cell)));
    sandbox.client.put(&sandbox.at("/files/content?path=go"), b"").expect(201);
    assert_eq!(sandbox.ended(&cell)["outcome"], "ok");
    assert_eq!(sandbox.ended(&next)["stdout"], "next\n");
    assert!(eventually(TIMEOUT, || sandbox.get("/kernels/k1").json()["state"] == "idle"));
}

#[test]
fn cut_stream_goes_on_where_it_was_cut() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let code = "import time\nfor i in range(600): print(i, flush=True); time.sleep(0.001)";
    let cell = sandbox.start(&json!({"code": code}));
    let path = sandbox.at(&format!("/cells/{cell}/events"));
    let mut seen: Vec<Event> = Vec::new();
    for round in 0..20 {
        let last = seen.last().map_or(0, |event| event.id.unwrap());
        // Both ways of saying how far one has come.
        let mut events = if round % 2 == 0 {
            sandbox.client.events(&format!("{path}?after={last}"))
        } else {
            let header = [("Last-Event-ID", &*last.to_string())];
            let (response, connection) = sandbox.client.begin("GET", &path, &header, b"");
            assert_eq!(response.status, 200);
            crate::harness::http::Events { connection }
        };
        seen.extend(events.by_ref().take(7));
    }
    let last = seen.last().unwrap().id.unwrap();
    seen.extend(sandbox.client.events(&format!("{path}?after={last}")));
    let ids: Vec<u64> = seen.iter().map(|event| event.id.unwrap()).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
    let printed: String = seen
        .iter()
        .filter(|event| event.name == "stdout")
        .map(|event| event.data["text"].as_str().unwrap().to_owned())
        .collect();
    let expected: Vec<String> = (0..600).map(|number| number.to_string()).collect();
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    assert_eq!(seen.last().unwrap().name, "done");
    // Afterwards the same once more, from the beginning, and nothing behind the end.
    assert_eq!(sandbox.client.events(&path).collect::<Vec<_>>(), seen);
    let beyond = format!("{path}?after={}", ids.len());
    assert_eq!(sandbox.client.events(&beyond).next(), None);
    assert_eq!(sandbox.client.events(&format!("{path}?after=99999999")).next(), None);
}

#[test]
fn more_than_is_kept_reaches_a_client_that_reads() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let code = "for i in range(20): print('x' * 499_999)";
    let events = sandbox.client.stream(&sandbox.at("/cells"), &json!({"code": code}));
    let mut bytes = 0;
    for event in events {
        assert_ne!(event.name, "gap");
        bytes += event.data["text"].as_str().unwrap_or_default().len();
    }
    assert_eq!(bytes, 10_000_000);
    let kept = sandbox.get("/cells/c1").expect(200).json();
    let left_out = kept["truncated"]["stdout"].as_u64().unwrap();
    assert!(left_out > 9_000_000 && left_out < 10_000_000, "{left_out}");
    let mut again = sandbox.client.events(&sandbox.at("/cells/c1/events"));
    assert_eq!(again.next().unwrap().name, "gap");
}

#[test]
fn old_cells_are_forgotten() {
    let server = TestServer::with(&["quota.cells_queued=200", "quota.request_burst=10000"]);
    let sandbox = server.sandbox();
    let cells: Vec<_> = (0..110).map(|_| sandbox.start(&json!({"code": "1"}))).collect();
    sandbox.ended(&cells[109]);
    let kept = || sandbox.get("/cells").expect(200).json()["cells"].as_array().unwrap().len();
    assert!(eventually(TIMEOUT, || kept() == 100), "{}", kept());
    assert_eq!(sandbox.get("/cells/c1").problem(), (404, "cell_not_found".to_owned()));
    sandbox.get("/cells/c11").expect(200);
}

#[test]
fn interrupt_hits_its_cell_and_no_other() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let cell =
        sandbox.start_until_up("kept = 1\nprint('up', flush=True)\nimport time; time.sleep(600)");
    let queued = sandbox.start(&json!({"code": "print('second')"}));
    let third = sandbox.start(&json!({"code": "print('third', kept)"}));
    sandbox.post(&format!("/cells/{queued}/interrupt"), &json!({})).expect(204);
    sandbox.post(&format!("/cells/{cell}/interrupt"), &json!({})).expect(204);
    let ended = sandbox.ended(&cell);
    assert_eq!(
        (&ended["outcome"], &ended["kernel_state"]),
        (&json!("interrupted"), &json!("ready"))
    );
    assert_eq!(sandbox.ended(&queued)["outcome"], "interrupted");
    assert_eq!(sandbox.ended(&queued)["stdout"], "");
    assert_eq!(sandbox.ended(&third)["stdout"], "third 1\n");
    let late = sandbox.post(&format!("/cells/{cell}/interrupt"), &json!({}));
    assert_eq!(late.problem(), (409, "cell_ended".to_owned()));
}

#[test]
fn late_interrupt_never_hits_the_next_cell() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    for round in 0..50 {
        let cell = sandbox.start(&json!({"code": "pass"}));
        let next = sandbox.start(&json!({"code": "import time; time.sleep(0.02)\nprint('whole')"}));
        if round % 2 == 0 {
            sandbox.ended(&cell);
        }
        let interrupted = sandbox.post(&format!("/cells/{cell}/interrupt"), &json!({})).status;
        assert!(interrupted == 204 || interrupted == 409, "{interrupted}");
        let next = sandbox.ended(&next);
        assert_eq!(
            (&next["outcome"], &next["stdout"]),
            (&json!("ok"), &json!("whole\n")),
            "{next}"
        );
    }
}

#[test]
fn time_is_up_or_is_extended() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let sleep = "import time; time.sleep(600)";
    let cell = sandbox.cell(&json!({"code": sleep, "timeout_seconds": 0.2}));
    assert_eq!((&cell["outcome"], &cell["exit_code"]), (&json!("timed_out"), &json!(124)));
    let words = "(the wall limit); raise it with timeout_seconds";
    assert!(cell["message"].as_str().unwrap().ends_with(words), "{cell}");
    assert_eq!(cell["limits_hit"][0]["limit"], "wall");
    let cell = sandbox.start(
        &json!({"code": "import time; time.sleep(3); print('done')", "timeout_seconds": 1.5}),
    );
    let extended = sandbox.post(&format!("/cells/{cell}/extend"), &json!({"seconds": 60}));
    assert_eq!(extended.expect(200).json(), json!({"timeout_seconds": 61.5}));
    let more = sandbox.post(&format!("/cells/{cell}/extend"), &json!({"seconds": 3600}));
    assert_eq!(more.problem(), (400, "bad_request".to_owned()));
    let ended = sandbox.ended(&cell);
    assert_eq!((&ended["outcome"], &ended["stdout"]), (&json!("ok"), &json!("done\n")), "{ended}");
    let late = sandbox.post(&format!("/cells/{cell}/extend"), &json!({"seconds": 1}));
    assert_eq!(late.problem(), (409, "cell_ended".to_owned()));
}

#[test]
fn extension_of_a_cell_that_waits_counts_when_it_runs() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let first = sandbox.start_until_up("print('up', flush=True)\nimport time; time.sleep(600)");
    let code = "import time; time.sleep(1.5); print('done')";
    let cell = sandbox.start(&json!({"code": code, "timeout_seconds": 0.5}));
    sandbox.post(&format!("/cells/{cell}/extend"), &json!({"seconds": 60})).expect(200);
    sandbox.post(&format!("/cells/{first}/interrupt"), &json!({})).expect(204);
    assert_eq!(sandbox.ended(&cell)["outcome"], "ok");
}

#[test]
fn limit_of_the_sandbox_is_the_time_of_its_cells() {
    // A cell that has this much time makes the test's patience end first.
    let server = TestServer::with(&["cells.timeout_seconds=600"]);
    let limits = json!({"wall_seconds": 0.3});
    let sandbox =
        crate::harness::server::TestSandbox::new(&server.admin, &json!({"limits": limits}));
    let sleep = "import time; time.sleep(600)";
    assert_eq!(sandbox.run(sleep)["outcome"], "timed_out");
    let ran = server.admin.post("/v1/run", &json!({"code": sleep, "limits": limits}));
    assert_eq!(ran.expect(200).json()["outcome"], "timed_out");
}

#[test]
fn one_run_takes_files_and_gives_files() {
    let server = TestServer::new();
    let body = json!({
        "code": "import os, sys\ntext = open('in/a').read() + sys.argv[1] + os.environ['E']\n\
                 open('out', 'w').write(text)\nopen('bytes', 'wb').write(bytes([0, 255]))",
        "files": [{"path": "in/a", "content": "a"}, {"path": "b", "content_base64": "AP8="}],
        "arguments": ["b"], "env": {"E": "c"}, "outputs": ["out", "/workspace/bytes", "none"],
    });
    let ran = server.admin.post("/v1/run", &body).expect(200).json();
    assert_eq!(ran["outcome"], "ok", "{ran}");
    assert_eq!(
        ran["outputs"][0],
        json!({"path": "/workspace/out", "size": 3, "content_base64": "YWJj"})
    );
    assert_eq!(ran["outputs"][1]["content_base64"], "AP8=");
    assert!(ran["outputs"][2]["error"].is_string(), "{ran}");
    // What came with the request was not made by the code.
    let created = ran["files"]["created"].as_array().unwrap().iter();
    let created: Vec<_> = created.map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(created, ["/workspace/bytes", "/workspace/out"]);
}

/// A run that is refused or given up halfway leaves nothing behind that counts.
#[test]
fn refused_and_abandoned_runs_leave_no_sandbox() {
    let server = TestServer::new();
    let tenant = server.tenant();
    let big = json!([{"path": "a", "content": "x".repeat(20 << 20)}]);
    for body in [
        json!({"code": "1", "timeout_seconds": 1e6}),
        json!({"code": "1", "files": big, "limits": {"disk_bytes": 1 << 20}}),
        json!({"code": "x".repeat(2 << 20)}),
    ] {
        let refused = tenant.post("/v1/run", &body);
        assert!(refused.status >= 400, "{}", refused.text());
    }
    let mut connection = tenant.connect();
    let body = json!({"code": "import time; time.sleep(600)"}).to_string();
    let head = tenant.head("POST", "/v1/run", &[], body.len());
    connection.send(format!("{head}{body}").as_bytes()).unwrap();
    let sandboxes = || tenant.get("/v1/stats").expect(200).json()["sandboxes"].as_u64().unwrap();
    let running = || tenant.get("/v1/stats").expect(200).json()["cells_running"].as_u64().unwrap();
    assert!(eventually(TIMEOUT, || running() == 1));
    drop(connection);
    assert!(eventually(TIMEOUT, || sandboxes() == 0), "{} are left", sandboxes());
}

#[test]
fn code_asks_for_input_only_if_it_may() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let body = json!({"code": "print('hi', input('name? '))", "input": true, "background": true});
    let cell = sandbox.client.post(&sandbox.at("/cells"), &body).expect(202).json();
    let at = format!("/cells/{}", cell["id"].as_str().unwrap());
    // A line that comes before the question is dropped, so it is sent until the cell has ended.
    let line = json!({"value": "bob"});
    let taken = eventually(TIMEOUT, || {
        sandbox.client.post(&sandbox.at(&format!("{at}/input")), &line).status == 409
    });
    assert!(taken, "the code did not get its line");
    let cell = sandbox.get(&format!("{at}?wait=30")).expect(200).json();
    assert_eq!(cell["stdout"], "hi bob\n");
    assert_eq!(sandbox.run("input()")["error"]["name"], "EOFError");
}
