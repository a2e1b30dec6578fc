//! `cargo xtask tidy`: the house rules that no compiler checks, over every file of the project.
//!
//! A rule looks at the text of one file and returns problems; only this file walks directories. What
//! a rule finds has a line and says what is wanted, so that nobody has to read the rule.

mod documented;
mod evidence;
mod layers;
mod manifests;
mod markdown;
mod names;
mod rust;
mod source;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    /// From the root of the project, with `/`.
    path: String,
    line: usize,
    message: String,
}

impl Problem {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A text file of the project.
#[derive(Clone, Debug)]
struct SourceFile {
    /// From the root of the project, with `/`.
    path: String,
    text: String,
}

impl SourceFile {
    fn has_ending(&self, ending: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == ending)
    }

    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// Endings of files that people write. Locks, pictures and licences are not looked at.
const ENDINGS: [&str; 6] = ["rs", "py", "md", "toml", "sh", "yml"];

/// Directories with files nobody wrote.
const SKIPPED: [&str; 5] = [".git", "target", "__pycache__", ".pytest_cache", "node_modules"];

/// The deepest directory that is looked into.
const DEPTH_MAX: usize = 16;

/// Checks the whole project and prints what is wrong; true if nothing is.
pub(crate) fn run() -> Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let files = read_all(&root)?;
    let mut problems = Vec::new();
    for file in &files {
        problems.extend(check_one(file));
        problems.extend(markdown::links(file, &|path| resolve(&root, path)));
    }
    problems.extend(manifests::check(&files));
    problems.extend(names::check(&files));
    problems.extend(evidence::check(&files));
    problems.sort();
    for note in files.iter().filter_map(rust::long) {
        println!("note: {note}");
    }
    for problem in &problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => println!("tidy: {} files, nothing to complain about", files.len()),
        count => println!("tidy: {count} problems in {} files", files.len()),
    }
    Ok(problems.is_empty())
}

/// Every rule that looks at one file alone.
fn check_one(file: &SourceFile) -> Vec<Problem> {
    let mut problems = text::check(file);
    if file.has_ending("rs") {
        problems.extend(rust::check(file));
        problems.extend(documented::check(file));
    }
    problems
}

/// What a link can lead to.
enum Target {
    Missing,
    There,
    /// A Markdown file, whose headings can be linked to.
    Markdown(String),
}

fn resolve(root: &Path, path: &str) -> Target {
    let path = root.join(path);
    if !path.exists() {
        return Target::Missing;
    }
    if path.extension().is_some_and(|ending| ending == "md") {
        return std::fs::read_to_string(&path).map_or(Target::There, Target::Markdown);
    }
    Target::There
}

fn read_all(root: &Path) -> Result<Vec<SourceFile>> {
    let mut paths = Vec::new();
    walk(root, DEPTH_MAX, &mut paths)?;
    paths.sort();
    paths.iter().map(|path| read(root, path)).collect()
}

fn read(root: &Path, path: &Path) -> Result<SourceFile> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {} as text", path.display()))?;
    let relative = path.strip_prefix(root).unwrap_or(path);
    Ok(SourceFile { path: relative.to_string_lossy().into_owned(), text })
}

fn walk(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot list {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = entry.file_name();
        if kind.is_dir() && depth > 0 && !is_skipped(&path) {
            walk(&path, depth - 1, found)?;
        } else if kind.is_file() {
            let ending = Path::new(&name).extension().and_then(|ending| ending.to_str());
            if ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
                found.push(path);
            }
        }
    }
    Ok(())
}

/// Build folders carry a tag, whatever they are called; virtual environments a configuration.
fn is_skipped(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default();
    SKIPPED.iter().any(|skipped| name == *skipped)
        || directory.join("CACHEDIR.TAG").exists()
        || directory.join("pyvenv.cfg").exists()
}
