//! What `silica config` prints: the settings in force, and where each comes from.

use serde_json::{Value as Json, json};

use super::keys::keys;
use super::load::Loaded;

/// What stands for a value that is not there.
const NOTHING: &str = "-";

/// A line for each key: name, value as in a file, origin.
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

/// The widest column; a longer value pushes its own line only.
const COLUMN_CHARS_MAX: usize = 48;

/// The same for programs. Sizes are numbers of bytes.
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
