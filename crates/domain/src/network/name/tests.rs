//! Names and patterns.

use super::{DnsName, HostPattern, NetworkHost};

#[test]
fn names_have_one_form() {
    for (text, expected) in [
        ("api.example.com", Some("api.example.com")),
        ("API.Example.COM", Some("api.example.com")),
        ("registry", Some("registry")),
        ("_dmarc.example.com", Some("_dmarc.example.com")),
        ("xn--bcher-kva.example", Some("xn--bcher-kva.example")),
        ("3com.example", Some("3com.example")),
        ("", None),
        (".", None),
        ("example.com.", None),
        (".example.com", None),
        ("a..b", None),
        ("a b.example", None),
        ("a\0.example", None),
        ("bücher.example", None),
        ("-a.example", None),
        ("a-.example", None),
        ("a@b.example", None),
        ("a%2eb.example", None),
        ("127.0.0.1", None),
        ("127.1", None),
        ("2130706433", None),
        ("0x7f.1", None),
        ("example.0x1", None),
        ("::1", None),
    ] {
        let parsed = text.parse::<DnsName>().ok();
        assert_eq!(parsed.as_ref().map(DnsName::as_str), expected, "{text:?}");
    }
    let label = "a".repeat(63);
    assert!(format!("{label}.com").parse::<DnsName>().is_ok());
    assert!(format!("{label}a.com").parse::<DnsName>().is_err());
    let long = [label.as_str(); 4].join(".");
    assert!(long[..253].parse::<DnsName>().is_ok());
    assert!(long[..254].parse::<DnsName>().is_err());
}

#[test]
fn errors_say_what_is_wrong_and_what_is_allowed() {
    let error = "evil\n.test".parse::<DnsName>().unwrap_err().to_string();
    assert!(error.contains("a label has a character that is not allowed"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn patterns_match_below_a_name() {
    let matches = |pattern: &str, name: &str| {
        pattern.parse::<HostPattern>().unwrap().matches(&name.parse().unwrap())
    };
    assert!(matches("a.example.com", "a.example.com"));
    assert!(!matches("a.example.com", "b.a.example.com"));
    assert!(matches("*.example.com", "a.example.com"));
    assert!(matches("*.example.com", "a.b.example.com"));
    assert!(!matches("*.example.com", "example.com"));
    assert!(!matches("*.example.com", "evilexample.com"));
    assert!(!matches("*.example.com", "example.com.evil.test"));
}

#[test]
fn patterns_that_mean_no_one_owner_are_refused() {
    for text in [
        "*",
        "*.com",
        "*.co.uk",
        "*.github.io",
        "a.*.com",
        "a*.example.com",
        "**.example.com",
        "*.*.com",
        "*.10.0",
        "*.",
    ] {
        assert!(text.parse::<HostPattern>().is_err(), "{text}");
    }
    assert_eq!("*.Example.com".parse::<HostPattern>().unwrap().to_string(), "*.example.com");
}

#[test]
fn hosts_are_names_or_addresses() {
    assert_eq!("1.2.3.4".parse(), Ok(NetworkHost::Address([1, 2, 3, 4].into())));
    assert!(matches!("a.example".parse(), Ok(NetworkHost::Name(_))));
    assert!("1.2.3".parse::<NetworkHost>().is_err());
}
