//! The network of a sandbox of `silica run` and `silica repl`: its flags, its attachment in an engine
//! of this process, and what was refused.

use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::{Value, json};
use silica_domain::{
    Cidr, DnsName, EffectivePolicy, Enforcement, NetworkLimits, NetworkMode, NetworkPolicy,
    NetworkRule, PolicyLayer, PolicyOrigin,
};
use silica_egress::{
    AskRefused, AttachSpec, Attachment, BoundSecret, CertificateAuthority, ConnectionRecord,
    DenialRecord, Egress, EgressEvents, EgressOptions, EgressSettings, ModelTokens,
    NetworkQuestion, PendingAnswer, ProcessChange,
};
use silica_engine::Sandbox;
use silica_sessions::{LoneSockets, bind_secret};
use silica_store::secrets::{SecretTerms, SecretText};

use crate::{network, show};

/// The word of `--net` for every public host.
const OPEN: &str = "open";

/// The most refused hosts that are told.
const REFUSALS_MAX: usize = 8;

/// The longest host or message that is told.
const CHARS_MAX: usize = 300;

/// Flags of a sandbox's network.
#[derive(Debug, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetworkArgs {
    /// Let the code reach a host: HOST, HOST:PORT or HOST:PORT/PROTOCOL (tls, http, tcp), or `open` for
    /// every public host on ports 80 and 443; can be given again
    #[arg(long, value_name = "RULE")]
    net: Vec<String>,
    /// Let the code reach a range of addresses that are not public, if a rule names the host; can be
    /// given again
    #[arg(long, value_name = "CIDR")]
    net_private: Vec<Cidr>,
    /// Use an address for a name instead of looking it up; can be given again
    #[arg(long, value_name = "NAME=ADDRESS", value_parser = host_address)]
    net_host: Vec<(DnsName, IpAddr)>,
    /// Trust the authorities of a PEM file beside the public ones
    #[arg(long, value_name = "FILE")]
    net_roots: Option<PathBuf>,
    /// Let the code use a secret at some hosts and never see it: the variable NAME holds a placeholder,
    /// which headers of requests to these hosts may carry. The value is in FILE, or in a variable of
    /// this machine as env:VARIABLE; can be given again
    #[arg(long = "secret", value_name = "NAME=FILE@HOST[,HOST]")]
    secrets: Vec<String>,
}

fn host_address(text: &str) -> Result<(DnsName, IpAddr), String> {
    let (name, address) = text.split_once('=').ok_or("write NAME=ADDRESS")?;
    let name = name.parse().map_err(|error| format!("{name:?}: {error}"))?;
    let address = address.parse().map_err(|_| format!("{address:?} is not an address"))?;
    Ok((name, address))
}

impl NetworkArgs {
    /// Returns what a server is asked for; `None` for no network.
    pub(super) fn to_json(&self) -> Result<Option<Value>> {
        ensure!(
            self.secrets.is_empty(),
            "--secret is for a sandbox on this machine; store the secret on the server with \
             silica secret set, and name it in the sandbox's network"
        );
        ensure!(
            self.net_private.is_empty() && self.net_host.is_empty() && self.net_roots.is_none(),
            "with --url the operator of the server decides on private addresses, names and \
             authorities (network.* in its configuration)"
        );
        if self.net.is_empty() {
            return Ok(None);
        }
        let mode = self.mode();
        Ok(Some(json!({"mode": mode.name(), "allow": self.rule_texts().collect::<Vec<_>>()})))
    }

    fn mode(&self) -> NetworkMode {
        if self.net.iter().any(|rule| rule == OPEN) { NetworkMode::Open } else { NetworkMode::List }
    }

    fn rule_texts(&self) -> impl Iterator<Item = &String> {
        self.net.iter().filter(|rule| *rule != OPEN)
    }

    /// Reads the secrets and checks the rules; `None` for no network.
    pub(super) fn local(&self) -> Result<Option<NetworkPlan>> {
        if self.net.is_empty() && self.secrets.is_empty() {
            ensure!(
                self.net_private.is_empty() && self.net_host.is_empty() && self.net_roots.is_none(),
                "--net-private, --net-host and --net-roots need a host to reach; name it with --net"
            );
            return Ok(None);
        }
        let rule = |text: &String| {
            text.parse::<NetworkRule>().with_context(|| format!("--net {text} is no rule"))
        };
        let mut rules = self.rule_texts().map(rule).collect::<Result<Vec<_>>>()?;
        let mut secrets = Vec::new();
        let mut environment: Vec<(String, String)> = silica_engine::network_environment().collect();
        for text in &self.secrets {
            let (secret, allowed) = secret(text)?;
            environment.push((secret.name.clone(), secret.placeholder.clone()));
            rules.extend(allowed);
            secrets.push(secret);
        }
        let policy = NetworkPolicy::new(self.mode(), rules, Vec::new(), false)?;
        let extra_roots_pem = match &self.net_roots {
            Some(path) => network::read(path, "--net-roots")?,
            None => String::new(),
        };
        let settings = EgressSettings {
            private_allowed: self.net_private.clone(),
            hosts: self.net_host.clone(),
            extra_roots_pem,
            ..EgressSettings::default()
        };
        let authority = CertificateAuthority::generate()?;
        let options = EgressOptions { program: network::program()?, authority, settings };
        Ok(Some(NetworkPlan { policy, secrets, environment, options }))
    }
}

/// Reads `NAME=FILE@HOST[,HOST]`.
fn secret(text: &str) -> Result<(BoundSecret, Vec<NetworkRule>)> {
    let parts = text.split_once('=').and_then(|(name, rest)| {
        let (source, hosts) = rest.rsplit_once('@')?;
        Some((name, source, hosts))
    });
    // The text may hold a value that was put there by mistake, so it is not repeated.
    let (name, source, hosts) =
        parts.context("a secret is given as NAME=FILE@HOST or NAME=env:VARIABLE@HOST")?;
    let value = match source.strip_prefix("env:") {
        Some(variable) => std::env::var(variable)
            .ok()
            .with_context(|| format!("--secret {name}: the variable {variable} is not set"))?,
        None => network::read(source.as_ref(), "--secret")?,
    };
    let terms = SecretTerms {
        hosts: hosts.split(',').map(str::to_owned).collect(),
        places: ["header", "basic"].map(str::to_owned).to_vec(),
        env: Some(name.to_owned()),
        ..SecretTerms::default()
    };
    let value = SecretText::new(value.trim().to_owned());
    bind_secret(name, &value, &terms).with_context(|| format!("--secret {name}"))
}

/// A network that a sandbox of this process is going to have.
#[derive(Debug)]
pub(super) struct NetworkPlan {
    policy: NetworkPolicy,
    secrets: Vec<BoundSecret>,
    environment: Vec<(String, String)>,
    options: EgressOptions,
}

impl NetworkPlan {
    /// Returns the certificates that the sandbox trusts beside the public ones, as PEM.
    pub(super) fn trust(&self) -> Vec<u8> {
        let EgressOptions { authority, settings, .. } = &self.options;
        format!("{}\n{}", authority.certificate_pem(), settings.extra_roots_pem).into_bytes()
    }

    /// Returns the variables of the code.
    pub(super) fn environment(&self) -> impl Iterator<Item = (String, String)> {
        self.environment.iter().cloned()
    }

    /// Gives a sandbox the network.
    pub(super) async fn attach(self, sandbox: &Arc<Sandbox>) -> Result<LocalNetwork> {
        let words = match self.policy.mode() {
            NetworkMode::None => bail!("a network of mode none cannot be attached"),
            NetworkMode::List => "loopback, and hosts that its rules allow, through a proxy",
            NetworkMode::Open => "loopback, and public hosts on ports 80 and 443, through a proxy",
        };
        let layer = PolicyLayer { origin: PolicyOrigin::Sandbox, policy: self.policy };
        let policy = EffectivePolicy::new(vec![layer], Vec::new());
        let refusals = Arc::new(LocalEvents::default());
        let egress = Egress::new(self.options, Arc::clone(&refusals) as Arc<dyn EgressEvents>);
        let sockets = LoneSockets { sandbox: Arc::downgrade(sandbox), policy: policy.clone() };
        let spec = AttachSpec {
            sandbox: "local".to_owned(),
            key: "local".to_owned(),
            policy,
            secrets: self.secrets,
            limits: NetworkLimits::default(),
        };
        let attachment = egress.attach(spec, Arc::new(sockets)).await?;
        sandbox.report_network(Enforcement::Full(words.to_owned()));
        Ok(LocalNetwork { attachment, events: refusals })
    }
}

/// The network of a sandbox of this process.
pub(super) struct LocalNetwork {
    attachment: Attachment,
    events: Arc<LocalEvents>,
}

impl std::fmt::Debug for LocalNetwork {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LocalNetwork").finish_non_exhaustive()
    }
}

impl LocalNetwork {
    /// Takes the network away and tells what it refused.
    pub(super) async fn close(self) {
        self.attachment.detach().await;
        self.events.refusals().tell();
    }
}

/// Keeps what is refused to code of this process.
#[derive(Debug, Default)]
struct LocalEvents {
    refusals: Mutex<Refusals>,
}

impl LocalEvents {
    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        // A list: a panic while the lock is held leaves no broken invariant.
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EgressEvents for LocalEvents {
    fn finished(&self, _sandbox: &str, _key: &str, _record: ConnectionRecord) {}

    fn denied(&self, _sandbox: &str, _key: &str, denial: DenialRecord) {
        self.refusals().add(&denial.host, denial.port, &denial.code, &denial.message);
    }

    fn model_tokens(&self, _sandbox: &str, _key: &str, _tokens: ModelTokens) {}

    fn process_changed(&self, change: ProcessChange) {
        if change == ProcessChange::Died {
            say!("silica: the process of the network died; connections of the code broke");
        }
    }

    fn ask(
        &self,
        _question: NetworkQuestion,
    ) -> Pin<Box<dyn Future<Output = Result<PendingAnswer, AskRefused>> + Send>> {
        Box::pin(async { Err(AskRefused("no person can be asked here".to_owned())) })
    }
}

/// What a network refused: each host and port once.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    refused: Vec<Refusal>,
    more: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    host: String,
    port: u16,
    code: String,
    message: String,
}

impl Refusals {
    /// Adds a refusal. Port zero is a look-up.
    pub(super) fn add(&mut self, host: &str, port: u16, code: &str, message: &str) {
        let host = show::plain(host, CHARS_MAX);
        // A look-up and the connection that follows are one refusal.
        let is_same = |other: &&mut Refusal| {
            other.host == host && (other.port == port || other.port == 0 || port == 0)
        };
        if let Some(known) = self.refused.iter_mut().find(is_same) {
            known.port = known.port.max(port);
            return;
        }
        if self.refused.len() >= REFUSALS_MAX {
            self.more = true;
            return;
        }
        let message = show::plain(message, CHARS_MAX);
        self.refused.push(Refusal { host, port, code: code.to_owned(), message });
    }

    /// Adds those of a cell of a server.
    pub(super) fn add_cell(&mut self, cell: &Value) {
        for denied in cell["network"]["denied"].as_array().into_iter().flatten() {
            let text = |name: &str| denied[name].as_str().unwrap_or_default();
            let port = denied["port"].as_u64().and_then(|port| u16::try_from(port).ok());
            self.add(text("host"), port.unwrap_or_default(), text("code"), text("message"));
        }
    }

    /// Tells them, one a line.
    pub(super) fn tell(&self) {
        for refusal in &self.refused {
            say!("{refusal}");
        }
        if self.more {
            say!("silica: the network refused more hosts than these");
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port, code, message } = self;
        write!(formatter, "silica: the network refused {host}: {message}")?;
        match (code.as_str(), port) {
            ("host_not_allowed" | "port_not_allowed", 0 | 443) => {
                write!(formatter, "; allow it with --net {host}")
            }
            ("host_not_allowed" | "port_not_allowed", 80) => {
                write!(formatter, "; allow it with --net {host}:80")
            }
            ("host_not_allowed" | "port_not_allowed", port) => {
                write!(formatter, "; allow it with --net {host}:{port}/tcp")
            }
            _ => Ok(()),
        }
    }
}
