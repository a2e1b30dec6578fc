//! Links open only as they were sealed, and only until they expire.

use silica_store::Timestamp;

use super::{Link, LinkKey, PortLink, Purpose};

fn link() -> Link {
    Link {
        sandbox: "sbx_1".to_owned(),
        tenant: "key_1".to_owned(),
        path: "/workspace/a b.csv".to_owned(),
        writes: false,
        expires: 1000,
    }
}

#[test]
fn opens_until_it_expires() {
    let key = LinkKey::random().unwrap();
    let token = key.seal(&link());
    assert_eq!(key.open(&token, Timestamp::from_micros(999)), Some(link()));
    assert_eq!(key.open(&token, Timestamp::from_micros(1000)), None);
}

#[test]
fn nothing_else_opens() {
    let (key, other) = (LinkKey::random().unwrap(), LinkKey::random().unwrap());
    let now = Timestamp::from_micros(0);
    let token = key.seal(&link());
    assert_eq!(other.open(&token, now), None);
    for position in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[position] = if bytes[position] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        // The last character of base 64 has bits that mean nothing; the decoder refuses those set.
        assert!(changed == token || key.open(&changed, now).is_none(), "{changed}");
    }
    let body = token.split_once('.').unwrap().0;
    for wrong in ["", ".", "a.b", body, &format!("{body}."), &"x".repeat(10_000)] {
        assert_eq!(key.open(wrong, now), None, "{wrong}");
    }
}

#[test]
fn tokens_are_for_one_sandbox_and_one_purpose() {
    let (key, other) = (LinkKey::random().unwrap(), LinkKey::random().unwrap());
    let token = key.token(Purpose::Envd, "sbx1");
    assert!(key.is_token(Purpose::Envd, "sbx1", &token));
    assert!(!key.is_token(Purpose::Envd, "sbx2", &token));
    assert!(!key.is_token(Purpose::Interpreter, "sbx1", &token));
    assert!(!other.is_token(Purpose::Envd, "sbx1", &token));
    assert!(!key.is_token(Purpose::Envd, "sbx1", ""));
    assert!(!key.is_token(Purpose::Envd, "sbx1", &token[1..]));
}

#[test]
fn a_link_to_a_port_is_none_to_a_file() {
    let key = LinkKey::random().unwrap();
    let now = Timestamp::from_micros(0);
    let port = PortLink {
        sandbox: "sbx1".to_owned(),
        tenant: "key_1".to_owned(),
        port: 8000,
        path: "/".to_owned(),
        expires: 1000,
    };
    let token = key.seal_port(&port);
    assert_eq!(key.open_port(&token, now), Some(port));
    assert_eq!(key.open_port(&token, Timestamp::from_micros(1000)), None);
    assert_eq!(key.open(&token, now), None);
    assert_eq!(key.open_port(&key.seal(&link()), now), None);
    assert_eq!(LinkKey::random().unwrap().open_port(&token, now), None);
}
