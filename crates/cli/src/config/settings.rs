//! What the server runs with: plain typed values, grouped as the file groups them.
//!
//! A `Settings` that came out of `Settings::load` is whole and consistent; nothing below checks it
//! again. Defaults stand here and nowhere else.

mod model;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use silica_domain::{LimitValues, LimitsMax};
use silica_engine::ZygotePolicy;
use silica_policy::Preset;
use silica_templates::TemplateName;

use super::address::Listen;

pub(crate) use model::{AuthHeader, Interpret, Model, Provider};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Everything that can be set about a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) listen: Listen,
    /// How clients reach the server, for links; without a slash at the end.
    pub(crate) public_url: Option<String>,
    pub(crate) tls: TlsFiles,
    pub(crate) log: Log,
    pub(crate) server: Server,
    pub(crate) sandboxes: Sandboxes,
    pub(crate) cells: Cells,
    pub(crate) limits: LimitSettings,
    pub(crate) quota: Quota,
    /// How many sandboxes are kept ready, by template.
    pub(crate) pool: BTreeMap<TemplateName, u32>,
    pub(crate) audit: Audit,
    pub(crate) policy: PolicySettings,
    pub(crate) approvals: ApprovalSettings,
    /// Absolute paths that clients may mount read-only, by the name they ask for.
    pub(crate) inputs: BTreeMap<String, PathBuf>,
    pub(crate) zygotes: ZygotePolicy,
    pub(crate) model: Model,
    pub(crate) interpret: Interpret,
}

/// Both are there or neither is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    pub(crate) level: LogLevel,
}

/// For people or for programs.
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

/// The HTTP side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) request_body_bytes_max: u64,
    /// How long running cells may take to end when the server stops.
    pub(crate) shutdown: Duration,
    /// Web pages that may call the API, `scheme://host[:port]` in lower case.
    pub(crate) allowed_origins: Vec<String>,
    /// Names and addresses the server answers to, in lower case, without ports and brackets. Empty
    /// for those of the listening address, and localhost.
    pub(crate) allowed_hosts: Vec<String>,
}

/// What a sandbox is unless its creator says otherwise, and how far that may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sandboxes {
    pub(crate) template: TemplateName,
    pub(crate) ttl: Duration,
    pub(crate) ttl_max: Duration,
    /// `None` for never.
    pub(crate) idle: Option<Duration>,
    pub(crate) idle_max: Duration,
    pub(crate) max_cells: u32,
    /// On the whole server.
    pub(crate) count_max: u32,
}

/// How cells run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cells {
    pub(crate) timeout: Duration,
    pub(crate) timeout_max: Duration,
    /// Waiting on the whole server.
    pub(crate) queue_max: u32,
    /// On the whole server; `None` for four times the number of processors.
    pub(crate) running_max: Option<u32>,
}

/// What a sandbox gets, and the most it can ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitSettings {
    pub(crate) default: LimitValues,
    pub(crate) max: LimitsMax,
}

/// What one key may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    pub(crate) requests_per_second: u32,
    pub(crate) request_burst: u32,
    pub(crate) sandboxes: u32,
    pub(crate) cells_running: u32,
    pub(crate) cells_queued: u32,
    pub(crate) upload_bytes_per_minute: u64,
    pub(crate) output_bytes_per_minute: u64,
    /// `None` for no limit.
    pub(crate) cpu_per_minute: Option<Duration>,
    /// `None` for no limit.
    pub(crate) model_tokens_per_day: Option<u64>,
    /// `None` for no limit.
    pub(crate) model_cents_per_day: Option<u64>,
}

/// How code is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicySettings {
    pub(crate) default: PolicySource,
    /// What nobody can go below.
    pub(crate) minimum: Option<PolicySource>,
}

/// Where a policy comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PolicySource {
    Preset(Preset),
    File(PathBuf),
}

/// Which executions a person is asked about, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApprovalSettings {
    pub(crate) ask: ApprovalMode,
    pub(crate) timeout: Duration,
    /// Whether a key may approve what it asked for itself.
    pub(crate) own: bool,
    pub(crate) webhook_url: Option<String>,
    /// A file with the secret that messages are signed with.
    pub(crate) webhook_secret_file: Option<PathBuf>,
}

/// When a person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApprovalMode {
    Policy,
    Always,
}

/// What the audit log keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Audit {
    pub(crate) code: AuditCode,
    /// Regular expressions that compile.
    pub(crate) redact: Vec<String>,
    /// `None` for ever.
    pub(crate) retention: Option<Duration>,
    /// `None` for any number.
    pub(crate) records_max: Option<u64>,
}

/// How much of the code is kept.
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
            },
            cells: Cells {
                timeout: Duration::from_secs(30),
                timeout_max: Duration::from_hours(1),
                queue_max: 256,
                running_max: None,
            },
            limits: LimitSettings::default(),
            quota: Quota::default(),
            pool: [(template("code-interpreter"), 4), (template("python"), 2)].into(),
            audit: Audit {
                code: AuditCode::Full,
                redact: Vec::new(),
                retention: None,
                records_max: None,
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
            zygotes: ZygotePolicy::default(),
            model: Model::default(),
            interpret: Interpret::default(),
        }
    }
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            requests_per_second: 200,
            request_burst: 400,
            sandboxes: 100,
            cells_running: 32,
            cells_queued: 64,
            upload_bytes_per_minute: 16 * GIB,
            output_bytes_per_minute: 4 * GIB,
            cpu_per_minute: None,
            model_tokens_per_day: None,
            model_cents_per_day: None,
        }
    }
}

fn template(name: &str) -> TemplateName {
    TemplateName::new(name).expect("built-in names are names")
}
