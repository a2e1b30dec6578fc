//! The output of `silica config`: all settings with their origins.

use serde_json::{Value as Json, json};

use super::keys::keys;
use super::load::Loaded;

/// Printed for a value that is not set.
const NOTHING: &str = "-";

/// Returns a line for each key: its name, its value as in a file, and its origin.
pub(super) fn table(loaded: &Loaded) -> String {
    let rows: Vec<[String; 3]> = keys()
        .map(|key| {
            let value = (key.write)(&loaded.settings).toml();
            let origin = loaded.origin(key.path).to_string();
            [key.path.to_owned(), value.unwrap_or_else(|| NOTHING.to_owned()), origin]
        })
        .collect();
    let header = ["KEY", "VALUE", "ORIGIN"].map(str::to_owned);
    let rows: Vec<[String; 3]> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let [first, second] = [0, 1].map(|column| width(column).unwrap_or(0).min(COLUMN_CHARS_MAX));
    let line =
        |[key, value, origin]: &[String; 3]| format!("{key:<first$}  {value:<second$}  {origin}\n");
    rows.iter().map(line).collect()
}

/// The most characters of a column; a longer value shifts only its own line.
const COLUMN_CHARS_MAX: usize = 48;

/// Returns the settings as JSON. Sizes are numbers of bytes.
pub(super) fn json(loaded: &Loaded) -> Json {
    let row = |key: &super::keys::Key| {
        let origin = loaded.origin(key.path);
        json!({
            "key": key.path,
            "value": (key.write)(&loaded.settings).json(),
            "source": origin.kind(),
            "origin": origin.to_string(),
            "variable": key.variable(),
        })
    };
    let rows: Vec<Json> = keys().map(row).collect();
    json!({"file": loaded.file, "notices": loaded.notices, "settings": rows})
}
