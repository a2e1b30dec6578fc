//! What a record says beside its columns: typed, bounded, redacted, and written as JSON.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use silica_domain::{Limits, Outcome};

use super::settings::{AuditSettings, CodeKept};
use crate::{Digest, ExecutionId, SandboxId, Tenant};

/// The most code that is kept as text; of longer code the head is.
pub(super) const CODE_BYTES_MAX: usize = 64 * 1024;
/// The longest other text; more is cut off.
const TEXT_CHARS_MAX: usize = 1000;
/// The longest name of a detail, an event or an outcome; more is cut off.
const NAME_CHARS_MAX: usize = 64;
/// The most details of one record.
const DETAILS_MAX: usize = 32;
/// The most files that are named; the others are counted.
const FILES_MAX: usize = 200;

/// What kind of thing is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Code in a live interpreter.
    Cell,
    /// A process.
    Command,
    /// Code in a sandbox of its own.
    Run,
    /// Something with files.
    File,
    /// A prompt that a model answers; what it runs is recorded by itself.
    Interpret,
}

impl Activity {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cell => "cell",
            Self::Command => "command",
            Self::Run => "run",
            Self::File => "file",
            Self::Interpret => "interpret",
        }
    }
}

/// An execution that is about to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Its id, never used before.
    pub execution: ExecutionId,
    /// For whom.
    pub tenant: Tenant,
    /// In which sandbox.
    pub sandbox: Option<SandboxId>,
    /// What kind of thing it is.
    pub activity: Activity,
    /// The code or the command line.
    pub code: Option<String>,
    /// What the check of the code said.
    pub check: Option<String>,
    /// What it may use.
    pub limits: Option<Limits>,
    /// Anything else worth keeping.
    pub details: BTreeMap<String, String>,
}

impl Begin {
    /// One of which nothing more is said yet.
    pub fn new(execution: ExecutionId, tenant: Tenant, activity: Activity) -> Self {
        Self {
            execution,
            tenant,
            sandbox: None,
            activity,
            code: None,
            check: None,
            limits: None,
            details: BTreeMap::new(),
        }
    }
}

/// What an execution printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The digest of what was kept of it.
    pub sha256: Digest,
    /// How much it printed to stdout.
    pub stdout_bytes: u64,
    /// How much it printed to stderr.
    pub stderr_bytes: u64,
}

/// A file that an execution left or took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Where it is in the sandbox.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// What happened to it: `created`, `changed`, `removed`.
    pub change: String,
}

/// What an execution used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Time on the clock.
    pub wall_ms: u64,
    /// Processor time, where it was measured.
    pub cpu_ms: Option<u64>,
    /// The most memory, where it was measured.
    pub memory_peak_bytes: Option<u64>,
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// The name of its outcome.
    pub outcome: String,
    /// The error in short, for example the exception's name.
    pub error: Option<String>,
    /// What it printed.
    pub output: Option<Output>,
    /// Which files it changed.
    pub files: Vec<ChangedFile>,
    /// What it used.
    pub usage: Option<Usage>,
    /// Anything else worth keeping.
    pub details: BTreeMap<String, String>,
}

impl Finish {
    /// One of which nothing more is said yet.
    pub fn new(outcome: &str) -> Self {
        Self {
            outcome: outcome.to_owned(),
            error: None,
            output: None,
            files: Vec::new(),
            usage: None,
            details: BTreeMap::new(),
        }
    }
}

impl From<Outcome> for Finish {
    fn from(outcome: Outcome) -> Self {
        Self::new(outcome.name())
    }
}

/// Something that happened and is no execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What, in one word: `server_started`, `sandbox_created`.
    pub event: String,
    /// For whom.
    pub tenant: Option<Tenant>,
    /// In which sandbox.
    pub sandbox: Option<SandboxId>,
    /// Anything else worth keeping.
    pub details: BTreeMap<String, String>,
}

impl Note {
    /// One of which nothing more is said yet.
    pub fn new(event: &str) -> Self {
        let details = BTreeMap::new();
        Self { event: event.to_owned(), tenant: None, sandbox: None, details }
    }

    /// Adds a detail.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.details.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(super) fn redacted(mut self, settings: &AuditSettings) -> Self {
        self.details = details(&self.details, settings);
        self
    }
}

/// The body of a `begin`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginBody {
    /// What kind of thing it was.
    pub activity: String,
    /// The code or the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<CodeBody>,
    /// What the check of the code said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// What it might use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsBody>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

/// Code in a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeBody {
    /// How long it was, after redaction.
    pub bytes: u64,
    /// The digest of all of it, after redaction.
    pub sha256: Digest,
    /// Its text, or its head, or nothing where only digests are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether the text is only the head.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// Limits in a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsBody {
    memory_bytes: u64,
    cpu_ms: u64,
    wall_ms: u64,
    cpu_millis: u32,
    processes: u32,
    open_files: u32,
    disk_bytes: u64,
    file_bytes: u64,
    output_bytes: u64,
    results: u32,
    result_bytes: u64,
}

/// The body of a `finish`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishBody {
    /// The name of the outcome.
    pub outcome: String,
    /// The error in short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// Which files it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ChangedFile>,
    /// How many more files it changed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_left_out: u64,
    /// What it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

/// The body of a `note`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteBody {
    /// What happened.
    pub event: String,
    /// Anything else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

impl BeginBody {
    pub(super) fn new(begin: &Begin, settings: &AuditSettings) -> Self {
        Self {
            activity: begin.activity.name().to_owned(),
            code: begin.code.as_deref().map(|code| CodeBody::new(code, settings)),
            check: begin.check.as_deref().map(|check| text_of(check, settings)),
            limits: begin.limits.as_ref().map(LimitsBody::from),
            details: details(&begin.details, settings),
        }
    }
}

impl CodeBody {
    fn new(code: &str, settings: &AuditSettings) -> Self {
        // Redacted first, so that the digest cannot be used to guess what was taken out.
        let code = settings.redaction.apply(code);
        let head = &code[..code.floor_char_boundary(CODE_BYTES_MAX)];
        let text = match settings.code {
            CodeKept::Full => Some(head.to_owned()),
            CodeKept::Digest => None,
        };
        Self {
            bytes: code.len() as u64,
            sha256: Digest::of(code.as_bytes()),
            cut: text.is_some() && head.len() < code.len(),
            text,
        }
    }
}

impl From<&Limits> for LimitsBody {
    fn from(limits: &Limits) -> Self {
        Self {
            memory_bytes: limits.memory_bytes,
            cpu_ms: limits.cpu.as_millis() as u64,
            wall_ms: limits.wall.as_millis() as u64,
            cpu_millis: limits.cpu_millis,
            processes: limits.processes,
            open_files: limits.open_files,
            disk_bytes: limits.disk_bytes,
            file_bytes: limits.file_bytes,
            output_bytes: limits.output_bytes,
            results: limits.results,
            result_bytes: limits.result_bytes,
        }
    }
}

impl FinishBody {
    pub(super) fn new(finish: &Finish, settings: &AuditSettings) -> Self {
        let file = |file: &ChangedFile| ChangedFile {
            path: text_of(&file.path, settings),
            bytes: file.bytes,
            change: shorten(&file.change, NAME_CHARS_MAX),
        };
        Self {
            outcome: shorten(&finish.outcome, NAME_CHARS_MAX),
            error: finish.error.as_deref().map(|error| text_of(error, settings)),
            output: finish.output.clone(),
            files: finish.files.iter().take(FILES_MAX).map(file).collect(),
            files_left_out: finish.files.len().saturating_sub(FILES_MAX) as u64,
            usage: finish.usage.clone(),
            details: details(&finish.details, settings),
        }
    }
}

impl NoteBody {
    pub(super) fn new(note: &Note) -> Self {
        let settings = AuditSettings::default();
        let event = shorten(&note.event, NAME_CHARS_MAX);
        Self { event, details: details(&note.details, &settings) }
    }
}

/// A body as the text that is authenticated and kept.
pub(super) fn text(body: &impl Serialize) -> String {
    serde_json::to_string(body).expect("texts and numbers can always be written as JSON")
}

fn details(
    details: &BTreeMap<String, String>,
    settings: &AuditSettings,
) -> BTreeMap<String, String> {
    let pair = |(name, value): (&String, &String)| {
        (shorten(name, NAME_CHARS_MAX), text_of(value, settings))
    };
    details.iter().take(DETAILS_MAX).map(pair).collect()
}

/// A text from outside: redacted while it is whole, then cut.
fn text_of(text: &str, settings: &AuditSettings) -> String {
    shorten(&settings.redaction.apply(text), TEXT_CHARS_MAX)
}

fn shorten(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
