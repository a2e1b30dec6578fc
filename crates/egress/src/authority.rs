//! The certificate authority under which intercepted connections are answered.
//!
//! The server makes one at its start. Its certificate goes into guests; its key is in the memory of
//! the server and of the process, and in no file.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use silica_domain::DnsName;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::version::{TLS12, TLS13};

/// How far back certificates begin, for guests whose clock is behind.
const BACKDATED: Duration = Duration::from_hours(24);

/// How long the authority is valid; longer than a server runs.
const AUTHORITY_LIFE: Duration = Duration::from_hours(24 * 3650);

/// How long a leaf is valid.
const LEAF_LIFE: Duration = Duration::from_hours(24 * 30);

/// The most leaves that are kept.
const LEAVES_MAX: usize = 4096;

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a certificate")]
pub struct AuthorityError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl AuthorityError {
    fn new(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

/// A certificate authority with its key.
#[derive(Clone)]
pub struct CertificateAuthority {
    name: String,
    key_pem: String,
    certificate_pem: String,
}

impl CertificateAuthority {
    /// Makes an authority with a fresh key.
    pub fn generate() -> Result<Self, AuthorityError> {
        let key = KeyPair::generate().map_err(AuthorityError::new)?;
        // The name differs from start to start, so that a client with two of them does not try the
        // wrong key.
        let mark: String = key
            .public_key_raw()
            .iter()
            .skip(1)
            .take(4)
            .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let name = format!("Silica egress {mark}");
        let certificate = authority_params(&name).self_signed(&key).map_err(AuthorityError::new)?;
        Ok(Self { name, key_pem: key.serialize_pem(), certificate_pem: certificate.pem() })
    }

    /// Returns the certificate, which guests trust.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn key_pem(&self) -> &str {
        &self.key_pem
    }
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CertificateAuthority({}, ****)", self.name)
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = (SystemTime::now() - BACKDATED).into();
    params.not_after = (SystemTime::now() + AUTHORITY_LIFE).into();
    params
}

/// A leaf, and when it was made.
type Leaf = (SystemTime, Arc<ServerConfig>);

/// Makes leaves in the process.
pub(crate) struct LeafMaker {
    issuer: Issuer<'static, KeyPair>,
    /// One key for all leaves: they are all held here.
    key: KeyPair,
    leaves: Mutex<HashMap<DnsName, Leaf>>,
}

impl LeafMaker {
    pub(crate) fn new(authority: &str, key_pem: &str) -> Result<Self, AuthorityError> {
        let authority_key = KeyPair::from_pem(key_pem).map_err(AuthorityError::new)?;
        Ok(Self {
            issuer: Issuer::new(authority_params(authority), authority_key),
            key: KeyPair::generate().map_err(AuthorityError::new)?,
            leaves: Mutex::default(),
        })
    }

    /// Returns what answers a client that asks for a name.
    pub(crate) fn config(&self, name: &DnsName) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |made: &SystemTime| made.elapsed().is_ok_and(|age| age < LEAF_LIFE / 2);
        if let Some((made, config)) = leaves.get(name)
            && fresh(made)
        {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(self.make(name)?);
        if leaves.len() >= LEAVES_MAX {
            leaves.clear();
        }
        leaves.insert(name.clone(), (SystemTime::now(), Arc::clone(&config)));
        Ok(config)
    }

    fn make(&self, name: &DnsName) -> Result<ServerConfig, AuthorityError> {
        let mut params =
            CertificateParams::new(vec![name.to_string()]).map_err(AuthorityError::new)?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = (SystemTime::now() - BACKDATED).into();
        params.not_after = (SystemTime::now() + LEAF_LIFE).into();
        let leaf = params.signed_by(&self.key, &self.issuer).map_err(AuthorityError::new)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS12, &TLS13])
            .map_err(AuthorityError::new)?
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], key)
            .map_err(AuthorityError::new)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}
