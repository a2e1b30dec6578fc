//! The network of a sandbox: what is asked for, changed, checked and shown.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use silica_domain::{
    DenyRule, NetworkError, NetworkHost, NetworkLimits, NetworkMode, NetworkPolicy, NetworkRule,
    RuleDraft,
};
use silica_sessions::{Exposure, NetworkRequest};

use super::wire::network::{Connection, ConnectionList, Network, NetworkCheck};
use super::{seconds, session};
use crate::app::App;
use crate::http::auth::Caller;
use crate::http::json::{Answer, Json};
use crate::http::long_answer::long_answer;
use crate::http::problem::{Code, Problem};

/// The network that a sandbox gets
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NetworkRequest", extend("examples" = [{
    "mode": "list", "allow": ["pypi.org", {"host": "api.example.com", "methods": ["GET"]}],
    "expose": [8000],
}]))]
pub(crate) struct NetworkBody {
    /// `none`; `list` for what the rules allow, which is nothing without rules; `open` for every
    /// public host on ports 80 and 443 as well. If left out, `none` where there are only ports, else
    /// `list`
    mode: Option<ModeBody>,
    /// Rules of the operator, by name
    presets: Option<Vec<String>>,
    /// What is allowed
    allow: Option<Vec<RuleBody>>,
    /// What is forbidden, whatever is allowed
    deny: Option<Vec<DenyBody>>,
    /// Secrets, by name. Each also allows requests to its hosts.
    secrets: Option<Vec<String>>,
    /// Whether a person is asked about hosts that no rule names
    ask: Option<bool>,
    /// Ports on which servers in it can be reached from outside, at most 16; independent of the mode
    expose: Option<Vec<u16>>,
    /// Limits that are smaller than the server's
    limits: Option<NetworkLimitsBody>,
}

/// How much of the network there is
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum ModeBody {
    None,
    List,
    Open,
}

/// A rule that allows: `HOST`, `HOST:PORT`, `HOST:PORT/PROTOCOL`, or an object
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub(crate) enum RuleBody {
    Text(String),
    Fields(RuleFields),
}

/// A rule that allows
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(inline)]
pub(crate) struct RuleFields {
    /// A host name, or `*.` and a host name for all below it
    host: Option<String>,
    /// A range of addresses, instead of a host
    cidr: Option<String>,
    /// The ports; 443 if left out
    ports: Vec<u16>,
    /// `tls`, `http` or `tcp`; that of port 443 or 80 if left out
    protocol: Option<String>,
    /// The allowed methods; all if left out
    methods: Vec<String>,
    /// The allowed paths, with `*`; all if left out
    paths: Vec<String>,
    /// The secrets that requests may carry
    secrets: Vec<String>,
    /// Whether a request may become a WebSocket
    websocket: bool,
}

/// A rule that forbids: `HOST`, a range, or an object
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub(crate) enum DenyBody {
    Text(String),
    Fields(DenyFields),
}

/// A rule that forbids
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(inline)]
pub(crate) struct DenyFields {
    /// A host name, or `*.` and a host name for all below it
    host: Option<String>,
    /// A range of addresses, instead of a host
    cidr: Option<String>,
    /// The ports; all if left out
    ports: Vec<u16>,
}

/// Limits of a network
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct NetworkLimitsBody {
    /// Connections at a time
    connections: Option<u32>,
    /// New connections in a second
    connections_per_second: Option<u32>,
    /// Different host names
    names: Option<u32>,
    /// Bytes to other machines
    bytes_up: Option<u64>,
    /// Bytes from other machines
    bytes_down: Option<u64>,
    /// Bytes in a second, both ways together
    bytes_per_second: Option<u64>,
    /// How long a connection may be silent
    idle_seconds: Option<f64>,
    /// How long a connection may live
    life_seconds: Option<f64>,
}

impl NetworkLimitsBody {
    fn over(&self, base: &NetworkLimits) -> Result<NetworkLimits, Problem> {
        Ok(NetworkLimits {
            connections: self.connections.unwrap_or(base.connections),
            connections_per_second: self
                .connections_per_second
                .unwrap_or(base.connections_per_second),
            names: self.names.unwrap_or(base.names),
            bytes_up: self.bytes_up.unwrap_or(base.bytes_up),
            bytes_down: self.bytes_down.unwrap_or(base.bytes_down),
            bytes_per_second: self.bytes_per_second.unwrap_or(base.bytes_per_second),
            idle: self.idle_seconds.map_or(Ok(base.idle), seconds)?,
            life: self.life_seconds.map_or(Ok(base.life), seconds)?,
            ..base.clone()
        })
    }
}

impl RuleBody {
    fn rule(self) -> Result<NetworkRule, NetworkError> {
        match self {
            Self::Text(text) => text.parse(),
            Self::Fields(fields) => NetworkRule::parse(&RuleDraft {
                host: fields.host,
                cidr: fields.cidr,
                ports: fields.ports,
                protocol: fields.protocol,
                methods: fields.methods,
                paths: fields.paths,
                secrets: fields.secrets,
                websocket: fields.websocket,
            }),
        }
    }
}

impl DenyBody {
    fn rule(self) -> Result<DenyRule, NetworkError> {
        match self {
            Self::Text(text) => text.parse(),
            Self::Fields(DenyFields { host, cidr, ports }) => {
                DenyRule::parse(&RuleDraft { host, cidr, ports, ..RuleDraft::default() })
            }
        }
    }
}

/// Turns an error of a rule into a problem.
pub(crate) fn bad_network(error: &NetworkError) -> Problem {
    Problem::new(Code::BadNetwork, error.to_string())
}

impl NetworkBody {
    /// Checks the ports; `None` if they are left out.
    pub(crate) fn exposure(&self) -> Result<Option<Exposure>, Problem> {
        Ok(self.expose.clone().map(Exposure::listed).transpose()?)
    }

    /// Returns the mode. A request for ports alone needs no network, which a server may not offer.
    fn mode(&self) -> NetworkMode {
        let names_nothing = [&self.presets, &self.secrets].into_iter().all(Option::is_none)
            && self.allow.is_none()
            && self.deny.is_none()
            && self.ask.is_none();
        match self.mode {
            Some(ModeBody::Open) => NetworkMode::Open,
            Some(ModeBody::None) => NetworkMode::None,
            None if self.expose.is_some() && names_nothing => NetworkMode::None,
            Some(ModeBody::List) | None => NetworkMode::List,
        }
    }

    /// Checks the rules.
    pub(crate) fn request(self, app: &App) -> Result<NetworkRequest, Problem> {
        let mode = self.mode();
        let ask = self.ask.unwrap_or_default();
        let allow = self.allow.unwrap_or_default().into_iter().map(RuleBody::rule);
        let deny = self.deny.unwrap_or_default().into_iter().map(DenyBody::rule);
        let deny = deny.collect::<Result<_, _>>();
        let policy = allow.collect::<Result<_, _>>();
        let policy = policy.and_then(|allow| NetworkPolicy::new(mode, allow, deny?, ask));
        let limits = self.limits.unwrap_or_default();
        let limits = limits.over(&app.sessions.options().network.limits)?;
        Ok(NetworkRequest {
            policy: policy.map_err(|error| bad_network(&error))?,
            presets: self.presets.unwrap_or_default(),
            secrets: self.secrets.unwrap_or_default(),
            inline: Vec::new(),
            limits: Some(limits),
        })
    }
}

/// `GET /v1/sandboxes/{sandbox}/network`
pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let network = session.network_info().await;
    let network = network.as_ref().map_or_else(Network::none, Network::from);
    Ok(Answer(network.exposing(&session.exposure())).into_response())
}

/// `PUT /v1/sandboxes/{sandbox}/network`
pub(crate) async fn put(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<NetworkBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let exposure = body.exposure()?;
    let request = body.request(&app)?;
    app.sessions.set_network(&session, &request).await?;
    if let Some(exposure) = exposure {
        session.set_exposure(exposure);
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A connection or request that is checked
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CheckNetwork", extend("examples" = [
    {"host": "db.example.com", "port": 5432},
]))]
pub(crate) struct CheckBody {
    /// An address with the scheme `http` or `https`
    url: Option<String>,
    /// A host name or address, instead of `url`
    host: Option<String>,
    /// The port; 443 if left out
    port: Option<u16>,
    /// The method of the request to `url`; `GET` if left out
    method: Option<String>,
}

/// What is checked: a host, a port, and the path of a request.
struct Checked {
    host: String,
    port: u16,
    path: Option<String>,
}

impl CheckBody {
    fn parse(&self) -> Result<Checked, Problem> {
        match (&self.url, &self.host) {
            (Some(url), None) if self.port.is_none() => from_url(url),
            (None, Some(host)) => {
                Ok(Checked { host: host.clone(), port: self.port.unwrap_or(443), path: None })
            }
            _ => Err(Problem::bad("give either url, or host and perhaps port")),
        }
    }
}

fn from_url(url: &str) -> Result<Checked, Problem> {
    let uri: axum::http::Uri =
        url.parse().map_err(|error| Problem::bad(format!("url: {error}")))?;
    let default = match uri.scheme_str() {
        Some("https") => 443,
        Some("http") => 80,
        _ => return Err(Problem::bad("url must begin with http:// or https://")),
    };
    let host = uri.host().ok_or_else(|| Problem::bad("url must have a host"))?;
    Ok(Checked {
        host: host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase(),
        port: uri.port_u16().unwrap_or(default),
        path: Some(uri.path().to_owned()),
    })
}

/// `POST /v1/sandboxes/{sandbox}/network/check`
pub(crate) async fn check(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<CheckBody>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let checked = body.parse()?;
    let host: NetworkHost = checked.host.parse().map_err(|error| bad_network(&error))?;
    let method = body.method.as_deref().unwrap_or("GET");
    let request = checked.path.as_deref().map(|path| (method, path));
    let verdict = session.check_network(&host, checked.port, request);
    Ok(Answer(NetworkCheck::from(&verdict)).into_response())
}

/// `GET /v1/sandboxes/{sandbox}/network/connections`
pub(crate) async fn connections(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session = session(&app, &caller, &id).await?;
    let records = session.connections().await?;
    let connections = records.into_iter().map(Connection::from).collect();
    long_answer(&app, &caller.tenant, ConnectionList { connections }).await
}
