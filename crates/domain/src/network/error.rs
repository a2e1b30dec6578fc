//! What can be wrong with a rule, a name, a range or a path.

/// Why a part of a network policy was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The text is not a host name.
    #[error(
        "`{name}` is not a host name: {why}; write labels of letters, digits, `-` and `_`, such \
         as `api.example.com`"
    )]
    Name {
        /// The text, shortened.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The text is not a pattern of host names.
    #[error("`{pattern}` is not a host pattern: {why}; write a host name or `*.example.com`")]
    Pattern {
        /// The text, shortened.
        pattern: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The text is not an address range.
    #[error("`{range}` is not an address range: {why}; write `93.184.215.0/24` or one address")]
    Range {
        /// The text, shortened.
        range: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The text is not a mode.
    #[error("`{0}` is not a network mode; use none, list or open")]
    Mode(String),
    /// The text is not a protocol.
    #[error("`{0}` is not a protocol; use tls, http or tcp")]
    Protocol(String),
    /// A text has a port that is no number.
    #[error(
        "`{0}` has `{1}` in place of a port; write `HOST:PORT/PROTOCOL`, such as `db.example.com:5432/tcp`"
    )]
    Text(String, String),
    /// A rule names both a host and a range, or neither.
    #[error("a rule needs either `host` or `cidr`")]
    Target,
    /// A rule's ports are not allowed.
    #[error("the ports of a rule must be 1 to {most} different numbers from 1 to 65535")]
    Ports {
        /// How many are allowed.
        most: usize,
    },
    /// The protocol does not follow from the ports.
    #[error(
        "a rule for port {0} must name its `protocol`: tls, http or tcp; only 443 and 80 have one \
         of their own"
    )]
    ProtocolMissing(u16),
    /// A method is not allowed in a rule.
    #[error(
        "`{0}` cannot be a rule's method; use names such as GET or POST, and not TRACE or CONNECT"
    )]
    Method(String),
    /// A path pattern is not allowed.
    #[error("`{pattern}` is not a path pattern: {why}; write `/v1/*`")]
    PathPattern {
        /// The text, shortened.
        pattern: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A secret's name is not allowed.
    #[error("`{0}` is not the name of a secret; use 1 to 64 letters, digits, `-`, `_` and `.`")]
    SecretName(String),
    /// A field of a rule does not go with its protocol or its target.
    #[error("`{field}` cannot be used in this rule: {why}")]
    Field {
        /// The field.
        field: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// There are too many of something.
    #[error("there are {count} {what}; at most {most} are allowed")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many are allowed.
        most: usize,
    },
    /// A limit is out of its range.
    #[error("the network limit `{name}` must be from {least} to {most}")]
    Limit {
        /// The limit.
        name: &'static str,
        /// The least value.
        least: u64,
        /// The largest value.
        most: u64,
    },
    /// The path of a request cannot be compared with rules.
    #[error("the path of the request cannot be compared with rules: {0}")]
    Path(&'static str),
}

/// The longest piece of a refused text in a message.
const EXCERPT_CHARS_MAX: usize = 80;

/// Returns the beginning of a refused text, without control characters.
pub(super) fn excerpt(text: &str) -> String {
    text.chars()
        .take(EXCERPT_CHARS_MAX)
        .map(|character| if character.is_control() { '\u{fffd}' } else { character })
        .collect()
}
