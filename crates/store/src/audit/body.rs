//! The body of a record: typed, limited in length, redacted, and stored as JSON.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use silica_domain::{Limits, Outcome};

use super::settings::{AuditSettings, CodeKept};
use crate::limits::AuditedLimits;
use crate::{Digest, ExecutionId, SandboxId, Tenant};

/// The most code that is stored as text; of longer code this much of its beginning.
pub(super) const CODE_BYTES_MAX: usize = 64 * 1024;
/// The longest other text; more is cut off.
const TEXT_CHARS_MAX: usize = 1000;
/// The longest name of a detail, an event or an outcome; more is cut off.
const NAME_CHARS_MAX: usize = 64;
/// The most details of one record.
const DETAILS_MAX: usize = 32;
/// The most files that are listed; the others are counted.
const FILES_MAX: usize = 200;

/// The kind of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Code in a live interpreter.
    Cell,
    /// A process.
    Command,
    /// Code in a sandbox of its own.
    Run,
    /// An operation on files.
    File,
    /// A prompt for a model; the code that the model runs has records of its own.
    Interpret,
    /// Copies of a live sandbox.
    Fork,
    /// A live sandbox kept, to start others from.
    Snapshot,
    /// A live sandbox set back to an earlier state of it.
    Undo,
}

impl Activity {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cell => "cell",
            Self::Command => "command",
            Self::Run => "run",
            Self::File => "file",
            Self::Interpret => "interpret",
            Self::Fork => "fork",
            Self::Snapshot => "snapshot",
            Self::Undo => "undo",
        }
    }
}

/// An execution that is about to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// A new id.
    pub execution: ExecutionId,
    /// The key on whose behalf it happens.
    pub tenant: Tenant,
    /// The sandbox, if there is one.
    pub sandbox: Option<SandboxId>,
    /// Its kind.
    pub activity: Activity,
    /// The code or the command line.
    pub code: Option<String>,
    /// The result of the policy's check.
    pub check: Option<String>,
    /// Its limits.
    pub limits: Option<Limits>,
    /// Other facts by name.
    pub details: BTreeMap<String, String>,
}

impl Begin {
    /// Creates one with all optional fields empty.
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

/// The output of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The digest of what was stored of it.
    pub sha256: Digest,
    /// Bytes written to stdout.
    pub stdout_bytes: u64,
    /// Bytes written to stderr.
    pub stderr_bytes: u64,
}

/// A file that an execution changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFile {
    /// Its path in the sandbox.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// `created`, `changed` or `removed`.
    pub change: String,
}

/// The resources an execution used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedUsage {
    /// Wall-clock time.
    pub wall_ms: u64,
    /// Processor time; `None` if it was not measured.
    pub cpu_ms: Option<u64>,
    /// The most memory at once; `None` if it was not measured.
    pub memory_peak_bytes: Option<u64>,
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// The name of its outcome.
    pub outcome: String,
    /// A short form of the error, such as the name of an exception.
    pub error: Option<String>,
    /// Its output.
    pub output: Option<Output>,
    /// The files it changed.
    pub files: Vec<RecordedFile>,
    /// The resources it used.
    pub usage: Option<RecordedUsage>,
    /// Other facts by name.
    pub details: BTreeMap<String, String>,
}

impl Finish {
    /// Creates one with all optional fields empty.
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

/// An event that is not an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The name of the event, such as `server_started` or `sandbox_created`.
    pub event: String,
    /// The key on whose behalf it happens.
    pub tenant: Option<Tenant>,
    /// The sandbox, if there is one.
    pub sandbox: Option<SandboxId>,
    /// Other facts by name.
    pub details: BTreeMap<String, String>,
}

impl Note {
    /// Creates one with all optional fields empty.
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
    /// Its kind.
    pub activity: String,
    /// The code or the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<CodeBody>,
    /// The result of the policy's check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Its limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<AuditedLimits>,
    /// Other facts by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

/// Code in a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeBody {
    /// Its length, after redaction.
    pub bytes: u64,
    /// The digest of all of it, after redaction.
    pub sha256: Digest,
    /// Its text or the beginning of it; `None` if only digests are stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Whether the text is only the beginning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// The body of a `finish`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishBody {
    /// The name of the outcome.
    pub outcome: String,
    /// A short form of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// The files it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<RecordedFile>,
    /// How many more files it changed than are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_left_out: u64,
    /// The resources it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<RecordedUsage>,
    /// Other facts by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

/// The body of a `note`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteBody {
    /// The name of the event.
    pub event: String,
    /// Other facts by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

impl BeginBody {
    pub(super) fn new(begin: &Begin, settings: &AuditSettings) -> Self {
        Self {
            activity: begin.activity.name().to_owned(),
            code: begin.code.as_deref().map(|code| CodeBody::new(code, settings)),
            check: begin.check.as_deref().map(|check| text_of(check, settings)),
            limits: begin.limits.as_ref().map(AuditedLimits::from),
            details: details(&begin.details, settings),
        }
    }
}

impl CodeBody {
    fn new(code: &str, settings: &AuditSettings) -> Self {
        // Redacted first: a digest of the original could be used to guess what was redacted.
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

impl FinishBody {
    pub(super) fn new(finish: &Finish, settings: &AuditSettings) -> Self {
        let file = |file: &RecordedFile| RecordedFile {
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

/// Returns a body as the text that is authenticated and stored.
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

/// Redacts a text, then shortens it: a pattern might not match a text that was cut.
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
