//! The digest that names a build: equal digests mean equal trees, so a build may be reused.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::python::Python;
use super::{BuildError, Spec};

/// Raised whenever the way a tree is laid out changes, so that old builds are made anew.
const LAYOUT_VERSION: u32 = 3;
/// How much of the digest names the folder.
const SHORT_LEN: usize = 12;
/// Read at a time when hashing a file.
const CHUNK_BYTES: usize = 64 << 10;

/// SHA-256 over everything a build depends on, in hex.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TemplateDigest(String);

impl TemplateDigest {
    /// Computes the digest of a template built with an interpreter.
    pub(super) fn of(spec: &Spec, python: &Python) -> Result<Self, BuildError> {
        let mut hasher = Sha256::new();
        add(&mut hasher, &LAYOUT_VERSION.to_be_bytes());
        for text in &spec.texts {
            add(&mut hasher, text.as_bytes());
        }
        for file in &spec.files {
            // The content is part of it: a changed file beside `template.toml` means another build.
            let sum = sha256_of_file(&file.source)
                .map_err(|source| BuildError::Read { path: file.source.clone(), source })?;
            add(&mut hasher, file.target.as_os_str().as_encoded_bytes());
            add(&mut hasher, sum.as_bytes());
        }
        // Wheels fit one interpreter. After an upgrade of Python the template is built anew.
        add(&mut hasher, python.executable().as_os_str().as_encoded_bytes());
        add(&mut hasher, python.version().to_string().as_bytes());
        add(&mut hasher, python.abi().as_bytes());
        Ok(Self(hex(&hasher.finalize())))
    }

    /// Computes the digest of a description alone: what can be compared without asking Python.
    pub(super) fn of_description(spec: &Spec) -> Self {
        let mut hasher = Sha256::new();
        add(&mut hasher, &LAYOUT_VERSION.to_be_bytes());
        for text in &spec.texts {
            add(&mut hasher, text.as_bytes());
        }
        Self(hex(&hasher.finalize()))
    }

    /// Returns all of it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first twelve digits, which name the build's folder.
    pub fn short(&self) -> &str {
        &self.0[..SHORT_LEN]
    }
}

/// Returns whether a folder's name is that of a finished build.
pub(super) fn is_short(name: &str) -> bool {
    name.len() == SHORT_LEN && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns a file's SHA-256 in hex.
pub(super) fn sha256_of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&chunk[..count]);
    }
}

/// Adds one part with its length, so that parts cannot run into each other.
fn add(hasher: &mut Sha256, part: &[u8]) {
    hasher.update((part.len() as u64).to_be_bytes());
    hasher.update(part);
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)].into());
        text.push(DIGITS[usize::from(byte & 15)].into());
    }
    text
}

#[cfg(test)]
mod tests;
