//! Builds the network options of a server from its settings.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use silica_domain::{NetworkLimits, NetworkMode, NetworkPolicy, NetworkRule};
use silica_egress::{
    CertificateAuthority, EgressOptions, EgressProgram, EgressSettings, UpstreamProxy,
};
use silica_sessions::{NetworkOptions, NetworkPreset, OfferedSecret};
use silica_store::secrets::{SecretTerms, SecretText};

use crate::config::Settings;
use crate::config::settings::{Network, SecretSource};

/// The largest file of certificates or of a secret that is read.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The hosts of the preset `github`.
const GITHUB: [&str; 7] = [
    "github.com",
    "api.github.com",
    "codeload.github.com",
    "uploads.github.com",
    "raw.githubusercontent.com",
    "objects.githubusercontent.com",
    "release-assets.githubusercontent.com",
];

/// Returns what a server offers. `listeners` are its own addresses, which no sandbox reaches.
pub(crate) fn options(
    settings: &Settings,
    authority: CertificateAuthority,
    listeners: Vec<SocketAddr>,
) -> Result<NetworkOptions> {
    let network = &settings.network;
    let offered = network.mode_max != NetworkMode::None;
    let egress = offered.then(|| egress(network, authority, listeners)).transpose()?;
    let secrets = network.secrets.iter().map(|(name, source)| Ok((name.clone(), secret(source)?)));
    let github = NetworkPreset {
        rules: rules(&GITHUB)?,
        secrets: Vec::new(),
        environment: std::collections::BTreeMap::new(),
    };
    Ok(NetworkOptions {
        floor: NetworkPolicy::new(network.mode_max, Vec::new(), network.deny.clone(), false)?,
        ceiling: ceiling(network)?,
        limits: network.limits.clone(),
        presets: [("github".to_owned(), github)].into(),
        secrets: secrets.collect::<Result<_>>()?,
        egress,
        tokens: None,
    })
}

/// Returns the certificates that sandboxes trust beside the public ones, as PEM: that of the server's
/// own authority, and those that the operator trusts.
pub(crate) fn trust(settings: &Settings, authority: &CertificateAuthority) -> Result<Vec<u8>> {
    let mut trust = authority.certificate_pem().to_owned();
    if let Some(path) = &settings.network.extra_roots {
        trust.push('\n');
        trust.push_str(&read(path, "network.extra_roots")?);
    }
    Ok(trust.into_bytes())
}

/// Returns what a key may ask for: without a list of the operator's, any host.
fn ceiling(network: &Network) -> Result<NetworkPolicy> {
    let mode = match (network.mode_max, network.allow.is_empty()) {
        (NetworkMode::List, true) => NetworkMode::Open,
        (mode, _) => mode,
    };
    Ok(NetworkPolicy::new(mode, network.allow.clone(), Vec::new(), false)?)
}

fn egress(
    network: &Network,
    authority: CertificateAuthority,
    listeners: Vec<SocketAddr>,
) -> Result<EgressOptions> {
    let extra_roots_pem = match &network.extra_roots {
        Some(path) => read(path, "network.extra_roots")?,
        None => String::new(),
    };
    let proxy = network.upstream_proxy.as_deref().map(upstream_proxy).transpose()?;
    Ok(EgressOptions {
        program: program()?,
        authority,
        settings: EgressSettings {
            private_allowed: network.private_allowed.clone(),
            listeners,
            extra_roots_pem,
            hosts: network.hosts.iter().map(|(name, address)| (name.clone(), *address)).collect(),
            upstream_proxy: proxy,
            dns_timeout: network.dns_timeout,
            ask_timeout: network.ask,
            key_limits: NetworkLimits {
                connections: network.key_connections,
                ..NetworkLimits::for_key()
            },
            server_limits: NetworkLimits {
                connections: network.server_connections,
                ..NetworkLimits::for_server()
            },
        },
    })
}

/// Returns this program as the process that carries the bytes of sandboxes.
pub(crate) fn program() -> Result<EgressProgram> {
    let path = std::env::current_exe().context("cannot find this program's own file")?;
    Ok(EgressProgram { path, arguments: vec![super::EGRESS_ARGUMENT.to_owned()] })
}

fn upstream_proxy(url: &str) -> Result<UpstreamProxy> {
    let place = url.strip_prefix("http://").context(
        "network.upstream_proxy must begin with http://; TLS to a proxy is not supported",
    )?;
    let place = place.trim_end_matches('/');
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().context("network.upstream_proxy: the port")?),
        None => (place, 80),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(UpstreamProxy { host, port, authorization: None })
}

fn secret(source: &SecretSource) -> Result<OfferedSecret> {
    let text = read(&source.file, "secrets")?;
    let terms = SecretTerms { hosts: source.hosts.clone(), ..SecretTerms::default() };
    Ok(OfferedSecret { value: SecretText::new(text.trim().to_owned()), terms })
}

fn rules(texts: &[&str]) -> Result<Vec<NetworkRule>> {
    texts.iter().map(|text| Ok(text.parse()?)).collect()
}

/// Reads a file that a setting or a flag names.
pub(crate) fn read(path: &Path, setting: &str) -> Result<String> {
    let about = || format!("cannot read {}, which {setting} names", path.display());
    let length = std::fs::metadata(path).with_context(about)?.len();
    ensure!(length <= FILE_BYTES_MAX, "{}, which {setting} names, is too large", path.display());
    std::fs::read_to_string(path).with_context(about)
}
