//! Rules for `Cargo.toml` files: who may use whom, and that versions stand in one place.

use super::{Problem, SourceFile};

/// What a crate may use: of ours, and of others' (`None` for anything but what is forbidden below).
struct Direction {
    manifest: &'static str,
    ours: &'static [&'static str],
    others: Option<&'static [&'static str]>,
}

const DIRECTIONS: [Direction; 13] = [
    Direction { manifest: "crates/domain/Cargo.toml", ours: &[], others: Some(&["thiserror"]) },
    Direction { manifest: "crates/gate/Cargo.toml", ours: &[], others: Some(&[]) },
    Direction {
        manifest: "crates/policy/Cargo.toml",
        ours: &[],
        others: Some(&[
            "ruff_python_ast",
            "ruff_python_parser",
            "ruff_text_size",
            "serde",
            "stacker",
            "thiserror",
            "toml",
        ]),
    },
    Direction { manifest: "crates/jail/Cargo.toml", ours: &["silica-gate"], others: None },
    Direction { manifest: "crates/templates/Cargo.toml", ours: &[], others: None },
    Direction { manifest: "crates/egress/Cargo.toml", ours: &["silica-domain"], others: None },
    Direction {
        manifest: "crates/engine/Cargo.toml",
        ours: &["silica-domain", "silica-jail", "silica-templates"],
        others: None,
    },
    Direction { manifest: "crates/mcp/Cargo.toml", ours: &[], others: None },
    Direction { manifest: "crates/store/Cargo.toml", ours: &["silica-domain"], others: None },
    Direction {
        manifest: "crates/sessions/Cargo.toml",
        ours: &["silica-domain", "silica-egress", "silica-engine", "silica-policy", "silica-store"],
        others: None,
    },
    Direction {
        manifest: "crates/interpret/Cargo.toml",
        ours: &["silica-domain", "silica-policy", "silica-store"],
        others: None,
    },
    Direction {
        manifest: "crates/server/Cargo.toml",
        ours: &[
            "silica-domain",
            "silica-egress",
            "silica-engine",
            "silica-interpret",
            "silica-mcp",
            "silica-policy",
            "silica-sessions",
            "silica-store",
        ],
        others: None,
    },
    Direction {
        manifest: "crates/cli/Cargo.toml",
        ours: &[
            "silica-domain",
            "silica-egress",
            "silica-engine",
            "silica-interpret",
            "silica-mcp",
            "silica-policy",
            "silica-store",
            "silica-sessions",
            "silica-server",
            "silica-templates",
        ],
        others: None,
    },
];

/// Libraries give their callers errors to act on, not texts.
const NOT_IN_LIBRARIES: &str = "anyhow";

/// Keys of a package that stand once, in the workspace.
const SHARED_KEYS: [&str; 4] = ["version", "edition", "rust-version", "license"];

/// One `key = value` of a manifest, with the section it stands in.
struct Entry<'text> {
    line: usize,
    section: &'text str,
    key: &'text str,
    value: &'text str,
}

impl Entry<'_> {
    fn is_dependency(&self) -> bool {
        let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
        tables.contains(&self.section)
    }

    /// The name before `.workspace` or `.version`.
    fn name(&self) -> &str {
        self.key.split('.').next().unwrap_or_default()
    }
}

pub(super) fn check(files: &[SourceFile]) -> Vec<Problem> {
    let manifests: Vec<&SourceFile> =
        files.iter().filter(|file| file.name() == "Cargo.toml").collect();
    let mut problems = Vec::new();
    for file in &manifests {
        problems.extend(check_one(file));
    }
    problems.extend(unused(&manifests));
    problems
}

fn check_one(file: &SourceFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    for entry in entries(&file.text) {
        let message = match entry.section {
            _ if entry.is_dependency() => direction(&file.path, &entry).or_else(|| pinned(&entry)),
            "package" => shared(&entry),
            "workspace.dependencies" => versioned(&entry),
            _ => None,
        };
        problems.extend(message.map(|message| Problem::new(&file.path, entry.line, message)));
    }
    problems
}

fn direction(path: &str, entry: &Entry<'_>) -> Option<String> {
    let direction = DIRECTIONS.iter().find(|direction| direction.manifest == path)?;
    let name = entry.name();
    // A test may look at a crate from above.
    if entry.section != "dependencies" {
        return None;
    }
    let allowed = if name.starts_with("silica") {
        direction.ours.contains(&name)
    } else {
        let library = !path.starts_with("crates/cli/");
        direction.others.is_none_or(|others| others.contains(&name))
            && !(library && name == NOT_IN_LIBRARIES)
    };
    (!allowed).then(|| format!("this crate may not use `{name}`; see the table in ARCHITECTURE.md"))
}

fn pinned(entry: &Entry<'_>) -> Option<String> {
    let by_workspace =
        entry.key.ends_with(".workspace") || entry.value.contains("workspace = true");
    let name = entry.name();
    (!by_workspace).then(|| {
        format!("the version of `{name}` belongs in the workspace; write `{name}.workspace = true`")
    })
}

fn shared(entry: &Entry<'_>) -> Option<String> {
    let name = entry.name();
    (SHARED_KEYS.contains(&name) && !entry.key.ends_with(".workspace"))
        .then(|| format!("`{name}` is the same for all crates; write `{name}.workspace = true`"))
}

fn versioned(entry: &Entry<'_>) -> Option<String> {
    let value = entry.value;
    let given = value.starts_with('"') || value.contains("version =") || value.contains("path =");
    let any = value.contains("\"*\"") || value.contains("git =");
    (!given || any).then(|| format!("`{}` needs a released version", entry.name()))
}

/// Finds dependencies of the workspace that no crate uses.
fn unused(manifests: &[&SourceFile]) -> Vec<Problem> {
    let Some(root) = manifests.iter().find(|file| file.path == "Cargo.toml") else {
        return Vec::new();
    };
    let used: Vec<&str> = manifests
        .iter()
        .flat_map(|file| entries(&file.text))
        .filter(Entry::is_dependency)
        .map(|entry| entry.key.split('.').next().unwrap_or_default())
        .collect();
    entries(&root.text)
        .into_iter()
        .filter(|entry| entry.section == "workspace.dependencies" && !used.contains(&entry.name()))
        .map(|entry| {
            let message = format!("no crate uses `{}`; remove it", entry.name());
            Problem::new(&root.path, entry.line, message)
        })
        .collect()
}

/// The entries of a manifest that stand on one line, which is how ours are written.
fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut section = "";
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.trim_matches(['[', ']']);
        } else if let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            entries.push(Entry { line: index + 1, section, key: key.trim(), value: value.trim() });
        }
    }
    entries
}
