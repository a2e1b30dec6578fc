//! Starts that cannot be, and the orderly end.

use std::fs;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::json;

use crate::harness::server::{TestServer, serve_command};
use crate::harness::{
    CommandOutput, PYTHON, SILICA, TIMEOUT, TestHome, descendants, eventually, finish, first_line,
    signal, start,
};

fn start_that_fails(home: &TestHome, settings: &[&str]) -> CommandOutput {
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    let ran = finish(&mut serve_command(home, &settings));
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
    assert!(!ran.stderr.contains("panicked"), "{ran:?}");
    ran
}

/// A data directory in which a server has been, and is no more.
fn used() -> TestHome {
    let mut server = TestServer::new();
    server.assert_works();
    signal(server.pid(), Signal::TERM);
    assert_eq!(server.wait(), Some(0));
    server.take_home()
}

#[test]
fn damaged_database_is_reported() {
    for content in [b"this is no database, whatever it is called".to_vec(), vec![0xff; 8192]] {
        let home = TestHome::new(PYTHON);
        fs::write(home.path().join("silica.db"), content).unwrap();
        let ran = start_that_fails(&home, &[]);
        assert!(ran.stderr.contains("silica.db"), "{ran:?}");
    }
    let home = used();
    let path = home.path().join("silica.db");
    let mut bytes = fs::read(&path).unwrap();
    for byte in &mut bytes[100..] {
        *byte = !*byte;
    }
    fs::write(&path, bytes).unwrap();
    let ran = start_that_fails(&home, &[]);
    assert!(ran.stderr.contains("silica.db") && ran.stderr.contains("damaged"), "{ran:?}");
}

#[test]
fn directory_in_place_of_the_database_is_reported() {
    let home = TestHome::new(PYTHON);
    fs::create_dir(home.path().join("silica.db")).unwrap();
    let ran = start_that_fails(&home, &[]);
    assert!(ran.stderr.contains("silica.db"), "{ran:?}");
}

#[test]
fn locked_database_is_reported() {
    let home = used();
    let path = home.path().join("silica.db");
    let code = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                c.execute('PRAGMA locking_mode=EXCLUSIVE'); c.execute('BEGIN EXCLUSIVE'); print('locked', flush=True)\n\
                sys.stdin.read()";
    let mut holder = Command::new("python3");
    let mut holder = start(holder.args(["-c", code]).arg(&path).stdin(Stdio::piped()));
    let (line, _reader) = first_line(&mut holder);
    assert_eq!(line, "locked");
    let ran = start_that_fails(&home, &[]);
    assert!(ran.stderr.contains("silica.db") && ran.stderr.contains("locked"), "{ran:?}");
    drop(holder.stdin.take());
    holder.wait().unwrap();
    TestServer::over(home, Vec::new(), None).admin.get("/readyz").expect(200);
}

/// Permissions do not stop root, so the data directory is mounted read-only for the server alone.
#[test]
fn read_only_data_directory_is_reported() {
    let home = used();
    let script =
        "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && shift && exec \"$@\"";
    let serve = serve_command(&home, &[]);
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    unshare.arg(home.path()).arg(serve.get_program()).args(serve.get_args());
    let ran = finish(unshare.env("SILICA_HOME", home.path()).current_dir(home.working_directory()));
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
    assert!(ran.stderr.contains("read-only"), "{ran:?}");
}

#[test]
fn second_server_over_the_same_data_is_reported() {
    let server = TestServer::new();
    let ran = start_that_fails(server.home(), &[]);
    assert!(ran.stderr.contains("another server is using"), "{ran:?}");
    assert!(ran.stderr.contains(&server.pid().to_string()), "{ran:?}");
    server.assert_works();
}

#[test]
fn address_in_use_is_reported() {
    let server = TestServer::new();
    let home = TestHome::new(PYTHON);
    let address = server.admin.address.to_string();
    let mut command = Command::new(SILICA);
    let arguments =
        ["serve", "--warm", "python=0", "--set", "sandboxes.template=python", "--listen"];
    let ran = finish(command.args(arguments).arg(&address).env("SILICA_HOME", home.path()));
    assert_eq!(ran.status, 125, "{ran:?}");
    assert!(ran.stderr.contains(&address), "{ran:?}");
}

#[test]
fn first_signal_lets_what_runs_end() {
    let mut server = TestServer::new();
    let sandbox = server.sandbox();
    let code = "import os, time\nprint('up', flush=True)\n\
                while not os.path.exists('go'): time.sleep(0.01)\nprint('end')";
    let mut events = sandbox.client.stream(&sandbox.at("/cells"), &json!({"code": code}));
    events.until("stdout");
    // A request that is half there when the signal comes.
    let mut half = server.admin.connect();
    let body = json!({"code": "print('new')"}).to_string();
    let head = server.admin.head("POST", &sandbox.at("/cells"), &[], body.len());
    half.send(head.as_bytes()).unwrap();
    half.send(&body.as_bytes()[..3]).unwrap();
    let mut upload = server.admin.connect();
    let head = server.admin.head("PUT", &sandbox.at("/files/content?path=go"), &[], 1);
    upload.send(head.as_bytes()).unwrap();
    assert!(eventually(TIMEOUT, || server.admin.get("/healthz").status == 200));
    signal(server.pid(), Signal::TERM);
    assert!(eventually(TIMEOUT, || TcpStream::connect(server.admin.address).is_err()));
    half.send(&body.as_bytes()[3..]).unwrap();
    let refused = half.read_head("POST");
    assert_eq!(refused.status, 503);
    assert!(String::from_utf8_lossy(&half.read_body().unwrap()).contains("shutting_down"));
    upload.send(b"x").unwrap();
    assert_eq!(upload.read_head("PUT").status, 201);
    assert_eq!(events.until("stdout").data["text"], "end\n");
    assert_eq!(events.until("done").data["outcome"], "ok");
    assert_eq!(server.wait(), Some(0));
    let log = server.log();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
    // The records know of it.
    let server = server.kill_and_restart();
    let ended = server.admin.get(&sandbox.path).expect(200).json();
    assert_eq!((&ended["state"], &ended["end_reason"]), (&json!("ended"), &json!("shutdown")));
    let verdict = server.admin.get("/v1/audit/verify").expect(200).json();
    assert_eq!((&verdict["ok"], &verdict["unfinished"]), (&json!(true), &json!(0)), "{verdict}");
}

#[test]
fn patience_ends() {
    let mut server = TestServer::with(&["server.shutdown_seconds=1"]);
    let sandbox = server.sandbox();
    let code = "print('up', flush=True)\nimport time; time.sleep(600)";
    let mut events = sandbox
        .client
        .stream(&sandbox.at("/cells"), &json!({"code": code, "timeout_seconds": 900}));
    events.until("stdout");
    let mut run = server.admin.connect();
    let body = json!({"code": code, "timeout_seconds": 900}).to_string();
    let head = server.admin.head("POST", "/v1/run", &[], body.len());
    run.send(format!("{head}{body}").as_bytes()).unwrap();
    let running = || server.admin.get("/v1/stats").expect(200).json()["cells_running"] == 2;
    assert!(eventually(TIMEOUT, running));
    signal(server.pid(), Signal::TERM);
    assert_eq!(server.wait(), Some(0));
    let server = server.kill_and_restart();
    let verdict = server.admin.get("/v1/audit/verify").expect(200).json();
    assert_eq!(verdict["unfinished"], 0, "{verdict}");
    let executions = server.admin.get("/v1/audit").expect(200).json()["executions"].clone();
    let outcomes: Vec<_> =
        executions.as_array().unwrap().iter().map(|one| &one["outcome"]).collect();
    assert_eq!(outcomes, ["sandbox_died", "sandbox_died"]);
}

#[test]
fn second_signal_ends_at_once() {
    for (first, second) in
        [(Signal::TERM, Signal::TERM), (Signal::INT, Signal::INT), (Signal::TERM, Signal::INT)]
    {
        let mut server = TestServer::with(&["server.shutdown_seconds=3600"]);
        let sandbox = server.sandbox();
        let code = "print('up', flush=True)\nimport time; time.sleep(600)";
        let mut events = sandbox
            .client
            .stream(&sandbox.at("/cells"), &json!({"code": code, "timeout_seconds": 900}));
        events.until("stdout");
        let processes = descendants(server.pid());
        signal(server.pid(), first);
        assert!(eventually(TIMEOUT, || TcpStream::connect(server.admin.address).is_err()));
        signal(server.pid(), second);
        assert_eq!(server.wait(), Some(130));
        // Nothing of it stays.
        let gone = |pid: u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
        assert!(eventually(TIMEOUT, || processes.iter().all(|process| gone(process.pid))));
    }
}

#[test]
fn first_key_is_shown_once() {
    let server = TestServer::new();
    assert!(server.admin.key.as_ref().unwrap().starts_with("silica_"));
    let mut server = server;
    server.kill();
    let home = server.take_home();
    let again = TestServer::over(home, Vec::new(), None);
    assert_eq!(again.admin.key, None);
    let client = again.admin.with_key(server.admin.key.as_deref());
    client.get("/v1/sandboxes").expect(200);
    assert!(!again.log().contains(server.admin.key.as_deref().unwrap()));
}

#[test]
fn start_that_fails_makes_no_key() {
    let home = TestHome::new(PYTHON);
    let book = home.path().join("spending.json");
    fs::write(&book, "no book").unwrap();
    start_that_fails(&home, &[]);
    fs::remove_file(&book).unwrap();
    let server = TestServer::over(home, Vec::new(), None);
    assert!(server.admin.key.as_ref().unwrap().starts_with("silica_"));
}
