//! Signed links: a path, a method and an end, sealed with a key that lives as long as the server.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use silica_store::Timestamp;

/// What a link allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    #[serde(rename = "s")]
    pub(crate) sandbox: String,
    #[serde(rename = "t")]
    pub(crate) tenant: String,
    #[serde(rename = "p")]
    pub(crate) path: String,
    #[serde(rename = "w")]
    pub(crate) writes: bool,
    /// Microseconds since 1970.
    #[serde(rename = "e")]
    pub(crate) expires: i64,
}

/// What a link to a port of a sandbox allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortLink {
    #[serde(rename = "s")]
    pub(crate) sandbox: String,
    #[serde(rename = "t")]
    pub(crate) tenant: String,
    #[serde(rename = "n")]
    pub(crate) port: u16,
    /// Where a browser that opens it goes.
    #[serde(rename = "g")]
    pub(crate) path: String,
    /// Microseconds since 1970.
    #[serde(rename = "e")]
    pub(crate) expires: i64,
}

/// What a token gives a right to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// E2B's service for files and commands.
    Envd,
    /// E2B's service for code.
    Interpreter,
}

impl Purpose {
    /// What is sealed. No link has a colon in what is sealed of it.
    fn text(self, sandbox: &str) -> String {
        match self {
            Self::Envd => format!("inside:{sandbox}"),
            Self::Interpreter => format!("code:{sandbox}"),
        }
    }
}

/// What is sealed before a link to a port.
const PORT: &str = "port:";

/// The longest token that is looked at.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// What links are sealed with.
pub(crate) struct LinkKey([u8; 32]);

impl std::fmt::Debug for LinkKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("LinkKey")
    }
}

impl LinkKey {
    /// Creates a random key. Links end with the server, as their sandboxes do.
    pub(crate) fn random() -> io::Result<Self> {
        let mut key = [0; 32];
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self(key))
    }

    fn mac(&self, body: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("any length of key is good");
        mac.update(body.as_bytes());
        mac
    }

    /// Returns the token for a purpose and a sandbox, which only this server can make.
    pub(crate) fn token(&self, purpose: Purpose, sandbox: &str) -> String {
        let mac = self.mac(&purpose.text(sandbox)).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode(mac)
    }

    /// Checks a token in constant time.
    pub(crate) fn is_token(&self, purpose: Purpose, sandbox: &str, shown: &str) -> bool {
        let Ok(shown) = URL_SAFE_NO_PAD.decode(shown) else { return false };
        self.mac(&purpose.text(sandbox)).verify_slice(&shown).is_ok()
    }

    /// The token of a link.
    pub(crate) fn seal(&self, link: &Link) -> String {
        self.seal_as("", link)
    }

    /// The link of a token, if it was sealed here and has not expired.
    pub(crate) fn open(&self, token: &str, now: Timestamp) -> Option<Link> {
        let link: Link = self.open_as("", token)?;
        (now.as_micros() < link.expires).then_some(link)
    }

    /// The token of a link to a port.
    pub(crate) fn seal_port(&self, link: &PortLink) -> String {
        self.seal_as(PORT, link)
    }

    /// The link to a port of a token, if it was sealed here and has not expired.
    pub(crate) fn open_port(&self, token: &str, now: Timestamp) -> Option<PortLink> {
        let link: PortLink = self.open_as(PORT, token)?;
        (now.as_micros() < link.expires).then_some(link)
    }

    /// Seals a value. A token of one kind is none of another.
    fn seal_as(&self, kind: &str, value: &impl Serialize) -> String {
        let body = URL_SAFE_NO_PAD.encode(serde_json::to_vec(value).unwrap_or_default());
        let seal = self.mac(&format!("{kind}{body}")).finalize().into_bytes();
        format!("{body}.{}", URL_SAFE_NO_PAD.encode(seal))
    }

    fn open_as<T: DeserializeOwned>(&self, kind: &str, token: &str) -> Option<T> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (body, seal) = token.split_once('.')?;
        let seal = URL_SAFE_NO_PAD.decode(seal).ok()?;
        self.mac(&format!("{kind}{body}")).verify_slice(&seal).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).ok()?).ok()
    }
}

#[cfg(test)]
mod tests;
