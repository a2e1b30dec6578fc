//! A file system that fills up under load: what is answered is kept, what cannot be recorded does not run, and the
//! server goes on once there is room.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::server::{TestServer, serve_command};
use crate::harness::{PYTHON, TIMEOUT, TestHome, eventually};

/// The size of the file system.
const DISK_MIB: u64 = 12;

/// How much of it is left when the load begins.
const LEFT_BYTES: u64 = 512 * 1024;

/// A server whose data directory is a small file system that only it sees, and the path to it from here.
fn on_a_small_disk() -> (TestServer, PathBuf) {
    let home = TestHome::new(PYTHON);
    let script = format!(
        "templates=$(readlink \"$1/templates\") && guest=$(readlink \"$1/guest\") && \
         mount -t tmpfs -o size={DISK_MIB}m tmpfs \"$1\" && \
         ln -s \"$templates\" \"$1/templates\" && ln -s \"$guest\" \"$1/guest\" && \
         cd / && home=$1 && shift && export SILICA_HOME=\"$home\" && exec \"$@\""
    );
    let serve = serve_command(&home, &[]);
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", &script, "sh"]).arg(home.path());
    unshare.arg(serve.get_program()).args(serve.get_args());
    let path = home.path().strip_prefix("/").unwrap().to_owned();
    let server = TestServer::start(unshare, home, Vec::new(), None);
    let seen = PathBuf::from(format!("/proc/{}/root", server.pid())).join(path);
    (server, seen)
}

/// Code that takes as much room as it is long, and says which it is.
fn code(thread: u64, number: u64) -> String {
    let mut state = thread * 1_000_003 + number + 1;
    let mut noise = String::new();
    for _ in 0..20_000 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        noise.push(char::from(b'0' + (state >> 33) as u8 % 64));
    }
    format!("print('{thread}.{number}')  # {}", noise.replace('\\', "/"))
}

#[test]
fn full_disk_under_load_loses_nothing_that_was_answered() {
    let (server, home) = on_a_small_disk();
    let disk = rustix::fs::statvfs(&home).unwrap();
    let ballast = home.join("ballast");
    let left = disk.f_bavail * disk.f_bsize;
    std::fs::write(&ballast, vec![1; (left - LEFT_BYTES) as usize]).unwrap();
    let runs = |thread: u64| {
        let sandbox = server.sandbox();
        let mut answered = Vec::new();
        let mut refused = 0;
        for number in 0..200 {
            let response = sandbox.post("/cells", &json!({"code": code(thread, number)}));
            if response.status == 200 {
                answered.push(response.json()["stdout"].as_str().unwrap().trim_end().to_owned());
                continue;
            }
            assert_eq!(response.problem(), (503, "store_unavailable".to_owned()));
            refused += 1;
            if refused == 5 {
                break;
            }
        }
        (answered, refused)
    };
    let ends: Vec<(Vec<String>, u32)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || runs(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ends.iter().all(|(_, refused)| *refused > 0), "the disk never filled up: {ends:?}");
    assert_eq!(server.admin.get("/healthz").status, 200);
    std::fs::remove_file(&ballast).unwrap();
    let works = || server.admin.post("/v1/run", &json!({"code": "print(42)"})).status == 200;
    assert!(eventually(TIMEOUT, works), "{}", server.log());
    // Each cell that was answered has the record of its beginning. There may have been no room for that of its end;
    // then the log says that it is unfinished.
    let log = || server.admin.get("/v1/audit?limit=1000").expect(200).json();
    let is_recorded = |marker: &str| {
        let code = format!("print('{marker}')");
        let fits = |it: &Value| {
            it["begin"]["code"]["text"].as_str().is_some_and(|text| text.starts_with(&code))
                && ["ok", "unfinished"].contains(&it["outcome"].as_str().unwrap())
        };
        log()["executions"].as_array().unwrap().iter().any(fits)
    };
    let answered: Vec<&String> = ends.iter().flat_map(|(answered, _)| answered).collect();
    assert!(!answered.is_empty());
    let lost: Vec<_> = answered.iter().filter(|marker| !is_recorded(marker)).collect();
    assert!(lost.is_empty(), "{lost:?} of {} have no record", answered.len());
    let verdict = server.admin.get("/v1/audit/verify").expect(200).json();
    assert_eq!(verdict["ok"], true, "{verdict}");
}
