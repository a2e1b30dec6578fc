//! `silica serve`: the server, from its first key to its orderly end.

mod works;

use std::io::IsTerminal;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use silica_domain::LimitValues;
use silica_server::webhook::WebhookOptions;
use silica_server::{AppOptions, Router, Server, Tls};
use silica_sessions::{
    AskWhen, Capacity, PolicyChoice, Quota, ReviewOptions, Sessions, SessionsOptions,
};
use silica_store::audit::{AuditSettings, CodeKept, Note, Redaction};
use silica_store::keys::{KeyName, NewKey};
use silica_store::{Access, DATABASE_NAME, Store, StoreOptions};
use silica_templates::Home;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::settings::{Ask, AuditCode, LogFormat, LogLevel, PolicySource};
use crate::config::{self, ServeFlags, Settings};
use crate::{home, model, show};

use works::{Offer, Works};

/// Arguments of `silica serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    flags: ServeFlags,
    /// How to say where the server listens
    #[arg(long, value_enum, default_value = "text", value_name = "FORM")]
    print: Print,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Print {
    /// A few lines for people
    Text,
    /// One line with `url` and, on the first start, `key`
    Json,
}

pub(crate) fn run(arguments: &ServeArgs) -> Result<i32> {
    let home = home::home()?;
    let environment = config::environment()?;
    let loaded = Settings::load(&arguments.flags, &environment, home.path())?;
    start_logging(&loaded.settings);
    for notice in &loaded.notices {
        tracing::warn!("{notice}");
    }
    let offer = Offer::find(&home, &loaded.settings)?;
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .enable_all()
        .build()?;
    let status = runtime.block_on(serve(&home, loaded.settings, offer, arguments.print));
    // Whatever still blocks a thread has nobody to work for any more.
    runtime.shutdown_background();
    status
}

/// Threads that answer requests: for half of the processors, since the other half of the work is the
/// sandboxes'. On a small machine one is also faster than two, which wake each other and take over each
/// other's work with nothing of it in their caches. What takes long is done on other threads.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().div_ceil(2))
}

/// A sandbox takes about ten descriptors, and many systems start programs with room for a hundred
/// sandboxes.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(errno) = setrlimit(Resource::Nofile, limit) {
        let error = &std::io::Error::from(errno) as &dyn std::error::Error;
        tracing::warn!(error, "the number of open files stays low, and so does that of sandboxes");
    }
}

fn start_logging(settings: &Settings) {
    let level = match settings.log.level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
        LogLevel::Trace => "trace",
    };
    let filter = tracing_subscriber::EnvFilter::new(level);
    let logger = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        // It would complain to the very stream that cannot be written to.
        .log_internal_errors(false);
    match settings.log.format {
        LogFormat::Text => logger.init(),
        LogFormat::Json => logger.json().init(),
    }
}

async fn serve(home: &Home, settings: Settings, offer: Offer, print: Print) -> Result<i32> {
    let (review, hook) = (review(&settings)?, webhook(&settings)?);
    // First, so that a second server on the same port or data is told at once.
    let server = bind(&settings).await?;
    let store = open_store(home, &settings)?;
    let works = Works { home: home.clone(), settings: settings.clone(), offer };
    let engine = works.start().await?;
    let shown = works.offer.shown();
    let sessions = Sessions::start(engine, store.clone(), options(&settings, review)).await?;
    tokio::spawn(works.keep(Arc::downgrade(&sessions)));
    if let Some(hook) = hook {
        silica_server::webhook::start(sessions.review().news(), hook)?;
    }
    let address = server.address()?;
    let url = url(&settings, address.port());
    let app = app_options(&settings, &url, shown);
    let interpreter = model::interpreter(home, &settings, Arc::clone(&sessions))?;
    let router = silica_server::router(Arc::clone(&sessions), interpreter, app)?;
    store.audit().note(Note::new("server_started").with("address", &address.to_string())).await?;
    warn_if_public(&settings, address.ip());
    let mut stop = Stop::new()?;
    // Last, since a key that is made by a start that fails is never shown.
    let key = first_key(&store).await?;
    announce(print, &url, key.as_deref());
    let (stopping, stopped) = tokio::sync::oneshot::channel();
    let work = work(server, router, stopped, sessions, store, settings.server.shutdown);
    let signals = async {
        stop.next().await;
        // Whoever does not listen any more has stopped already.
        let _ = stopping.send(());
        stop.next().await;
    };
    tokio::select! {
        () = work => Ok(0),
        () = signals => Ok(130),
    }
}

/// Serves until it is told to stop, then lets what runs end, for at most `patience` in all.
async fn work(
    server: Server,
    router: Router,
    stopped: tokio::sync::oneshot::Receiver<()>,
    sessions: Arc<Sessions>,
    store: Store,
    patience: Duration,
) {
    let until = std::sync::OnceLock::new();
    let stop = async {
        // A sender that is gone has stopped too.
        let _ = stopped.await;
        tracing::info!("shutting down");
        sessions.stop_taking();
        until.get_or_init(|| Instant::now() + patience);
    };
    server.run(router, stop, patience).await;
    // The log says that this was no crash.
    let _ = store.audit().note(Note::new("server_stopped")).await;
    let left =
        until.get().map_or(patience, |until| until.saturating_duration_since(Instant::now()));
    sessions.close(left).await;
}

async fn bind(settings: &Settings) -> Result<Server> {
    let tls = match (&settings.tls.certificate, &settings.tls.key) {
        (Some(certificate), Some(key)) => Some(Tls::from_files(certificate, key)?),
        _ => None,
    };
    Ok(Server::bind(&settings.listen.to_string(), tls).await?)
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
    };
    std::fs::create_dir_all(home.path())
        .with_context(|| format!("cannot make the data directory {}", home.path().display()))?;
    Ok(Store::open(&home.path().join(DATABASE_NAME), options)?)
}

/// Makes a key if there is none that works, and returns its secret, this once.
async fn first_key(store: &Store) -> Result<Option<String>> {
    let keys = store.keys().list().await?;
    if keys.iter().any(|key| key.revoked_at.is_none()) {
        return Ok(None);
    }
    let new = NewKey { name: KeyName::new("first")?, admin: true, approve: false, limits: None };
    let (_, secret) = store.keys().create(new).await?;
    Ok(Some(secret.reveal()))
}

/// The policies, read now so that a file that is wrong is told before anything runs.
fn review(settings: &Settings) -> Result<ReviewOptions> {
    let (policy, approvals) = (&settings.policy, &settings.approvals);
    Ok(ReviewOptions {
        policy: policy_of(&policy.default)?,
        minimum: policy.minimum.as_ref().map(policy_of).transpose()?,
        ask: match approvals.ask {
            Ask::Policy => AskWhen::Policy,
            Ask::Always => AskWhen::Always,
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

/// The least a secret must have; a shorter one can be guessed.
const WEBHOOK_SECRET_BYTES_MIN: usize = 16;

fn webhook(settings: &Settings) -> Result<Option<WebhookOptions>> {
    let approvals = &settings.approvals;
    let (Some(url), Some(path)) = (&approvals.webhook_url, &approvals.webhook_secret_file) else {
        return Ok(None);
    };
    let secret = std::fs::read(path)
        .with_context(|| format!("cannot read the webhook's secret {}", path.display()))?;
    let secret = secret.trim_ascii().to_vec();
    anyhow::ensure!(
        secret.len() >= WEBHOOK_SECRET_BYTES_MIN,
        "the webhook's secret in {} is shorter than {WEBHOOK_SECRET_BYTES_MIN} bytes",
        path.display()
    );
    Ok(Some(WebhookOptions { url: url.clone(), secret }))
}

pub(crate) fn options(settings: &Settings, review: ReviewOptions) -> SessionsOptions {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (sandboxes, cells, quota) = (&settings.sandboxes, &settings.cells, &settings.quota);
    let running = cells.running_max.map_or(4 * processors, |most| most as usize);
    SessionsOptions {
        template: sandboxes.template.to_string(),
        // One number for how long a cell may take, and the one that is shown.
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
            cpu_seconds_per_minute: quota.cpu_per_minute.map_or(0, |cpu| cpu.as_secs()),
        },
        capacity: Capacity {
            running,
            kept: running / 4,
            making: 4 * processors,
            queued: cells.queue_max as usize,
            sandboxes: sandboxes.count_max as usize,
        },
        review,
    }
}

fn app_options(settings: &Settings, url: &str, templates: Vec<Value>) -> AppOptions {
    let server = &settings.server;
    AppOptions {
        body_bytes_max: usize::try_from(server.request_body_bytes_max).unwrap_or(usize::MAX),
        allowed_origins: server.allowed_origins.clone(),
        allowed_hosts: allowed_hosts(settings),
        public_url: url.to_owned(),
        inputs: settings.inputs.clone(),
        templates,
    }
}

/// A server that only this machine can reach answers to this machine's names only, so that no web
/// page can come in through a name of its own that points here.
fn allowed_hosts(settings: &Settings) -> Vec<String> {
    let configured = &settings.server.allowed_hosts;
    let host = settings.listen.host();
    let local = host.parse::<IpAddr>().map_or(host == "localhost", |address| address.is_loopback());
    if !configured.is_empty() || !local {
        return configured.clone();
    }
    let mut hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
    hosts.push(host.to_owned());
    hosts
}

fn url(settings: &Settings, port: u16) -> String {
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
            "keys and code travel unencrypted: other machines can reach this address, and TLS is off \
             (set tls.certificate and tls.key, or put a proxy with TLS in front)"
        );
    }
}

fn announce(print: Print, url: &str, key: Option<&str>) {
    let words = match (print, key) {
        (Print::Json, key) => json!({"url": url, "key": key}).to_string(),
        (Print::Text, None) => format!("silica is listening on {url}"),
        (Print::Text, Some(key)) => format!(
            "silica is listening on {url}\n\n\
             This is your key. It is shown only now; make others with `silica key create`.\n\n  \
             export SILICA_URL={url} SILICA_KEY={key}\n\n\
             Try it:\n\n  \
             curl -s $SILICA_URL/v1/run -H \"X-API-Key: $SILICA_KEY\" -d '{{\"code\": \"print(6 * 7)\"}}'\n"
        ),
    };
    // A server serves, also if nobody reads what it says of itself.
    let _ = show::line(words);
}

/// Ctrl-C or a polite end by whoever started this; once to stop, twice to stop at once. What is left
/// then is cleared by the zone's own end and by the next start.
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
