//! Secrets as they are bound.

use super::{HeaderInjection, SecretHost, SecretPlace, SecretValue};

#[test]
fn values_are_checked_and_do_not_print() {
    assert!(SecretValue::new("1234567".to_owned()).is_err());
    assert!(SecretValue::new("12345678\n".to_owned()).is_err());
    assert!(SecretValue::new("é2345678".to_owned()).is_err());
    assert!(SecretValue::new("a".repeat(4 * 1024 + 1)).is_err());
    let value = SecretValue::new("12345678".to_owned()).unwrap();
    assert_eq!(format!("{value:?}"), "****");
}

#[test]
fn hosts_have_one_port() {
    let host: SecretHost = "*.example.com".parse().unwrap();
    let name = "a.example.com".parse().unwrap();
    assert!(host.matches(&name, 443) && !host.matches(&name, 8443));
    let host: SecretHost = "a.example.com:8443".parse().unwrap();
    assert!(!host.matches(&name, 443) && host.matches(&name, 8443));
    for text in ["", "*", "a.example:", "a.example:0", "1.2.3.4"] {
        assert!(text.parse::<SecretHost>().is_err(), "{text}");
    }
    assert!("cookie".parse::<SecretPlace>().is_err());
}

#[test]
fn injected_headers_frame_nothing() {
    assert!(HeaderInjection::new("Authorization", "Bearer {}").is_ok());
    for (header, value) in [
        ("Host", "{}"),
        ("content-length", "{}"),
        ("Transfer-Encoding", "{}"),
        ("a b", "{}"),
        ("x", "none"),
        ("x", "{} {}"),
        ("x", "{}\r\ny: z"),
    ] {
        assert!(HeaderInjection::new(header, value).is_err(), "{header}: {value}");
    }
}
