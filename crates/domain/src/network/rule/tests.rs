//! Rules as they are written.

use super::{DenyRule, NetworkRule, RuleDraft, RuleProtocol};

fn host(host: &str) -> RuleDraft {
    RuleDraft { host: Some(host.to_owned()), ..RuleDraft::default() }
}

#[test]
fn defaults_follow_from_port_and_protocol() {
    let rule = NetworkRule::parse(&host("api.example.com")).unwrap();
    assert_eq!((rule.ports(), rule.protocol()), (&[443][..], RuleProtocol::Tls));
    let rule = NetworkRule::parse(&RuleDraft { ports: vec![80], ..host("a.example") }).unwrap();
    assert_eq!(rule.protocol(), RuleProtocol::Http);
    let draft = RuleDraft { protocol: Some("http".into()), ..host("a.example") };
    assert_eq!(NetworkRule::parse(&draft).unwrap().ports(), [80]);
    let draft =
        RuleDraft { ports: vec![8443, 443], protocol: Some("tls".into()), ..host("a.example") };
    assert_eq!(NetworkRule::parse(&draft).unwrap().to_string(), "a.example:443,8443/tls");
}

#[test]
fn rule_survives_its_draft() {
    let draft = RuleDraft {
        ports: vec![443],
        protocol: Some("tls".into()),
        methods: vec!["get".into()],
        paths: vec!["/v1/*".into()],
        secrets: vec!["token".into()],
        websocket: true,
        ..host("*.example.com")
    };
    let rule = NetworkRule::parse(&draft).unwrap();
    assert_eq!(NetworkRule::parse(&rule.draft()).unwrap(), rule);
    assert_eq!(rule.to_string(), "*.example.com:443/tls GET /v1/*");
}

#[test]
fn mistakes_are_refused_with_a_reason() {
    let tcp =
        |draft: RuleDraft| RuleDraft { ports: vec![22], protocol: Some("tcp".into()), ..draft };
    let base = || host("a.example");
    for (draft, reason) in [
        (RuleDraft::default(), "either `host` or `cidr`"),
        (RuleDraft { cidr: Some("1.0.0.0/8".into()), ..base() }, "either `host` or `cidr`"),
        (host("10.0.0.1"), "as in an address"),
        (RuleDraft { ports: vec![5432], ..base() }, "port 5432 must name its `protocol`"),
        (RuleDraft { ports: vec![80, 443], ..base() }, "must name its `protocol`"),
        (RuleDraft { ports: vec![0], ..base() }, "1 to 16 different numbers"),
        (RuleDraft { ports: vec![443, 443], ..base() }, "1 to 16 different numbers"),
        (RuleDraft { protocol: Some("tcp".into()), ..base() }, "1 to 16 different numbers"),
        (RuleDraft { protocol: Some("udp".into()), ..base() }, "use tls, http or tcp"),
        (RuleDraft { methods: vec!["TRACE".into()], ..base() }, "cannot be a rule's method"),
        (RuleDraft { methods: vec!["G T".into()], ..base() }, "cannot be a rule's method"),
        (RuleDraft { paths: vec!["v1".into()], ..base() }, "does not begin with `/`"),
        (RuleDraft { secrets: vec!["a b".into()], ..base() }, "not the name of a secret"),
        (tcp(RuleDraft { methods: vec!["GET".into()], ..base() }), "its protocol is tcp"),
        (RuleDraft { ports: vec![80], secrets: vec!["a".into()], ..base() }, "over tls alone"),
        (
            RuleDraft { cidr: Some("1.0.0.0/8".into()), websocket: true, ..RuleDraft::default() },
            "it needs `host`",
        ),
        (RuleDraft { paths: vec!["/".into(); 33], ..base() }, "at most 32 are allowed"),
    ] {
        let error = NetworkRule::parse(&draft).unwrap_err().to_string();
        assert!(error.contains(reason), "{draft:?}: {error}");
    }
}

#[test]
fn deny_rules_have_a_target_and_ports_alone() {
    let rule = DenyRule::parse(&host("*.bad.example")).unwrap();
    assert_eq!(rule.to_string(), "*.bad.example");
    assert_eq!(DenyRule::parse(&rule.draft()).unwrap(), rule);
    let draft = RuleDraft { protocol: Some("tls".into()), ..host("a.example") };
    assert!(DenyRule::parse(&draft).is_err());
}
