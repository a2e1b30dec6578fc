//! Which packages a template installs: a hash-locked file or exact pins.
//!
//! A lock is parsed strictly, because pip would obey options found inside it: `--no-binary`, for
//! one, would make it build a source archive, which runs the package's code on this machine.

/// Longest lock file, in bytes.
// The whole lock is held in memory and hashed into the template's digest.
pub(super) const LOCK_BYTES_MAX: usize = 8 << 20;
/// Most packages in one template.
pub(super) const PACKAGES_MAX: usize = 2000;
/// Most hashes for one package: one per file of a release.
const HASHES_MAX: usize = 1000;

/// The packages of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packages {
    /// Every package and its files' hashes are named; what is not named is not installed.
    Locked(Vec<Locked>),
    /// Exact versions without hashes; pip finds what they need.
    Pinned(Vec<Pin>),
}

/// One entry of a lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    /// The package and its version.
    pub pin: Pin,
    /// The environment marker, or nothing if it applies everywhere.
    pub marker: Option<String>,
    /// SHA-256 of each file that may be installed, in lower-case hex.
    pub sha256: Vec<String>,
}

/// A package at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The name as written, with extras if any.
    pub requirement: String,
    /// The version after `==`.
    pub version: String,
}

/// Why a lock or a pin is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// The lock has an option other than `--hash`.
    #[error(
        "line {line}: `{option}` is not allowed in a lock; indexes and proxies belong in pip's own configuration"
    )]
    Option { line: usize, option: String },
    /// A line is not `name==version`.
    #[error(
        "line {line}: `{text}` is not `name==version`; `pip index versions {name}` lists the versions",
        name = .text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).next().unwrap_or_default()
    )]
    NotPinned { line: usize, text: String },
    /// A hash is missing or not SHA-256.
    #[error("line {line}: `{package}` needs at least one `--hash=sha256:` and no other kind")]
    Hash { line: usize, package: String },
    /// There are more packages or hashes than allowed.
    #[error("more than {PACKAGES_MAX} packages, or {HASHES_MAX} hashes for one")]
    TooMany,
}

impl Packages {
    /// Parses a lock file made with hashes.
    pub fn locked(text: &str) -> Result<Self, LockError> {
        let entries = logical_lines(text)
            .map(|(line, text)| Locked::parse(line, &text))
            .collect::<Result<Vec<_>, _>>()?;
        bounded(Self::Locked(entries))
    }

    /// Parses pins given in the template itself.
    pub fn pinned(texts: &[String]) -> Result<Self, LockError> {
        let pins = texts
            .iter()
            .enumerate()
            .map(|(index, text)| {
                Pin::parse(text.trim())
                    .ok_or_else(|| LockError::NotPinned { line: index + 1, text: shown(text) })
            })
            .collect::<Result<Vec<_>, _>>()?;
        bounded(Self::Pinned(pins))
    }

    fn len(&self) -> usize {
        match self {
            Self::Locked(entries) => entries.len(),
            Self::Pinned(pins) => pins.len(),
        }
    }
}

impl Locked {
    /// Writes the entry the way pip reads it, without the marker, which was evaluated by then.
    pub fn to_requirement(&self) -> String {
        let mut text = self.pin.to_requirement();
        for hash in &self.sha256 {
            text.push_str(" --hash=sha256:");
            text.push_str(hash);
        }
        text
    }

    fn parse(line: usize, text: &str) -> Result<Self, LockError> {
        // `-r`, `-e`, `--index-url` and the like: pip would obey each of them.
        if text.starts_with('-') {
            return Err(option(line, text));
        }
        // Everything after the requirement must be `--hash`; `sha256_of` refuses what is not.
        let mut words = text.split(" --");
        let requirement = words.next().unwrap_or_default();
        let (pin_text, marker) = match requirement.split_once(';') {
            Some((pin, marker)) => (pin.trim(), Some(marker.trim().to_owned())),
            None => (requirement.trim(), None),
        };
        let pin = Pin::parse(pin_text)
            .ok_or_else(|| LockError::NotPinned { line, text: shown(pin_text) })?;
        let sha256 =
            words.map(|word| sha256_of(line, &pin, word)).collect::<Result<Vec<_>, _>>()?;
        if sha256.is_empty() {
            return Err(LockError::Hash { line, package: pin.requirement });
        }
        Ok(Self { pin, marker, sha256 })
    }
}

impl Pin {
    /// Writes the pin the way pip reads it.
    pub fn to_requirement(&self) -> String {
        format!("{}=={}", self.requirement, self.version)
    }

    /// Returns how the name begins in a wheel's file name (PEP 427, PEP 503).
    pub fn wheel_prefix(&self) -> String {
        let name = self.requirement.split('[').next().unwrap_or_default();
        format!("{}-", canonical(name))
    }

    fn parse(text: &str) -> Option<Self> {
        let (requirement, version) = text.split_once("==")?;
        let requirement = requirement.trim();
        let version = version.trim();
        // Neither a space nor a slash, `@` or `;`: no URL, path or second requirement can hide in a
        // name that is written to pip's file or command line.
        let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-[],".contains(&byte);
        let version_byte = |byte: u8| byte.is_ascii_alphanumeric() || b".!+_-".contains(&byte);
        // A name that began with `-` would be an option on pip's command line.
        let valid = requirement.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
            && requirement.bytes().all(name_byte)
            && !version.is_empty()
            && version.bytes().all(version_byte);
        valid.then(|| Self { requirement: requirement.to_owned(), version: version.to_owned() })
    }
}

/// Returns a package name in lower case with runs of `-`, `_` and `.` as one `_`.
pub(super) fn canonical(name: &str) -> String {
    let mut canonical = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '-' | '_' | '.' if canonical.ends_with('_') => {}
            '-' | '_' | '.' => canonical.push('_'),
            other => canonical.extend(other.to_lowercase()),
        }
    }
    canonical
}

fn sha256_of(line: usize, pin: &Pin, word: &str) -> Result<String, LockError> {
    let Some(hash) = word.strip_prefix("hash=") else {
        return Err(option(line, &format!("--{word}")));
    };
    let digits = hash.trim().strip_prefix("sha256:").unwrap_or_default();
    // One kind alone: `wheels` compares the files in its cache by SHA-256.
    if digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(digits.to_ascii_lowercase())
    } else {
        Err(LockError::Hash { line, package: pin.requirement.clone() })
    }
}

/// Joins lines that end in a backslash and drops comments; yields the first line's number.
fn logical_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut lines = text.lines().enumerate();
    std::iter::from_fn(move || {
        let (index, first) = lines.next()?;
        let mut joined = String::new();
        let mut line = first;
        loop {
            let content = without_comment(line);
            let Some(continued) = content.strip_suffix('\\') else {
                joined.push_str(content);
                break;
            };
            joined.push_str(continued);
            joined.push(' ');
            match lines.next() {
                Some((_, next)) => line = next.trim_start(),
                None => break,
            }
        }
        Some((index + 1, joined.trim().to_owned()))
    })
    .filter(|(_, text)| !text.is_empty())
}

fn without_comment(line: &str) -> &str {
    let content = if line.trim_start().starts_with('#') {
        ""
    } else {
        // As in pip, `#` begins a comment only at the beginning or after a space.
        line.split(" #").next().unwrap_or_default()
    };
    content.trim_end()
}

fn bounded(packages: Packages) -> Result<Packages, LockError> {
    // After the parsing, whose work is bounded by the length of the file.
    let hashes_fit = match &packages {
        Packages::Locked(entries) => entries.iter().all(|entry| entry.sha256.len() <= HASHES_MAX),
        Packages::Pinned(_) => true,
    };
    if packages.len() <= PACKAGES_MAX && hashes_fit {
        Ok(packages)
    } else {
        Err(LockError::TooMany)
    }
}

fn option(line: usize, text: &str) -> LockError {
    LockError::Option { line, option: shown(text) }
}

/// Cuts a text for a message.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests;
