//! Ends of commands in E2B's words.

use serde_json::json;
use silica_sessions::CommandOutcome;

use super::{Ending, ending};

#[test]
fn ends_are_told_as_go_tells_them() {
    let check = |outcome, expected| assert_eq!(ending(outcome), expected, "{outcome:?}");
    check(
        CommandOutcome::Exited(0),
        Ending::Event(json!({"exitCode": 0, "exited": true, "status": "exit status 0"})),
    );
    let three = "exit status 3";
    check(
        CommandOutcome::Exited(3),
        Ending::Event(json!({"exitCode": 3, "exited": true, "status": three, "error": three})),
    );
    let killed = "signal: killed";
    check(
        CommandOutcome::Killed(9),
        Ending::Event(json!({"exitCode": -1, "exited": false, "status": killed, "error": killed})),
    );
    check(
        CommandOutcome::TimedOut,
        Ending::Error(json!({"code": "deadline_exceeded", "message": "context deadline exceeded"})),
    );
    check(CommandOutcome::SandboxDied, Ending::Broken);
    let memory = json!({
        "exitCode": 137, "exited": true, "status": "exit status 137", "error": "out of memory",
    });
    check(CommandOutcome::OutOfMemory(137), Ending::Event(memory));
}
