//! What every test needs: a guest, a far side, and what was recorded.

pub(crate) mod far;
pub(crate) mod guest;
pub(crate) mod recorder;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use silica_domain::{
    DenyRule, EffectivePolicy, NetworkApproval, NetworkLimits, NetworkMode, NetworkPolicy,
    NetworkRule, PolicyLayer, PolicyOrigin, RuleDraft,
};
use silica_egress::{
    AttachSpec, Attachment, BoundSecret, CertificateAuthority, Egress, EgressOptions,
    EgressProgram, EgressSettings,
};

use far::FarAuthority;
use guest::Guest;
use recorder::Recorder;

/// How a test's network is to be.
pub(crate) struct Plan {
    pub(crate) mode: NetworkMode,
    pub(crate) allow: Vec<RuleDraft>,
    pub(crate) deny: Vec<RuleDraft>,
    pub(crate) ask: bool,
    pub(crate) secrets: Vec<BoundSecret>,
    pub(crate) limits: NetworkLimits,
    pub(crate) hosts: Vec<(&'static str, IpAddr)>,
    pub(crate) settings: EgressSettings,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            mode: NetworkMode::List,
            allow: Vec::new(),
            deny: Vec::new(),
            ask: false,
            secrets: Vec::new(),
            limits: NetworkLimits::default(),
            hosts: Vec::new(),
            settings: EgressSettings {
                private_allowed: vec!["127.0.0.0/8".parse().unwrap()],
                ask_timeout: Duration::from_secs(2),
                ..EgressSettings::default()
            },
        }
    }
}

/// A sandbox with a network.
pub(crate) struct Rig {
    pub(crate) egress: Egress,
    pub(crate) attachment: Attachment,
    pub(crate) guest: Arc<Guest>,
    pub(crate) recorder: Arc<Recorder>,
    /// What the guest trusts.
    pub(crate) authority_pem: String,
}

/// A rule for a host, with the protocol of its port.
pub(crate) fn rule(host: &str, port: u16, protocol: &str) -> RuleDraft {
    RuleDraft {
        host: Some(host.to_owned()),
        ports: vec![port],
        protocol: Some(protocol.to_owned()),
        ..RuleDraft::default()
    }
}

/// The policy of a sandbox.
pub(crate) fn policy(
    mode: NetworkMode,
    allow: &[RuleDraft],
    deny: &[RuleDraft],
    ask: bool,
) -> EffectivePolicy {
    let allow = allow.iter().map(|draft| NetworkRule::parse(draft).unwrap()).collect();
    let deny = deny.iter().map(|draft| DenyRule::parse(draft).unwrap()).collect();
    let policy = NetworkPolicy::new(mode, allow, deny, ask).unwrap();
    let layers = vec![PolicyLayer { origin: PolicyOrigin::Sandbox, policy }];
    EffectivePolicy::new(layers, Vec::<NetworkApproval>::new())
}

/// A policy with rules alone.
pub(crate) fn list(allow: &[RuleDraft]) -> EffectivePolicy {
    policy(NetworkMode::List, allow, &[], false)
}

impl Rig {
    pub(crate) async fn start(plan: Plan) -> Self {
        let far = FarAuthority::shared();
        let recorder = Arc::new(Recorder::default());
        let authority = CertificateAuthority::generate().unwrap();
        let authority_pem = authority.certificate_pem().to_owned();
        let mut settings = plan.settings;
        settings.extra_roots_pem.push_str(&far.pem);
        settings
            .hosts
            .extend(plan.hosts.iter().map(|(name, address)| (name.parse().unwrap(), *address)));
        let program = EgressProgram {
            path: env!("CARGO_BIN_EXE_silica-egress-process").into(),
            arguments: Vec::new(),
        };
        let events = Arc::clone(&recorder);
        let egress = Egress::new(EgressOptions { program, authority, settings }, events);
        let guest = Arc::new(Guest::new());
        let spec = AttachSpec {
            sandbox: "sandbox-1".to_owned(),
            key: "key-1".to_owned(),
            policy: policy(plan.mode, &plan.allow, &plan.deny, plan.ask),
            secrets: plan.secrets,
            limits: plan.limits,
        };
        let sockets = Arc::clone(&guest);
        let attachment = egress.attach(spec, sockets).await.unwrap();
        Self { egress, attachment, guest, recorder, authority_pem }
    }
}
