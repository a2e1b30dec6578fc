//! Codecs: how the value of a key is read, which values are allowed, and how it is written.
//!
//! For every codec, `read` of the output of `write` returns the original value. Texts have no
//! control characters, so that they can be printed to a terminal.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::raw_value::{RawKind, RawValue};
use super::value::{Value, size};
use crate::units;

/// The longest text of any kind, in bytes.
const TEXT_BYTES_MAX: usize = 4096;

/// Reads and writes the values of one type.
pub(super) trait Codec {
    type Value;
    fn read(&self, given: &RawValue) -> Result<Self::Value, InvalidValue>;
    fn write(&self, value: &Self::Value) -> Value;
    /// Describes the values that `read` accepts, for "allowed: …".
    fn allowed(&self) -> String;
}

/// Why a value is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InvalidValue {
    /// The invalid part of the value, as a suffix of the key: `.name`, `[2]` or empty.
    pub(super) entry: String,
    /// The line of that part, if it is known.
    pub(super) line: Option<usize>,
    /// The invalid value, in words that follow "is".
    pub(super) given: String,
    pub(super) allowed: String,
}

impl InvalidValue {
    fn new(given: &RawValue, allowed: String) -> Self {
        Self { entry: String::new(), line: given.line, given: given.describe(), allowed }
    }

    fn within(mut self, entry: &str) -> Self {
        self.entry.insert_str(0, entry);
        self
    }
}

/// A whole number in a range.
pub(super) struct Whole<T>(pub(super) RangeInclusive<T>);

impl<T: Copy + Display + Into<u64> + TryFrom<i64> + PartialOrd> Codec for Whole<T> {
    type Value = T;

    fn read(&self, given: &RawValue) -> Result<T, InvalidValue> {
        let number = given.whole().and_then(|number| T::try_from(number).ok());
        let number = number.filter(|number| self.0.contains(number));
        number.ok_or_else(|| InvalidValue::new(given, self.allowed()))
    }

    fn write(&self, value: &T) -> Value {
        Value::Whole((*value).into())
    }

    fn allowed(&self) -> String {
        format!("a whole number from {} to {}", self.0.start(), self.0.end())
    }
}

/// A number of bytes.
pub(super) struct Bytes(pub(super) RangeInclusive<u64>);

impl Codec for Bytes {
    type Value = u64;

    fn read(&self, given: &RawValue) -> Result<u64, InvalidValue> {
        let bytes = match given.text() {
            Some(text) => units::bytes(text).ok(),
            None => given.whole().and_then(|number| u64::try_from(number).ok()),
        };
        let bytes = bytes.filter(|bytes| self.0.contains(bytes));
        bytes.ok_or_else(|| InvalidValue::new(given, self.allowed()))
    }

    fn write(&self, value: &u64) -> Value {
        Value::Bytes(*value)
    }

    fn allowed(&self) -> String {
        format!("a size from {} to {}", size(*self.0.start()), size(*self.0.end()))
    }
}

/// A number of seconds, rounded to milliseconds.
pub(super) struct Seconds(pub(super) RangeInclusive<Duration>);

impl Codec for Seconds {
    type Value = Duration;

    fn read(&self, given: &RawValue) -> Result<Duration, InvalidValue> {
        let seconds = given.number().and_then(|number| {
            let exact = Duration::try_from_secs_f64(number).ok()?;
            // A number too large for u64 saturates, and is then outside every range.
            Some(Duration::from_millis((exact.as_secs_f64() * 1000.0).round() as u64))
        });
        let seconds = seconds.filter(|seconds| self.0.contains(seconds));
        seconds.ok_or_else(|| InvalidValue::new(given, self.allowed()))
    }

    fn write(&self, value: &Duration) -> Value {
        match value.subsec_millis() {
            0 => Value::Whole(value.as_secs()),
            _ => Value::Decimal(value.as_millis() as f64 / 1000.0),
        }
    }

    fn allowed(&self) -> String {
        let least = self.0.start().as_secs_f64();
        let most = self.0.end().as_secs_f64();
        format!("a number of seconds from {least} to {most}")
    }
}

/// A number of whole days.
pub(super) struct Days(pub(super) RangeInclusive<u32>);

const DAY_SECONDS: u64 = 24 * 60 * 60;

impl Codec for Days {
    type Value = Duration;

    fn read(&self, given: &RawValue) -> Result<Duration, InvalidValue> {
        let days = given.whole().and_then(|number| u32::try_from(number).ok());
        let days = days.filter(|days| self.0.contains(days));
        let days = days.ok_or_else(|| InvalidValue::new(given, self.allowed()))?;
        Ok(Duration::from_secs(u64::from(days) * DAY_SECONDS))
    }

    fn write(&self, value: &Duration) -> Value {
        Value::Whole(value.as_secs() / DAY_SECONDS)
    }

    fn allowed(&self) -> String {
        format!("a number of days from {} to {}", self.0.start(), self.0.end())
    }
}

/// A number of processors, kept in thousandths.
pub(super) struct Processors(pub(super) RangeInclusive<u32>);

impl Codec for Processors {
    type Value = u32;

    fn read(&self, given: &RawValue) -> Result<u32, InvalidValue> {
        let millis = given.number().and_then(|number| units::cpus(&number.to_string()).ok());
        let millis = millis.filter(|millis| self.0.contains(millis));
        millis.ok_or_else(|| InvalidValue::new(given, self.allowed()))
    }

    fn write(&self, value: &u32) -> Value {
        match value % 1000 {
            0 => Value::Whole(u64::from(*value / 1000)),
            _ => Value::Decimal(f64::from(*value) / 1000.0),
        }
    }

    fn allowed(&self) -> String {
        let least = f64::from(*self.0.start());
        let most = f64::from(*self.0.end());
        format!("a number of processors from {} to {}", least / 1000.0, most / 1000.0)
    }
}

/// One of a few words.
pub(super) struct Choice<T: 'static>(pub(super) &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Codec for Choice<T> {
    type Value = T;

    fn read(&self, given: &RawValue) -> Result<T, InvalidValue> {
        let chosen = given.text().and_then(|text| self.0.iter().find(|(word, _)| *word == text));
        chosen.map(|(_, value)| *value).ok_or_else(|| InvalidValue::new(given, self.allowed()))
    }

    fn write(&self, value: &T) -> Value {
        let chosen = self.0.iter().find(|(_, other)| other == value);
        Value::Text(chosen.map_or("", |(word, _)| word).to_owned())
    }

    fn allowed(&self) -> String {
        let words: Vec<String> = self.0.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        match words.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} or {last}", others.join(", "))
            }
            _ => words.concat(),
        }
    }
}

/// `true` or `false`.
pub(super) struct Boolean;

impl Codec for Boolean {
    type Value = bool;

    fn read(&self, given: &RawValue) -> Result<bool, InvalidValue> {
        let word = match &given.kind {
            RawKind::Bare(text) | RawKind::Other(text) => text.as_str(),
            _ => "",
        };
        word.parse().map_err(|_| InvalidValue::new(given, self.allowed()))
    }

    fn write(&self, value: &bool) -> Value {
        Value::Boolean(*value)
    }

    fn allowed(&self) -> String {
        "true or false".to_owned()
    }
}

/// Why a text is invalid.
pub(super) enum TextError {
    /// It is not one of the `allowed` texts.
    NotAllowed,
    /// It is probably a secret and must not be printed; the description to print instead.
    Secret(&'static str),
    /// A specific reason.
    Because(String),
}

/// A text with a parser of its own.
pub(super) struct Text<T> {
    pub(super) allowed: &'static str,
    pub(super) read: fn(&str) -> Result<T, TextError>,
    pub(super) write: fn(&T) -> String,
}

impl<T> Codec for Text<T> {
    type Value = T;

    fn read(&self, given: &RawValue) -> Result<T, InvalidValue> {
        let refused = || InvalidValue::new(given, self.allowed());
        let text = given.text().ok_or_else(refused)?;
        let plain = text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control);
        let read = (self.read)(text);
        match read {
            Err(TextError::Secret(what)) => {
                Err(InvalidValue { given: what.to_owned(), ..refused() })
            }
            Err(TextError::Because(reason)) => {
                Err(InvalidValue { allowed: format!("{} ({reason})", self.allowed), ..refused() })
            }
            Err(TextError::NotAllowed) => Err(refused()),
            Ok(_) if !plain => Err(refused()),
            Ok(value) => Ok(value),
        }
    }

    fn write(&self, value: &T) -> Value {
        Value::Text((self.write)(value))
    }

    fn allowed(&self) -> String {
        self.allowed.to_owned()
    }
}

/// The absolute path of a file or directory.
pub(super) const PATH: Text<PathBuf> = Text {
    allowed: "an absolute path",
    read: |text| {
        if text.contains("-----BEGIN") {
            return Err(TextError::Secret("the content of a file (not shown)"));
        }
        let path = PathBuf::from(text);
        if path.is_absolute() { Ok(path) } else { Err(TextError::NotAllowed) }
    },
    write: |path| path.to_string_lossy().into_owned(),
};

/// A value that may be unset.
pub(super) struct Optional<C> {
    pub(super) of: C,
}

impl<C: Codec> Codec for Optional<C> {
    type Value = Option<C::Value>;

    fn read(&self, given: &RawValue) -> Result<Self::Value, InvalidValue> {
        // A file unsets a key by omitting it; a flag can only pass an empty text.
        match &given.kind {
            RawKind::Bare(text) if text.is_empty() => Ok(None),
            _ => self.of.read(given).map(Some),
        }
    }

    fn write(&self, value: &Self::Value) -> Value {
        value.as_ref().map_or(Value::Nothing, |value| self.of.write(value))
    }

    fn allowed(&self) -> String {
        self.of.allowed()
    }
}

/// A number for which zero means "unset".
pub(super) struct OrZero<C> {
    pub(super) of: C,
    /// The meaning of zero, in words that follow "0 for".
    pub(super) zero: &'static str,
}

impl<C: Codec> Codec for OrZero<C> {
    type Value = Option<C::Value>;

    fn read(&self, given: &RawValue) -> Result<Self::Value, InvalidValue> {
        if given.number() == Some(0.0) {
            return Ok(None);
        }
        let refused = |refusal| InvalidValue { allowed: self.allowed(), ..refusal };
        self.of.read(given).map(Some).map_err(refused)
    }

    fn write(&self, value: &Self::Value) -> Value {
        value.as_ref().map_or(Value::Whole(0), |value| self.of.write(value))
    }

    fn allowed(&self) -> String {
        format!("{}, or 0 for {}", self.of.allowed(), self.zero)
    }
}

/// A list of values.
pub(super) struct List<C> {
    pub(super) of: C,
    pub(super) items_max: usize,
    /// The separator of items in a variable or a flag; `None` if an item may contain any character.
    pub(super) separator: Option<char>,
}

impl<C: Codec> Codec for List<C> {
    type Value = Vec<C::Value>;

    fn read(&self, given: &RawValue) -> Result<Self::Value, InvalidValue> {
        let items = given.list(self.separator).filter(|items| items.len() <= self.items_max);
        let items = items.ok_or_else(|| InvalidValue::new(given, self.allowed()))?;
        let read = |(index, item): (usize, &RawValue)| {
            self.of.read(item).map_err(|refusal| refusal.within(&format!("[{index}]")))
        };
        items.iter().enumerate().map(read).collect()
    }

    fn write(&self, value: &Self::Value) -> Value {
        Value::List(value.iter().map(|item| self.of.write(item)).collect())
    }

    fn allowed(&self) -> String {
        format!("a list of up to {}, each {}", self.items_max, self.of.allowed())
    }
}

/// A table of values by name.
pub(super) struct Table<K, C> {
    pub(super) name: Text<K>,
    pub(super) of: C,
    pub(super) entries_max: usize,
}

impl<K: Ord, C: Codec> Codec for Table<K, C> {
    type Value = BTreeMap<K, C::Value>;

    fn read(&self, given: &RawValue) -> Result<Self::Value, InvalidValue> {
        let entries = given.table().filter(|entries| entries.len() <= self.entries_max);
        let entries = entries.ok_or_else(|| InvalidValue::new(given, self.allowed()))?;
        let mut table = BTreeMap::new();
        for (name, value) in &entries {
            let named = RawValue { line: value.line, ..RawValue::bare(name) };
            let key = self.name.read(&named).map_err(|refusal| InvalidValue {
                given: format!("a table with {}", refusal.given),
                ..refusal
            })?;
            let read = self.of.read(value);
            let read = read.map_err(|refusal| refusal.within(&format!(".{name}")))?;
            if table.insert(key, read).is_some() {
                let twice = InvalidValue::new(value, "each name once".to_owned());
                return Err(InvalidValue { given: "given twice".to_owned(), ..twice }
                    .within(&format!(".{name}")));
            }
        }
        Ok(table)
    }

    fn write(&self, value: &Self::Value) -> Value {
        let entry =
            |(name, value): (&K, &C::Value)| ((self.name.write)(name), self.of.write(value));
        Value::Table(value.iter().map(entry).collect())
    }

    fn allowed(&self) -> String {
        let names = self.name.allowed;
        let values = self.of.allowed();
        format!("a table of up to {} entries: {names} = {values}", self.entries_max)
    }
}
