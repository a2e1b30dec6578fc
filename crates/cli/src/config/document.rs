//! Generates a commented configuration file and the documentation page from the table of keys.

use std::fmt::Write as _;

use super::keys::{Key, keys, section_about};
use super::settings::Settings;
use super::value::Value;

/// The most columns of a comment.
const COLUMNS_MAX: usize = 100;

/// Returns a configuration file with every key, its meaning and its value. Parsing it returns equal
/// settings.
pub(super) fn file(settings: &Settings) -> String {
    let mut text = "# The configuration of silica serve. Every key may be left out.\n".to_owned();
    let mut section = "";
    for key in keys() {
        if section_of(key) != section {
            section = section_of(key);
            let _ = write!(text, "\n{}[{section}]\n", comment(section_about(section)));
        }
        text.push_str(&statement(key, settings));
    }
    text
}

/// Returns a key with a comment, or the entries of a key that is a table.
fn statement(key: &Key, settings: &Settings) -> String {
    let value = (key.write)(settings);
    let (_, name) = key.split();
    let example = key.example.unwrap_or_default();
    match (&value, value.toml()) {
        (Value::Table(entries), _) if entries.is_empty() => format!("# {example}\n"),
        (Value::Table(_), _) => format!("{}\n", value.lines().join("\n")),
        (_, Some(value)) => format!("\n{}{name} = {value}\n", comment(&about(key))),
        (_, None) => format!("\n{}# {name} = {example}\n", comment(&about(key))),
    }
}

fn about(key: &Key) -> String {
    format!("{}. Allowed: {}.", key.about, (key.allowed)())
}

/// Returns the section of a key; a table is its own section.
fn section_of(key: &'static Key) -> &'static str {
    if key.is_table() { key.path } else { key.split().0 }
}

/// Returns text as lines that begin with `#`, wrapped between words.
fn comment(text: &str) -> String {
    let mut lines = "#".to_owned();
    let mut columns = 1;
    for word in text.split(' ') {
        let width = 1 + word.chars().count();
        if columns + width > COLUMNS_MAX {
            lines.push_str("\n#");
            columns = 1;
        }
        let _ = write!(lines, " {word}"); // Writing to a string cannot fail.
        columns += width;
    }
    lines + "\n"
}

/// Returns the page `docs/reference/configuration.md`.
#[cfg(test)]
pub(super) fn page() -> String {
    let mut text = include_str!("preface.md").to_owned();
    let mut section = "none yet";
    for key in keys() {
        if section_of(key) != section {
            section = section_of(key);
            text.push_str(&heading(section));
        }
        let default = match (key.write)(&Settings::default()).toml() {
            Some(value) => format!("`{value}`"),
            None => String::new(),
        };
        let path = key.path;
        // The maximums are of the limits above them.
        let about = if path.starts_with("limits.max.") { "" } else { key.about };
        let _ = writeln!(text, "| `{path}` | {about} | {default} |");
    }
    text
}

#[cfg(test)]
fn heading(section: &str) -> String {
    let title = match section {
        "" => "## Without a section".to_owned(),
        section => format!("## [{section}]\n\n{}", section_about(section)),
    };
    format!("\n{title}\n\n| key | meaning | default |\n|---|---|---|\n")
}
