//! Honest frames, and every kind of dishonest one.

use silica_domain::LeftKind;

use super::*;

fn frame(head: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = (head.len() as u32).to_le_bytes().to_vec();
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(head.as_bytes());
    bytes.extend(body);
    bytes
}

async fn read_all(bytes: &[u8]) -> (Vec<FromGuest>, WireError) {
    let mut reader = FrameReader::new(bytes, 1024);
    let mut frames = Vec::new();
    loop {
        match reader.next().await {
            Ok(frame) => frames.push(frame),
            Err(error) => return (frames, error),
        }
    }
}

#[tokio::test]
async fn frames_follow_each_other() {
    let mut bytes = frame(r#"{"type":"hello","version":1,"python":"3.11","pid":2}"#, b"");
    bytes.extend(frame(
        r#"{"type":"result","cell":1,"seq":0,"main":true,"mimes":[["text/plain",2],["image/png",3]],"metadata":{"image/png":{"width":5}}}"#,
        b"42PNG",
    ));
    bytes.extend(frame(r#"{"type":"done","cell":1,"status":"exited","exit_code":259}"#, b""));
    let (frames, end) = read_all(&bytes).await;
    assert!(matches!(end, WireError::Closed(_)));
    let payload = |mime: &str, data: &[u8]| Payload { mime: mime.into(), data: data.into() };
    let payloads = vec![payload("text/plain", b"42"), payload("image/png", b"PNG")];
    let done = FromGuest::Done {
        cell: 1,
        status: Status::Exited,
        exit_code: 3,
        results_dropped: 0,
        results_too_large: 0,
    };
    let metadata = r#"{"image/png":{"width":5}}"#.to_owned();
    let bundle = Bundle { main: true, payloads, metadata };
    let result = FromGuest::Result { cell: 1, seq: 0, bundle };
    assert_eq!(frames, [FromGuest::Hello { left_behind: Vec::new() }, result, done]);
}

#[tokio::test]
async fn garbage_is_an_error_and_nothing_else() {
    let cases: &[(&str, Vec<u8>)] = &[
        ("claims 4 GiB", vec![0xff; 8]),
        ("head too long", [(HEAD_BYTES_MAX as u32 + 1).to_le_bytes(), [0; 4]].concat()),
        ("body too long", [[2, 0, 0, 0], 1025_u32.to_le_bytes()].concat()),
        ("not JSON", frame("{nonsense", b"")),
        ("no type", frame("{}", b"")),
        ("unknown type", frame(r#"{"type":"root"}"#, b"")),
        ("wrong version", frame(r#"{"type":"hello","version":2}"#, b"")),
        ("negative cell", frame(r#"{"type":"done","cell":-1,"status":"ok","exit_code":0}"#, b"")),
        (
            "lengths beyond the body",
            frame(r#"{"type":"result","cell":1,"seq":0,"main":true,"mimes":[["a/b",9]]}"#, b"xy"),
        ),
        (
            "lengths that wrap",
            frame(
                r#"{"type":"result","cell":1,"seq":0,"main":true,"mimes":[["a/b",18446744073709551615],["a/b",3]]}"#,
                b"xy",
            ),
        ),
        (
            "body not used up",
            frame(r#"{"type":"result","cell":1,"seq":0,"main":true,"mimes":[["a/b",1]]}"#, b"xy"),
        ),
        (
            "MIME with a line break",
            frame(r#"{"type":"result","cell":1,"seq":0,"main":true,"mimes":[["a\nb",2]]}"#, b"xy"),
        ),
        (
            "metadata that is no object",
            frame(
                r#"{"type":"result","cell":1,"seq":0,"main":true,"mimes":[],"metadata":[1]}"#,
                b"",
            ),
        ),
        (
            "metadata without end",
            frame(
                &format!(
                    r#"{{"type":"result","cell":1,"seq":0,"main":true,"mimes":[],"metadata":{{"a":"{}"}}}}"#,
                    "x".repeat(METADATA_BYTES_MAX)
                ),
                b"",
            ),
        ),
        ("deep nesting", frame(&"[".repeat(10_000), b"")),
    ];
    for (name, bytes) in cases {
        let (frames, end) = read_all(bytes).await;
        assert_eq!(frames, [], "{name}");
        assert!(!matches!(end, WireError::Closed(_)), "{name}: {end:?}");
    }
}

#[test]
fn any_bytes_decode_without_a_panic() {
    // A small deterministic generator: mutations of honest frames and plain noise.
    let honest = frame(
        r#"{"type":"result","cell":1,"seq":0,"main":true,"mimes":[["text/plain",2]]}"#,
        b"42",
    );
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..200_000 {
        let mut bytes = honest.clone();
        for _ in 0..next() % 8 {
            let at = (next() as usize) % bytes.len();
            bytes[at] = next() as u8;
        }
        bytes.truncate((next() as usize) % (bytes.len() + 1));
        if let Some(prefix) = bytes.first_chunk::<8>()
            && let Ok((head, body)) = lengths(*prefix, 1024)
        {
            let head_end = (8 + head).min(bytes.len());
            let body_end = (head_end + body).min(bytes.len());
            let _ = decode(&bytes[8..head_end], &bytes[head_end..body_end]);
        }
    }
}

/// Completions are shown on a terminal: only names pass, and not many.
#[test]
fn completions_are_names_and_bounded() {
    let decoded = |matches: &[&str]| {
        let head =
            serde_json::json!({"type": "completions", "start": 3, "matches": matches}).to_string();
        decode(head.as_bytes(), b"").ok()
    };
    let matches = vec!["größe".to_owned(), "_x1".to_owned()];
    let honest = FromGuest::Completions { start: 3, matches };
    assert_eq!(decoded(&["größe", "_x1"]), Some(honest));
    for name in ["", "a b", "\u{1b}[31m", "a\n", "a\u{202e}b", "a.b"] {
        assert_eq!(decoded(&[name]), None, "{name:?}");
    }
    assert!(decoded(&["a"; COMPLETIONS_MAX]).is_some());
    assert_eq!(decoded(&["a"; COMPLETIONS_MAX + 1]), None);
}

/// What an interpreter says that its copy lacks is shown to clients: known kinds alone, without
/// control characters, and not many.
#[test]
fn what_is_left_behind_is_of_known_kinds_and_bounded() {
    let decoded = |kind: &str, things: &[(&str, &str)]| {
        let head = match kind {
            "unwritable" => serde_json::json!({"type": kind, "reasons": things}),
            _ => serde_json::json!({"type": kind, "version": 1, "left_behind": things}),
        };
        decode(head.to_string().as_bytes(), b"").ok()
    };
    let pipe = LeftBehind::new(LeftKind::Pipe, "a\u{fffd}[31m");
    let honest = [("pipe", "a\u{1b}[31m")];
    let left_behind = vec![pipe];
    assert_eq!(
        decoded("writing", &honest),
        Some(FromGuest::Writing { left_behind: left_behind.clone() })
    );
    assert_eq!(
        decoded("hello", &honest),
        Some(FromGuest::Hello { left_behind: left_behind.clone() })
    );
    assert_eq!(
        decoded("unwritable", &honest),
        Some(FromGuest::Unwritable { reasons: left_behind })
    );
    for kind in ["writing", "hello", "unwritable"] {
        assert_eq!(decoded(kind, &[("elephant", "a")]), None);
        assert!(decoded(kind, &[("pipe", "a"); LEFT_BEHIND_MAX]).is_some());
        assert_eq!(decoded(kind, &[("pipe", "a"); LEFT_BEHIND_MAX + 1]), None);
    }
}
