//! Paths and frames: every shape of them, and everything that is none.

use super::frame::{self, Frame, Malformed};
use super::{InsidePath, ReadPath};
use crate::files::{FileKind, Owner};

#[test]
fn paths_are_absolute_and_plain() {
    let parsed = |text: &str| InsidePath::parse(text).ok().map(|path| path.to_string());
    for (text, expected) in [
        ("/", Some("/")),
        ("/etc/", Some("/etc")),
        ("/./etc/./passwd", Some("/etc/passwd")),
        ("etc", None),
        ("", None),
        ("/etc/../root", None),
        ("//etc", None),
        ("/etc//passwd", None),
        ("/a\0b", None),
    ] {
        assert_eq!(parsed(text).as_deref(), expected, "{text:?}");
    }
    assert_eq!(parsed(&format!("/{}", "x".repeat(256))), None);
    assert_eq!(parsed(&"/x".repeat(2049)), None);
}

#[test]
fn writable_paths_are_the_hosts() {
    let inside = |text: &str| matches!(ReadPath::parse(text), Ok(ReadPath::Inside(_)));
    let writable = |text: &str| matches!(ReadPath::parse(text), Ok(ReadPath::Writable(_)));
    assert!(writable("/workspace") && writable("a.txt") && writable("/home/user/x"));
    assert!(inside("/") && inside("/home") && inside("/workspace2") && inside("/etc"));
    assert!(ReadPath::parse("/workspace/../etc").is_err());
    assert!(ReadPath::parse("../etc").is_err());
}

/// The payload of an entry, as `reader.py` makes it.
fn payload(kind: u8, texts: [&[u8]; 3], end_kind: u8) -> Vec<u8> {
    let mut bytes = vec![kind, 1];
    bytes.extend(0o755_u32.to_le_bytes());
    bytes.extend(7_u64.to_le_bytes());
    bytes.extend((-1_i64).to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    for text in texts {
        bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text);
    }
    bytes.push(end_kind);
    bytes.extend(0o644_u32.to_le_bytes());
    bytes
}

#[test]
fn an_entry_is_decoded() {
    let bytes = payload(2, [b"/bin", b"usr/bin", b"/usr/bin"], 1);
    let Ok(Frame::Entry(entry)) = frame::decode(b'e', &bytes) else { panic!("no entry") };
    assert_eq!(entry.listed.path, "/bin");
    assert_eq!(entry.listed.stat.kind, FileKind::Symlink);
    assert_eq!(entry.listed.stat.owner, Owner::User);
    assert_eq!(entry.listed.stat.target.as_deref(), Some("usr/bin"));
    let end = entry.link_end.expect("a link leads somewhere");
    assert_eq!((end.path.as_str(), end.found), ("/usr/bin", Some((FileKind::Directory, 0o644))));
    // What only a link has is ignored of others.
    let bytes = payload(0, [b"/x\xff", b"liar", b"/liar"], 1);
    let Ok(Frame::Entry(entry)) = frame::decode(b'e', &bytes) else { panic!("no entry") };
    assert!(!entry.listed.usable && entry.link_end.is_none());
    assert_eq!(entry.listed.stat.target, None);
}

#[test]
fn what_is_no_frame_is_refused() {
    let good = payload(0, [b"/x", b"", b""], 4);
    for length in 0..good.len() {
        assert_eq!(frame::decode(b'e', &good[..length]), Err(Malformed), "{length} bytes");
    }
    let long = [&good[..], b"x"].concat();
    assert_eq!(frame::decode(b'e', &long), Err(Malformed));
    assert_eq!(frame::decode(b'e', &payload(9, [b"/x", b"", b""], 4)), Err(Malformed));
    assert_eq!(frame::decode(b'?', b""), Err(Malformed));
    assert_eq!(frame::decode(b'!', b"123"), Err(Malformed));
    assert_eq!(frame::decode(b'.', b"x"), Err(Malformed));
    let head = |length: u32| {
        let [a, b, c, d] = length.to_le_bytes();
        frame::head([b'e', a, b, c, d])
    };
    assert_eq!(head(16 * 1024), Ok((b'e', 16 * 1024)));
    assert_eq!(head(16 * 1024 + 1), Err(Malformed));
    assert_eq!(head(u32::MAX), Err(Malformed));
}
