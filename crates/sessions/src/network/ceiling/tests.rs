//! Ceilings of keys: what is stored comes back, and what is malformed is refused.

use super::KeyCeiling;

#[test]
fn ceiling_survives_the_store() {
    for (mode, allow) in [
        ("none", &[][..]),
        ("open", &[]),
        ("list", &["api.example.com", "*.example.com:443/tls", "db.example.com:5432/tcp"]),
    ] {
        let allow: Vec<String> = allow.iter().map(ToString::to_string).collect();
        let ceiling = KeyCeiling::parse(mode, &allow).unwrap();
        assert_eq!(KeyCeiling::from_limits(&ceiling.to_limits()).unwrap(), Some(ceiling));
    }
    assert_eq!(KeyCeiling::from_limits("{}").unwrap(), None);
}

#[test]
fn malformed_ceilings_are_refused() {
    for (mode, allow) in [
        ("some", &[][..]),
        ("list", &[]),
        ("none", &["a.example"]),
        ("open", &["a.example"]),
        ("list", &["*"]),
    ] {
        let allow: Vec<String> = allow.iter().map(ToString::to_string).collect();
        assert!(KeyCeiling::parse(mode, &allow).is_err(), "{mode} {allow:?}");
    }
    for limits in ["", "[]", "{\"networks\": {}}", "{\"network\": {\"mode\": \"list\"}}"] {
        assert!(KeyCeiling::from_limits(limits).is_err(), "{limits}");
    }
}
