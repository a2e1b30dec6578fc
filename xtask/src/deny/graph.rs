//! The crates of a lock file, out of what `cargo metadata` prints.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde::Deserialize;

/// A crate in one version.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Package {
    id: String,
    pub(super) name: String,
    pub(super) version: String,
    /// An SPDX expression.
    pub(super) license: Option<String>,
    /// Where it comes from; nothing for a crate of this repository.
    pub(super) source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
}

/// All crates that are built, tests included, in the order of their names.
#[derive(Debug)]
pub(super) struct Graph {
    packages: Vec<Package>,
}

impl Graph {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let metadata: Metadata =
            serde_json::from_str(text).context("cannot read what cargo metadata printed")?;
        let built: BTreeSet<&str> =
            metadata.resolve.nodes.iter().map(|node| node.id.as_str()).collect();
        let mut packages = metadata.packages.clone();
        packages.retain(|package| built.contains(package.id.as_str()));
        packages.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Self { packages })
    }

    pub(super) fn packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.packages.len()
    }

    /// The crates by name: each group holds every version of one name.
    pub(super) fn by_name(&self) -> impl Iterator<Item = &[Package]> {
        self.packages.chunk_by(|one, other| one.name == other.name)
    }
}
