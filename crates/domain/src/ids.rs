//! Ids of what a sandbox holds. Each is a letter and a number, unique in its sandbox: `c1`, `k1`, `p1`, `w1`.

#[cfg(test)]
mod tests;

use std::fmt;

/// A text that is not the id of anything in a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the id of a {kind}")]
pub struct UnknownId {
    /// What was expected.
    pub kind: ItemKind,
    /// The text, cut to a length that can be shown.
    pub text: String,
}

/// What an id can name in a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ItemKind {
    /// A cell.
    Cell,
    /// A kernel.
    Kernel,
    /// A command.
    Command,
    /// A watcher of a directory.
    Watcher,
}

impl fmt::Display for ItemKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Cell => "cell",
            Self::Kernel => "kernel",
            Self::Command => "command",
            Self::Watcher => "watcher",
        })
    }
}

/// How much of a text that is no id its error repeats.
const SHOWN_CHARS_MAX: usize = 80;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $kind:expr, $letter:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u64);

        impl $name {
            /// Returns the id with this number. Numbers count from 1 in each sandbox.
            pub const fn new(number: u64) -> Self {
                Self(number)
            }

            /// Reads an id in the form that [`Display`](fmt::Display) writes, and in no other form.
            pub fn parse(text: &str) -> Result<Self, UnknownId> {
                number(text, $letter).map(Self).ok_or_else(|| UnknownId {
                    kind: $kind,
                    text: text.chars().take(SHOWN_CHARS_MAX).collect(),
                })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, concat!($letter, "{}"), self.0)
            }
        }
    };
}

id!(
    /// The id of a cell: `c1`, `c2` …
    CellId,
    ItemKind::Cell,
    'c'
);
id!(
    /// The id of a kernel: `k1`, `k2` …
    KernelId,
    ItemKind::Kernel,
    'k'
);
id!(
    /// The id of a command: `p1`, `p2` …
    CommandId,
    ItemKind::Command,
    'p'
);
id!(
    /// The id of a watcher of a directory: `w1`, `w2` …
    WatcherId,
    ItemKind::Watcher,
    'w'
);

/// Returns the number behind the letter. Signs and leading zeros would give one id two spellings.
fn number(text: &str, letter: char) -> Option<u64> {
    let digits = text.strip_prefix(letter)?;
    let is_canonical = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    if is_canonical { digits.parse().ok() } else { None }
}
