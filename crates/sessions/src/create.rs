//! Creating a sandbox: checks the request, waits for admission, makes the sandbox, records it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use silica_domain::LimitValues;
use silica_engine::{
    CreateOptions, Created, Engine, EngineError, GuestPath, Input, KernelOrigin, SandboxPlan, Setup,
};
use silica_store::sandboxes::NewSandbox;
use silica_store::{SandboxId, Tenant, limits_json};
use tokio::sync::oneshot;

use crate::ending::Unclaimed;
use crate::error::SessionError;
use crate::fairness::{Permit, QuotaSlot};
use crate::network::{NetworkRequest, NetworkTerms};
use crate::ports::Exposure;
use crate::session::{EndReason, NewSession, Purpose, SandboxTerms, Session};
use crate::sessions::Sessions;

/// The most bytes of all names and values of environment variables together.
const ENVIRONMENT_BYTES_MAX: usize = 32 * 1024;

/// The most pairs of metadata, and the most bytes of all names and values together. The store keeps no more.
const METADATA_PAIRS_MAX: usize = 64;
const METADATA_BYTES_MAX: usize = 8 * 1024;

/// How long a create waits for another zone if the zone has ended.
const ZONE_PATIENCE: Duration = Duration::from_secs(10);

/// How long the end of a zone may be noticed after the end of a sandbox in it.
const ZONE_END_LAG: Duration = Duration::from_millis(100);

/// A request for a sandbox. What is `None` is the server's default.
#[derive(Clone, Debug, Default)]
pub struct SandboxRequest {
    /// The name of the template.
    pub template: Option<String>,
    /// The limits of the sandbox.
    pub limits: Option<LimitValues>,
    /// Environment variables of everything that runs in it.
    pub environment: BTreeMap<String, String>,
    /// The directory in which kernels and commands start; `None` is /workspace.
    pub directory: Option<GuestPath>,
    /// Pairs that its owner attaches to it.
    pub metadata: BTreeMap<String, String>,
    /// How long it lives.
    pub ttl: Option<Duration>,
    /// After what time without use it is ended; zero for never.
    pub idle: Option<Duration>,
    /// How many cells it may run.
    pub max_cells: Option<u64>,
    /// The default timeout of its cells.
    pub timeout: Option<Duration>,
    /// Files and directories of the host that are mounted read-only.
    pub inputs: Vec<Input>,
    /// The ports in it that clients may reach.
    pub exposure: Exposure,
    /// Whether its interpreter is started anew instead of forked from one that other sandboxes share.
    pub fresh: bool,
    /// Its network; `None` for none.
    pub network: Option<NetworkRequest>,
}

/// A create request that passed admission.
pub(crate) struct Admitted {
    id: SandboxId,
    tenant: Tenant,
    purpose: Purpose,
    terms: SandboxTerms,
    slot: QuotaSlot,
    plan: SandboxPlan,
    source: Source,
    network: Option<NetworkTerms>,
}

/// Whether the sandbox comes from the pool or is built on demand.
enum Source {
    Pool(Box<Created>),
    Build(Permit),
}

impl Sessions {
    /// Creates a sandbox. If the caller drops the future, the sandbox is ended again.
    pub async fn create(
        self: &Arc<Self>,
        tenant: &Tenant,
        request: SandboxRequest,
    ) -> Result<Arc<Session>, SessionError> {
        let admitted = self.admit(tenant, request, Purpose::Session).await?;
        let sessions = Arc::clone(self);
        let (sender, receiver) = oneshot::channel();
        // In a task of its own, so that it cannot be cancelled between the sandbox and its record.
        tokio::spawn(async move {
            let made = sessions.create_recorded(admitted).await;
            if let Err(Ok(session)) = sender.send(made) {
                sessions.end(&session, EndReason::Deleted).await;
            }
        });
        receiver.await.unwrap_or(Err(SessionError::ShuttingDown))
    }

    async fn create_recorded(
        self: &Arc<Self>,
        admitted: Admitted,
    ) -> Result<Arc<Session>, SessionError> {
        let unclaimed = self.make(admitted, &[]).await?;
        self.record_new(unclaimed).await
    }

    /// Records a session that has been made, and lets clients find it.
    pub(crate) async fn record_new(
        self: &Arc<Self>,
        unclaimed: Unclaimed,
    ) -> Result<Arc<Session>, SessionError> {
        let info = unclaimed.session().info();
        let record = NewSandbox {
            id: info.id,
            tenant: unclaimed.session().tenant().clone(),
            template: info.template,
            metadata: info.metadata,
            limits: limits_json(&info.limits),
            expires_at: Some(info.expires_at),
        };
        let written = self.services.store.sandboxes().insert(record);
        self.admission().charge_record(unclaimed.session().tenant(), written.bytes());
        written.await?;
        let session = unclaimed.claim();
        self.insert(&session);
        self.services.statistics.sandboxes_created.fetch_add(1, Ordering::Relaxed);
        self.end_when_dead(&session);
        Ok(session)
    }

    /// Ends the session if its sandbox dies by itself.
    fn end_when_dead(self: &Arc<Self>, session: &Arc<Session>) {
        let sessions = Arc::downgrade(self);
        let session = Arc::downgrade(session);
        tokio::spawn(async move {
            let Some(live) = session.upgrade() else { return };
            let died = live.sandbox.died();
            drop(live);
            let reason = if died.await { EndReason::OutOfMemory } else { EndReason::Died };
            if let (Some(sessions), Some(session)) = (sessions.upgrade(), session.upgrade()) {
                sessions.end(&session, reason).await;
            }
        });
    }

    /// Takes a sandbox from the pool, or waits for a permit to build one. May be cancelled.
    pub(crate) async fn admit(
        &self,
        tenant: &Tenant,
        request: SandboxRequest,
        purpose: Purpose,
    ) -> Result<Admitted, SessionError> {
        if !self.is_open() {
            return Err(SessionError::ShuttingDown);
        }
        let terms = self.terms(&request)?;
        let network = match &request.network {
            Some(network) => Some(self.network_terms(tenant, network, &BTreeMap::new()).await?),
            None => None,
        };
        let slot = self.admission().sandbox(tenant)?;
        let mut options = CreateOptions::new(&terms.template);
        options.limits = (*terms.limits).clone();
        options.inputs = request.inputs;
        options.kernel = if request.fresh { KernelOrigin::Fresh } else { KernelOrigin::Warm };
        let plan = self.engine().plan(&options)?;
        let source = match self.engine().take_ready(&plan) {
            Some(created) => Source::Pool(Box::new(created)),
            None => Source::Build(self.admission().creating(tenant).await),
        };
        // The server may have begun to shut down while this waited for the permit.
        if !self.is_open() {
            return Err(SessionError::ShuttingDown);
        }
        let id = SandboxId::random()?;
        let tenant = tenant.clone();
        Ok(Admitted { id, tenant, purpose, terms, slot, plan, source, network })
    }

    /// Makes the sandbox of an admitted request, and starts its session.
    pub(crate) async fn make(
        self: &Arc<Self>,
        admitted: Admitted,
        arguments: &[String],
    ) -> Result<Unclaimed, SessionError> {
        let Admitted { id, tenant, purpose, terms, slot, plan, source, network } = admitted;
        let network = network.map(Arc::new);
        let environment = with_network(network.as_deref(), &terms.environment);
        let is_default = environment.is_empty() && terms.directory.is_none();
        let setup = (!(is_default && arguments.is_empty())).then_some(Setup {
            environment,
            arguments: arguments.to_vec(),
            directory: terms.directory.clone(),
        });
        let created = self.build(&tenant, plan, source, setup.as_ref()).await?;
        let new = NewSession {
            id,
            tenant,
            purpose,
            terms,
            slot,
            created,
            network: network.clone(),
            cells_begun: 0,
        };
        let session = Session::start(new, self.services.clone());
        let unclaimed = Unclaimed::new(self, session);
        if network.is_some() {
            self.connect_network(unclaimed.session()).await?;
        }
        Ok(unclaimed)
    }

    /// Builds a sandbox, or takes the ready one, and sets its interpreter up. If the zone ends meanwhile, waits for
    /// another and tries again.
    async fn build(
        &self,
        tenant: &Tenant,
        plan: SandboxPlan,
        mut source: Source,
        setup: Option<&Setup>,
    ) -> Result<Created, SessionError> {
        let until = Instant::now() + ZONE_PATIENCE;
        loop {
            let engine = self.live_engine(until).await?;
            let built = build_in(&engine, plan.clone(), source, setup).await;
            let may_be_zone = matches!(
                &built,
                Err(SessionError::Engine(_) | SessionError::Kernel(_) | SessionError::Zone(_))
            );
            // The end of a zone may be noticed a moment after the end of what was in it.
            let ended = tokio::time::timeout(ZONE_END_LAG, engine.ended());
            if !may_be_zone || Instant::now() >= until || ended.await.is_err() {
                return built;
            }
            source = Source::Build(self.admission().creating(tenant).await);
        }
    }

    /// Fills a request up with the server's defaults, and checks it against the server's maxima.
    fn terms(&self, request: &SandboxRequest) -> Result<SandboxTerms, SessionError> {
        let options = self.options();
        let ttl = request.ttl.unwrap_or(options.ttl);
        check_seconds("ttl_seconds", ttl, options.ttl_max)?;
        let idle = match request.idle {
            None => options.idle,
            Some(Duration::ZERO) if options.idle_max.is_none() => None,
            Some(idle) => {
                check_seconds("idle_seconds", idle, options.idle_max.unwrap_or(Duration::MAX))?;
                Some(idle)
            }
        };
        let max_cells = request.max_cells.unwrap_or(options.max_cells);
        if max_cells == 0 || max_cells > options.max_cells {
            let most = options.max_cells;
            return Err(SessionError::Bad(format!("max_cells must be from 1 to {most}")));
        }
        check_environment(&request.environment)?;
        check_metadata(&request.metadata)?;
        let limits = request.limits.as_ref().unwrap_or(&options.limits);
        let limits = self.engine().check_limits(limits).map_err(EngineError::from)?;
        Ok(SandboxTerms {
            template: request.template.clone().unwrap_or_else(|| options.template.clone()),
            metadata: request.metadata.clone(),
            environment: request.environment.clone(),
            directory: request.directory.as_ref().map(GuestPath::to_string),
            limits,
            ttl,
            idle,
            max_cells,
            timeout: request.timeout.unwrap_or(options.timeout),
            timeout_max: options.timeout_max,
            exposure: request.exposure.clone(),
        })
    }
}

/// Returns the variables of processes in a sandbox. What the client sets itself wins.
pub(crate) fn with_network(
    network: Option<&NetworkTerms>,
    own: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut environment = network.map(|network| network.environment.clone()).unwrap_or_default();
    environment.extend(own.clone());
    environment
}

/// Builds a sandbox, or takes the ready one, and waits until its interpreter is set up.
async fn build_in(
    engine: &Engine,
    plan: SandboxPlan,
    source: Source,
    setup: Option<&Setup>,
) -> Result<Created, SessionError> {
    let mut created = match source {
        Source::Pool(mut created) => {
            created.kernel.ready().await?;
            *created
        }
        Source::Build(permit) => {
            let build = async {
                let mut created = engine.make(plan).await?;
                created.kernel.ready().await?;
                Ok::<_, SessionError>(created)
            };
            permit.spend(build).await?
        }
    };
    if let Some(setup) = setup {
        created.kernel.set_up(setup).await?;
    }
    Ok(created)
}

/// Checks a time that a client asks for. `field` is its name in requests.
pub(crate) fn check_seconds(
    field: &str,
    asked: Duration,
    most: Duration,
) -> Result<(), SessionError> {
    if asked.is_zero() {
        return Err(SessionError::Bad(format!("{field} must be more than 0")));
    }
    if asked > most {
        let most = most.as_secs_f64();
        return Err(SessionError::Bad(format!("{field} must be at most {most}")));
    }
    Ok(())
}

pub(crate) fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), SessionError> {
    let bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if metadata.len() > METADATA_PAIRS_MAX || bytes > METADATA_BYTES_MAX {
        return Err(SessionError::Bad(format!(
            "metadata must have at most {METADATA_PAIRS_MAX} pairs and {METADATA_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}

/// Checks environment variables of a sandbox, a kernel, a cell or a command.
pub(crate) fn check_environment(
    environment: &BTreeMap<String, String>,
) -> Result<(), SessionError> {
    let mut bytes = 0;
    for (name, value) in environment {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(SessionError::Bad(format!(
                "invalid environment variable {name:?}: a name must not be empty or contain = or \
                 NUL, and a value must not contain NUL"
            )));
        }
        bytes += name.len() + value.len() + 2;
    }
    if bytes > ENVIRONMENT_BYTES_MAX {
        return Err(SessionError::Bad(format!(
            "env must have at most {ENVIRONMENT_BYTES_MAX} bytes; it has {bytes}"
        )));
    }
    Ok(())
}
