//! `silica top` against a real server, and against one that means harm.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use expect_test::expect;
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::tcgetattr;
use serde_json::{Value, json};

use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{CommandOutput, SILICA, TIMEOUT, eventually, finish, signal};

/// `silica top` with nothing in its environment but these.
fn top(url: &str, key: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(SILICA);
    command.env_clear().env("SILICA_URL", url).env("SILICA_KEY", key).stdin(Stdio::null());
    command.arg("top").args(arguments);
    command
}

fn looked(server: &TestServer, arguments: &[&str]) -> CommandOutput {
    let ran = finish(&mut top(&server.url(), server.admin.key.as_ref().unwrap(), arguments));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{ran:?}");
    ran
}

#[test]
fn everybodys_sandboxes_are_shown_to_an_admin_only() {
    let server = TestServer::with(&["quota.request_burst=10000"]);
    let bob = server.admin.post("/v1/keys", &json!({"name": "bob"})).expect(201).json();
    let bobs_key = bob["key"].as_str().unwrap();
    let own_sandbox = server.sandbox();
    let own = own_sandbox.id.as_str();
    let bobs_sandbox = TestSandbox::new(&server.admin.with_key(Some(bobs_key)), &json!({}));
    let bobs = bobs_sandbox.id.as_str();
    own_sandbox.cell(&json!({"code": "1"}));
    bobs_sandbox.start(&json!({"code": "while True: pass"}));
    // Not a terminal, so one look.
    let mut seen = Vec::new();
    let all_is_seen = eventually(TIMEOUT, || {
        let frame = looked(&server, &["--json", "--sort", "owner"]).json();
        seen = frame["sandboxes"].as_array().unwrap().clone();
        seen[0]["state"] == "busy" && seen[1]["state"] == "idle"
    });
    assert!(all_is_seen, "{seen:?}");
    let shown = |row: &Value| {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        (text("id"), text("owner_name"), text("template"), row["cells_run"].as_u64().unwrap())
    };
    let text = str::to_owned;
    assert_eq!(shown(&seen[0]), (text(bobs), text("bob"), text("python"), 0));
    assert_eq!(shown(&seen[1]), (text(own), text("first"), text("python"), 1));
    assert_eq!(seen[0]["owner"], bob["id"]);
    for row in &seen {
        assert!(row["expires_seconds"].as_u64().is_some_and(|left| left > 0), "{row}");
        assert!(row["cpu_percent"].is_number(), "{row}");
    }
    let table = looked(&server, &["--once", "--sort", "owner"]).stdout;
    let lines: Vec<&str> = table.lines().collect();
    let words = |line: usize| lines[line].split_whitespace().take(4).collect::<Vec<_>>();
    assert!(lines[0].contains("  2 sandboxes, 1 busy, "), "{table}");
    assert!(lines[1].contains("transfers 0/256"), "{table}");
    assert_eq!(words(2), ["ID", "OWNER", "TEMPLATE", "STATE"]);
    assert_eq!(words(3), [bobs, "bob", "python", "busy"]);
    assert_eq!((words(4), lines.len()), (vec![own, "first", "python", "idle"], 5));
    let many = looked(&server, &["-n", "2", "--json"]).stdout;
    assert_eq!(many.lines().count(), 2, "{many}");
    bobs_sandbox.client.delete(&bobs_sandbox.path).expect(204);
    let left = looked(&server, &["--json"]).json();
    assert_eq!(left["sandboxes"].as_array().unwrap().len(), 1, "{left}");
    let refused = finish(&mut top(&server.url(), bobs_key, &[]));
    assert_eq!((refused.status, refused.stdout.as_str()), (125, ""));
    expect![[r"
        silica: silica top needs an admin key; create one with: silica key create NAME --admin
    "]]
    .assert_eq(&refused.stderr);
    server.terminate();
}

/// Answers every call with the same bytes.
fn fake_server(answer: &str) -> String {
    fake_server_in_turn(&[answer])
}

/// Answers one call after the other, and from then on as it did last, for as long as the test runs.
fn fake_server_in_turn(answers: &[&str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
    std::thread::spawn(move || {
        let last = answers.last().unwrap();
        let endless = answers.iter().chain(std::iter::repeat(last));
        for (stream, answer) in listener.incoming().zip(endless) {
            let mut stream: TcpStream = stream.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

/// Sends the same bytes to every client, whatever the request.
fn deaf_server(words: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: TcpStream = stream.unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(words.as_bytes()).unwrap();
        }
    });
    url
}

const HOSTILE: &str = "\x1b[31m\x07\x1b]0;title\x07\u{9b}2J\u{202e}evil\r\n\u{7f}\x1b[?1049l";

/// A server whose every text tries to steer the terminal.
fn hostile_server() -> String {
    let sandbox = json!({
        "id": HOSTILE, "owner": HOSTILE, "owner_name": HOSTILE, "template": HOSTILE,
        "state": "running", "metadata": {HOSTILE: HOSTILE}, "kernels": [{"state": HOSTILE}],
        "usage": {"at": HOSTILE, "cpu_ms": 1, "memory_bytes": 1},
    });
    let body = json!({"at": "2026-01-01T00:00:00Z", "sandboxes": [sandbox]});
    fake_server(&format!("HTTP/1.1 200 OK\r\n\r\n{body}"))
}

#[track_caller]
fn assert_harmless(text: &str) {
    let harmless = |byte: u8| byte == b'\n' || (b' '..=b'~').contains(&byte);
    assert!(text.bytes().all(harmless), "{text:?}");
}

#[test]
fn hostile_texts_do_not_reach_a_pipe() {
    let url = hostile_server();
    for arguments in [&["--once"][..], &["--json"]] {
        let ran = finish(&mut top(&url, "key", arguments));
        assert_eq!(ran.status, 0, "{ran:?}");
        assert!(ran.stdout.contains("evi"), "{ran:?}");
        assert_harmless(&ran.stdout);
    }
    let problem = json!({"detail": HOSTILE});
    let url = fake_server(&format!("HTTP/1.1 500 x\r\n\r\n{problem}"));
    let ran = finish(&mut top(&url, "key", &[]));
    assert_eq!(ran.status, 125, "{ran:?}");
    assert!(ran.stderr.contains("answered 500: \\u{1b}[31m"), "{ran:?}");
    assert_harmless(&ran.stderr);
    let url = fake_server(&format!("HTTP/1.1 200 {HOSTILE}\r\n{HOSTILE}: {HOSTILE}\r\n\r\n{{}}"));
    let ran = finish(&mut top(&url, "key", &[]));
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
    assert_harmless(&ran.stderr);
}

/// How a program that watches is stopped.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Signal(Signal),
    Key(u8),
}

/// Runs on a terminal until it has drawn this, then stops it; returns all that it wrote.
fn on_terminal(mut command: Command, awaited: &str, stop: Stop) -> String {
    let controller =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    command.stdin(terminal.try_clone().unwrap());
    command.stdout(terminal.try_clone().unwrap()).stderr(terminal.try_clone().unwrap());
    let before = modes(&terminal);
    let mut child = command.spawn().unwrap();
    // The program has the only other end.
    drop((command, terminal));
    let (mut controller, mut written, mut told) = (File::from(controller), Vec::new(), false);
    let mut chunk = [0; 4096];
    // Linux ends a terminal whose other end is closed with EIO.
    while let Ok(length @ 1..) = controller.read(&mut chunk) {
        written.extend_from_slice(&chunk[..length]);
        if !told && String::from_utf8_lossy(&written).contains(awaited) {
            match stop {
                Stop::Signal(stop) => signal(child.id(), stop),
                Stop::Key(key) => controller.write_all(&[key]).unwrap(),
            }
            told = true;
        }
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&written));
    assert_eq!(modes(&controller), before);
    String::from_utf8(written).unwrap()
}

/// How a terminal treats what is typed; either end tells it.
fn modes(terminal: &File) -> String {
    format!("{:?}", tcgetattr(terminal).unwrap())
}

#[test]
fn terminal_is_left_as_it_was_and_obeys_nobody_else() {
    let url = hostile_server();
    let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].map(Stop::Signal);
    for stop in signals.into_iter().chain([Stop::Key(b'q')]) {
        let written = on_terminal(top(&url, "key", &[]), "\x1b[J", stop);
        let drawn = written.strip_prefix("\x1b[?1049h\x1b[?25l").unwrap();
        let drawn = drawn.strip_suffix("\x1b[?25h\x1b[?1049l").unwrap();
        assert!(drawn.contains("?[31m"), "{drawn:?}");
        let mut rest = drawn.replace("\r\n", "\n");
        for ours in ["\x1b[H", "\x1b[K", "\x1b[J", "\r"] {
            rest = rest.replace(ours, "");
        }
        assert_harmless(&rest);
    }
}

#[test]
fn server_that_goes_away_is_asked_again() {
    let seen = |count: usize| {
        let sandboxes = vec![json!({"id": "sbx_a", "state": "running"}); count];
        let body = json!({"at": "2026-01-01T00:00:00Z", "sandboxes": sandboxes});
        format!("HTTP/1.1 200 OK\r\n\r\n{body}")
    };
    let gone = "HTTP/1.1 503 x\r\n\r\n{\"detail\": \"going down\"}";
    let url = fake_server_in_turn(&[&seen(1), &seen(1), gone, &seen(7)]);
    let written = on_terminal(top(&url, "key", &[]), "  7 sandboxes", Stop::Signal(Signal::INT));
    let trouble = format!("{url} answered 503: going down; trying again");
    let (before, after) = written.split_once(&trouble).unwrap();
    assert!(before.contains("  1 sandbox,"), "{written:?}");
    // What was seen last stays in view meanwhile.
    assert!(after.contains("sbx_a"), "{written:?}");
    // Without a terminal there is no second attempt.
    let url = fake_server_in_turn(&[&seen(1), gone]);
    let ran = finish(&mut top(&url, "key", &["--json"]));
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
}

#[test]
fn server_that_cannot_be_used_is_said() {
    let check = |url: &str, key: &str, expected: expect_test::Expect| {
        let ran = finish(&mut top(url, key, &[]));
        assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
        expected.assert_eq(&ran.stderr.replace(url, "URL"));
    };
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    check(
        &format!("http://127.0.0.1:{port}"),
        "key",
        expect![[r"
            silica: cannot reach URL; is the server running? start it with: silica serve
              because: Connection refused
        "]],
    );
    check(
        &deaf_server("HTTP/1.1 400 Bad Request\r\n\r\n").replace("http:", "https:"),
        "key",
        expect![[r"
            silica: URL does not use TLS; write its address with http://
        "]],
    );
    check(
        &fake_server("SSH-2.0-OpenSSH_9.9\r\n"),
        "key",
        expect![[r"
            silica: no valid HTTP answer from URL
              because: invalid HTTP version parsed
        "]],
    );
    check(
        &fake_server("HTTP/1.1 200 OK\r\n\r\n<html>"),
        "key",
        expect![[r"
        silica: the answer is not JSON
          because: expected value at line 1 column 1
    "]],
    );
    check(
        &fake_server("HTTP/1.1 404 Not Found\r\n\r\n<html>"),
        "key",
        expect![[r"
            silica: URL answered 404, and not as a Silica server does; check the address
        "]],
    );
    // A machine without certificates has no use for them either.
    let mut bare = top("http://127.0.0.1:1", "key", &[]);
    let bare = finish(bare.env("SSL_CERT_FILE", "/missing").env("SSL_CERT_DIR", "/missing"));
    assert!(bare.stderr.starts_with("silica: cannot reach"), "{bare:?}");
    check(
        "http://localhost",
        "",
        expect![[r"
            silica: a key is required: set SILICA_KEY; the first start of silica serve prints one, and silica key create NAME makes another
        "]],
    );
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for arguments in [&["--once", "-n", "2"][..], &["-n", "0"], &["--sort", "beauty"], &["extra"]] {
        assert_eq!(finish(&mut top("http://localhost", "key", arguments)).status, 2);
    }
}
