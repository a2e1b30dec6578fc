//! Which texts are paths. The hostile forms are those of web servers' long history.

use proptest::prelude::*;

use super::super::names::{to_bytes, to_text};
use super::*;

fn check(path: &str, inner: Option<&str>) {
    let parsed = GuestPath::parse(path).ok();
    let inner = inner.map(str::as_bytes);
    assert_eq!(parsed.as_ref().map(GuestPath::inner), inner, "{path:?}");
}

#[test]
fn paths_name_writable_places_only() {
    check("plot.png", Some("workspace/plot.png"));
    check("a/b", Some("workspace/a/b"));
    check("/workspace/a", Some("workspace/a"));
    check("/workspace/", Some("workspace"));
    check("/home/user/.config", Some("home/.config"));
    check("/home/user", Some("home"));
    check("/tmp/x y", Some("tmp/x y"));
    for (dotted, inner) in [
        (".", "workspace"),
        ("./", "workspace"),
        ("./a", "workspace/a"),
        ("././a", "workspace/a"),
        ("a/./b", "workspace/a/b"),
        ("a/.", "workspace/a"),
        ("/workspace/.", "workspace"),
        ("/./tmp/./x", "tmp/x"),
    ] {
        check(dotted, Some(inner));
    }
    for refused in [
        "",
        "/",
        "//workspace/a",
        "/workspace//a",
        ".//a",
        "/.",
        "/./etc/passwd",
        "./../a",
        "/workspace/./../a",
        "/etc/passwd",
        "/workspacex/a",
        "/home/userx",
        "/home",
        "/data/input/x",
        "/dev/shm/x",
        "/proc/1/root",
        "/proc/self/fd/3",
    ] {
        check(refused, None);
    }
    check(&"x/".repeat(4000), None);
    check(&"x/".repeat(2000), Some(&format!("workspace/{}x", "x/".repeat(1999))));
}

#[test]
fn traversal_is_refused_or_only_a_name() {
    for refused in [
        "../../etc/passwd",
        "../",
        "..",
        "./..",
        "/workspace/../etc",
        "/workspace/../etc/passwd",
        "/workspace/a/../../etc",
        "/workspace/..",
        "/tmp/../workspace/x",
        "//etc/passwd",
        "/abs",
        "a\0b",
        "/workspace/x\0/../../etc/passwd",
        "/home/user/../../etc/passwd",
    ] {
        check(refused, None);
    }
    // Nothing is decoded here, so these are odd names, and inside.
    for odd in [
        "%2e%2e%2f",
        "%2e%2e%2fetc%2fpasswd",
        "..%5c",
        "..\\..\\etc\\passwd",
        "%252e%252e%252f",
        "%00",
        "\u{fffd}\u{fffd}etc",
        "...",
        ".. ",
        " ..",
        "-rf",
        "a\r\nX-Header: b",
        "\u{202e}gnp.exe",
        "a\";filename=\"b.html",
        "~root",
        "C:",
        "$HOME",
    ] {
        check(odd, Some(&format!("workspace/{odd}")));
    }
    check(&"n".repeat(255), Some(&format!("workspace/{}", "n".repeat(255))));
    check(&"n".repeat(300), None);
}

#[test]
fn joining_checks_again() {
    let directory = guest("/home/user/d");
    assert_eq!(directory.join("a/b").unwrap().to_string(), "/home/user/d/a/b");
    for refused in ["", "..", "../x", "/x", "a//b", "a/../../../x"] {
        assert!(directory.join(refused).is_err(), "{refused:?}");
    }
}

/// What paths are made of, so that many of them are nearly right.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("/".to_owned()),
        Just("//".to_owned()),
        Just(".".to_owned()),
        Just("..".to_owned()),
        Just("/workspace".to_owned()),
        Just("/home/user".to_owned()),
        Just("/tmp".to_owned()),
        Just("\0".to_owned()),
        Just("\\".to_owned()),
        Just("%2e".to_owned()),
        "[a-z.]{1,3}",
        any::<String>(),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// A name of any bytes, often with bytes of the characters that stand for others.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte =
        prop_oneof![Just(0xee), Just(0xbe), Just(0xbf), 0x80..=0xffu8, Just(b'a'), 1..=255u8];
    let plain = |name: &Vec<u8>| !name.contains(&b'/') && !matches!(&**name, b"." | b"..");
    proptest::collection::vec(byte, 1..40).prop_filter("a name", plain)
}

proptest! {
    #[test]
    fn what_is_accepted_stays_inside(text in pieces()) {
        if let Ok(path) = GuestPath::parse(&text) {
            let mut parts = path.inner().split(|byte| *byte == b'/');
            let place = parts.next().unwrap();
            let (_, shown) = PLACES.iter().find(|(name, _)| name.as_bytes() == place).unwrap();
            let rest: Vec<&[u8]> = parts.collect();
            for part in &rest {
                prop_assert!(!matches!(*part, b"" | b"." | b".."), "{text:?} gave {path:?}");
                prop_assert!(!part.contains(&0) && part.len() <= 255);
            }
            let add = |path: String, part: &&[u8]| path + "/" + &to_text(part);
            let expected = rest.iter().fold((*shown).to_owned(), add);
            prop_assert_eq!(path.shown(), expected);
            prop_assert_eq!(&GuestPath::parse(path.shown()).unwrap(), &path);
        }
    }

    #[test]
    fn every_name_has_a_text_that_leads_back(name in name()) {
        let text = to_text(&name);
        prop_assert_eq!(&*to_bytes(&text), &*name);
        let path = GuestPath::parse(&text).unwrap();
        prop_assert_eq!(path.inner(), [b"workspace/", &*name].concat());
        prop_assert_eq!(path.shown(), format!("/workspace/{text}"));
    }

    #[test]
    fn plain_names_are_accepted(parts in proptest::collection::vec("[a-z]{1,8}", 1..6)) {
        let path = GuestPath::parse(&parts.join("/")).unwrap();
        prop_assert_eq!(path.shown(), format!("/workspace/{}", parts.join("/")));
        prop_assert_eq!(path.name(), parts.last().unwrap());
    }
}
