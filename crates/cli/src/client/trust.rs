//! Trust in the certificate of a server that signs its own.
//!
//! A certificate from `openssl req -x509` is a CA certificate, and rustls rejects a CA certificate
//! as that of a server, even if the user has added it as trusted. This module accepts exactly the
//! certificates that the user has named.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustls_platform_verifier::Verifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
};

/// Returns a TLS configuration that also trusts the certificates in a PEM file.
pub(super) fn with_certificates(path: &Path) -> Result<ClientConfig> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    // All or none: skipping an unreadable certificate would cause an unexplained failure later.
    let own: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let own = own.unwrap_or_default();
    ensure!(!own.is_empty(), "{} must hold certificates in PEM format", path.display());
    let provider = Arc::new(default_provider());
    let ordinary = Verifier::new_with_extra_roots(own.clone(), Arc::clone(&provider))
        .with_context(|| format!("cannot use the certificates in {}", path.display()))?;
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinningVerifier { ordinary, own }))
        .with_no_client_auth())
}

/// Verifies as the platform does, and also accepts a server certificate that is one of `own`.
#[derive(Debug)]
struct PinningVerifier {
    ordinary: Verifier,
    own: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for PinningVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let checked = self.ordinary.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match checked {
            // The platform has checked the expiry. It rejected only the usage, which is accepted
            // for a certificate that the user named; its host name remains to be checked.
            Err(error) if is_for_signing(&error) && self.own.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.ordinary.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.ordinary.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.ordinary.supported_verify_schemes()
    }
}

/// Returns whether a certificate was rejected because it is a CA certificate. The error type is
/// that of another library, so its text is compared.
fn is_for_signing(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            other.0.to_string() == "CaUsedAsEndEntity"
        }
        _ => false,
    }
}

/// Says what is wrong with a certificate. The text of the library is a value of a Rust type for what
/// it has no words for.
pub(super) fn reason(text: &str) -> &'static str {
    let known = [
        ("UnknownIssuer", "this machine does not know who signed it"),
        ("CaUsedAsEndEntity", "it is that of an authority, and not of a server"),
        ("Expired", "it has expired"),
        ("NotValidYet", "it is not valid yet"),
        ("NotValidForName", "it is for another host name"),
        ("not valid for name", "it is for another host name"),
        ("Revoked", "it has been revoked"),
        ("BadSignature", "its signature is wrong"),
    ];
    let found = known.iter().find(|(name, _)| text.contains(name));
    found.map_or("it is not valid", |(_, reason)| reason)
}
