//! The settings of the server as typed values, grouped like the sections of the file.
//!
//! `Settings::load` returns complete and consistent settings. All defaults are defined here.

mod model;
mod network;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use silica_domain::{LimitValues, LimitsMax};
use silica_engine::ZygotePolicy;
use silica_policy::Preset;
use silica_sessions::Budget;
use silica_templates::TemplateName;

use super::address::Listen;

pub(crate) use model::{AuthHeader, Interpret, Model, Provider};
pub(crate) use network::{Network, SecretSource};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// All settings of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) listen: Listen,
    /// The URL at which clients reach the server, for links; without a trailing slash.
    pub(crate) public_url: Option<String>,
    pub(crate) tls: TlsFiles,
    pub(crate) log: Log,
    pub(crate) server: Server,
    pub(crate) sandboxes: Sandboxes,
    pub(crate) cells: Cells,
    pub(crate) limits: LimitSettings,
    pub(crate) quota: Quota,
    /// What all keys together may hold at a time.
    pub(crate) capacity: Budget,
    /// How many sandboxes are kept ready, by template.
    pub(crate) pool: BTreeMap<TemplateName, u32>,
    pub(crate) audit: Audit,
    pub(crate) policy: PolicySettings,
    pub(crate) approvals: ApprovalSettings,
    /// Absolute paths that clients may mount read-only, by the name in their request.
    pub(crate) inputs: BTreeMap<String, PathBuf>,
    pub(crate) ports: Ports,
    pub(crate) zygotes: ZygotePolicy,
    pub(crate) network: Network,
    pub(crate) model: Model,
    pub(crate) interpret: Interpret,
}

/// Both are set, or neither.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

/// The settings of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    pub(crate) level: LogLevel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// The least important message that is still logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The settings of the HTTP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) request_body_bytes_max: u64,
    /// How long running cells may take to end when the server stops.
    pub(crate) shutdown: Duration,
    /// Web pages that may call the API, `scheme://host[:port]` in lower case.
    pub(crate) allowed_origins: Vec<String>,
    /// Host names and addresses the server answers to, in lower case, without ports and brackets.
    /// If empty, those of the listening address and localhost.
    pub(crate) allowed_hosts: Vec<String>,
}

/// Ports of sandboxes that clients reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ports {
    /// The domain below which each port has a host name, in lower case.
    pub(crate) domain: Option<String>,
}

/// The defaults and maximums of sandboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sandboxes {
    pub(crate) template: TemplateName,
    pub(crate) ttl: Duration,
    pub(crate) ttl_max: Duration,
    /// The idle time after which a sandbox ends; `None` for never.
    pub(crate) idle: Option<Duration>,
    pub(crate) idle_max: Duration,
    pub(crate) max_cells: u32,
    /// On the whole server.
    pub(crate) count_max: u32,
    /// How many records of ended sandboxes are kept; `None` for all.
    pub(crate) ended_max: Option<u64>,
}

/// The defaults and maximums of cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cells {
    pub(crate) timeout: Duration,
    pub(crate) timeout_max: Duration,
    /// Waiting on the whole server.
    pub(crate) queue_max: u32,
    /// On the whole server; `None` for four times the number of processors.
    pub(crate) running_max: Option<u32>,
}

/// The default limits of a sandbox, and their maximums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitSettings {
    pub(crate) default: LimitValues,
    pub(crate) max: LimitsMax,
}

/// The quotas of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    pub(crate) requests_per_second: u32,
    pub(crate) request_burst: u32,
    pub(crate) sandboxes: u32,
    pub(crate) cells_running: u32,
    pub(crate) cells_queued: u32,
    pub(crate) upload_bytes_per_minute: u64,
    pub(crate) output_bytes_per_minute: u64,
    pub(crate) audit_bytes_per_minute: u64,
    /// `None` for no limit.
    pub(crate) cpu_per_minute: Option<Duration>,
    pub(crate) budget: Budget,
    /// `None` for no limit.
    pub(crate) model_tokens_per_day: Option<u64>,
    /// `None` for no limit.
    pub(crate) model_cents_per_day: Option<u64>,
}

/// The policies that check code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicySettings {
    pub(crate) default: PolicySource,
    /// A policy that checks all code in addition.
    pub(crate) minimum: Option<PolicySource>,
}

/// A built-in policy, or the path of a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PolicySource {
    Preset(Preset),
    File(PathBuf),
}

/// Which executions need an approval, and how it is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApprovalSettings {
    pub(crate) ask: ApprovalMode,
    pub(crate) timeout: Duration,
    /// Whether a key may approve its own code.
    pub(crate) own: bool,
    pub(crate) webhook_url: Option<String>,
    /// A file with the secret that signs the messages of the webhook.
    pub(crate) webhook_secret_file: Option<PathBuf>,
}

/// Whether the policy selects the executions that need an approval, or all need one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApprovalMode {
    Policy,
    Always,
}

/// The settings of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Audit {
    pub(crate) code: AuditCode,
    /// Valid regular expressions.
    pub(crate) redact: Vec<String>,
    /// `None` for no limit.
    pub(crate) retention: Option<Duration>,
    /// `None` for no limit.
    pub(crate) records_max: Option<u64>,
    /// `None` for no limit.
    pub(crate) bytes_max: Option<u64>,
}

/// Whether the audit log stores the code or only its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuditCode {
    Full,
    Digest,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: Listen::default(),
            public_url: None,
            tls: TlsFiles::default(),
            log: Log { format: LogFormat::Text, level: LogLevel::Info },
            server: Server {
                request_body_bytes_max: 32 * MIB,
                shutdown: Duration::from_secs(30),
                allowed_origins: Vec::new(),
                allowed_hosts: Vec::new(),
            },
            sandboxes: Sandboxes {
                template: template("code-interpreter"),
                ttl: Duration::from_hours(1),
                ttl_max: Duration::from_hours(24),
                idle: Some(Duration::from_mins(30)),
                idle_max: Duration::from_hours(24),
                max_cells: 10_000,
                count_max: 1000,
                ended_max: Some(100_000),
            },
            cells: Cells {
                timeout: Duration::from_secs(30),
                timeout_max: Duration::from_hours(1),
                queue_max: 256,
                running_max: None,
            },
            limits: LimitSettings::default(),
            quota: Quota::default(),
            capacity: Budget {
                in_flight_bytes: 256 * MIB,
                kept_bytes: 512 * MIB,
                transfers: 256,
                connections: 4096,
            },
            pool: [(template("code-interpreter"), 4), (template("python"), 2)].into(),
            audit: Audit {
                code: AuditCode::Full,
                redact: Vec::new(),
                retention: None,
                records_max: None,
                bytes_max: Some(4 * GIB),
            },
            policy: PolicySettings { default: PolicySource::Preset(Preset::Open), minimum: None },
            approvals: ApprovalSettings {
                ask: ApprovalMode::Policy,
                timeout: Duration::from_hours(1),
                own: false,
                webhook_url: None,
                webhook_secret_file: None,
            },
            inputs: BTreeMap::new(),
            ports: Ports::default(),
            zygotes: ZygotePolicy::default(),
            network: Network::default(),
            model: Model::default(),
            interpret: Interpret::default(),
        }
    }
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            requests_per_second: 1000,
            request_burst: 2000,
            sandboxes: 100,
            cells_running: 32,
            cells_queued: 64,
            upload_bytes_per_minute: 16 * GIB,
            output_bytes_per_minute: 4 * GIB,
            audit_bytes_per_minute: 64 * MIB,
            cpu_per_minute: None,
            budget: Budget {
                in_flight_bytes: 64 * MIB,
                kept_bytes: 128 * MIB,
                transfers: 32,
                connections: 512,
            },
            model_tokens_per_day: None,
            model_cents_per_day: None,
        }
    }
}

fn template(name: &str) -> TemplateName {
    TemplateName::new(name).expect("built-in names are names")
}
