//! Starts that cannot be, and the orderly end.

use std::fs;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::json;

use crate::harness::server::{Served, command};
use crate::harness::{
    Ground, PATIENCE, PYTHON, Ran, SILICA, below, eventually, finish, first_line, signal, start,
};

fn start_that_fails(ground: &Ground, settings: &[&str]) -> Ran {
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    let ran = finish(&mut command(ground, &settings));
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
    assert!(!ran.stderr.contains("panicked"), "{ran:?}");
    ran
}

/// A data directory in which a server has been, and is no more.
fn used() -> Ground {
    let mut served = Served::new();
    served.assert_works();
    signal(served.pid(), Signal::TERM);
    assert_eq!(served.wait(), Some(0));
    served.ground.take().unwrap()
}

#[test]
fn damaged_database_is_told() {
    for content in [b"this is no database, whatever it is called".to_vec(), vec![0xff; 8192]] {
        let ground = Ground::new(PYTHON);
        fs::write(ground.home().join("silica.db"), content).unwrap();
        let ran = start_that_fails(&ground, &[]);
        assert!(ran.stderr.contains("silica.db"), "{ran:?}");
    }
    let ground = used();
    let path = ground.home().join("silica.db");
    let mut bytes = fs::read(&path).unwrap();
    for byte in &mut bytes[100..] {
        *byte = !*byte;
    }
    fs::write(&path, bytes).unwrap();
    let ran = start_that_fails(&ground, &[]);
    assert!(ran.stderr.contains("silica.db") && ran.stderr.contains("damaged"), "{ran:?}");
}

#[test]
fn directory_in_place_of_the_database_is_told() {
    let ground = Ground::new(PYTHON);
    fs::create_dir(ground.home().join("silica.db")).unwrap();
    let ran = start_that_fails(&ground, &[]);
    assert!(ran.stderr.contains("silica.db"), "{ran:?}");
}

#[test]
fn locked_database_is_told() {
    let ground = used();
    let path = ground.home().join("silica.db");
    let code = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                c.execute('PRAGMA locking_mode=EXCLUSIVE'); c.execute('BEGIN EXCLUSIVE'); print('locked', flush=True)\n\
                sys.stdin.read()";
    let mut holder = Command::new("python3");
    let mut holder = start(holder.args(["-c", code]).arg(&path).stdin(Stdio::piped()));
    let (line, _reader) = first_line(&mut holder);
    assert_eq!(line, "locked");
    let ran = start_that_fails(&ground, &[]);
    assert!(ran.stderr.contains("silica.db") && ran.stderr.contains("locked"), "{ran:?}");
    drop(holder.stdin.take());
    holder.wait().unwrap();
    Served::over(ground, Vec::new(), None).admin.get("/readyz").expect(200);
}

/// As root, permissions stop nobody: the data directory is mounted read-only for the server alone.
#[test]
fn read_only_data_directory_is_told() {
    let ground = used();
    let script =
        "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && shift && exec \"$@\"";
    let serve = command(&ground, &[]);
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    unshare.arg(ground.home()).arg(serve.get_program()).args(serve.get_args());
    let ran = finish(unshare.env("SILICA_HOME", ground.home()).current_dir(ground.here()));
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
    assert!(ran.stderr.contains("read-only"), "{ran:?}");
}

#[test]
fn second_server_over_the_same_data_is_told() {
    let served = Served::new();
    let ran = start_that_fails(served.ground(), &[]);
    assert!(ran.stderr.contains("another server is using"), "{ran:?}");
    assert!(ran.stderr.contains(&served.pid().to_string()), "{ran:?}");
    served.assert_works();
}

#[test]
fn address_in_use_is_told() {
    let served = Served::new();
    let ground = Ground::new(PYTHON);
    let address = served.admin.address.to_string();
    let mut command = Command::new(SILICA);
    let arguments =
        ["serve", "--warm", "python=0", "--set", "sandboxes.template=python", "--listen"];
    let ran = finish(command.args(arguments).arg(&address).env("SILICA_HOME", ground.home()));
    assert_eq!(ran.status, 125, "{ran:?}");
    assert!(ran.stderr.contains(&address), "{ran:?}");
}

#[test]
fn first_signal_lets_what_runs_end() {
    let mut served = Served::new();
    let sandbox = served.sandbox();
    let code = "import os, time\nprint('up', flush=True)\n\
                while not os.path.exists('go'): time.sleep(0.01)\nprint('end')";
    let mut events = sandbox.client.stream(&sandbox.at("/cells"), &json!({"code": code}));
    events.until("stdout");
    // A request that is half there when the signal comes.
    let mut half = served.admin.connect();
    let body = json!({"code": "print('new')"}).to_string();
    let head = served.admin.head("POST", &sandbox.at("/cells"), &[], body.len());
    half.send(head.as_bytes()).unwrap();
    half.send(&body.as_bytes()[..3]).unwrap();
    let mut upload = served.admin.connect();
    let head = served.admin.head("PUT", &sandbox.at("/files/content?path=go"), &[], 1);
    upload.send(head.as_bytes()).unwrap();
    assert!(eventually(PATIENCE, || served.admin.get("/healthz").status == 200));
    signal(served.pid(), Signal::TERM);
    assert!(eventually(PATIENCE, || TcpStream::connect(served.admin.address).is_err()));
    half.send(&body.as_bytes()[3..]).unwrap();
    let refused = half.read_head("POST");
    assert_eq!(refused.status, 503);
    assert!(String::from_utf8_lossy(&half.read_body().unwrap()).contains("shutting_down"));
    upload.send(b"x").unwrap();
    assert_eq!(upload.read_head("PUT").status, 201);
    assert_eq!(events.until("stdout").data["text"], "end\n");
    assert_eq!(events.until("done").data["outcome"], "ok");
    assert_eq!(served.wait(), Some(0));
    let log = served.log();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
    // The records know of it.
    let served = served.kill_and_restart();
    let ended = served.admin.get(&sandbox.path).expect(200).json();
    assert_eq!((&ended["state"], &ended["end_reason"]), (&json!("ended"), &json!("shutdown")));
    let verdict = served.admin.get("/v1/audit/verify").expect(200).json();
    assert_eq!((&verdict["ok"], &verdict["unfinished"]), (&json!(true), &json!(0)), "{verdict}");
}

#[test]
fn patience_ends() {
    let mut served = Served::with(&["server.shutdown_seconds=1"]);
    let sandbox = served.sandbox();
    let code = "print('up', flush=True)\nimport time; time.sleep(600)";
    let mut events = sandbox
        .client
        .stream(&sandbox.at("/cells"), &json!({"code": code, "timeout_seconds": 900}));
    events.until("stdout");
    let mut run = served.admin.connect();
    let body = json!({"code": code, "timeout_seconds": 900}).to_string();
    let head = served.admin.head("POST", "/v1/run", &[], body.len());
    run.send(format!("{head}{body}").as_bytes()).unwrap();
    let running = || served.admin.get("/v1/stats").expect(200).json()["cells_running"] == 2;
    assert!(eventually(PATIENCE, running));
    signal(served.pid(), Signal::TERM);
    assert_eq!(served.wait(), Some(0));
    let served = served.kill_and_restart();
    let verdict = served.admin.get("/v1/audit/verify").expect(200).json();
    assert_eq!(verdict["unfinished"], 0, "{verdict}");
    let executions = served.admin.get("/v1/audit").expect(200).json()["executions"].clone();
    let outcomes: Vec<_> =
        executions.as_array().unwrap().iter().map(|one| &one["outcome"]).collect();
    assert_eq!(outcomes, ["sandbox_died", "sandbox_died"]);
}

#[test]
fn second_signal_ends_at_once() {
    for (first, second) in
        [(Signal::TERM, Signal::TERM), (Signal::INT, Signal::INT), (Signal::TERM, Signal::INT)]
    {
        let mut served = Served::with(&["server.shutdown_seconds=3600"]);
        let sandbox = served.sandbox();
        let code = "print('up', flush=True)\nimport time; time.sleep(600)";
        let mut events = sandbox
            .client
            .stream(&sandbox.at("/cells"), &json!({"code": code, "timeout_seconds": 900}));
        events.until("stdout");
        let processes = below(served.pid());
        signal(served.pid(), first);
        assert!(eventually(PATIENCE, || TcpStream::connect(served.admin.address).is_err()));
        signal(served.pid(), second);
        assert_eq!(served.wait(), Some(130));
        // Nothing of it stays.
        let gone = |pid: u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
        assert!(eventually(PATIENCE, || processes.iter().all(|process| gone(process.pid))));
    }
}

#[test]
fn first_key_is_shown_once() {
    let served = Served::new();
    assert!(served.admin.key.as_ref().unwrap().starts_with("silica_"));
    let mut served = served;
    served.kill();
    let ground = served.ground.take().unwrap();
    let again = Served::over(ground, Vec::new(), None);
    assert_eq!(again.admin.key, None);
    let client = again.admin.with_key(served.admin.key.as_deref());
    client.get("/v1/sandboxes").expect(200);
    assert!(!again.log().contains(served.admin.key.as_deref().unwrap()));
}

#[test]
fn start_that_fails_makes_no_key() {
    let ground = Ground::new(PYTHON);
    let book = ground.home().join("spending.json");
    fs::write(&book, "no book").unwrap();
    start_that_fails(&ground, &[]);
    fs::remove_file(&book).unwrap();
    let served = Served::over(ground, Vec::new(), None);
    assert!(served.admin.key.as_ref().unwrap().starts_with("silica_"));
}
