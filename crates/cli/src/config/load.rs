//! Loads settings from defaults, file, environment and flags; each overrides those before it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::check::contradictions;
use super::error::{ConfigError, PROBLEMS_MAX, Problem};
use super::file::{ConfigFile, Search, StatementKind, User, not_section};
use super::flags::ServeFlags;
use super::keys::{Key, key, keys, sections};
use super::origin::Origin;
use super::raw_value::{RawKind, RawValue, cut};
use super::settings::Settings;

/// Variables with the prefix `SILICA_` that set no key: the data directory, the configuration file,
/// the log filter, the interpreter for templates, those of clients, and the key of the model's
/// provider.
pub(super) const OTHER_VARIABLES: [&str; 8] = [
    "SILICA_HOME",
    "SILICA_CONFIG",
    "SILICA_LOG",
    "SILICA_PYTHON",
    "SILICA_KEY",
    "SILICA_URL",
    "SILICA_CA",
    "SILICA_MODEL_KEY",
];

/// Settings and their origins.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    /// The file that was read, if any.
    pub(crate) file: Option<PathBuf>,
    /// Warnings, each a sentence.
    pub(crate) notices: Vec<String>,
    origins: Origins,
}

/// The origins of values by key; keys that are missing have their default.
pub(super) type Origins = BTreeMap<&'static str, Origin>;

impl Loaded {
    /// Returns the origin of the value of a key.
    pub(crate) fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }
}

impl Settings {
    /// Loads settings from all sources. `home` is the data directory.
    pub(crate) fn load(
        flags: &ServeFlags,
        environment: &BTreeMap<String, String>,
        home: &Path,
    ) -> Result<Loaded, ConfigError> {
        let search = Search::new(flags.config.as_deref(), environment, home, User::current());
        Self::from_layers(search.read()?.as_ref(), environment, flags)
    }

    /// Loads settings from the given sources.
    pub(super) fn from_layers(
        file: Option<&ConfigFile>,
        environment: &BTreeMap<String, String>,
        flags: &ServeFlags,
    ) -> Result<Loaded, ConfigError> {
        let mut draft = Draft::default();
        if let Some(file) = file {
            draft.take_file(file);
        }
        draft.take_environment(environment);
        draft.take_flags(flags);
        draft.finish(file)
    }
}

/// Settings under construction, one source after the other.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) settings: Settings,
    pub(super) origins: Origins,
    pub(super) problems: Vec<Problem>,
    pub(super) notices: Vec<String>,
}

impl Draft {
    pub(super) fn take_file(&mut self, file: &ConfigFile) {
        if file.writable_by_all {
            let path = file.path.display();
            self.notices.push(format!(
                "every user of this machine can write to {path}; use chmod o-w to prevent it"
            ));
        }
        let statements = match file.statements() {
            Ok(statements) => statements,
            Err(problem) => return self.report(|| problem),
        };
        for statement in statements {
            let origin = Origin::File(file.path.clone(), statement.line);
            match statement.kind {
                StatementKind::Value(path, given) => {
                    self.take(path, &beside(path, given, &file.path), origin);
                }
                StatementKind::Unknown(path) => self.report(|| unknown(&path, origin)),
                StatementKind::NotSection(path, given) => self.report(|| {
                    let (given, allowed) = not_section(&path, &given);
                    Problem::Value { origin, key: path, given, allowed }
                }),
            }
        }
    }

    /// Ignores empty variables.
    fn take_environment(&mut self, environment: &BTreeMap<String, String>) {
        for key in keys() {
            let variable = key.variable();
            if let Some(text) = environment.get(&variable).filter(|text| !text.is_empty()) {
                self.take(key.path, &RawValue::bare(text), Origin::Variable(variable));
            }
        }
        self.notices.extend(environment.keys().filter_map(|name| stray(name)));
    }

    fn take_flags(&mut self, flags: &ServeFlags) {
        for (path, given, origin) in flags.values() {
            self.take(path, &given, origin);
        }
    }

    /// Sets one key, or records why its value is invalid.
    pub(super) fn take(&mut self, path: &str, given: &RawValue, origin: Origin) {
        let Some(Key { path, read, .. }) = key(path) else {
            return self.report(|| unknown(path, origin));
        };
        match read(&mut self.settings, given) {
            Ok(()) => drop(self.origins.insert(path, origin)),
            Err(refusal) => self.report(|| Problem::Value {
                origin: origin.at(refusal.line),
                key: cut(&format!("{path}{}", refusal.entry)),
                given: refusal.given,
                allowed: refusal.allowed,
            }),
        }
    }

    /// Records a problem, up to `PROBLEMS_MAX`.
    fn report(&mut self, problem: impl FnOnce() -> Problem) {
        match self.problems.len() {
            0..PROBLEMS_MAX => self.problems.push(problem()),
            PROBLEMS_MAX => self.problems.push(Problem::More),
            _ => {}
        }
    }

    fn finish(self, file: Option<&ConfigFile>) -> Result<Loaded, ConfigError> {
        let Self { settings, origins, mut problems, notices } = self;
        if problems.is_empty() {
            problems = contradictions(&settings, &origins);
        }
        if !problems.is_empty() {
            return Err(ConfigError::Problems(problems));
        }
        let file = file.map(|file| file.path.clone());
        Ok(Loaded { settings, file, notices, origins })
    }
}

/// Returns the value of a key that names a file beside the configuration, as an absolute path.
fn beside(path: &str, given: RawValue, config: &Path) -> RawValue {
    let RawKind::Text(text) = &given.kind else { return given };
    let config = std::path::absolute(config).unwrap_or_default();
    match config.parent() {
        Some(directory) if path == "model.script" && !text.is_empty() => {
            let joined = directory.join(text).to_string_lossy().into_owned();
            RawValue { kind: RawKind::Text(joined), ..given }
        }
        _ => given,
    }
}

fn unknown(path: &str, origin: Origin) -> Problem {
    let path = cut(&path.escape_debug().to_string());
    Problem::Unknown { origin, nearest: nearest(&path), key: path }
}

/// Returns a warning about a variable with the prefix `SILICA_` that sets nothing.
fn stray(name: &str) -> Option<String> {
    let known = OTHER_VARIABLES.contains(&name) || keys().any(|key| key.variable() == name);
    if !name.starts_with("SILICA_") || known {
        return None;
    }
    let path = name.trim_start_matches("SILICA_").to_ascii_lowercase();
    let near = |key: &&Key| key.path.replace('.', "_");
    let meant = keys().min_by_key(|key| strsim::damerau_levenshtein(&path, &near(key)));
    let meant = meant.filter(|key| is_near(&path, &near(key)));
    let hint = meant.map_or(String::new(), |key| format!("; did you mean {}?", key.variable()));
    Some(format!("the variable {} sets nothing{hint}", cut(name)))
}

/// Returns a suggestion for an unknown key: one of the same name in another section, or the most
/// similar key or section, or a longer or shorter form of it.
fn nearest(path: &str) -> Option<&'static str> {
    let distance = |other: &&'static str| strsim::damerau_levenshtein(path, other);
    let name = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let paths = || keys().map(|key| key.path);
    let begins = |text: &str, with: &str| {
        text.strip_prefix(with).is_some_and(|rest| !with.is_empty() && rest.starts_with(['.', '_']))
    };
    paths()
        .filter(|key| name(key) == name(path))
        .min_by_key(distance)
        .or_else(|| {
            let closest = paths().chain(sections()).min_by_key(distance);
            closest.filter(|other| is_near(path, other))
        })
        .or_else(|| paths().find(|key| begins(key, path) || begins(path, key)))
}

/// Returns whether at most a third of the characters differ.
fn is_near(path: &str, key: &str) -> bool {
    strsim::damerau_levenshtein(path, key) * 3 <= path.len().max(key.len())
}
