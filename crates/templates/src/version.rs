//! Python versions and the small part of PEP 440 that a template may ask for:
//! `>=X.Y[.Z]`, `<X.Y[.Z]` and `==X.Y.*`, joined by commas.

use std::fmt;

/// The oldest Python the guest code runs on, whatever a template says.
pub(super) const PYTHON_FLOOR: PythonVersion = PythonVersion { major: 3, minor: 10, micro: 0 };

/// Most clauses in one requirement.
const CLAUSES_MAX: usize = 8;

/// The version of an interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PythonVersion {
    /// The `3` of 3.11.7.
    pub major: u16,
    /// The `11` of 3.11.7.
    pub minor: u16,
    /// The `7` of 3.11.7.
    pub micro: u16,
}

/// What a template requires of the machine's Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionSpec {
    text: String,
    clauses: Vec<Clause>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clause {
    AtLeast(PythonVersion),
    Below(PythonVersion),
    Series { major: u16, minor: u16 },
}

/// Why a text is not a version requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{clause}` is not understood: write `>=3.10`, `<3.14` or `==3.12.*`, joined by commas")]
pub struct VersionError {
    clause: String,
}

impl PythonVersion {
    /// Returns the `3.11` of 3.11.7, the part that names folders.
    pub fn series(&self) -> String {
        format!("{}.{}", self.major, self.minor)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(number);
        let version = Self {
            major: parts.next()??,
            minor: parts.next()??,
            micro: parts.next().unwrap_or(Some(0))?,
        };
        parts.next().is_none().then_some(version)
    }
}

impl VersionSpec {
    /// Parses a requirement such as `>=3.10,<3.14`.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let clauses: Vec<Clause> = text
            .split(',')
            .take(CLAUSES_MAX + 1)
            .map(|clause| {
                let clause = clause.trim();
                Clause::parse(clause).ok_or_else(|| VersionError { clause: clause.to_owned() })
            })
            .collect::<Result<_, _>>()?;
        if clauses.len() > CLAUSES_MAX {
            return Err(VersionError { clause: text.to_owned() });
        }
        Ok(Self { text: text.to_owned(), clauses })
    }

    /// Returns the requirement that only the floor has to be met.
    pub fn any() -> Self {
        Self { text: format!(">={}", PYTHON_FLOOR.series()), clauses: Vec::new() }
    }

    /// Returns whether `version` will do.
    pub fn admits(&self, version: PythonVersion) -> bool {
        version >= PYTHON_FLOOR && self.clauses.iter().all(|clause| clause.admits(version))
    }
}

impl Clause {
    fn parse(text: &str) -> Option<Self> {
        if let Some(version) = text.strip_prefix(">=") {
            PythonVersion::parse(version.trim()).map(Clause::AtLeast)
        } else if let Some(version) = text.strip_prefix('<') {
            PythonVersion::parse(version.trim()).map(Clause::Below)
        } else {
            let (major, minor) =
                text.strip_prefix("==")?.trim().strip_suffix(".*")?.split_once('.')?;
            Some(Clause::Series { major: number(major)?, minor: number(minor)? })
        }
    }

    fn admits(self, version: PythonVersion) -> bool {
        match self {
            Clause::AtLeast(least) => version >= least,
            Clause::Below(limit) => version < limit,
            Clause::Series { major, minor } => (version.major, version.minor) == (major, minor),
        }
    }
}

impl fmt::Display for PythonVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}

impl fmt::Display for VersionSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Parses digits only; `u16::from_str` alone would let a sign through.
fn number(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests;
