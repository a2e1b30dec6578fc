//! The configuration file: the paths where it is searched, and its statements by line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::error::{ConfigError, Problem};
use super::keys::{Key, key, keys, sections};
use super::raw_value::{Lines, RawValue};

/// The largest configuration file, in bytes.
pub(super) const FILE_BYTES_MAX: usize = 256 << 10;

/// The name of the file in the directories that are searched.
const FILE_NAME: &str = "silica.toml";

/// A configuration file that was read.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// Whether every user of the machine can write to it.
    pub(super) writable_by_all: bool,
}

/// The kind of user, which decides where the file is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    Root,
    Ordinary,
}

impl User {
    pub(super) fn current() -> Self {
        if rustix::process::geteuid().is_root() { Self::Root } else { Self::Ordinary }
    }
}

/// A file that must exist, or the paths to try in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Search {
    Named(PathBuf),
    Among(Vec<PathBuf>),
}

impl Search {
    /// Searches `--config`, else `SILICA_CONFIG`, else the data directory, else the directory of
    /// the user.
    pub(super) fn new(
        flag: Option<&Path>,
        environment: &BTreeMap<String, String>,
        home: &Path,
        user: User,
    ) -> Self {
        let variable = |name: &str| environment.get(name).filter(|text| !text.is_empty());
        if let Some(path) = flag.map(Path::to_owned).or(variable("SILICA_CONFIG").map(Into::into)) {
            return Self::Named(path);
        }
        let settings = match user {
            User::Root => Some(PathBuf::from("/etc")),
            User::Ordinary => variable("XDG_CONFIG_HOME")
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
                .or_else(|| Some(Path::new(variable("HOME")?).join(".config"))),
        };
        let path = settings.map(|directory| directory.join("silica").join(FILE_NAME));
        Self::Among(std::iter::once(home.join(FILE_NAME)).chain(path).collect())
    }

    /// Reads the named file, or the first of the paths that exists.
    pub(super) fn read(&self) -> Result<Option<ConfigFile>, ConfigError> {
        match self {
            Self::Named(path) => ConfigFile::read(path).map(Some),
            Self::Among(paths) => {
                for path in paths {
                    match ConfigFile::read(path) {
                        Err(ConfigError::Read { source, .. })
                            if source.kind() == io::ErrorKind::NotFound => {}
                        read => return read.map(Some),
                    }
                }
                Ok(None)
            }
        }
    }
}

impl ConfigFile {
    /// Reads a file without parsing it.
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let failed = |source| ConfigError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let writable_by_all = file.metadata().map_err(failed)?.permissions().mode() & 0o002 != 0;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(ConfigError::TooLarge { path: path.to_owned(), bytes_max: FILE_BYTES_MAX });
        }
        let not_text =
            |_| failed(io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8"));
        let text = String::from_utf8(bytes).map_err(not_text)?;
        Ok(Self { path: path.to_owned(), text, writable_by_all })
    }

    /// Parses the file; returns its statements in the order of lines.
    pub(super) fn statements(&self) -> Result<Vec<Statement>, Problem> {
        let lines = Lines::of(&self.text);
        let table = DeTable::parse(&self.text).map_err(|error| {
            let (line, column) = lines.at(error.span().map_or(0, |span| span.start));
            // The first line is the reason; the others repeat the text of the file.
            let message = error.message().lines().next().unwrap_or_default().to_owned();
            Problem::Syntax { path: self.path.clone(), line, column, message }
        })?;
        let mut statements = Vec::new();
        collect("", table.get_ref(), &lines, &mut statements);
        statements.sort_by_key(|statement| statement.line);
        Ok(statements)
    }
}

/// A statement of a file: a key with its value, or a name that is not a key.
#[derive(Debug)]
pub(super) struct Statement {
    /// From 1.
    pub(super) line: usize,
    pub(super) kind: StatementKind,
}

#[derive(Debug)]
pub(super) enum StatementKind {
    Value(&'static str, RawValue),
    /// A value under the name of a section.
    NotSection(String, RawValue),
    Unknown(String),
}

/// Collects the statements of a table and of its sections. The depth is that of the known sections.
fn collect(section: &str, table: &DeTable<'_>, lines: &Lines, found: &mut Vec<Statement>) {
    for (name, value) in table {
        let line = lines.at(name.span().start).0;
        let path = match (section, one_name(name.get_ref())) {
            ("", name) => name,
            (section, name) => format!("{section}.{name}"),
        };
        let kind = match (key(&path), value.get_ref().as_table()) {
            (Some(Key { path, .. }), _) => StatementKind::Value(
                path,
                RawValue { line: Some(line), ..RawValue::from_toml(value, Some(lines)) },
            ),
            (None, Some(inner)) if is_section(&path) => {
                collect(&path, inner, lines, found);
                continue;
            }
            (None, None) if is_section(&path) => {
                StatementKind::NotSection(path, RawValue::from_toml(value, Some(lines)))
            }
            (None, _) => StatementKind::Unknown(path),
        };
        found.push(Statement { line, kind });
    }
}

/// Returns a name as one segment of a path: a name with a dot is quoted, so that it cannot be taken
/// for a key of a section.
fn one_name(name: &str) -> String {
    if name.contains('.') { format!("{name:?}") } else { name.to_owned() }
}

fn is_section(path: &str) -> bool {
    sections().any(|section| section == path)
}

/// Returns the description of a value under the name of a section, and what is allowed there.
pub(super) fn not_section(path: &str, given: &RawValue) -> (String, String) {
    let inside = |key: &Key| {
        let rest = key.path.strip_prefix(path)?.strip_prefix('.')?;
        Some(rest.to_owned())
    };
    let names: Vec<String> = keys().filter_map(inside).collect();
    (given.describe(), format!("a table with {}", names.join(", ")))
}
