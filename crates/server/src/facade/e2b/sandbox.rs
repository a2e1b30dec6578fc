//! Sandboxes as E2B's control plane knows them: what may be asked for, and how they are shown.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use silica_sessions::{Audience, SandboxRequest, Session, SessionInfo, UsageSample};
use silica_store::Timestamp;

use super::error::E2bError;
use super::network::NetworkSettings;
use super::paths::{self, HOME};
use crate::app::App;
use crate::links::Purpose;

/// The version by which E2B's clients choose features of the sandbox's services.
const ENVD_VERSION: &str = "0.6.7";
/// E2B's name of a machine of its cluster.
const CLIENT_ID: &str = "silica";
/// E2B's names for this server's default template.
const DEFAULT_TEMPLATES: [&str; 2] = ["code-interpreter-v1", "base"];

/// The default lifetime of a sandbox, by the version of the path.
pub(super) const LIFE_SECONDS: u64 = 300;
pub(super) const LIFE_SECONDS_V1: u64 = 15;

/// A sandbox that is asked for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateBody {
    #[serde(rename = "templateID")]
    template_id: String,
    timeout: Option<u64>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    env_vars: Option<BTreeMap<String, String>>,
    #[serde(default)]
    network: Map<String, Value>,
    /// Older clients always send `true`.
    #[serde(rename = "allow_internet_access")]
    allow_internet_access: Option<bool>,
    /// Ignored: the services inside always require a token.
    #[serde(rename = "secure")]
    _secure: Option<bool>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl CreateBody {
    pub(super) fn plan(self, app: &App, life_seconds: u64) -> Result<SandboxRequest, E2bError> {
        let network = NetworkSettings::parse(&self.network, self.allow_internet_access)?;
        let exposure = network.exposure();
        let network = network.request(app)?;
        if let Some((name, _)) = self.more.iter().find(|(_, value)| asks_for_something(value)) {
            return Err(E2bError::bad(format!("{name} is not supported by this server")));
        }
        let mut environment = self.env_vars.unwrap_or_default();
        // Programs look for it, and the guest's code behaves as E2B's does where that differs.
        environment.entry("E2B_SANDBOX".to_owned()).or_insert_with(|| "true".to_owned());
        let options = app.sessions.options();
        // E2B's sandboxes do not end when they are idle.
        let idle = options.idle_max.unwrap_or(Duration::ZERO);
        Ok(SandboxRequest {
            template: template(&self.template_id),
            environment,
            metadata: self.metadata.unwrap_or_default(),
            directory: Some(paths::guest(HOME)?),
            ttl: Some(Duration::from_secs(self.timeout.unwrap_or(life_seconds))),
            idle: Some(idle),
            network,
            exposure,
            ..SandboxRequest::default()
        })
    }
}

/// Whether an unknown field asks for anything.
pub(super) fn asks_for_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(fields) => fields.values().any(asks_for_something),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Translates E2B's name of a template; `None` is the server's default.
pub(super) fn template(name: &str) -> Option<String> {
    let plain = name.split(':').next().unwrap_or(name);
    (!DEFAULT_TEMPLATES.contains(&plain)).then(|| plain.to_owned())
}

/// Returns E2B's name of a template.
fn alias<'a>(app: &App, template: &'a str) -> &'a str {
    if template == app.sessions.options().template { DEFAULT_TEMPLATES[0] } else { template }
}

/// Renders what a client needs to use a sandbox.
pub(super) fn access(app: &App, session: &Session) -> Value {
    let (info, id) = (session.info(), session.id().as_str());
    json!({
        "templateID": info.template,
        "alias": alias(app, &info.template),
        "sandboxID": id,
        "clientID": CLIENT_ID,
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": app.link_key.token(Purpose::Envd, id),
        "trafficAccessToken": app.link_key.token(Purpose::Interpreter, id),
        "domain": app.port_authority(),
    })
}

/// Renders a sandbox in a list.
pub(super) fn listed(app: &App, info: &SessionInfo) -> Value {
    json!({
        "templateID": info.template,
        "alias": alias(app, &info.template),
        "sandboxID": info.id,
        "clientID": CLIENT_ID,
        "startedAt": info.created_at.to_string(),
        "endAt": info.expires_at.to_string(),
        "envdVersion": ENVD_VERSION,
        "cpuCount": cpus(info),
        "memoryMB": info.limits.memory_bytes >> 20,
        "diskSizeMB": info.limits.disk_bytes >> 20,
        "metadata": info.metadata,
        "state": "running",
    })
}

/// Renders a sandbox in full.
pub(super) fn detail(app: &App, session: &Session) -> Value {
    let mut value = listed(app, &session.info());
    value["envdAccessToken"] = app.link_key.token(Purpose::Envd, session.id().as_str()).into();
    value["allowInternetAccess"] = false.into();
    value["domain"] = app.port_authority().into();
    let is_public = session.exposure().audience() == Audience::Public;
    value["network"] = json!({"allowPublicTraffic": is_public});
    value["lifecycle"] = json!({"autoResume": false, "onTimeout": "kill"});
    value
}

fn cpus(info: &SessionInfo) -> u32 {
    info.limits.cpu_millis.div_ceil(1000).max(1)
}

/// What a sandbox used, sample by sample, of those within the bounds in seconds since 1970.
pub(super) fn metrics(
    info: &SessionInfo,
    samples: &[UsageSample],
    start: Option<i64>,
    end: Option<i64>,
) -> Vec<Value> {
    let mut before = (info.created_at, 0);
    let mut shown = Vec::new();
    for sample in samples {
        let cpu_ms = sample.cpu_ms.unwrap_or(before.1);
        let used = share(before, (sample.at, cpu_ms), cpus(info));
        before = (sample.at, cpu_ms);
        let second = sample.at.as_micros().div_euclid(1_000_000);
        if start.is_none_or(|start| start <= second) && end.is_none_or(|end| second <= end) {
            shown.push(metric(info, sample, second, used));
        }
    }
    shown
}

fn metric(info: &SessionInfo, sample: &UsageSample, second: i64, cpu_used: f64) -> Value {
    json!({
        "timestamp": sample.at.to_string(),
        "timestampUnix": second,
        "cpuCount": cpus(info),
        "cpuUsedPct": cpu_used,
        "memUsed": sample.memory_bytes.unwrap_or(0),
        "memTotal": info.limits.memory_bytes,
        // Files are kept in memory, and are all that is cached there.
        "memCache": sample.disk_bytes,
        "diskUsed": sample.disk_bytes,
        "diskTotal": info.limits.disk_bytes,
    })
}

/// How much of its processors it used between two moments, in percent.
fn share(before: (Timestamp, u64), after: (Timestamp, u64), cpus: u32) -> f64 {
    let micros = after.0.as_micros() - before.0.as_micros();
    if micros <= 0 {
        return 0.0;
    }
    let used = after.1.saturating_sub(before.1) as f64 * 1000.0;
    let percent = used / micros as f64 / f64::from(cpus) * 100.0;
    (percent * 100.0).round() / 100.0
}
