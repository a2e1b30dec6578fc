//! Values as they are written in a file, a variable or a flag, before the codec of a key reads
//! them.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The longest value that a message quotes, in characters.
pub(super) const SHOWN_CHARS_MAX: usize = 80;

/// A value, and its line if it is from a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RawValue {
    pub(super) kind: RawKind,
    pub(super) line: Option<usize>,
}

/// The forms a value can have.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RawKind {
    /// Text of a variable or a flag, whose type the key decides.
    Bare(String),
    Text(String),
    Whole(i64),
    Decimal(f64),
    List(Vec<RawValue>),
    Table(Vec<(String, RawValue)>),
    /// A boolean, a time, or a number out of range.
    Other(String),
}

impl RawValue {
    /// Returns the value of a variable or a flag.
    pub(super) fn bare(text: &str) -> Self {
        Self { kind: RawKind::Bare(text.to_owned()), line: None }
    }

    /// Returns a value of a TOML document.
    pub(super) fn from_toml(value: &Spanned<DeValue<'_>>, lines: Option<&Lines>) -> Self {
        let line = lines.map(|lines| lines.at(value.span().start).0);
        let kind = match value.get_ref() {
            DeValue::String(text) => RawKind::Text(text.to_string()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| RawKind::Other(number.to_string()), RawKind::Whole),
            DeValue::Float(number) => number
                .as_str()
                .parse()
                .map_or_else(|_| RawKind::Other(number.to_string()), RawKind::Decimal),
            DeValue::Boolean(truth) => RawKind::Other(truth.to_string()),
            DeValue::Datetime(time) => RawKind::Other(time.to_string()),
            DeValue::Array(items) => {
                RawKind::List(items.iter().map(|item| Self::from_toml(item, lines)).collect())
            }
            DeValue::Table(table) => RawKind::Table(entries(table, lines)),
        };
        Self { kind, line }
    }

    /// Returns the value if it is text.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            RawKind::Bare(text) | RawKind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value if it is an integer.
    pub(super) fn whole(&self) -> Option<i64> {
        match &self.kind {
            RawKind::Whole(number) => Some(*number),
            RawKind::Bare(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Returns the value if it is a finite number.
    pub(super) fn number(&self) -> Option<f64> {
        let number = match &self.kind {
            RawKind::Whole(number) => *number as f64,
            RawKind::Decimal(number) => *number,
            RawKind::Bare(text) => text.parse().ok()?,
            _ => return None,
        };
        number.is_finite().then_some(number)
    }

    /// Returns the items of a list. Bare text is a TOML array, or items with a separator between
    /// them; empty text is the empty list.
    pub(super) fn list(&self, separator: Option<char>) -> Option<Vec<Self>> {
        let text = match &self.kind {
            RawKind::List(items) => return Some(items.clone()),
            RawKind::Bare(text) => text.trim(),
            _ => return None,
        };
        if text.starts_with('[') && text.ends_with(']') {
            return match Self::from_toml(&DeValue::parse(text).ok()?, None).kind {
                RawKind::List(items) => Some(items),
                _ => None,
            };
        }
        match separator {
            _ if text.is_empty() => Some(Vec::new()),
            Some(separator) => {
                Some(text.split(separator).map(|item| Self::bare(item.trim())).collect())
            }
            None => Some(vec![Self::bare(text)]),
        }
    }

    /// Returns the entries of a table. Bare text is a TOML inline table, or
    /// `name=value,name=value`.
    pub(super) fn table(&self) -> Option<Vec<(String, Self)>> {
        let text = match &self.kind {
            RawKind::Table(entries) => return Some(entries.clone()),
            RawKind::Bare(text) => text.trim(),
            _ => return None,
        };
        if text.starts_with('{') {
            return match Self::from_toml(&DeValue::parse(text).ok()?, None).kind {
                RawKind::Table(entries) => Some(entries),
                _ => None,
            };
        }
        if text.is_empty() {
            return Some(Vec::new());
        }
        let entry = |item: &str| {
            let (name, value) = item.split_once('=')?;
            Some((name.trim().to_owned(), Self::bare(value.trim())))
        };
        text.split(',').map(entry).collect()
    }

    /// Describes the value for a message.
    pub(super) fn describe(&self) -> String {
        match &self.kind {
            RawKind::Bare(text) | RawKind::Text(text) => format!("{:?}", cut(text)),
            RawKind::Whole(number) => number.to_string(),
            RawKind::Decimal(number) => number.to_string(),
            RawKind::Other(text) => cut(text),
            RawKind::List(_) => "a list".to_owned(),
            RawKind::Table(_) => "a table".to_owned(),
        }
    }
}

/// Returns the entries of a table in the order of the document.
fn entries(table: &DeTable<'_>, lines: Option<&Lines>) -> Vec<(String, RawValue)> {
    let mut ordered: Vec<_> = table.iter().collect();
    ordered.sort_by_key(|(name, _)| name.span().start);
    let entry = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let mut given = RawValue::from_toml(value, lines);
        given.line = lines.map(|lines| lines.at(name.span().start).0);
        (String::from(name.get_ref() as &str), given)
    };
    ordered.into_iter().map(|(name, value)| entry((name, value))).collect()
}

/// Returns the first `SHOWN_CHARS_MAX` characters of a text, for a message.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The byte offsets at which the lines of a text begin.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let after_ends = text.match_indices('\n').map(|(end, _)| end + 1);
        Self(std::iter::once(0).chain(after_ends).collect())
    }

    /// Returns the line and column of a byte offset, both from 1. The column counts bytes.
    pub(super) fn at(&self, byte: usize) -> (usize, usize) {
        let line = self.0.partition_point(|&start| start <= byte);
        (line, byte - self.0[line - 1] + 1)
    }
}
