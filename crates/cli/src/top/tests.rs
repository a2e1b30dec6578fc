//! Looks compared, and nothing shown that a terminal obeys.

use expect_test::expect;
use serde_json::{Value, json};

use super::Sort;
use super::frame::Frame;
use super::view::{json, plain, screen, table};

const URL: &str = "http://localhost:8585";

/// A sandbox as the server describes it.
fn sandbox(id: &str, cpu_ms: u64, at: &str) -> Value {
    json!({
        "id": id, "state": "running", "owner": "key_1", "owner_name": "ci",
        "template": "python", "cells_run": 3, "commands_running": 0,
        "created_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T01:00:30Z",
        "kernels": [{"id": "k1", "state": "idle"}],
        "usage": {"at": at, "cpu_ms": cpu_ms, "memory_bytes": 52_428_800},
    })
}

fn read(at: &str, sandboxes: &[Value], before: Option<&Frame>) -> Frame {
    let answer = json!({"at": at, "sandboxes": sandboxes});
    Frame::read(answer.to_string().as_bytes(), before).unwrap()
}

fn two_looks() -> Frame {
    let (first, second) = ("2026-01-01T00:02:04Z", "2026-01-01T00:02:06Z");
    let before = read(first, &[sandbox("sbx_a", 100, first), sandbox("sbx_b", 9, first)], None);
    let mut busy = sandbox("sbx_b", 1009, second);
    busy["kernels"][0]["state"] = "busy".into();
    let mut new = sandbox("sbx_c", 50, second);
    new["usage"]["memory_bytes"] = Value::Null;
    new["expires_at"] = Value::Null;
    new["owner_name"] = Value::Null;
    let mut ended = sandbox("sbx_d", 0, second);
    ended["state"] = "ended".into();
    read(second, &[sandbox("sbx_a", 110, second), busy, new, ended], Some(&before))
}

#[test]
fn table_tells_what_each_uses() {
    let mut frame = two_looks();
    frame.sort(Sort::Cpu);
    expect![[r"
        http://localhost:8585  4 sandboxes, 1 busy, 50% cpu, 150.0M memory  00:02:06 UTC
        ID     OWNER  TEMPLATE  STATE   CELLS  CPU%  MEMORY    AGE  EXPIRES
        sbx_b  ci     python    busy        3  50.0   50.0M  2m06s   58m24s
        sbx_a  ci     python    idle        3   0.5   50.0M  2m06s   58m24s
        sbx_c  key_1  python    idle        3     -       -  2m06s        -
        sbx_d  ci     python    ending      3     -   50.0M  2m06s   58m24s
    "]]
    .assert_eq(&table(&frame, URL));
}

#[test]
fn json_tells_the_same() {
    let mut frame = two_looks();
    frame.rows.truncate(1);
    expect![[r#"{"at":"2026-01-01T00:02:06.000000Z","sandboxes":[{"id":"sbx_a","owner":"key_1","owner_name":"ci","template":"python","state":"idle","cells_run":3,"cpu_percent":0.5,"memory_bytes":52428800,"age_seconds":126,"expires_seconds":3504}]}"#]]
        .assert_eq(&json(&frame));
}

#[test]
fn order_is_what_was_asked_for() {
    let at = "2026-01-01T00:10:00Z";
    let mut rows = vec![sandbox("a", 0, at), sandbox("b", 0, at), sandbox("c", 0, at)];
    rows[0]["usage"]["memory_bytes"] = 1.into();
    rows[1]["usage"]["memory_bytes"] = Value::Null;
    rows[1]["cells_run"] = 9.into();
    rows[1]["expires_at"] = Value::Null;
    rows[2]["created_at"] = "2025-01-01T00:00:00Z".into();
    rows[2]["expires_at"] = "2026-01-01T00:20:00Z".into();
    rows[2]["owner_name"] = "alice".into();
    let mut frame = read(at, &rows, None);
    let mut check = |sort, expected: &str| {
        frame.sort(sort);
        let ids: String = frame.rows.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids, expected, "{sort:?}");
    };
    check(Sort::Memory, "cab");
    check(Sort::Cells, "bac");
    check(Sort::Age, "cab");
    check(Sort::Expires, "cab");
    check(Sort::Owner, "cab");
    check(Sort::Cpu, "abc");
    check(Sort::Id, "abc");
}

/// Whatever the server sends, only these bytes reach the terminal.
fn assert_harmless(text: &str) {
    let harmless = |byte: u8| byte == b'\n' || (b' '..=b'~').contains(&byte);
    assert!(text.bytes().all(harmless), "{text:?}");
}

#[test]
fn nothing_steers_the_terminal() {
    // Colours, a title, C1 controls, text that runs backwards, a wide and a combining character.
    let hostile = "\x1b[31mred\x07\x1b]0;title\x07\u{9b}2J\u{202e}evil\r\n\t\u{7f}漢\u{301}🦀";
    let mut row = sandbox(hostile, 1, hostile);
    for field in ["owner", "owner_name", "template", "state", "created_at", "expires_at"] {
        row[field] = hostile.into();
    }
    let frame = read("2026-01-01T00:00:00Z", &[row], None);
    assert_harmless(&table(&frame, URL));
    assert_harmless(&screen(&frame, URL, Some(hostile), 24, 80).join("\n"));
    let line = json(&frame);
    assert_harmless(&line);
    let parsed: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(parsed["sandboxes"][0]["template"], hostile);
    assert_eq!(plain("\x1b[2Jab", 4), "?[2~");
    assert_eq!((plain("abcd", 4), plain("abcde", 4)), ("abcd".to_owned(), "abc~".to_owned()));
}

#[test]
fn numbers_out_of_this_world_are_survived() {
    let mut row = sandbox("a", u64::MAX, "9999-12-31T00:00:00Z");
    row["created_at"] = "9999-12-31T00:00:00Z".into();
    row["expires_at"] = "0001-01-01T00:00:00Z".into();
    row["cells_run"] = u64::MAX.into();
    row["usage"]["memory_bytes"] = u64::MAX.into();
    let before = read("2026-01-01T00:00:00Z", &[sandbox("a", 0, "2026-01-01T00:00:00Z")], None);
    let frame = read("2026-01-01T00:00:00Z", &[row, json!({}), json!(7)], Some(&before));
    assert_harmless(&table(&frame, URL));
    assert_eq!(frame.rows.len(), 3);
}

#[test]
fn answers_that_are_none_are_refused() {
    for body in ["", "{}", "[]", r#"{"at": "now", "sandboxes": []}"#, r#"{"at": "2026-01-01"}"#] {
        assert!(Frame::read(body.as_bytes(), None).is_err(), "{body}");
    }
}

#[test]
fn screen_holds_what_fits() {
    let rows: Vec<Value> =
        (0..50).map(|number| sandbox(&format!("sbx_{number:02}"), 0, "2026-01-01")).collect();
    let frame = read("2026-01-01T00:00:00Z", &rows, None);
    let lines = screen(&frame, URL, None, 6, 40);
    expect![[r"
        http://localhost:8585  50 sandboxes, 0 ~
        ID      OWNER  TEMPLATE  STATE  CELLS  ~
        sbx_00  ci     python    idle       3  ~
        sbx_01  ci     python    idle       3  ~
        sbx_02  ci     python    idle       3  ~
        and 47 more"]]
    .assert_eq(&lines.join("\n"));
    let lines = screen(&frame, URL, Some("cannot reach it"), 100, 100);
    assert_eq!((lines.len(), lines[0].as_str()), (52, "cannot reach it; trying again"));
}

#[test]
fn long_words_make_room_for_numbers() {
    let mut row = sandbox("sbx_0123456789abcdefghij", 0, "2026-01-01T00:00:00Z");
    row["template"] = "code-interpreter".into();
    row["owner_name"] = "an owner with a name longer than any column".into();
    let frame = read("2026-01-01T00:00:00Z", &[row], None);
    let lines = screen(&frame, URL, None, 24, 80);
    assert_eq!(lines[0], format!("{URL}  1 sandbox, 0 busy, 0% cpu, 50.0M memory  00:00:00 UTC"));
    expect![[r"
        ID            OWNER        TEMPLATE     STATE  CELLS  CPU%  MEMORY  AGE  EXPIRES
        sbx_0123456~  an owner w~  code-inter~  idle       3     -   50.0M   0s    1h00m
    "]]
    .assert_eq(&format!("{}\n", lines[1..].join("\n")));
}
