//! Shapes keep what they carry.

use silica_domain::{
    DenyRule, EffectivePolicy, NetworkApproval, NetworkLimits, NetworkMode, NetworkPolicy,
    NetworkRule, PolicyLayer, PolicyOrigin, RuleDraft,
};

use super::{LimitsShape, Order, PolicyShape, SecretShape, SettingsShape};
use crate::secret::{BoundSecret, HeaderInjection, SecretPlace, SecretValue};
use crate::settings::{EgressSettings, UpstreamProxy};

#[test]
fn policies_survive_the_socket() {
    let draft = RuleDraft {
        host: Some("*.example.com".into()),
        methods: vec!["GET".into()],
        secrets: vec!["token".into()],
        ..RuleDraft::default()
    };
    let deny = RuleDraft { cidr: Some("93.0.0.0/8".into()), ..RuleDraft::default() };
    let policy = NetworkPolicy::new(
        NetworkMode::List,
        vec![NetworkRule::parse(&draft).unwrap()],
        vec![DenyRule::parse(&deny).unwrap()],
        true,
    )
    .unwrap();
    let layers =
        [PolicyOrigin::Floor, PolicyOrigin::Ceiling, PolicyOrigin::Template, PolicyOrigin::Sandbox];
    let layers = layers.map(|origin| PolicyLayer { origin, policy: policy.clone() }).to_vec();
    let approval = NetworkApproval { name: "a.example".parse().unwrap(), port: 22 };
    let policy = EffectivePolicy::new(layers, vec![approval]);
    let text = serde_json::to_string(&PolicyShape::from(&policy)).unwrap();
    let shape: PolicyShape = serde_json::from_str(&text).unwrap();
    assert_eq!(EffectivePolicy::try_from(shape), Ok(policy));
}

#[test]
fn policy_of_an_unknown_layer_is_refused() {
    let text = r#"{"layers": [{"origin": "x", "mode": "open", "allow": [], "deny": [], "ask": false}], "approvals": []}"#;
    let shape: PolicyShape = serde_json::from_str(text).unwrap();
    assert!(EffectivePolicy::try_from(shape).is_err());
}

#[test]
fn settings_and_limits_survive_the_socket() {
    let settings = EgressSettings {
        private_allowed: vec!["10.0.0.0/8".parse().unwrap()],
        listeners: vec!["127.0.0.1:8000".parse().unwrap()],
        hosts: vec![("a.example".parse().unwrap(), "10.0.0.1".parse().unwrap())],
        upstream_proxy: Some(UpstreamProxy {
            host: "proxy.example".into(),
            port: 3128,
            authorization: Some("Basic eDp5".into()),
        }),
        ..EgressSettings::default()
    };
    let text = serde_json::to_string(&SettingsShape::from(&settings)).unwrap();
    let shape: SettingsShape = serde_json::from_str(&text).unwrap();
    assert_eq!(EgressSettings::try_from(shape).unwrap(), settings);
    assert!(!format!("{settings:?}").contains("eDp5"));
    let limits = NetworkLimits { names: 7, ..NetworkLimits::default() };
    assert_eq!(NetworkLimits::from(LimitsShape::from(&limits)), limits);
}

#[test]
fn secrets_survive_the_socket_and_do_not_print() {
    let secret = BoundSecret {
        name: "token".into(),
        placeholder: "placeholder".into(),
        value: SecretValue::new("the-real-value".into()).unwrap(),
        hosts: vec!["a.example:8443".parse().unwrap()],
        places: vec![SecretPlace::Header, SecretPlace::Body],
        inject: Some(HeaderInjection::new("x-key", "Key {}").unwrap()),
        counts_tokens: true,
    };
    let shape = SecretShape::from(&secret);
    let order = Order::Secrets { request: 1, sandbox: 1, secrets: vec![shape] };
    assert!(!format!("{order:?}").contains("the-real-value"));
    let text = serde_json::to_string(&order).unwrap();
    let Order::Secrets { mut secrets, .. } = serde_json::from_str(&text).unwrap() else {
        panic!("secrets");
    };
    assert_eq!(BoundSecret::try_from(secrets.remove(0)), Ok(secret));
}
