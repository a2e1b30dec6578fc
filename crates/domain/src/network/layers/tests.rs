//! What layers decide together.

use super::{
    EffectivePolicy, NameVerdict, NetworkApproval, NetworkVerdict, PolicyDenial, PolicyLayer,
    PolicyOrigin,
};
use crate::network::{
    DenyRule, NetworkHost, NetworkMode, NetworkPolicy, NetworkRule, RuleDraft, RuleProtocol,
};

fn rule(host: &str) -> RuleDraft {
    RuleDraft { host: Some(host.to_owned()), ..RuleDraft::default() }
}

fn port(draft: RuleDraft, port: u16, protocol: &str) -> RuleDraft {
    RuleDraft { ports: vec![port], protocol: Some(protocol.to_owned()), ..draft }
}

struct Said {
    mode: NetworkMode,
    allow: Vec<RuleDraft>,
    deny: Vec<RuleDraft>,
    ask: bool,
}

fn said(mode: NetworkMode, allow: &[RuleDraft]) -> Said {
    Said { mode, allow: allow.to_vec(), deny: Vec::new(), ask: false }
}

fn layer(origin: PolicyOrigin, said: &Said) -> PolicyLayer {
    let allow = said.allow.iter().map(|draft| NetworkRule::parse(draft).unwrap()).collect();
    let deny = said.deny.iter().map(|draft| DenyRule::parse(draft).unwrap()).collect();
    let policy = NetworkPolicy::new(said.mode, allow, deny, said.ask).unwrap();
    PolicyLayer { origin, policy }
}

fn policy(layers: &[(PolicyOrigin, Said)]) -> EffectivePolicy {
    let layers = layers.iter().map(|(origin, said)| layer(*origin, said)).collect();
    EffectivePolicy::new(layers, Vec::new())
}

fn connection(policy: &EffectivePolicy, host: &str, port: u16) -> String {
    match policy.decide_connection(&host.parse::<NetworkHost>().unwrap(), port) {
        NetworkVerdict::Allowed(grant) => format!("{}: {}", grant.origin.name(), grant.rule),
        NetworkVerdict::Ask => "ask".to_owned(),
        NetworkVerdict::Denied(denial) => denial.code().to_owned(),
    }
}

fn request(policy: &EffectivePolicy, host: &str, method: &str, path: &str) -> String {
    let host = host.parse::<NetworkHost>().unwrap();
    match policy.decide_request(&host, 443, method, path) {
        NetworkVerdict::Allowed(grant) => grant.rule,
        NetworkVerdict::Ask => "ask".to_owned(),
        NetworkVerdict::Denied(denial) => denial.code().to_owned(),
    }
}

#[test]
fn list_without_rules_allows_nothing() {
    for policy in [
        policy(&[]),
        policy(&[(PolicyOrigin::Sandbox, said(NetworkMode::None, &[rule("a.example")]))]),
        policy(&[(PolicyOrigin::Sandbox, said(NetworkMode::List, &[]))]),
        policy(&[(PolicyOrigin::Ceiling, said(NetworkMode::Open, &[]))]),
    ] {
        assert!(matches!(
            policy.decide_connection(&"a.example".parse().unwrap(), 443),
            NetworkVerdict::Denied(_)
        ));
        assert!(matches!(
            policy.decide_name(&"a.example".parse().unwrap()),
            NameVerdict::Denied(_)
        ));
    }
}

#[test]
fn rules_decide_by_name_and_port() {
    let list = policy(&[(
        PolicyOrigin::Sandbox,
        said(NetworkMode::List, &[rule("a.example"), port(rule("db.example"), 5432, "tcp")]),
    )]);
    assert_eq!(connection(&list, "a.example", 443), "sandbox: a.example:443/tls");
    assert_eq!(connection(&list, "a.example", 80), "port_not_allowed");
    assert_eq!(connection(&list, "b.example", 443), "host_not_allowed");
    assert_eq!(connection(&list, "93.184.215.14", 443), "host_not_allowed");
    assert_eq!(list.decide_name(&"db.example".parse().unwrap()), NameVerdict::Allowed(vec![5432]));
}

#[test]
fn open_mode_allows_public_names_on_two_ports() {
    let open = policy(&[(PolicyOrigin::Sandbox, said(NetworkMode::Open, &[]))]);
    assert_eq!(connection(&open, "any.example", 443), "sandbox: mode open");
    assert_eq!(connection(&open, "any.example", 80), "sandbox: mode open");
    assert_eq!(connection(&open, "any.example", 22), "port_not_allowed");
    assert_eq!(connection(&open, "localhost", 80), "port_not_allowed");
    assert_eq!(connection(&open, "93.184.215.14", 443), "port_not_allowed");
}

#[test]
fn refusal_of_any_layer_wins() {
    for origin in
        [PolicyOrigin::Floor, PolicyOrigin::Ceiling, PolicyOrigin::Template, PolicyOrigin::Sandbox]
    {
        let deny = Said { deny: vec![rule("*.bad.example")], ..said(NetworkMode::Open, &[]) };
        let mut layers = vec![(origin, deny)];
        if origin != PolicyOrigin::Sandbox {
            layers.push((
                PolicyOrigin::Sandbox,
                said(NetworkMode::List, &[rule("x.bad.example"), rule("a.example")]),
            ));
        }
        let mut policy = policy(&layers);
        policy.approve(NetworkApproval { name: "x.bad.example".parse().unwrap(), port: 443 });
        assert_eq!(connection(&policy, "x.bad.example", 443), "host_denied", "{origin:?}");
        assert_ne!(connection(&policy, "a.example", 443), "host_denied");
    }
}

#[test]
fn layers_only_narrow() {
    let ceiling = said(
        NetworkMode::List,
        &[
            RuleDraft { methods: vec!["GET".into()], ..rule("*.example.com") },
            port(rule("db.example"), 5432, "tcp"),
        ],
    );
    let sandbox = said(
        NetworkMode::List,
        &[
            RuleDraft { paths: vec!["/v1/*".into()], ..rule("api.example.com") },
            rule("other.test"),
            port(rule("api.example.com"), 22, "tcp"),
            port(rule("db.example"), 5432, "tls"),
        ],
    );
    let both = policy(&[(PolicyOrigin::Sandbox, sandbox), (PolicyOrigin::Ceiling, ceiling)]);
    assert_eq!(connection(&both, "other.test", 443), "host_not_allowed");
    assert_eq!(connection(&both, "api.example.com", 22), "port_not_allowed");
    assert_eq!(connection(&both, "www.example.com", 443), "host_not_allowed");
    assert_eq!(connection(&both, "db.example", 5432), "sandbox: db.example:5432/tls");
    assert_eq!(request(&both, "api.example.com", "GET", "/v1/a"), "api.example.com:443/tls /v1/*");
    assert_eq!(request(&both, "api.example.com", "POST", "/v1/a"), "method_not_allowed");
    assert_eq!(request(&both, "api.example.com", "GET", "/v2/a"), "path_not_allowed");
    assert_eq!(request(&both, "api.example.com", "GET", "/v1/%2e%2e/a"), "bad_path");
}

#[test]
fn outer_rules_can_make_interception_needed() {
    let ceiling =
        said(NetworkMode::List, &[RuleDraft { methods: vec!["GET".into()], ..rule("a.example") }]);
    let sandbox = said(NetworkMode::List, &[rule("a.example")]);
    let both = policy(&[(PolicyOrigin::Ceiling, ceiling), (PolicyOrigin::Sandbox, sandbox)]);
    let verdict = both.decide_connection(&"a.example".parse().unwrap(), 443);
    assert!(matches!(verdict, NetworkVerdict::Allowed(grant) if grant.intercept));
}

#[test]
fn rules_of_one_layer_add_up() {
    let list = policy(&[(
        PolicyOrigin::Sandbox,
        said(
            NetworkMode::List,
            &[
                RuleDraft { methods: vec!["GET".into()], ..rule("a.example") },
                RuleDraft {
                    methods: vec!["POST".into()],
                    paths: vec!["/upload".into()],
                    secrets: vec!["token".into()],
                    ..rule("a.example")
                },
            ],
        ),
    )]);
    assert_eq!(request(&list, "a.example", "GET", "/any"), "a.example:443/tls GET");
    assert_eq!(request(&list, "a.example", "POST", "/upload"), "a.example:443/tls POST /upload");
    assert_eq!(request(&list, "a.example", "POST", "/any"), "path_not_allowed");
    assert_eq!(request(&list, "a.example", "PUT", "/upload"), "method_not_allowed");
    let verdict = list.decide_request(&"a.example".parse().unwrap(), 443, "GET", "/any");
    assert!(matches!(verdict, NetworkVerdict::Allowed(grant) if grant.secrets.is_empty()));
}

#[test]
fn person_is_asked_about_unknown_names_within_the_operators_rules() {
    let asking = || Said { ask: true, ..said(NetworkMode::List, &[rule("a.example")]) };
    let alone = policy(&[(PolicyOrigin::Sandbox, asking())]);
    assert_eq!(connection(&alone, "new.example", 443), "ask");
    assert_eq!(connection(&alone, "a.example", 80), "ask");
    assert_eq!(connection(&alone, "93.184.215.14", 443), "host_not_allowed");
    assert_eq!(alone.decide_name(&"new.example".parse().unwrap()), NameVerdict::Ask);
    let ceiling = said(NetworkMode::List, &[rule("*.corp.example")]);
    let within = policy(&[(PolicyOrigin::Ceiling, ceiling), (PolicyOrigin::Sandbox, asking())]);
    assert_eq!(connection(&within, "new.example", 443), "host_not_allowed");
    assert_eq!(connection(&within, "new.corp.example", 443), "ask");
}

#[test]
fn approval_opens_one_host_and_port() {
    let mut policy = policy(&[
        (PolicyOrigin::Ceiling, said(NetworkMode::List, &[rule("*.corp.example")])),
        (PolicyOrigin::Sandbox, said(NetworkMode::List, &[])),
    ]);
    for name in ["new.corp.example", "evil.test"] {
        policy.approve(NetworkApproval { name: name.parse().unwrap(), port: 443 });
    }
    assert_eq!(
        connection(&policy, "new.corp.example", 443),
        "approval: approval of new.corp.example:443"
    );
    assert_eq!(connection(&policy, "new.corp.example", 80), "port_not_allowed");
    assert_eq!(connection(&policy, "evil.test", 443), "host_not_allowed");
    assert_eq!(
        policy.decide_name(&"new.corp.example".parse().unwrap()),
        NameVerdict::Allowed(vec![443])
    );
}

#[test]
fn addresses_are_denied_by_ranges() {
    let floor = Said {
        deny: vec![RuleDraft { cidr: Some("93.184.0.0/16".into()), ..RuleDraft::default() }],
        ..said(NetworkMode::Open, &[])
    };
    let sandbox = said(
        NetworkMode::List,
        &[RuleDraft { cidr: Some("93.0.0.0/8".into()), ..RuleDraft::default() }],
    );
    let policy = policy(&[(PolicyOrigin::Floor, floor), (PolicyOrigin::Sandbox, sandbox)]);
    assert_eq!(connection(&policy, "93.184.215.14", 443), "host_denied");
    assert_eq!(connection(&policy, "93.185.0.1", 443), "sandbox: 93.0.0.0/8:443/tls");
    assert!(matches!(
        policy.denies_address("93.184.215.14".parse().unwrap(), 443),
        Some(PolicyDenial::Forbidden { origin: PolicyOrigin::Floor, .. })
    ));
    assert_eq!(policy.ranges().len(), 1);
    assert_eq!(RuleProtocol::Tls.name(), "tls");
}
