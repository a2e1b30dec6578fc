//! Names, exit statuses and words of every outcome.

use super::*;

/// The flags of `silica run` that raise the limits which end a cell.
fn flag(limit: Limit) -> &'static str {
    match limit {
        Limit::Wall => "--timeout",
        Limit::Cpu => "--cpu-seconds",
        Limit::Memory => "--memory",
        other => panic!("{other:?} ends no cell"),
    }
}

#[test]
fn table_of_outcomes() {
    let limits = Limits::default();
    let table: &[(Outcome, &str, i32, Option<&str>)] = &[
        (Outcome::Ok, "ok", 0, None),
        (Outcome::Raised, "raised", 1, None),
        (Outcome::Exited(0), "exited", 0, None),
        (Outcome::Exited(3), "exited", 3, None),
        (Outcome::Exited(256), "exited", 0, None),
        (Outcome::Exited(-1), "exited", 255, None),
        (Outcome::Interrupted, "interrupted", 130, Some("interrupted")),
        (
            Outcome::TimedOut,
            "timed_out",
            124,
            Some("the code ran longer than 60 s (the wall limit); raise it with --timeout"),
        ),
        (
            Outcome::CpuExceeded,
            "cpu_exceeded",
            152,
            Some(
                "the code used more processor time than 30 s (the cpu limit); raise it with --cpu-seconds",
            ),
        ),
        (
            Outcome::OutOfMemory,
            "out_of_memory",
            137,
            Some(
                "the code needed more memory than 512 MiB (the memory limit); raise it with --memory",
            ),
        ),
        (Outcome::Crashed(11), "crashed", 139, Some("the interpreter was killed by signal 11")),
        (
            Outcome::Vanished(4),
            "vanished",
            4,
            Some("the interpreter left with status 4 in the middle of the code"),
        ),
        (
            Outcome::Disconnected,
            "disconnected",
            70,
            Some("the code broke the connection between interpreter and host"),
        ),
        (Outcome::SandboxDied, "sandbox_died", 70, Some("the sandbox ended while the code ran")),
    ];
    for (outcome, name, status, words) in table {
        assert_eq!(outcome.name(), *name);
        assert_eq!(outcome.exit_code(), *status, "{name}");
        assert_eq!(outcome.explain(&limits, flag).as_deref(), *words, "{name}");
    }
}
