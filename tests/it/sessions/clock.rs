//! The clock of the day jumps, by a day and by years, forwards and backwards.
//!
//! Lifetimes are measured by a clock that cannot be set, so nothing that lives may end for it; what is
//! written down carries the time that was told.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::harness::server::{TestSandbox, TestServer, serve_command};
use crate::harness::{PYTHON, SILICA, TestHome, finish};

const DAY: i64 = 24 * 60 * 60;

/// Longer than the server takes to look whose time is up, twice.
const LOOKED: Duration = Duration::from_millis(2500);

/// A server whose clock of the day is the real one and what is in a file.
fn server() -> (TestServer, PathBuf) {
    let home = TestHome::new(PYTHON);
    let (library, clock) =
        (home.working_directory().join("clock.so"), home.working_directory().join("clock"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/sessions/clock.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source);
    assert!(compiler.status().unwrap().success());
    fs::write(&clock, "0").unwrap();
    let mut command = serve_command(&home, &[]);
    command.env("LD_PRELOAD", &library).env("TEST_CLOCK", &clock);
    (TestServer::start(command, home, Vec::new(), None), clock)
}

#[test]
fn jumps_of_the_clock_end_nothing_and_break_nothing() {
    let (server, clock) = server();
    let lives = json!({"ttl_seconds": 3600, "idle_seconds": 600});
    let sandbox = TestSandbox::new(&server.admin, &lives);
    sandbox.run("x = 1");
    let told = |sandbox: &TestSandbox| sandbox.run("import time; print(int(time.time()))");
    let before: i64 = told(&sandbox)["stdout"].as_str().unwrap().trim().parse().unwrap();
    for jump in [DAY, -DAY, 10 * 365 * DAY, -10 * 365 * DAY, 0] {
        fs::write(&clock, jump.to_string()).unwrap();
        std::thread::sleep(LOOKED);
        assert_eq!(sandbox.run("x += 1; print(x > 1)")["stdout"], "True\n", "{jump}");
        // A new one, too, lives as long as it should.
        let other = TestSandbox::new(&server.admin, &json!({"ttl_seconds": 60}));
        assert_eq!(other.run("print(6 * 7)")["stdout"], "42\n", "{jump}");
        let made = other.get("").expect(200).json()["created_at"].as_str().unwrap().to_owned();
        let year: i64 = made[..4].parse().unwrap();
        let expected = 1970 + (before + jump) / (365 * DAY + DAY / 4);
        assert!((expected - 1..=expected + 1).contains(&year), "{jump}: {made}");
        other.client.delete(&other.path).expect(204);
    }
    assert_eq!(sandbox.run("print(x)")["stdout"], "6\n");
    // The clock was the server's alone.
    let after: i64 = told(&sandbox)["stdout"].as_str().unwrap().trim().parse().unwrap();
    assert!((0..DAY / 2).contains(&(after - before)), "{before} {after}");
    let home = server.home().path();
    let verified = finish(Command::new(SILICA).args(["audit", "verify"]).env("SILICA_HOME", home));
    assert_eq!(verified.status, 0, "{verified:?}");
}
