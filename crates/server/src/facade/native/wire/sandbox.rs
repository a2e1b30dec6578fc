//! Sandboxes, their kernels, limits, containment and usage.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use silica_domain::Enforcement;
use silica_sessions::{EndReason, KernelInfo, SessionInfo, UsageSample};
use silica_store::sandboxes::SandboxRecord;

use super::account::BudgetUses;
use super::{Moment, promised};
use crate::facade::limits::SandboxLimits;

/// A sandbox
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(
    transform = promised(&["id", "state", "template", "metadata", "limits", "created_at", "kernels"]),
    extend("examples" = [{
        "id": "sbx0", "state": "running", "template": "code-interpreter",
        "metadata": {"user": "42"}, "limits": {"memory_bytes": 536_870_912, "cpus": 1.0},
        "created_at": "2026-01-01T00:00:00.000000Z", "expires_at": "2026-01-01T01:00:00.000000Z",
        "idle_seconds": 600, "max_cells": 1000, "cells_run": 0,
        "kernels": [{"id": "k1", "state": "idle", "cell": null, "cells_run": 0, "restarts": 0,
                     "created_at": "2026-01-01T00:00:00.000000Z"}],
        "end_reason": null, "ended_at": null, "containment": null,
    }])
)]
pub(crate) struct Sandbox {
    #[serde(flatten)]
    facts: SandboxFacts,
    /// What a sandbox that has ended used, where it is known
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Value")]
    usage: Option<Value>,
}

/// What is known of a sandbox, its usage apart.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::option_option, reason = "a field that is absent differs from one that is null")]
struct SandboxFacts {
    /// The sandbox's id
    #[schemars(regex(pattern = "^sbx"))]
    id: String,
    /// `lost` if the server stopped without ending it
    #[schemars(extend("enum" = ["running", "ended", "lost"]))]
    state: &'static str,
    /// The template that it started from
    template: String,
    /// The metadata that its owner set
    metadata: BTreeMap<String, String>,
    /// The limits of the sandbox
    #[schemars(with = "SandboxLimits")]
    limits: ShownLimits,
    /// When it was created
    created_at: Moment,
    /// When it expires
    expires_at: Option<Moment>,
    /// The time without use after which it ends
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_seconds: Option<Option<u64>>,
    /// The number of cells that it may run
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    max_cells: Option<u64>,
    /// The number of cells that it has run
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    cells_run: Option<u64>,
    /// Its kernels; none if it has ended
    kernels: Vec<Kernel>,
    /// Why it ended: `deleted`, `expired`, `idle`, `max_cells`, `out_of_memory`, `died`, `revoked`,
    /// `shutdown`, or words if it was lost
    end_reason: Option<String>,
    /// When it ended
    ended_at: Option<Moment>,
    /// The containment of the sandbox
    #[serde(skip_serializing_if = "Option::is_none")]
    containment: Option<Option<Containment>>,
}

/// Limits of a live sandbox, or as they were recorded.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ShownLimits {
    Live(SandboxLimits),
    Recorded(Value),
}

/// The measures that isolate a sandbox, and how far each is enforced
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Containment {
    /// The isolation tier
    tier: String,
    /// The measures by name
    #[schemars(with = "BTreeMap<String, Measure>")]
    measures: serde_json::Map<String, Value>,
}

/// One measure
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Measure {
    /// How far it is enforced
    #[schemars(extend("enum" = ["full", "partial", "missing"]))]
    state: &'static str,
    /// How, or why not
    detail: String,
}

impl From<&silica_domain::Containment> for Containment {
    fn from(containment: &silica_domain::Containment) -> Self {
        let mut measures = serde_json::Map::new();
        for measure in &containment.measures {
            let (state, detail) = match &measure.enforcement {
                Enforcement::Full(detail) => ("full", detail),
                Enforcement::Partial(detail) => ("partial", detail),
                Enforcement::Missing(detail) => ("missing", detail),
            };
            let rendered = Measure { state, detail: detail.clone() };
            let value = serde_json::to_value(rendered).unwrap_or_default();
            measures.insert(measure.name.to_owned(), value);
        }
        Self { tier: containment.tier.name().to_owned(), measures }
    }
}

impl SandboxFacts {
    fn live(info: &SessionInfo, enforced: Option<&silica_domain::Containment>) -> Self {
        Self {
            id: info.id.as_str().to_owned(),
            state: if info.ended.is_some() { "ended" } else { "running" },
            template: info.template.clone(),
            metadata: info.metadata.clone(),
            limits: ShownLimits::Live((&info.limits).into()),
            created_at: Moment(info.created_at),
            expires_at: Some(Moment(info.expires_at)),
            idle_seconds: Some(info.idle.map(|idle| idle.as_secs())),
            max_cells: Some(info.max_cells),
            cells_run: Some(info.cells_run),
            kernels: info.kernels.iter().map(Kernel::from).collect(),
            end_reason: info.ended.map(EndReason::name).map(str::to_owned),
            ended_at: None,
            containment: Some(enforced.map(Containment::from)),
        }
    }
}

impl Sandbox {
    /// Renders a live sandbox without its containment, which is long.
    pub(crate) fn brief(info: &SessionInfo) -> Self {
        Self { facts: SandboxFacts::live(info, None), usage: None }
    }

    /// Renders a live sandbox.
    pub(crate) fn full(info: &SessionInfo, enforced: &silica_domain::Containment) -> Self {
        Self { facts: SandboxFacts::live(info, Some(enforced)), usage: None }
    }

    /// Renders a sandbox of which there is only a record.
    pub(crate) fn recorded(record: &SandboxRecord) -> Self {
        let facts = SandboxFacts {
            id: record.id.as_str().to_owned(),
            state: record.state.name(),
            template: record.template.clone(),
            metadata: record.metadata.clone(),
            limits: ShownLimits::Recorded(record.limits.clone()),
            created_at: Moment(record.created_at),
            expires_at: record.expires_at.map(Moment),
            idle_seconds: None,
            max_cells: None,
            cells_run: None,
            kernels: Vec::new(),
            end_reason: record.end_reason.clone(),
            ended_at: record.ended_at.map(Moment),
            containment: None,
        };
        Self { facts, usage: Some(record.usage.clone().unwrap_or_default()) }
    }
}

/// A page of sandboxes
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SandboxList {
    /// The newest first
    pub(crate) sandboxes: Vec<Sandbox>,
    /// The value of `page` for the next page
    pub(crate) next_page: Option<String>,
}

/// What a sandbox used at a moment
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Usage {
    /// When
    at: Moment,
    /// Processor time so far, where it is measured
    cpu_ms: Option<u64>,
    /// Memory, files included, where it is measured
    memory_bytes: Option<u64>,
    /// The peak of memory so far, where it is measured
    memory_peak_bytes: Option<u64>,
    /// Bytes in files
    disk_bytes: u64,
    /// Number of files and directories
    files: u64,
}

impl From<&UsageSample> for Usage {
    fn from(sample: &UsageSample) -> Self {
        Self {
            at: Moment(sample.at),
            cpu_ms: sample.cpu_ms,
            memory_bytes: sample.memory_bytes,
            memory_peak_bytes: sample.memory_peak_bytes,
            disk_bytes: sample.disk_bytes,
            files: sample.files,
        }
    }
}

/// What a sandbox uses
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UsageReport {
    /// Now
    pub(crate) now: Usage,
    /// Every ten seconds, over the last hour
    pub(crate) samples: Vec<Usage>,
}

/// A kernel
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Kernel {
    /// The kernel's id
    #[schemars(regex(pattern = "^k"))]
    id: String,
    /// Whether it runs a cell
    #[schemars(extend("enum" = ["idle", "busy", "ended"]))]
    state: &'static str,
    /// The cell that it runs
    cell: Option<String>,
    /// The number of cells that it has run
    cells_run: u64,
    /// The number of times its interpreter was started again
    restarts: u64,
    /// When it was created
    created_at: Moment,
}

impl From<&KernelInfo> for Kernel {
    fn from(kernel: &KernelInfo) -> Self {
        Self {
            id: kernel.id.to_string(),
            state: kernel.phase.name(),
            cell: kernel.cell.map(|cell| cell.to_string()),
            cells_run: kernel.cells_run,
            restarts: kernel.restarts,
            created_at: Moment(kernel.created_at),
        }
    }
}

/// The kernels of a sandbox
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KernelList {
    /// The kernels
    pub(crate) kernels: Vec<Kernel>,
}

/// A live sandbox with its owner and usage
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(transform = promised(&[
    "id", "owner", "owner_name", "state", "template", "metadata", "limits", "created_at", "expires_at",
    "cells_run", "kernels", "commands_running", "usage",
]))]
pub(crate) struct WatchedSandbox {
    #[serde(flatten)]
    facts: SandboxFacts,
    /// Commands that run in it
    commands_running: usize,
    /// What it uses now
    usage: Usage,
    /// The name of its owner's key
    owner_name: Option<String>,
    /// The id of its owner's key
    owner: String,
}

impl WatchedSandbox {
    /// Renders a live sandbox.
    pub(crate) fn new(info: &SessionInfo, usage: &UsageSample, commands_running: usize) -> Self {
        Self {
            facts: SandboxFacts::live(info, None),
            commands_running,
            usage: usage.into(),
            owner_name: None,
            owner: String::new(),
        }
    }

    /// Sets the owner.
    pub(crate) fn owned_by(mut self, owner: String, name: Option<&str>) -> Self {
        self.owner = owner;
        self.owner_name = name.map(str::to_owned);
        self
    }
}

/// Live sandboxes
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WatchedSandboxList {
    /// When this was the case
    pub(crate) at: Moment,
    /// What all keys together hold, by resource
    pub(crate) budgets: BudgetUses,
    /// Every live sandbox, by id
    pub(crate) sandboxes: Vec<WatchedSandbox>,
}
