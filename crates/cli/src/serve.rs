//! `silica serve`: starts the server from its settings, and shuts it down on a signal.

mod engine_supervisor;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use silica_domain::LimitValues;
use silica_egress::CertificateAuthority;
use silica_policy::PolicyChoice;
use silica_server::webhook::WebhookOptions;
use silica_server::{AppOptions, Server, Startup, Tls};
use silica_sessions::{Capacity, NetworkOptions, Quota, ReviewOptions, Sessions, SessionsOptions};
use silica_store::audit::{AuditSettings, CodeKept, Note, Redaction};
use silica_store::keys::{KeyName, NewKey};
use silica_store::{Access, DATABASE_NAME, Store, StoreOptions};
use silica_templates::Home;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::settings::{ApprovalMode, AuditCode, LogFormat, LogLevel, PolicySource};
use crate::config::{self, ServeFlags, Settings};
use crate::log_file::{self, LogFile, LogWriter};
use crate::{colour, home, model, network, show};

use engine_supervisor::{EngineSupervisor, TemplateSet, Warming};

/// Arguments of `silica serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    flags: ServeFlags,
    /// How to print the address of the server
    #[arg(long, value_enum, default_value = "text", value_name = "FORM")]
    print: Print,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Print {
    /// A few lines of text
    Text,
    /// One line with `url` and, on the first start, `key`
    Json,
}

pub(crate) fn run(arguments: &ServeArgs) -> Result<i32> {
    let home = home::home()?;
    let environment = config::environment()?;
    let loaded = Settings::load(&arguments.flags, &environment, home.path())?;
    let log = start_logging(&loaded.settings, home.path())?;
    for notice in &loaded.notices {
        tracing::warn!("{notice}");
    }
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .enable_all()
        .build()?;
    let status = runtime.block_on(serve(&home, loaded.settings, arguments.print));
    // Threads that still block have no request left to answer.
    runtime.shutdown_background();
    log.finish();
    status
}

/// Returns the number of threads that answer requests: one for every two processors, since
/// sandboxes need about half of them. On a small machine one thread is also faster than two, which
/// wake each other and move work between their caches. Long work runs on other threads.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().div_ceil(2))
}

/// Raises the limit of open files to its maximum. A sandbox takes about ten descriptors, and many
/// systems start programs with a limit of 1024.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(errno) = setrlimit(Resource::Nofile, limit) {
        let error = &std::io::Error::from(errno) as &dyn std::error::Error;
        tracing::warn!(error, "cannot raise the limit of open files, which limits sandboxes too");
    }
}

fn start_logging(settings: &Settings, home: &Path) -> Result<LogWriter> {
    let level = match settings.log.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    // That crate repeats in its log what clients send.
    let filter = tracing_subscriber::EnvFilter::new(format!("{level},rmcp=off"));
    let file = LogFile::open(home);
    let failed = file.as_ref().err().map(ToString::to_string);
    let writer = LogWriter::start(file.ok()).context("cannot start the threads of the log")?;
    let is_coloured = !writer.has_file() && colour::is_wanted(&std::io::stderr());
    let logger = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(is_coloured)
        .with_writer(writer.clone())
        // An error of writing the log would itself be written to the log.
        .log_internal_errors(false);
    match settings.log.format {
        LogFormat::Text => logger.init(),
        LogFormat::Json => logger.json().init(),
    }
    if let Some(error) = failed {
        let path = log_file::path(home);
        tracing::warn!(error, path = %path.display(), "the log goes to standard error only");
    }
    Ok(writer)
}

/// Listens at once, gets ready meanwhile, and serves until a signal.
async fn serve(home: &Home, settings: Settings, print: Print) -> Result<i32> {
    let review = review(&settings)?;
    let hook = webhook(&settings)?;
    // Before the slow steps, so that a second server on this port or data directory fails at once.
    let server = bind(&settings).await?;
    let store = open_store(home, &settings)?;
    let address = server.address()?;
    let url = url(&settings, address.port());
    let patience = settings.server.shutdown;
    let startup = Startup::new(app_options(&settings, &url, Vec::new()));
    let mut stop = Stop::new()?;
    let (stopping, stopped) = tokio::sync::oneshot::channel();
    let until = Arc::new(OnceLock::new());
    let listening = {
        let (router, until) = (startup.router(), Arc::clone(&until));
        let stopped = async move {
            // A dropped sender means stop, too.
            let _ = stopped.await;
            until.get_or_init(|| Instant::now() + patience);
        };
        tokio::spawn(async move { server.run(router, stopped, patience).await })
    };
    tracing::info!(url, "listening; /readyz says when the server is ready");
    warn_if_public(&settings, address.ip());
    let getting_ready =
        get_ready(home, settings, review, hook, &store, &startup, Place { url: &url, address });
    let sessions = tokio::select! {
        sessions = getting_ready => sessions?,
        () = stop.next() => return Ok(0),
    };
    store.audit().note(Note::new("server_started").with("address", &address.to_string())).await?;
    // Last, since the key is not printed if a step of the start fails.
    let key = first_key(&store).await?;
    announce(print, &url, key.as_deref());
    let signals = async {
        stop.next().await;
        tracing::info!("shutting down");
        sessions.stop_admission();
        // Fails only if the listener has already ended.
        let _ = stopping.send(());
        stop.next().await;
    };
    let ended = async {
        // The error is a panic of the listener, which ends the server, too.
        let _ = listening.await;
        shut_down(&sessions, &store, until.get().copied(), patience).await;
    };
    tokio::select! {
        biased;
        () = ended => Ok(0),
        () = signals => Ok(130),
    }
}

/// Where the server is reached.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    url: &'a str,
    address: SocketAddr,
}

/// Builds templates, starts the engine and hands requests over to the service.
async fn get_ready(
    home: &Home,
    settings: Settings,
    review: ReviewOptions,
    hook: Option<WebhookOptions>,
    store: &Store,
    startup: &Startup,
    place: Place<'_>,
) -> Result<Arc<Sessions>> {
    // Anew at each start: its key is in the memory of this process and of the egress process alone.
    let authority = CertificateAuthority::generate()?;
    let trust = network::trust(&settings, &authority)?;
    let network = network::options(&settings, authority, vec![place.address])?;
    let find = {
        let (home, settings, startup) = (home.clone(), settings.clone(), startup.clone());
        move || TemplateSet::find(&home, &settings, &startup)
    };
    let templates = tokio::task::spawn_blocking(find).await??;
    let listed = templates.to_json();
    let supervisor =
        EngineSupervisor { home: home.clone(), settings: settings.clone(), templates, trust };
    startup.set_doing("starting the engine");
    let engine = supervisor.start(Warming::Awaited, startup).await?;
    let options = SessionsOptions { network, ..options(&settings, review) };
    let sessions = Sessions::start(engine, store.clone(), options).await?;
    tokio::spawn(supervisor.supervise(Arc::downgrade(&sessions), startup.clone()));
    if let Some(hook) = hook {
        silica_server::webhook::start(sessions.review().news(), hook)?;
    }
    let prompts = model::prompts(home, &settings, Arc::clone(&sessions), store.clone())?;
    let app = app_options(&settings, place.url, listed);
    startup.finish(silica_server::router(Arc::clone(&sessions), prompts, app)?);
    Ok(sessions)
}

/// Records the end and waits for cells to end, for what is left of the patience.
async fn shut_down(
    sessions: &Arc<Sessions>,
    store: &Store,
    until: Option<Instant>,
    patience: Duration,
) {
    // The note distinguishes this from a crash. Nothing can be done if it cannot be written.
    let _ = store.audit().note(Note::new("server_stopped")).await;
    let left = until.map_or(patience, |until| until.saturating_duration_since(Instant::now()));
    Arc::clone(sessions).close(left).await;
}

async fn bind(settings: &Settings) -> Result<Server> {
    let tls = match (&settings.tls.certificate, &settings.tls.key) {
        (Some(certificate), Some(key)) => Some(Tls::from_files(certificate, key)?),
        _ => None,
    };
    let connections_max = usize::try_from(settings.capacity.connections).unwrap_or(usize::MAX);
    Ok(Server::bind(&settings.listen.to_string(), tls, connections_max).await?)
}

fn open_store(home: &Home, settings: &Settings) -> Result<Store> {
    let mut options = StoreOptions::new(Access::Server);
    options.audit = AuditSettings {
        code: match settings.audit.code {
            AuditCode::Full => CodeKept::Full,
            AuditCode::Digest => CodeKept::Digest,
        },
        redaction: Redaction::new(&settings.audit.redact)?,
        retention: settings.audit.retention,
        records_max: settings.audit.records_max,
        bytes_max: settings.audit.bytes_max,
    };
    options.ended_max = settings.sandboxes.ended_max;
    std::fs::create_dir_all(home.path()).with_context(|| {
        format!(
            "cannot create the data directory {}; SILICA_HOME names another",
            home.path().display()
        )
    })?;
    Ok(Store::open(&home.path().join(DATABASE_NAME), options)?)
}

/// Creates a key if there is no valid one, and returns its secret, which is not stored.
async fn first_key(store: &Store) -> Result<Option<String>> {
    let keys = store.keys().list().await?;
    if keys.iter().any(|key| key.revoked_at.is_none()) {
        return Ok(None);
    }
    let new = NewKey {
        name: KeyName::new("first")?,
        admin: true,
        approve: false,
        jupyter: false,
        limits: None,
    };
    let (_, secret) = store.keys().create(new).await?;
    Ok(Some(secret.reveal()))
}

/// Reads the policies, so that a wrong file fails the start.
pub(crate) fn review(settings: &Settings) -> Result<ReviewOptions> {
    let policy = &settings.policy;
    let approvals = &settings.approvals;
    Ok(ReviewOptions {
        policy: policy_of(&policy.default)?,
        minimum: policy.minimum.as_ref().map(policy_of).transpose()?,
        mode: match approvals.ask {
            ApprovalMode::Policy => silica_sessions::ApprovalMode::ByPolicy,
            ApprovalMode::Always => silica_sessions::ApprovalMode::Always,
        },
        timeout: approvals.timeout,
        own: approvals.own,
    })
}

fn policy_of(source: &PolicySource) -> Result<PolicyChoice> {
    match source {
        PolicySource::Preset(preset) => Ok(PolicyChoice::Preset(*preset)),
        PolicySource::File(path) => {
            let policy = crate::check::from_file(path)?;
            Ok(PolicyChoice::Own(Arc::new(policy)))
        }
    }
}

/// The shortest secret of a webhook; a shorter one can be guessed.
const WEBHOOK_SECRET_BYTES_MIN: usize = 16;

fn webhook(settings: &Settings) -> Result<Option<WebhookOptions>> {
    let approvals = &settings.approvals;
    let (Some(url), Some(path)) = (&approvals.webhook_url, &approvals.webhook_secret_file) else {
        return Ok(None);
    };
    let secret = std::fs::read(path)
        .with_context(|| format!("cannot read the secret of the webhook, {}", path.display()))?;
    let secret = secret.trim_ascii().to_vec();
    anyhow::ensure!(
        secret.len() >= WEBHOOK_SECRET_BYTES_MIN,
        "the secret of the webhook in {} must have at least {WEBHOOK_SECRET_BYTES_MIN} bytes",
        path.display()
    );
    Ok(Some(WebhookOptions { url: url.clone(), secret }))
}

pub(crate) fn options(settings: &Settings, review: ReviewOptions) -> SessionsOptions {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let sandboxes = &settings.sandboxes;
    let cells = &settings.cells;
    let quota = &settings.quota;
    let running = cells.running_max.map_or(4 * processors, |most| most as usize);
    SessionsOptions {
        template: sandboxes.template.to_string(),
        // `cells.timeout_seconds` is the wall-clock limit that a sandbox reports.
        limits: LimitValues { wall: cells.timeout, ..settings.limits.default.clone() },
        ttl: sandboxes.ttl,
        ttl_max: sandboxes.ttl_max,
        idle: sandboxes.idle,
        idle_max: Some(sandboxes.idle_max),
        max_cells: sandboxes.max_cells.into(),
        timeout: cells.timeout,
        timeout_max: cells.timeout_max,
        quota: Quota {
            requests_per_second: quota.requests_per_second.into(),
            request_burst: quota.request_burst.into(),
            sandboxes: quota.sandboxes as usize,
            running: quota.cells_running as usize,
            queued: quota.cells_queued as usize,
            upload_bytes_per_minute: quota.upload_bytes_per_minute,
            output_bytes_per_minute: quota.output_bytes_per_minute,
            audit_bytes_per_minute: quota.audit_bytes_per_minute,
            cpu_seconds_per_minute: quota.cpu_per_minute.map_or(0, |cpu| cpu.as_secs()),
            budget: quota.budget,
        },
        capacity: Capacity {
            running,
            reserved: running / 4,
            creating: 4 * processors,
            queued: cells.queue_max as usize,
            sandboxes: sandboxes.count_max as usize,
            budget: settings.capacity,
        },
        review,
        network: NetworkOptions::default(),
    }
}

pub(crate) fn app_options(settings: &Settings, url: &str, templates: Vec<Value>) -> AppOptions {
    let server = &settings.server;
    AppOptions {
        body_bytes_max: usize::try_from(server.request_body_bytes_max).unwrap_or(usize::MAX),
        allowed_origins: server.allowed_origins.clone(),
        allowed_hosts: allowed_hosts(settings),
        public_url: url.to_owned(),
        ports_domain: settings.ports.domain.clone(),
        inputs: settings.inputs.clone(),
        e2b_network: settings.network.e2b_default,
        templates,
    }
}

/// Returns the host names that the server answers to. If it listens on a loopback address, these
/// are only the names of that address and that of its public URL, behind a proxy: a web page could
/// otherwise reach it by DNS rebinding.
fn allowed_hosts(settings: &Settings) -> Vec<String> {
    let configured = &settings.server.allowed_hosts;
    let host = settings.listen.host();
    let local = host.parse::<IpAddr>().map_or(host == "localhost", |address| address.is_loopback());
    if !configured.is_empty() || !local {
        return configured.clone();
    }
    let mut hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    hosts.push(host.to_owned());
    let public = settings.public_url.as_deref().and_then(|url| reqwest::Url::parse(url).ok());
    // An address of IPv6 is in brackets there.
    let public = public.as_ref().and_then(|url| url.host_str());
    hosts.extend(public.map(|host| host.trim_matches(['[', ']']).to_owned()));
    hosts
}

/// Returns the address of a server with these settings.
pub(crate) fn url(settings: &Settings, port: u16) -> String {
    if let Some(url) = &settings.public_url {
        return url.clone();
    }
    let scheme = if settings.tls.certificate.is_some() { "https" } else { "http" };
    let host = settings.listen.host();
    match host.parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => format!("{scheme}://localhost:{port}"),
        Ok(IpAddr::V6(_)) => format!("{scheme}://[{host}]:{port}"),
        _ => format!("{scheme}://{host}:{port}"),
    }
}

fn warn_if_public(settings: &Settings, address: IpAddr) {
    if !address.is_loopback() && settings.tls.certificate.is_none() {
        tracing::warn!(
            %address,
            "keys and code are sent unencrypted: other machines can reach this address, and TLS is \
             off (set tls.certificate and tls.key, or use a proxy with TLS)"
        );
    }
}

fn announce(print: Print, url: &str, key: Option<&str>) {
    let words = match (print, key) {
        (Print::Json, key) => json!({"url": url, "key": key}).to_string(),
        (Print::Text, None) => format!("silica is listening on {url}"),
        (Print::Text, Some(key)) => format!(
            "silica is listening on {url}\n\n\
             This is your key. It is shown only once; create others with `silica key create`.\n\n  \
             export SILICA_URL={url} SILICA_KEY={key}\n\n\
             Try it:\n\n  \
             curl -s $SILICA_URL/v1/run -H \"X-API-Key: $SILICA_KEY\" -d '{{\"code\": \"print(6 * 7)\"}}'\n"
        ),
    };
    // The server runs even if its stdout is closed.
    let _ = show::line(words);
}

/// SIGINT and SIGTERM: the first stops the server in order, the second at once. What then remains
/// is removed by the end of the zone process and by the next start.
struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Stop {
    fn new() -> Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
