//! A key's own numbers, templates, the audit log, and keys.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use silica_domain::NetworkMode;
use silica_sessions::{Admission, KeyCeiling, Quota, Resource};
use silica_store::Tenant;
use silica_store::audit::Verdict;
use silica_store::keys::KeyRecord;

use super::{Moment, promised};
use crate::http::long_answer::LongText;

/// A template
#[derive(Debug, JsonSchema)]
#[schemars(transform = promised(&["name"]))]
#[expect(dead_code, reason = "only its schema is used: the CLI makes the objects")]
struct Template {
    /// Its name
    name: String,
    /// What it is for
    description: String,
    /// The version of Python
    python: String,
    /// The Python packages in it
    packages: Value,
}

/// One template, as the operator's command described it.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct TemplateShown<'a>(pub(crate) &'a Value);

impl JsonSchema for TemplateShown<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        Template::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Template::json_schema(generator)
    }
}

/// The templates that sandboxes can start from
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TemplateList<'a> {
    /// The templates
    pub(crate) templates: Vec<TemplateShown<'a>>,
}

/// A key's own numbers
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(
    transform = promised(&["sandboxes", "cells_running", "cells_queued", "quota", "queue_depth"])
)]
pub(crate) struct Stats {
    /// Own sandboxes
    pub(crate) sandboxes: usize,
    /// Own cells that run
    pub(crate) cells_running: usize,
    /// Own cells that wait
    pub(crate) cells_queued: usize,
    /// What a key may use
    pub(crate) quota: QuotaShown,
    /// What this key holds, by resource: `in_flight_bytes`, `kept_bytes`, `transfers`, `connections`
    pub(crate) budgets: BudgetUses,
    /// Cells of all keys that wait
    pub(crate) queue_depth: usize,
    /// Use of models today (UTC)
    pub(crate) models_today: ModelsToday,
    /// For an admin key: the whole server
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ServerStats")]
    pub(crate) server: Option<ServerStats>,
}

/// What a key may use
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct QuotaShown {
    /// Sandboxes at a time
    #[schemars(with = "f64")]
    sandboxes: usize,
    /// Cells that run at a time
    #[schemars(with = "f64")]
    cells_running: usize,
    /// Cells that wait at a time
    #[schemars(with = "f64")]
    cells_queued: usize,
    /// Requests in a second
    requests_per_second: f64,
    /// Requests at once
    request_burst: f64,
    /// Bytes of uploads in a minute
    #[schemars(with = "f64")]
    upload_bytes_per_minute: u64,
    /// Bytes of output in a minute
    #[schemars(with = "f64")]
    output_bytes_per_minute: u64,
    /// Bytes of records in a minute
    #[schemars(with = "f64")]
    audit_bytes_per_minute: u64,
    /// Processor time in a minute
    #[schemars(with = "f64")]
    cpu_seconds_per_minute: u64,
}

impl From<&Quota> for QuotaShown {
    fn from(quota: &Quota) -> Self {
        Self {
            sandboxes: quota.sandboxes,
            cells_running: quota.running,
            cells_queued: quota.queued,
            requests_per_second: quota.requests_per_second,
            request_burst: quota.request_burst,
            upload_bytes_per_minute: quota.upload_bytes_per_minute,
            output_bytes_per_minute: quota.output_bytes_per_minute,
            audit_bytes_per_minute: quota.audit_bytes_per_minute,
            cpu_seconds_per_minute: quota.cpu_seconds_per_minute,
        }
    }
}

/// How much of a resource is held
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, transform = promised(&["held", "most"]))]
pub(crate) struct BudgetUse {
    /// What is held now
    held: u64,
    /// The most that may be held; null for a resource that only each key has a bound for
    most: Option<u64>,
}

/// Budgets, by resource
pub(crate) type BudgetUses = BTreeMap<&'static str, BudgetUse>;

/// Renders what a key holds of its budgets, or what all keys hold of the server's.
pub(crate) fn budget_uses(admission: &Admission, tenant: Option<&Tenant>) -> BudgetUses {
    let used = |resource: &Resource| {
        let held = admission.held(tenant, *resource);
        (resource.name(), BudgetUse { held, most: admission.most(tenant, *resource) })
    };
    Resource::ALL.iter().map(used).collect()
}

/// Use of models today (UTC)
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, transform = promised(&["requests", "cost_dollars"]))]
pub(crate) struct ModelsToday {
    /// Requests to models
    pub(crate) requests: u64,
    /// Tokens that they read
    pub(crate) input_tokens: u64,
    /// Tokens that they wrote
    pub(crate) output_tokens: u64,
    /// The cost, as far as prices are known
    pub(crate) cost_dollars: f64,
}

/// The whole server
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline, transform = promised(&[]))]
pub(crate) struct ServerStats {
    /// Sandboxes of all keys
    sandboxes: usize,
    /// Cells of all keys that run
    cells_running: usize,
    /// Sandboxes kept ready
    pool_ready: usize,
    /// Sandboxes that ended, by reason
    sandboxes_ended: BTreeMap<&'static str, u64>,
    /// What all keys together hold, by resource
    budgets: BudgetUses,
}

impl ServerStats {
    /// Renders the load of the whole server.
    pub(crate) fn new(
        admission: &Admission,
        pool_ready: usize,
        ended: BTreeMap<&'static str, u64>,
    ) -> Self {
        let all = admission.load(None);
        Self {
            sandboxes: all.sandboxes,
            cells_running: all.running,
            pool_ready,
            sandboxes_ended: ended,
            budgets: budget_uses(admission, None),
        }
    }
}

/// An execution in the audit log
#[derive(Debug, JsonSchema)]
#[schemars(transform = promised(&["seq", "execution", "begun_at", "outcome", "begin"]))]
#[expect(dead_code, reason = "only its schema is used: the store serialises its records")]
#[expect(clippy::struct_field_names, reason = "the names are those of the API")]
struct Execution {
    /// The number of its record in the chain
    seq: u64,
    /// The execution's id
    execution: String,
    /// The key
    tenant: Option<String>,
    /// The sandbox
    sandbox: Option<String>,
    /// When it began
    begun_at: Moment,
    /// When it ended
    finished_at: Option<Moment>,
    /// How it ended, or `unfinished`
    outcome: String,
    /// What was recorded before it began
    begin: Map<String, Value>,
    /// What was recorded after it ended
    finish: Option<Map<String, Value>>,
}

/// Executions in the audit log
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExecutionList {
    /// The newest first
    #[schemars(with = "Vec<Execution>")]
    executions: Vec<silica_store::audit::Execution>,
    /// Whether older ones were left out because the response would be too long
    truncated: bool,
    #[serde(skip)]
    #[schemars(skip)]
    bytes: u64,
}

impl From<silica_store::audit::Found> for ExecutionList {
    fn from(found: silica_store::audit::Found) -> Self {
        let silica_store::audit::Found { executions, bytes, is_cut } = found;
        Self { executions, truncated: is_cut, bytes }
    }
}

impl LongText for ExecutionList {
    fn bytes_least(&self) -> u64 {
        self.bytes
    }
}

/// The result of checking the audit log's chain
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "AuditVerdict", transform = one_object)]
pub(crate) enum AuditCheck {
    Whole {
        /// Whether no record was changed or removed
        ok: bool,
        /// Records that were checked
        records: u64,
        /// The number of the first one
        first: Option<u64>,
        /// The last one, to be noted elsewhere
        head: String,
        /// Executions without an end
        unfinished: u64,
    },
    Broken {
        /// Whether no record was changed or removed
        ok: bool,
        /// What is wrong, if `ok` is false
        fault: String,
    },
}

/// Describes both forms of the result as one object in which only `ok` is certain.
fn one_object(schema: &mut schemars::Schema) {
    let Some(Value::Array(forms)) = schema.remove("anyOf") else { return };
    let mut properties = Map::new();
    for form in &forms {
        let fields = form["properties"].as_object().into_iter().flatten();
        properties.extend(fields.map(|(name, field)| (name.clone(), field.clone())));
    }
    schema.insert("type".to_owned(), "object".into());
    schema.insert("required".to_owned(), serde_json::json!(["ok"]));
    schema.insert("properties".to_owned(), properties.into());
}

impl From<Verdict> for AuditCheck {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Whole(summary) => Self::Whole {
                ok: true,
                records: summary.records,
                first: summary.first,
                head: summary.head.to_string(),
                unfinished: summary.unfinished,
            },
            Verdict::Broken(fault) => Self::Broken { ok: false, fault: fault.to_string() },
        }
    }
}

/// A key
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Key {
    /// Its id, which is not secret
    id: String,
    /// Its name
    name: String,
    /// Whether it may do everything
    admin: bool,
    /// Whether it may decide on approvals
    approve: bool,
    /// The most of the network that its sandboxes may have; null for what all keys may have
    network: Option<KeyNetwork>,
    /// When it was created
    created_at: Moment,
    /// When it was revoked
    revoked_at: Option<Moment>,
}

impl From<&KeyRecord> for Key {
    fn from(key: &KeyRecord) -> Self {
        Self {
            id: key.id.as_str().to_owned(),
            name: key.name.clone(),
            admin: key.admin,
            approve: key.approve,
            network: KeyNetwork::of(key),
            created_at: Moment(key.created_at),
            revoked_at: key.revoked_at.map(Moment),
        }
    }
}

/// The most of the network that the sandboxes of a key may have
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct KeyNetwork {
    /// How much of the network there is
    #[schemars(extend("enum" = ["none", "list", "open"]))]
    mode: &'static str,
    /// The rules that a sandbox may ask for
    allow: Vec<String>,
}

impl KeyNetwork {
    fn of(key: &KeyRecord) -> Option<Self> {
        // Limits that cannot be read allow nothing.
        let none = || Some(Self { mode: NetworkMode::None.name(), allow: Vec::new() });
        match KeyCeiling::from_limits(key.limits.as_deref()?) {
            Ok(ceiling) => {
                ceiling.map(|ceiling| Self { mode: ceiling.mode().name(), allow: ceiling.rules() })
            }
            Err(_) => none(),
        }
    }
}

/// A new key
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "NewKey")]
pub(crate) struct KeyCreated {
    #[serde(flatten)]
    pub(crate) record: Key,
    /// The secret, which no other response contains
    pub(crate) key: String,
}

/// Keys
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct KeyList {
    /// Every key
    pub(crate) keys: Vec<Key>,
}
