//! The certificates of the public authorities, as Mozilla lists them, in the form that programs
//! read.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// The length of a line; RFC 7468, section 2.
const LINE: usize = 64;

/// Returns all certificates, one after the other, as PEM.
pub(super) fn public_roots() -> &'static str {
    static ROOTS: LazyLock<String> = LazyLock::new(|| {
        TLS_SERVER_ROOT_CERTS.iter().map(|certificate| pem(certificate.as_ref())).collect()
    });
    &ROOTS
}

fn pem(certificate: &[u8]) -> String {
    let text = STANDARD.encode(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}
