//! Cells and their results.
//!
//! Output and results are not copied: a long response is written while its client reads it, and there may be many.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::ser::{SerializeMap, SerializeStruct};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use silica_domain::{Limit, Limits, Outcome};
use silica_engine::CellReport;
use silica_sessions::{CellPhase, KernelState};

use super::approval::CellApproval;
use super::finding::{Finding, findings};
use super::network::NetworkUse;
use super::{Detail, Moment, millis, promised};
use crate::facade::limits::field;
use crate::http::long_answer::LongText;
use crate::http::payload::{JsonText, KeptText, LossyText, PayloadValue};

/// A cell: code that is run in a kernel
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("examples" = [{
    "id": "c1", "kernel": "k1", "state": "done", "created_at": "2026-01-01T00:00:00.000000Z",
    "outcome": "ok", "exit_code": 0, "message": null, "stdout": "42\n", "stderr": "",
    "results": [], "text": null, "error": null,
    "files": {"created": [], "changed": [], "removed": [], "truncated": false},
    "duration_ms": 1.2, "limits_hit": [],
    "truncated": {"stdout": 0, "stderr": 0, "results": 0, "by_budget": false},
    "usage": {"cpu_ms": 1.0, "memory_peak_bytes": 5_992_448},
    "kernel_state": "ready", "lost": null,
}]))]
pub(crate) struct Cell {
    #[serde(flatten)]
    pub(super) request: CellRequest,
    #[serde(flatten)]
    pub(super) end: Option<CellEnd>,
    /// Has the output counted for its key until the response is written.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) _counted: Option<Arc<silica_sessions::CellEnd>>,
}

/// What is known of a cell before it ends.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CellRequest {
    /// The cell's id
    #[schemars(regex(pattern = "^c"))]
    id: String,
    /// The kernel that runs it
    kernel: String,
    /// The cell's progress; the fields from `outcome` on are present when it is `done`
    #[schemars(extend("enum" = ["awaiting_approval", "queued", "running", "done"]))]
    state: &'static str,
    /// When it was submitted
    created_at: Moment,
    /// The policy that has findings
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    policy: Option<String>,
    /// The findings of the policy, if there are any
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Finding>")]
    findings: Option<Vec<Finding>>,
    /// The approval that the cell waits or waited for
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CellApproval")]
    approval: Option<CellApproval>,
}

/// The result of a cell.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CellEnd {
    /// How it ended
    #[schemars(extend("enum" = [
        "ok", "raised", "exited", "interrupted", "timed_out", "cpu_exceeded", "out_of_memory",
        "crashed", "vanished", "disconnected", "sandbox_died", "denied",
    ]))]
    outcome: &'static str,
    /// The exit status that a shell would show
    exit_code: i32,
    /// What happened, for people; null if the code ended by itself
    message: Option<String>,
    /// Standard output, with a mark where bytes were left out
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    stdout: Option<KeptText>,
    /// Standard error, with a mark where bytes were left out
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    stderr: Option<KeptText>,
    /// The results, in order
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Bundle>")]
    results: Option<Vec<Bundle>>,
    /// The text of the main result
    #[schemars(with = "Option<String>")]
    text: Option<MainText>,
    /// The exception that ended it
    error: Option<CellError>,
    /// Files that it created, changed and removed
    #[schemars(with = "Changes")]
    files: ChangedFiles,
    /// Wall-clock time
    duration_ms: f64,
    /// Limits that it ran into
    limits_hit: Vec<LimitHit>,
    /// How much was left out
    truncated: Truncated,
    /// Resources that it used
    usage: CellUsage,
    /// The kernel afterwards
    #[schemars(extend("enum" = ["ready", "restarted", "ended"]))]
    pub(super) kernel_state: &'static str,
    /// What was lost with the interpreter, and what was not
    lost: Option<String>,
    /// What it did with the network, if its sandbox has one
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NetworkUse")]
    network: Option<NetworkUse>,
}

/// A result
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Bundle {
    /// Whether it is the value of the last expression
    main: bool,
    /// By MIME type: text as text, JSON as JSON, everything else in base 64
    #[schemars(with = "Map<String, Value>")]
    data: BundleData,
    /// By MIME type: sizes of pictures, the rows of a table that were cut off, and the like
    #[schemars(with = "Map<String, Value>")]
    metadata: BundleMetadata,
    /// The name by which a later result replaces this one
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    display_id: Option<String>,
    /// Whether it replaces the earlier results of that name
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    update: Option<bool>,
}

/// The payloads of a result, by MIME type.
#[derive(Debug)]
struct BundleData(Arc<silica_domain::Bundle>);

impl Serialize for BundleData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let payloads = self.0.payloads.iter();
        serializer.collect_map(payloads.map(|payload| (&payload.mime, PayloadValue(payload))))
    }
}

/// The metadata of a result.
#[derive(Debug)]
struct BundleMetadata(Arc<silica_domain::Bundle>);

impl Serialize for BundleMetadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = JsonText(&self.0.metadata);
        if text.is_valid() {
            text.serialize(serializer)
        } else {
            serializer.serialize_map(Some(0))?.end()
        }
    }
}

/// The text of a result.
#[derive(Debug)]
struct MainText(Arc<silica_domain::Bundle>);

impl MainText {
    fn of(results: &[Arc<silica_domain::Bundle>]) -> Option<Self> {
        let main = results.iter().find(|result| result.main)?;
        main.get("text/plain").map(|_| Self(Arc::clone(main)))
    }
}

impl Serialize for MainText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&LossyText(self.0.get("text/plain").unwrap_or_default()))
    }
}

/// An exception
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CellError {
    /// The exception's class
    name: String,
    /// Its message
    value: String,
    /// Its traceback, line by line
    traceback: Vec<String>,
}

/// Files that a cell created, changed and removed
#[derive(Debug, JsonSchema)]
#[schemars(inline, transform = promised(&[]))]
#[expect(dead_code, reason = "only its schema is used: lists of files are not copied")]
struct Changes {
    /// Files that are new
    created: Vec<ChangedFile>,
    /// Files whose content changed
    changed: Vec<ChangedFile>,
    /// Files that are gone
    removed: Vec<ChangedFile>,
    /// Whether there are more than are listed
    truncated: bool,
}

/// The files of a cell, which are rendered while they are written.
#[derive(Debug)]
struct ChangedFiles(Arc<silica_engine::Changes>);

impl Serialize for ChangedFiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let silica_engine::Changes { created, changed, removed, truncated } = &*self.0;
        let mut map = serializer.serialize_struct("Changes", 4)?;
        map.serialize_field("created", &FileList(created))?;
        map.serialize_field("changed", &FileList(changed))?;
        map.serialize_field("removed", &FileList(removed))?;
        map.serialize_field("truncated", truncated)?;
        map.end()
    }
}

/// A list of files, which are rendered one after the other.
struct FileList<'a>(&'a [silica_engine::ChangedFile]);

impl Serialize for FileList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let file = |file: &silica_engine::ChangedFile| ChangedFile {
            path: file.path.clone(),
            size: file.size,
        };
        serializer.collect_seq(self.0.iter().map(file))
    }
}

/// A file
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChangedFile {
    /// Its path
    path: String,
    /// Its size in bytes; of a removed file, the last known
    size: u64,
}

/// A limit that a cell ran into
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct LimitHit {
    /// The limit's name
    limit: &'static str,
    /// What happened and how to raise the limit, for people
    message: String,
}

/// How much was left out
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, transform = promised(&[]))]
struct Truncated {
    /// Bytes of standard output
    stdout: u64,
    /// Bytes of standard error
    stderr: u64,
    /// Results
    results: u64,
    /// Whether the budget `kept_bytes` of the key had no room for what was left out
    by_budget: bool,
}

/// Resources that a cell used
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, transform = promised(&[]))]
struct CellUsage {
    /// Processor time, where it is measured
    cpu_ms: Option<f64>,
    /// The sandbox's peak of memory so far, where it is measured
    memory_peak_bytes: Option<u64>,
}

/// The cells of a sandbox
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CellList {
    /// The last 100, newest first, without output and results
    pub(crate) cells: Vec<Cell>,
}

/// The time of a cell
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CellExtended {
    /// The cell's timeout in all
    pub(crate) timeout_seconds: f64,
}

impl Cell {
    /// Renders a cell as far as it has come.
    pub(crate) fn new(cell: &silica_sessions::Cell, detail: Detail) -> Self {
        let phase = cell.phase();
        let (state, counted) = match phase {
            CellPhase::AwaitingApproval => ("awaiting_approval", None),
            CellPhase::Queued => ("queued", None),
            CellPhase::Running => ("running", None),
            CellPhase::Done(end) => ("done", Some(end)),
        };
        let end = counted.as_ref().map(|end| CellEnd::of_cell(end, detail));
        let checked = &cell.checked;
        let has_findings = !checked.report.findings.is_empty();
        let request = CellRequest {
            id: cell.id.to_string(),
            kernel: cell.kernel.to_string(),
            state,
            created_at: Moment(cell.created_at),
            policy: has_findings.then(|| checked.policy.clone()),
            findings: has_findings.then(|| findings(&checked.report)),
            approval: cell.approval().as_deref().map(CellApproval::from),
        };
        Self { request, end, _counted: counted }
    }
}

impl LongText for Cell {
    fn bytes_least(&self) -> u64 {
        self.end.as_ref().map_or(0, CellEnd::bytes_least)
    }
}

impl LongText for CellList {
    fn bytes_least(&self) -> u64 {
        self.cells.iter().map(LongText::bytes_least).sum()
    }
}

impl Bundle {
    /// Returns about how many bytes its text has at least.
    pub(super) fn bytes_least(&self) -> u64 {
        self.data.0.bytes()
    }
}

impl CellRequest {
    /// Describes the only cell of a run without a server, which no policy checks.
    pub(super) fn only(created_at: Moment) -> Self {
        Self {
            id: "c1".to_owned(),
            kernel: "k1".to_owned(),
            state: "done",
            created_at,
            policy: None,
            findings: None,
            approval: None,
        }
    }
}

impl CellEnd {
    /// Returns about how many bytes its text has at least.
    pub(super) fn bytes_least(&self) -> u64 {
        let results = self.results.iter().flatten().map(Bundle::bytes_least).sum::<u64>();
        let streams = self.stdout.iter().chain(&self.stderr).map(|stream| stream.0.kept());
        results + streams.sum::<u64>() + self.files.0.bytes()
    }

    fn of_cell(end: &silica_sessions::CellEnd, detail: Detail) -> Self {
        let mut rendered = Self::new(&end.report, &end.files, detail, &end.limits, field);
        rendered.kernel_state = end.kernel.name();
        rendered.lost.clone_from(&end.lost);
        rendered.network = end.network.as_ref().map(NetworkUse::from);
        rendered
    }

    /// Renders a report of the engine, the kernel's fate apart. `setting` names a limit in messages.
    pub(super) fn new(
        report: &CellReport,
        files: &Arc<silica_engine::Changes>,
        detail: Detail,
        limits: &Limits,
        setting: fn(Limit) -> &'static str,
    ) -> Self {
        let is_full = detail == Detail::Full;
        let hit = |hit: &silica_domain::LimitHit| LimitHit {
            limit: hit.limit.name(),
            message: hit.message(setting(hit.limit)),
        };
        Self {
            outcome: Outcome::name(report.outcome),
            exit_code: report.outcome.exit_code(),
            message: report.outcome.explain(limits, setting),
            stdout: is_full.then(|| KeptText(Arc::clone(&report.stdout))),
            stderr: is_full.then(|| KeptText(Arc::clone(&report.stderr))),
            results: is_full.then(|| report.results.iter().map(Bundle::from).collect()),
            text: MainText::of(&report.results),
            error: report.error.as_ref().map(CellError::from),
            files: ChangedFiles(Arc::clone(files)),
            duration_ms: millis(report.duration),
            limits_hit: report.limits_hit.iter().map(hit).collect(),
            truncated: Truncated {
                stdout: report.stdout.left_out(),
                stderr: report.stderr.left_out(),
                results: report.results_left_out,
                by_budget: report.keeping_refused,
            },
            usage: CellUsage {
                cpu_ms: report.cpu.map(millis),
                memory_peak_bytes: report.memory_peak_bytes,
            },
            kernel_state: KernelState::Ready.name(),
            lost: None,
            network: None,
        }
    }
}

impl From<&Arc<silica_domain::Bundle>> for Bundle {
    fn from(bundle: &Arc<silica_domain::Bundle>) -> Self {
        Self {
            main: bundle.main,
            data: BundleData(Arc::clone(bundle)),
            metadata: BundleMetadata(Arc::clone(bundle)),
            display_id: bundle.display.as_ref().map(|display| display.id.clone()),
            update: bundle.display.as_ref().map(|display| display.update),
        }
    }
}

impl From<&silica_domain::CellError> for CellError {
    fn from(error: &silica_domain::CellError) -> Self {
        Self {
            name: error.name.clone(),
            value: error.value.clone(),
            traceback: error.traceback.clone(),
        }
    }
}
