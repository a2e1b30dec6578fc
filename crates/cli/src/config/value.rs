//! Formats values of settings as TOML, from which they can be read again, and as JSON.

use serde_json::{Value as Json, json};

/// A value to be printed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Not set, without a default.
    Nothing,
    Text(String),
    Boolean(bool),
    Whole(u64),
    Decimal(f64),
    /// A size, printed in the largest unit that divides it.
    Bytes(u64),
    List(Vec<Value>),
    /// Names are bare keys of TOML.
    Table(Vec<(String, Value)>),
}

impl Value {
    /// Returns the value as TOML; `None` if it is not set.
    pub(super) fn toml(&self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Text(text) => Some(toml::Value::String(text.clone()).to_string()),
            Self::Boolean(truth) => Some(truth.to_string()),
            Self::Whole(number) => Some(number.to_string()),
            Self::Decimal(number) => Some(format!("{number:?}")),
            Self::Bytes(bytes) => Some(match size(*bytes) {
                text if text.ends_with(|last: char| last.is_ascii_digit()) => text,
                text => format!("\"{text}\""),
            }),
            Self::List(items) => {
                let items: Vec<String> = items.iter().filter_map(Self::toml).collect();
                Some(format!("[{}]", items.join(", ")))
            }
            Self::Table(entries) if entries.is_empty() => Some("{}".to_owned()),
            Self::Table(_) => Some(format!("{{ {} }}", self.lines().join(", "))),
        }
    }

    /// Returns the entries of a table, each as `name = value`.
    pub(super) fn lines(&self) -> Vec<String> {
        let Self::Table(entries) = self else {
            return Vec::new();
        };
        let line = |(name, value): &(String, Self)| Some(format!("{name} = {}", value.toml()?));
        entries.iter().filter_map(line).collect()
    }

    pub(super) fn json(&self) -> Json {
        match self {
            Self::Nothing => Json::Null,
            Self::Text(text) => json!(text),
            Self::Boolean(truth) => json!(truth),
            Self::Whole(number) | Self::Bytes(number) => json!(number),
            Self::Decimal(number) => json!(number),
            Self::List(items) => items.iter().map(Self::json).collect(),
            Self::Table(entries) => {
                let entry = |(name, value): &(String, Self)| (name.clone(), value.json());
                Json::Object(entries.iter().map(entry).collect())
            }
        }
    }
}

/// Formats a number of bytes as `units::bytes` parses it.
pub(super) fn size(bytes: u64) -> String {
    for (shift, unit) in [(30, 'G'), (20, 'M'), (10, 'K')] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}
