//! Short texts mean what they look like.

use crate::network::{DenyRule, NetworkRule};

#[test]
fn rules_are_read_from_short_texts() {
    for (text, meant) in [
        ("api.example.com", "api.example.com:443/tls"),
        ("*.example.com", "*.example.com:443/tls"),
        ("api.example.com:80", "api.example.com:80/http"),
        ("api.example.com:443,8443/tls", "api.example.com:443,8443/tls"),
        ("db.example.com:5432/tcp", "db.example.com:5432/tcp"),
        ("api.example.com/http", "api.example.com:80/http"),
        ("93.184.215.0/24", "93.184.215.0/24:443/tls"),
        ("93.184.215.0/24:5432/tcp", "93.184.215.0/24:5432/tcp"),
        ("[2606:2800::/32]:443/tls", "[2606:2800::/32]:443/tls"),
    ] {
        let rule: NetworkRule = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(rule.to_string(), meant, "{text}");
    }
}

#[test]
fn malformed_texts_are_refused_with_what_is_wrong() {
    for text in ["", "db.example.com:5432", "a b", "example.com:x", "example.com:443/udp", "*"] {
        assert!(text.parse::<NetworkRule>().is_err(), "{text}");
    }
    let error = "example.com:44x".parse::<NetworkRule>().unwrap_err().to_string();
    assert!(error.contains("44x"), "{error}");
}

#[test]
fn texts_forbid_hosts_and_ranges() {
    for text in ["*.bad.example", "bad.example", "10.0.0.0/8", "[fc00::/7]"] {
        assert!(text.parse::<DenyRule>().is_ok(), "{text}");
    }
}
