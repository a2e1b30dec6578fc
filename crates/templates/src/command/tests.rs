//! Runs of small shell programs.

use std::process::Command;
use std::time::Duration;

use expect_test::expect;

use super::{ToolError, first_line, run};

fn shell(script: &str, wall_max: Duration) -> (Vec<String>, Result<(), ToolError>) {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    let mut lines = Vec::new();
    let result = run("sh", command, wall_max, &mut |line| {
        lines.push(line.to_owned());
    });
    (lines, result)
}

#[test]
fn hands_over_lines() {
    let (lines, result) = shell("echo a; echo b", Duration::from_secs(20));
    result.expect("well");
    assert_eq!(lines, ["a", "b"]);
}

#[test]
fn keeps_the_last_errors() {
    let (_, result) = shell("seq 1 17 >&2; exit 3", Duration::from_secs(20));
    expect![[r"
        sh failed (exit status: 3):
        3
        4
        5
        6
        7
        8
        9
        10
        11
        12
        13
        14
        15
        16
        17"]]
    .assert_eq(&result.unwrap_err().to_string());
}

#[test]
fn stops_what_takes_too_long() {
    let (_, result) = shell("echo why >&2; exec sleep 60", Duration::from_millis(200));
    let error = result.unwrap_err();
    assert!(matches!(&error, ToolError::TooLong { tail, .. } if tail == "why"), "{error}");
}

#[test]
fn says_when_there_is_no_such_program() {
    let error = first_line("x", Command::new("/nonexistent"), Duration::from_secs(1)).unwrap_err();
    expect!["could not run x"].assert_eq(&error.to_string());
}
