//! Commands: shells and programs, their input, signals, terminals and ends.

use serde_json::{Value, json};

use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{TIMEOUT, eventually};

fn command(sandbox: &TestSandbox, body: &Value) -> Value {
    sandbox.post("/commands", body).expect(200).json()
}

/// Starts one and returns its id.
fn start(sandbox: &TestSandbox, body: &Value) -> String {
    let mut body = body.clone();
    body["background"] = true.into();
    let command = sandbox.post("/commands", &body).expect(202).json();
    assert_eq!(command["state"], "running", "{command}");
    command["id"].as_str().unwrap().to_owned()
}

fn ended(sandbox: &TestSandbox, id: &str) -> Value {
    let command = sandbox.get(&format!("/commands/{id}?wait=60")).expect(200).json();
    assert_eq!(command["state"], "done", "{command}");
    command
}

#[test]
fn shell_lines_and_programs_run() {
    let server = TestServer::new();
    let sandbox = TestSandbox::new(&server.admin, &json!({"env": {"OF": "sandbox", "BOTH": "no"}}));
    let done = command(
        &sandbox,
        &json!({"command": "echo $OF $BOTH | tr a-z A-Z; echo err >&2; exit 3",
        "env": {"BOTH": "command"}}),
    );
    assert_eq!((&done["stdout"], &done["stderr"]), (&json!("SANDBOX COMMAND\n"), &json!("err\n")));
    assert_eq!((&done["outcome"], &done["exit_code"]), (&json!("exited"), &json!(3)));
    let done = command(&sandbox, &json!({"arguments": ["echo", "$OF", "a  b"]}));
    assert_eq!(done["stdout"], "$OF a  b\n");
    let done = command(&sandbox, &json!({"command": "pwd; cat", "directory": "/tmp"}));
    assert_eq!((&done["stdout"], &done["exit_code"]), (&json!("/tmp\n"), &json!(0)));
    // Files are the kernel's too.
    command(&sandbox, &json!({"command": "echo hello > shared"}));
    assert_eq!(sandbox.print("print(open('shared').read())"), "hello");
    let cell = sandbox.run("1");
    assert_eq!(cell["files"]["created"], json!([]), "what a command did is no cell's doing");
    let done = command(&sandbox, &json!({"command": "printf '\\377\\376ok'"}));
    assert_eq!(done["stdout"], "\u{fffd}\u{fffd}ok");
}

#[test]
fn what_cannot_start_is_distinguished() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    sandbox.run("open('plain', 'w').write('x')");
    for body in [
        json!({"arguments": ["no-such-program"]}),
        json!({"arguments": ["/workspace/plain"]}),
        json!({"arguments": ["/workspace"]}),
    ] {
        let refused = sandbox.post("/commands", &body);
        assert_eq!(refused.problem(), (422, "cannot_start".to_owned()), "{body}");
    }
    // For a shell it is the shell that says so.
    let done = command(&sandbox, &json!({"command": "no-such-program"}));
    assert_eq!(done["exit_code"], 127);
}

#[test]
fn kernels_and_commands_start_in_the_same_directories() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    sandbox.run(
        "import os; os.makedirs('d/e'); os.symlink('/etc', 'link'); os.symlink('d', 'near'); \
         open('file', 'w').close()",
    );
    let problem = |path: &str, mut body: Value, directory: &str| {
        body["directory"] = directory.into();
        sandbox.post(path, &body).problem()
    };
    for directory in [
        "/",
        "/etc",
        "/workspace/..",
        "/workspace/../..",
        "/workspace/d/../../etc",
        "/proc/self/cwd",
        "/proc/1/root",
        "/nowhere",
        "link",
        "/workspace/link",
        "link/ssl",
        "near/e",
        "file",
        "missing",
        "",
    ] {
        let of_kernel = problem("/kernels", json!({}), directory);
        let of_command = problem("/commands", json!({"command": "pwd"}), directory);
        assert_eq!(of_kernel, of_command, "{directory}");
    }
    for (directory, seen) in [
        ("d", "/workspace/d"),
        ("/tmp/", "/tmp"),
        ("/home/user", "/home/user"),
        ("d/./e", "/workspace/d/e"),
    ] {
        let done = command(&sandbox, &json!({"command": "pwd", "directory": directory}));
        assert_eq!(done["stdout"], format!("{seen}\n"));
        let kernel = sandbox.post("/kernels", &json!({"directory": directory})).expect(201).json();
        let cell = json!({"code": "import os; print(os.getcwd())", "kernel": kernel["id"]});
        assert_eq!(sandbox.cell(&cell)["stdout"], format!("{seen}\n"));
    }
}

#[test]
fn input_is_written_and_closed() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let id = start(
        &sandbox,
        &json!({"command": "while read line; do echo got $line; done; echo end", "stdin": true}),
    );
    let stdin = |rest: &str, bytes: &[u8]| {
        let path = sandbox.at(&format!("/commands/{id}/stdin{rest}"));
        sandbox.client.request("POST", &path, &[], bytes)
    };
    let mut events = sandbox.client.events(&sandbox.at(&format!("/commands/{id}/events")));
    stdin("", b"one\n").expect(204);
    assert_eq!(events.until("stdout").data["text"], "got one\n");
    stdin("?close=true", b"two\nthree\n").expect(204);
    let done = ended(&sandbox, &id);
    assert_eq!(done["stdout"], "got one\ngot two\ngot three\nend\n");
    assert_eq!(stdin("", b"x").problem(), (409, "command_ended".to_owned()));
    let closed = start(&sandbox, &json!({"command": "sleep 600"}));
    let path = sandbox.at(&format!("/commands/{closed}/stdin"));
    let refused = sandbox.client.request("POST", &path, &[], b"x");
    assert_eq!(refused.problem(), (400, "bad_request".to_owned()));
}

#[test]
fn much_input_goes_through() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let id = start(&sandbox, &json!({"command": "wc -c", "stdin": true}));
    let path = sandbox.at(&format!("/commands/{id}/stdin?close=true"));
    sandbox.client.request("POST", &path, &[], &vec![b'x'; 5_000_000]).expect(204);
    assert_eq!(ended(&sandbox, &id)["stdout"].as_str().unwrap().trim(), "5000000");
}

#[test]
fn signals_reach_the_whole_group() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    for (signal, number) in [(json!("TERM"), 15), (json!("sigkill"), 9), (json!(10), 10)] {
        let id = start(&sandbox, &json!({"command": "sleep 600 | sleep 600"}));
        sandbox.post(&format!("/commands/{id}/signal"), &json!({"signal": signal})).expect(204);
        let done = ended(&sandbox, &id);
        let told = (&done["outcome"], &done["signal"], &done["exit_code"]);
        assert_eq!(told, (&json!("killed"), &json!(number), &json!(128 + number)), "{done}");
        let late = sandbox.post(&format!("/commands/{id}/signal"), &json!({"signal": 9}));
        assert_eq!(late.problem(), (409, "command_ended".to_owned()));
    }
    let alive = "import os; print(sum(open(f'/proc/{p}/comm').read() == 'sleep\\n' for p in os.listdir('/proc') if p.isdigit()))";
    assert!(eventually(TIMEOUT, || sandbox.print(alive) == "0"));
    let id = start(
        &sandbox,
        &json!({"command": "trap 'echo caught; exit 5' INT; echo up; while :; do sleep 0.01; done"}),
    );
    sandbox.client.events(&sandbox.at(&format!("/commands/{id}/events"))).until("stdout");
    sandbox.post(&format!("/commands/{id}/signal"), &json!({"signal": "INT"})).expect(204);
    let done = ended(&sandbox, &id);
    assert_eq!((&done["stdout"], &done["exit_code"]), (&json!("up\ncaught\n"), &json!(5)));
}

#[test]
fn command_runs_out_of_time() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    for line in ["sleep 600", "trap '' TERM; while :; do sleep 0.05; done"] {
        let done = command(&sandbox, &json!({"command": line, "timeout_seconds": 0.2}));
        assert_eq!(
            (&done["outcome"], &done["exit_code"]),
            (&json!("timed_out"), &json!(124)),
            "{line}"
        );
    }
}

#[test]
fn commands_are_listed_and_told_of_while_they_run() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let id = start(&sandbox, &json!({"command": "echo up; sleep 600"}));
    command(&sandbox, &json!({"command": "true"}));
    let listed = sandbox.get("/commands").expect(200).json();
    let listed = listed["commands"].as_array().unwrap();
    let told: Vec<_> = listed
        .iter()
        .map(|one| (one["id"].as_str().unwrap(), one["state"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("p2", "done"), ("p1", "running")]);
    let path = sandbox.at(&format!("/commands/{id}/events"));
    let mut events = sandbox.client.events(&path);
    let first = events.next().unwrap();
    assert_eq!((first.name.as_str(), first.id), ("start", Some(1)));
    assert!(first.data["process_id"].as_u64().unwrap() > 1);
    assert_eq!(events.until("stdout").data["text"], "up\n");
    drop(events);
    sandbox.post(&format!("/commands/{id}/signal"), &json!({"signal": 9})).expect(204);
    let rest: Vec<_> = sandbox.client.events(&format!("{path}?after=2")).collect();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!((rest[0].name.as_str(), &rest[0].data["outcome"]), ("done", &json!("killed")));
    let body = json!({"command": "echo a; echo b >&2"});
    let names: Vec<_> =
        sandbox.client.stream(&sandbox.at("/commands"), &body).map(|event| event.name).collect();
    assert!(
        names.starts_with(&["start".to_owned()]) && names.ends_with(&["done".to_owned()]),
        "{names:?}"
    );
}

#[test]
fn terminal_is_one_and_can_be_resized() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let body = json!({"command": "stty size; read line; stty size; cat", "terminal": {"columns": 81, "rows": 25}});
    let id = start(&sandbox, &body);
    let path = |rest: &str| format!("/commands/{id}/{rest}");
    let mut events = sandbox.client.events(&sandbox.at(&path("events")));
    assert_eq!(events.until("stdout").data["text"], "25 81\r\n");
    sandbox.post(&path("resize"), &json!({"columns": 100, "rows": 50})).expect(204);
    sandbox.client.request("POST", &sandbox.at(&path("stdin")), &[], b"go\n").expect(204);
    let mut said = String::new();
    while !said.contains("50 100\r\n") {
        said += events.until("stdout").data["text"].as_str().unwrap();
    }
    sandbox.client.request("POST", &sandbox.at(&path("stdin?close=true")), &[], b"").expect(204);
    assert_eq!(ended(&sandbox, &id)["exit_code"], 0);
}

#[test]
fn twenty_run_side_by_side() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    // All must be there at once for any to end.
    let line = "touch $N; while [ $(ls | wc -l) -lt 20 ]; do sleep 0.05; done; echo $N";
    let ids: Vec<_> = (0..20)
        .map(|number| start(&sandbox, &json!({"command": line, "env": {"N": number.to_string()}})))
        .collect();
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(ended(&sandbox, id)["stdout"], format!("{number}\n"));
    }
}

#[test]
fn too_many_are_refused() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let sleep = json!({"arguments": ["sleep", "600"], "background": true});
    for _ in 0..64 {
        start(&sandbox, &sleep);
    }
    let refused = sandbox.post("/commands", &sleep);
    assert_eq!(refused.problem(), (429, "quota_exceeded".to_owned()));
    sandbox.post("/commands/p1/signal", &json!({"signal": 9})).expect(204);
    assert!(eventually(TIMEOUT, || sandbox.post("/commands", &sleep).status == 202));
}

#[test]
fn commands_end_with_their_sandbox() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let id = start(&sandbox, &json!({"command": "sleep 600"}));
    let mut events = sandbox.client.events(&sandbox.at(&format!("/commands/{id}/events")));
    events.until("start");
    sandbox.client.delete(&sandbox.path).expect(204);
    assert_eq!(events.until("done").data["outcome"], "sandbox_died");
}
