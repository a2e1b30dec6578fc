//! The nouns of Silica. No I/O, no async, no serde.
