//! The table of all keys, from which files, variables, output and documentation are made.

use std::time::Duration;

use silica_domain::LimitValues;
use silica_policy::Preset;
use silica_templates::TemplateName;

use super::address::{self, Listen};
use super::codec::{
    Boolean, Bytes, Choice, Codec, Days, InvalidValue, List, Optional, OrZero, PATH, Processors,
    Seconds, Table, Text, TextError, Whole,
};
use super::raw_value::RawValue;
use super::settings::{ApprovalMode, AuditCode, LogFormat, LogLevel, PolicySource, Settings};
use super::value::Value;

/// The largest count of anything.
const COUNT_MAX: u32 = 1_000_000;
/// The most transfers and connections.
const HELD_COUNT_MAX: u64 = 1_000_000;
/// The most cells of one sandbox.
const CELLS_MAX: u32 = 1_000_000_000;
/// The most audit records.
const RECORDS_MAX: u64 = 1_000_000_000_000;
/// The least bytes of the audit log, and of a key's records in a minute; more than one record takes.
const AUDIT_BYTES_MIN: u64 = 1 << 20;
/// The most tokens, and the most cents.
const TOKENS_MAX: u64 = 1_000_000_000_000;
/// The most forks of one zygote.
const FORKS_MAX: u64 = 1_000_000;
/// The largest size: 64 TiB.
const SIZE_MAX: u64 = 64 << 40;
/// The longest time: ten years.
const TIME_MAX: Duration = Duration::from_hours(24 * 365 * 10);
/// The most entries of a list or table.
const ENTRIES_MAX: usize = 100;
/// The most sandboxes of one template that are kept ready.
const READY_MAX: u32 = 1000;
/// The longest name of an input, in bytes.
const INPUT_NAME_BYTES_MAX: usize = 64;
/// The longest regular expression, in bytes.
const PATTERN_BYTES_MAX: usize = 1024;

const LEAST: LimitValues = LimitValues::LEAST;
const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

/// One setting.
pub(super) struct Key {
    /// The name in a file, with its sections: `tls.certificate`.
    pub(super) path: &'static str,
    /// The meaning, as a sentence without a full stop.
    pub(super) about: &'static str,
    /// A value to show where there is no default, as TOML.
    pub(super) example: Option<&'static str>,
    pub(super) allowed: fn() -> String,
    pub(super) read: fn(&mut Settings, &RawValue) -> Result<(), InvalidValue>,
    pub(super) write: fn(&Settings) -> Value,
}

impl Key {
    /// Returns the variable that sets the key, such as `SILICA_TLS_CERTIFICATE`.
    pub(super) fn variable(&self) -> String {
        format!("SILICA_{}", self.path.to_ascii_uppercase().replace('.', "_"))
    }

    /// Returns the section of the key and its name there.
    pub(super) fn split(&self) -> (&'static str, &'static str) {
        self.path.rsplit_once('.').unwrap_or(("", self.path))
    }

    /// Returns whether the value is a table with names that the operator chooses.
    pub(super) fn is_table(&self) -> bool {
        matches!((self.write)(&Settings::default()), Value::Table(_))
    }
}

/// Returns all keys: those without a section first, then section by section.
pub(super) fn keys() -> impl Iterator<Item = &'static Key> {
    [GENERAL, LIMITS_DEFAULT, LIMITS_MAX, OPERATION, network::NETWORK, model::MODEL]
        .into_iter()
        .flatten()
}

/// Finds a key by its path.
pub(super) fn key(path: &str) -> Option<&'static Key> {
    keys().find(|key| key.path == path)
}

/// Returns all sections, also those that only contain sections, with duplicates.
pub(super) fn sections() -> impl Iterator<Item = &'static str> {
    let above = |path: &&'static str| path.rsplit_once('.').map(|(section, _)| section);
    keys().flat_map(move |key| std::iter::successors(above(&key.path), above))
}

/// Returns the description of a section.
pub(super) fn section_about(section: &str) -> &'static str {
    let found = SECTIONS.iter().find(|(name, _)| *name == section);
    found.map_or("", |(_, about)| about)
}

pub(super) const SECTIONS: &[(&str, &str)] = &[
    ("tls", "Set both files or neither. Without them the server uses plain HTTP."),
    ("log", "What the server logs to standard error."),
    ("server", "Requests and connections."),
    (
        "sandboxes",
        "Defaults and maximums of sandboxes. A create request can override the defaults.",
    ),
    ("cells", "Time limits and numbers of cells."),
    ("limits.default", "The limits of a sandbox unless the create request sets others."),
    (
        "limits.max",
        "The highest limits that a create request can set. No default may be above them.",
    ),
    ("quota", "The quotas of each API key."),
    ("capacity", "What all keys together may hold at a time."),
    ("pool", "Sandboxes that are kept ready, by template. A given table replaces all defaults."),
    ("audit", "What is recorded of each execution."),
    ("policy", "How code is checked before it runs; see policy.md."),
    ("approvals", "Which code needs the approval of a person before it runs; see approvals.md."),
    ("inputs", "Files and directories of this machine that clients may mount read-only, by name."),
    ("ports", "How browsers reach servers in sandboxes; see ports.md."),
    (
        "zygotes",
        "When a zygote is replaced: the interpreters forked from it share address layout and hash \
         seed.",
    ),
    (
        "network",
        "What sandboxes may reach. Rules are written HOST, HOST:PORT or HOST:PORT/PROTOCOL; see \
         network.md.",
    ),
    ("network.hosts", "Addresses of names, which are not looked up then."),
    ("secrets", "Secrets that every key may use and none may see; see secrets.md."),
    (
        "model",
        "The model that answers prompts. Its key is in a file or in SILICA_MODEL_KEY, never here.",
    ),
    (
        "model.headers",
        "Additional headers for the provider. They are not secret: silica config prints them.",
    ),
    ("model.prices", "Dollars per million tokens read and written, by model, such as \"3/15\"."),
    ("interpret", "How prompts are answered, and the limits of one request."),
];

macro_rules! key {
    ($path:expr => $($field:tt).+, $codec:expr, $about:expr) => {
        key!($path => $($field).+, $codec, $about, None)
    };
    ($path:expr => $($field:tt).+, $codec:expr, $about:expr, $example:expr) => {
        Key {
            path: $path,
            about: $about,
            example: $example,
            allowed: || $codec.allowed(),
            read: |settings, given| {
                settings.$($field).+ = $codec.read(given)?;
                Ok(())
            },
            write: |settings| $codec.write(&settings.$($field).+),
        }
    };
}

mod model;
mod network;

const GENERAL: &[Key] = &[
    key!("listen" => listen, LISTEN, "The address and port to listen on; port 0 for any free one"),
    key!("public_url" => public_url, Optional { of: URL },
        "The URL at which clients reach the server, for links; the listening address if not set",
        Some("\"https://silica.example\"")),
    key!("tls.certificate" => tls.certificate, Optional { of: PATH },
        "The certificate and its chain, PEM", Some("\"/etc/silica/certificate.pem\"")),
    key!("tls.key" => tls.key, Optional { of: PATH }, "The certificate's private key, PEM",
        Some("\"/etc/silica/key.pem\"")),
    key!("log.format" => log.format,
        Choice(&[("text", LogFormat::Text), ("json", LogFormat::Json)]),
        "Lines of text, or one JSON object a line"),
    key!("log.level" => log.level, LEVEL, "The least important message that is still logged"),
    key!("server.request_body_bytes_max" => server.request_body_bytes_max,
        Bytes(1024..=4 << 30), "The largest JSON body; files are streamed and may be larger"),
    key!("server.shutdown_seconds" => server.shutdown, Seconds(Duration::ZERO..=HOUR),
        "How long running cells may take to end when the server is stopped"),
    key!("server.allowed_origins" => server.allowed_origins,
        List { of: ORIGIN, items_max: ENTRIES_MAX, separator: Some(',') },
        "Web pages, other than the server's own, that may call the API from a browser"),
    key!("server.allowed_hosts" => server.allowed_hosts,
        List { of: HOST, items_max: ENTRIES_MAX, separator: Some(',') },
        "Host names the server answers to, without ports; if empty, its own address, localhost and \
         the host of public_url"),
    key!("sandboxes.template" => sandboxes.template, TEMPLATE, "The template of a sandbox"),
    key!("sandboxes.ttl_seconds" => sandboxes.ttl, Seconds(SECOND..=TIME_MAX),
        "The lifetime of a sandbox"),
    key!("sandboxes.ttl_seconds_max" => sandboxes.ttl_max, Seconds(SECOND..=TIME_MAX),
        "The longest lifetime that one request can set"),
    key!("sandboxes.idle_seconds" => sandboxes.idle,
        OrZero { of: Seconds(SECOND..=TIME_MAX), zero: "never" },
        "The time without a request after which a sandbox ends"),
    key!("sandboxes.idle_seconds_max" => sandboxes.idle_max, Seconds(SECOND..=TIME_MAX),
        "The longest idle time that a request can set"),
    key!("sandboxes.max_cells" => sandboxes.max_cells, Whole(1..=CELLS_MAX),
        "The number of cells after which a sandbox ends"),
    key!("sandboxes.count_max" => sandboxes.count_max, Whole(1..=COUNT_MAX),
        "The most sandboxes on the whole server"),
    key!("sandboxes.ended_max" => sandboxes.ended_max,
        OrZero { of: Whole(1..=RECORDS_MAX), zero: "any number" },
        "How many records of ended sandboxes are kept; older ones are removed"),
    key!("cells.timeout_seconds" => cells.timeout, Seconds(MILLISECOND..=TIME_MAX),
        "The wall-clock time of a cell that sets no timeout"),
    key!("cells.timeout_seconds_max" => cells.timeout_max, Seconds(MILLISECOND..=TIME_MAX),
        "The longest timeout that a request can set, with extensions"),
    key!("cells.queue_max" => cells.queue_max, Whole(1..=COUNT_MAX),
        "The most cells waiting on the whole server; further ones are rejected"),
    key!("cells.running_max" => cells.running_max,
        OrZero { of: Whole(1..=COUNT_MAX), zero: "four times the number of processors" },
        "The most cells running on the whole server; further ones wait, except that a quarter as \
         many more, rounded down, may run for keys that run no other cell"),
];

/// The keys of all limits, for the section of the defaults and that of the maximums.
macro_rules! limit_keys {
    ($section:literal => $($limits:tt).+) => {
        &[
            key!(concat!($section, ".memory") => $($limits).+.memory_bytes,
                Bytes(LEAST.memory_bytes..=SIZE_MAX),
                "Memory of all processes and writable files together"),
            key!(concat!($section, ".disk") => $($limits).+.disk_bytes,
                Bytes(LEAST.disk_bytes..=SIZE_MAX),
                "Size of all writable files together, which are kept in memory"),
            key!(concat!($section, ".file_size") => $($limits).+.file_bytes,
                Bytes(LEAST.file_bytes..=SIZE_MAX), "The largest single file"),
            key!(concat!($section, ".cpus") => $($limits).+.cpu_millis,
                Processors(LEAST.cpu_millis..=COUNT_MAX), "Number of processors, or a fraction"),
            key!(concat!($section, ".cpu_seconds") => $($limits).+.cpu,
                Seconds(LEAST.cpu..=TIME_MAX), "Processor time of one cell"),
            key!(concat!($section, ".wall_seconds") => $($limits).+.wall,
                Seconds(LEAST.wall..=TIME_MAX), "Wall-clock time of one cell"),
            key!(concat!($section, ".processes") => $($limits).+.processes,
                Whole(LEAST.processes..=COUNT_MAX), "Processes and threads"),
            key!(concat!($section, ".open_files") => $($limits).+.open_files,
                Whole(LEAST.open_files..=COUNT_MAX), "Open files of one process"),
            key!(concat!($section, ".output") => $($limits).+.output_bytes,
                Bytes(LEAST.output_bytes..=SIZE_MAX), "Bytes kept of each of stdout and stderr"),
            key!(concat!($section, ".results") => $($limits).+.results,
                Whole(LEAST.results..=COUNT_MAX), "Results of one cell"),
            key!(concat!($section, ".result_bytes") => $($limits).+.result_bytes,
                Bytes(LEAST.result_bytes..=SIZE_MAX), "Bytes of all results of one cell"),
        ]
    };
}

const LIMITS_DEFAULT: &[Key] = limit_keys!("limits.default" => limits.default);
const LIMITS_MAX: &[Key] = limit_keys!("limits.max" => limits.max.0);

const OPERATION: &[Key] = &[
    key!("quota.requests_per_second" => quota.requests_per_second, Whole(1..=COUNT_MAX),
        "Sustained requests a second"),
    key!("quota.request_burst" => quota.request_burst, Whole(1..=COUNT_MAX),
        "Requests at once, above the sustained rate"),
    key!("quota.sandboxes" => quota.sandboxes, Whole(1..=COUNT_MAX), "Sandboxes at a time"),
    key!("quota.cells_running" => quota.cells_running, Whole(1..=COUNT_MAX),
        "Cells running at a time"),
    key!("quota.cells_queued" => quota.cells_queued, Whole(1..=COUNT_MAX),
        "Cells waiting at a time"),
    key!("quota.upload_bytes_per_minute" => quota.upload_bytes_per_minute, Bytes(1..=SIZE_MAX),
        "Bytes sent to the server"),
    key!("quota.output_bytes_per_minute" => quota.output_bytes_per_minute, Bytes(1..=SIZE_MAX),
        "Bytes received from the server"),
    key!("quota.audit_bytes_per_minute" => quota.audit_bytes_per_minute,
        Bytes(AUDIT_BYTES_MIN..=SIZE_MAX),
        "Bytes of records in the audit log and of its sandboxes, before compression; beyond that \
         executions are refused"),
    key!("quota.cpu_seconds_per_minute" => quota.cpu_per_minute,
        OrZero { of: Seconds(MILLISECOND..=TIME_MAX), zero: "no limit" },
        "Processor time of all sandboxes together"),
    key!("quota.in_flight_bytes" => quota.budget.in_flight_bytes, Bytes(1024..=SIZE_MAX),
        "Bytes of request bodies that are read or worked on, and of listings and searches that are sent, at a time"),
    key!("quota.kept_bytes" => quota.budget.kept_bytes, Bytes(1024..=SIZE_MAX),
        "Bytes of output and results that are kept for clients; the oldest are dropped"),
    key!("quota.transfers" => quota.budget.transfers, Whole(1..=HELD_COUNT_MAX),
        "Files, archives and long responses transferred at a time; further ones wait"),
    key!("quota.connections" => quota.budget.connections, Whole(1..=HELD_COUNT_MAX),
        "Connections at a time"),
    key!("quota.model_tokens_per_day" => quota.model_tokens_per_day,
        OrZero { of: Whole(1..=TOKENS_MAX), zero: "no limit" },
        "Tokens that models read and write, by UTC day"),
    key!("quota.model_cents_per_day" => quota.model_cents_per_day,
        OrZero { of: Whole(1..=TOKENS_MAX), zero: "no limit" },
        "Cost of models with a known price, in cents, by UTC day"),
    key!("capacity.in_flight_bytes" => capacity.in_flight_bytes, Bytes(1024..=SIZE_MAX),
        "Bytes of request bodies that are read or worked on, and of listings and searches that are sent, at a time"),
    key!("capacity.kept_bytes" => capacity.kept_bytes, Bytes(1024..=SIZE_MAX),
        "Bytes of output and results that are kept for clients; the oldest of the key that has \
         most are dropped"),
    key!("capacity.transfers" => capacity.transfers, Whole(1..=HELD_COUNT_MAX),
        "Files, archives and long responses transferred at a time; further ones wait"),
    key!("capacity.connections" => capacity.connections, Whole(1..=HELD_COUNT_MAX),
        "Connections at a time; the oldest that has shown no key is closed for a new one"),
    key!("pool" => pool,
        Table { name: TEMPLATE, of: Whole(0..=READY_MAX), entries_max: ENTRIES_MAX },
        "Sandboxes kept ready, by template", Some("code-interpreter = 4")),
    key!("audit.code" => audit.code,
        Choice(&[("full", AuditCode::Full), ("digest", AuditCode::Digest)]),
        "Whether the code itself is recorded or only its SHA-256"),
    key!("audit.redact" => audit.redact,
        List { of: PATTERN, items_max: ENTRIES_MAX, separator: None },
        "Regular expressions; text that matches one is recorded as [redacted]"),
    key!("audit.retention_days" => audit.retention,
        OrZero { of: Days(1..=36_500), zero: "ever" }, "How long records are kept"),
    key!("audit.records_max" => audit.records_max,
        OrZero { of: Whole(1..=RECORDS_MAX), zero: "any number" },
        "How many records are kept; older ones are removed"),
    key!("audit.bytes_max" => audit.bytes_max,
        OrZero { of: Bytes(AUDIT_BYTES_MIN..=SIZE_MAX), zero: "any size" },
        "How many bytes the log takes on the disk, about; beyond that the oldest records are \
         removed, and `silica audit verify` says how many"),
    key!("policy.default" => policy.default, POLICY,
        "The policy for code whose request names none"),
    key!("policy.minimum" => policy.minimum, Optional { of: POLICY },
        "A policy that checks all code in addition, so that no request can weaken it",
        Some("\"data\"")),
    key!("approvals.ask" => approvals.ask,
        Choice(&[("policy", ApprovalMode::Policy), ("always", ApprovalMode::Always)]),
        "Whether only code that a policy selects needs an approval, or every execution"),
    key!("approvals.timeout_seconds" => approvals.timeout, Seconds(SECOND..=APPROVAL_MAX),
        "How long a decision is waited for; code without one by then is denied"),
    key!("approvals.self" => approvals.own, Boolean,
        "Whether a key may approve its own code"),
    key!("approvals.webhook_url" => approvals.webhook_url, Optional { of: URL },
        "The URL that is sent a message about every new and every decided approval",
        Some("\"https://hooks.example/silica\"")),
    key!("approvals.webhook_secret_file" => approvals.webhook_secret_file, Optional { of: PATH },
        "A file with the secret that signs those messages, at least 16 bytes",
        Some("\"/etc/silica/webhook.secret\"")),
    key!("inputs" => inputs,
        Table { name: INPUT_NAME, of: PATH, entries_max: ENTRIES_MAX },
        "Absolute paths, by the name in a client's request", Some("corpus = \"/srv/corpus\"")),
    key!("ports.domain" => ports.domain, Optional { of: DOMAIN },
        "The domain below which each exposed port has a host name, PORT-SANDBOX.DOMAIN; all names \
         below it must lead to this server, and no other host name of the server may lie there",
        Some("\"ports.silica.example\"")),
    key!("zygotes.forks_max" => zygotes.forks_max, Whole(1..=FORKS_MAX),
        "The number of forks after which a zygote is replaced"),
    key!("zygotes.age_seconds_max" => zygotes.age_max, Seconds(SECOND..=TIME_MAX),
        "The age at which a zygote is replaced"),
];

const HOUR: Duration = Duration::from_hours(1);

const APPROVAL_MAX: Duration = Duration::from_hours(24 * 30);

const POLICY: Text<PolicySource> = Text {
    allowed: "\"strict\", \"data\", \"open\", or the absolute path of a policy file",
    read: |text| match Preset::from_name(text) {
        Some(preset) => Ok(PolicySource::Preset(preset)),
        None if text.starts_with('/') => Ok(PolicySource::File(text.into())),
        None => Err(TextError::NotAllowed),
    },
    write: |source| match source {
        PolicySource::Preset(preset) => preset.name().to_owned(),
        PolicySource::File(path) => path.to_string_lossy().into_owned(),
    },
};

const LISTEN: Text<Listen> = Text {
    allowed: "an address and a port, such as 127.0.0.1:8585, [::]:8585 or localhost:8585",
    read: |text| Listen::parse(text).ok_or(TextError::NotAllowed),
    write: ToString::to_string,
};

const URL: Text<String> = Text {
    allowed: "a URL that begins with http:// or https://, without user, query and fragment",
    read: |text| match address::url(text) {
        Some(url) => Ok(url),
        None if address::has_user(text) => Err(TextError::Secret("a URL with a user (not shown)")),
        None => Err(TextError::NotAllowed),
    },
    write: String::clone,
};

const ORIGIN: Text<String> = Text {
    allowed: "an origin, such as https://pages.example or http://localhost:3000",
    read: |text| match address::origin(text) {
        Some(origin) => Ok(origin),
        None if address::has_user(text) => Err(TextError::Secret("a URL with a user (not shown)")),
        None => Err(TextError::NotAllowed),
    },
    write: String::clone,
};

const HOST: Text<String> = Text {
    allowed: "a host name or address without a port",
    read: |text| address::host(text).ok_or(TextError::NotAllowed),
    write: String::clone,
};

const DOMAIN: Text<String> = Text {
    allowed: "a domain name without a port",
    read: |text| address::domain(text).ok_or(TextError::NotAllowed),
    write: String::clone,
};

const TEMPLATE: Text<TemplateName> = Text {
    allowed: "a template's name (1 to 40 of a-z, 0-9 and -, not starting with -)",
    read: |text| TemplateName::new(text).map_err(|_| TextError::NotAllowed),
    write: ToString::to_string,
};

const PATTERN: Text<String> = Text {
    allowed: "a regular expression",
    read: |text| {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(TextError::Because(format!("at most {PATTERN_BYTES_MAX} bytes long")));
        }
        match regex::Regex::new(text) {
            Ok(_) => Ok(text.to_owned()),
            Err(error) => Err(TextError::Because(last_line(&error.to_string()))),
        }
    },
    write: String::clone,
};

const INPUT_NAME: Text<String> = Text {
    allowed: "a name (1 to 64 of a-z, A-Z, 0-9, - and _)",
    read: |text| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let valid = (1..=INPUT_NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(plain);
        if valid { Ok(text.to_owned()) } else { Err(TextError::NotAllowed) }
    },
    write: String::clone,
};

const LEVEL: Choice<LogLevel> = Choice(&[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
]);

/// Returns the reason in an error of the parser of regular expressions, which is its last line.
fn last_line(text: &str) -> String {
    let line = text.lines().last().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
