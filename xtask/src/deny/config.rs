//! `deny.toml`: the keys that the project uses, each with cargo-deny's meaning and default.

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::graph::{Graph, Package};

/// What happens to a crate that a rule speaks about.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Deny,
    #[default]
    Warn,
    Allow,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    pub(super) graph: Platforms,
    /// Checked by cargo-deny alone.
    #[serde(rename = "advisories")]
    _advisories: Option<toml::Table>,
    pub(super) licenses: Licences,
    pub(super) bans: Bans,
    pub(super) sources: Sources,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Platforms {
    pub(super) targets: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Licences {
    pub(super) allow: Vec<String>,
    #[serde(default)]
    pub(super) exceptions: Vec<Exception>,
}

/// Licences that one crate may have beyond those that every crate may have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exception {
    #[serde(rename = "crate")]
    pub(super) spec: Spec,
    pub(super) allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Bans {
    #[serde(default)]
    pub(super) multiple_versions: Level,
    #[serde(default)]
    multiple_versions_include_dev: bool,
    #[serde(default)]
    pub(super) deny: Vec<Reasoned>,
    #[serde(default)]
    pub(super) skip: Vec<Reasoned>,
}

/// A crate, and why it is on the list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reasoned {
    #[serde(rename = "crate")]
    pub(super) spec: Spec,
    pub(super) reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Sources {
    #[serde(default)]
    pub(super) unknown_registry: Level,
    #[serde(default)]
    pub(super) unknown_git: Level,
    pub(super) allow_registry: Vec<String>,
    #[serde(default)]
    pub(super) allow_git: Vec<String>,
}

/// `name`, or `name@version` for exactly one version.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(super) struct Spec {
    name: String,
    version: Option<String>,
}

impl TryFrom<String> for Spec {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.contains(':') {
            return Err(format!("`{text}`: version requirements are not read; write name@version"));
        }
        let spec = match text.split_once('@') {
            Some((name, version)) => {
                Self { name: name.to_owned(), version: Some(version.to_owned()) }
            }
            None => Self { name: text, version: None },
        };
        Ok(spec)
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.name)?;
        match &self.version {
            Some(version) => write!(formatter, "@{version}"),
            None => Ok(()),
        }
    }
}

impl Spec {
    pub(super) fn matches(&self, package: &Package) -> bool {
        let version = self.version.as_ref();
        self.name == package.name && version.is_none_or(|version| *version == package.version)
    }
}

impl Config {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let config: Self = toml::from_str(text).context("deny.toml")?;
        if config.graph.targets.len() != 1 {
            bail!("deny.toml: graph.targets must name one platform, the one that is built for");
        }
        if !config.bans.multiple_versions_include_dev {
            bail!(
                "deny.toml: bans.multiple-versions-include-dev must be true; tests are checked too"
            );
        }
        Ok(config)
    }

    /// Entries of lists that match no crate of any graph.
    pub(super) fn unused(&self, graphs: &[&Graph]) -> Vec<String> {
        let is_used = |spec: &Spec| {
            graphs.iter().any(|graph| graph.packages().any(|package| spec.matches(package)))
        };
        let skips = self.bans.skip.iter().map(|skip| ("bans.skip", &skip.spec));
        let exceptions =
            self.licenses.exceptions.iter().map(|one| ("licenses.exceptions", &one.spec));
        skips
            .chain(exceptions)
            .filter(|(_, spec)| !is_used(spec))
            .map(|(list, spec)| format!("{list} `{spec}`"))
            .collect()
    }
}
