//! Making a sandbox: what may be asked for, admission, the sandbox itself, its record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use silica_domain::{LimitValues, Limits};
use silica_engine::{
    CreateOptions, Created, EngineError, GuestPath, Input, KernelOrigin, SandboxPlan, Setup,
};
use silica_store::sandboxes::NewSandbox;
use silica_store::{SandboxId, Tenant};
use tokio::sync::oneshot;

use crate::ending::Unclaimed;
use crate::error::SessionError;
use crate::fairness::Turn;
use crate::session::{EndReason, Session, Terms};
use crate::sessions::Sessions;

/// A sandbox that is asked for.
#[derive(Clone, Debug, Default)]
pub struct Create {
    /// What it starts from.
    pub template: Option<String>,
    /// What it may use.
    pub limits: Option<LimitValues>,
    /// Variables of everything in it.
    pub environment: BTreeMap<String, String>,
    /// Where its kernels and commands start; /workspace if nothing is said.
    pub directory: Option<GuestPath>,
    /// What its user says about it.
    pub metadata: BTreeMap<String, String>,
    /// How long it lives.
    pub ttl: Option<Duration>,
    /// After what time without use it is ended; zero for never.
    pub idle: Option<Duration>,
    /// How many cells it may run.
    pub max_cells: Option<u64>,
    /// How long a cell of it may take, unless the cell says otherwise.
    pub timeout: Option<Duration>,
    /// Read-only inputs.
    pub inputs: Vec<Input>,
    /// Whether its interpreter is to share nothing with any other.
    pub fresh: bool,
}

/// Somebody who may have a sandbox.
pub(crate) struct Admitted {
    terms: Terms,
    plan: SandboxPlan,
    way: Way,
}

/// How it comes about.
enum Way {
    /// It stands there.
    Ready(Box<Created>),
    /// It is made in this turn.
    Make(Turn),
}

impl Sessions {
    /// Makes a sandbox. Whoever asked may go away at any moment; then it is ended again.
    pub async fn create(
        self: &Arc<Self>,
        tenant: &Tenant,
        create: Create,
    ) -> Result<Arc<Session>, SessionError> {
        let admitted = self.admit(tenant, create, false).await?;
        let (sessions, tenant) = (Arc::clone(self), tenant.clone());
        let (sender, receiver) = oneshot::channel();
        // Beside, so that it is never given up between the sandbox and its record.
        tokio::spawn(async move {
            let made = sessions.create_recorded(&tenant, admitted).await;
            if let Err(Ok(session)) = sender.send(made) {
                sessions.end(&session, EndReason::Deleted).await;
            }
        });
        receiver.await.unwrap_or(Err(SessionError::ShuttingDown))
    }

    async fn create_recorded(
        self: &Arc<Self>,
        tenant: &Tenant,
        admitted: Admitted,
    ) -> Result<Arc<Session>, SessionError> {
        let unclaimed = self.make(admitted, &[]).await?;
        let info = unclaimed.session().info();
        let record = NewSandbox {
            id: info.id.clone(),
            tenant: tenant.clone(),
            template: info.template,
            metadata: info.metadata,
            limits: limits_json(&info.limits),
            expires_at: Some(info.expires_at),
        };
        self.store.sandboxes().insert(record).await?;
        let session = unclaimed.claim();
        self.lock().insert(info.id, Arc::clone(&session));
        self.numbers.sandboxes_created.fetch_add(1, Ordering::Relaxed);
        let (sessions, watched) = (Arc::downgrade(self), Arc::downgrade(&session));
        tokio::spawn(async move {
            let Some(session) = watched.upgrade() else { return };
            let died = session.sandbox().died();
            drop(session);
            let reason = if died.await { EndReason::OutOfMemory } else { EndReason::Died };
            if let (Some(sessions), Some(session)) = (sessions.upgrade(), watched.upgrade()) {
                sessions.end(&session, reason).await;
            }
        });
        Ok(session)
    }

    /// Lets somebody have a sandbox: one that stands ready, or the turn to make one. May be given up.
    pub(crate) async fn admit(
        &self,
        tenant: &Tenant,
        create: Create,
        single: bool,
    ) -> Result<Admitted, SessionError> {
        if !self.is_open() {
            return Err(SessionError::ShuttingDown);
        }
        let terms = self.terms(tenant, &create, single)?;
        let kernel = if create.fresh { KernelOrigin::Fresh } else { KernelOrigin::Warm };
        let mut options = CreateOptions::new(&terms.template);
        options.limits = (*terms.limits).clone();
        options.inputs = create.inputs;
        options.kernel = kernel;
        let plan = self.engine().plan(&options)?;
        let way = match self.engine().take_ready(&plan) {
            Some(created) => Way::Ready(Box::new(created)),
            None => Way::Make(self.admission.making(tenant).await),
        };
        // The turn may have been long in coming.
        if !self.is_open() {
            return Err(SessionError::ShuttingDown);
        }
        Ok(Admitted { terms, plan, way })
    }

    pub(crate) async fn make(
        self: &Arc<Self>,
        admitted: Admitted,
        arguments: &[String],
    ) -> Result<Unclaimed, SessionError> {
        let Admitted { terms, plan, way } = admitted;
        let mut created = match way {
            Way::Ready(mut created) => {
                created.kernel.ready().await?;
                *created
            }
            Way::Make(turn) => {
                let make = async {
                    let mut created = self.engine().make(plan).await?;
                    created.kernel.ready().await?;
                    Ok::<_, SessionError>(created)
                };
                turn.spend(make).await?
            }
        };
        let as_it_is = terms.environment.is_empty() && terms.directory.is_none();
        if !(as_it_is && arguments.is_empty()) {
            let (environment, directory) = (terms.environment.clone(), terms.directory.clone());
            let setup = Setup { environment, arguments: arguments.to_vec(), directory };
            created.kernel.set_up(&setup).await?;
        }
        let (store, admission) = (self.store.clone(), self.admission.clone());
        let (numbers, review) = (Arc::clone(&self.numbers), self.review.clone());
        let session = Session::start(terms, created, store, admission, numbers, review);
        Ok(Unclaimed { sessions: Arc::clone(self), session: Some(session) })
    }

    fn terms(&self, tenant: &Tenant, create: &Create, single: bool) -> Result<Terms, SessionError> {
        let options = self.options();
        let within = |what: &str, asked: Duration, most: Duration| {
            let words = || {
                let (asked, most) = (asked.as_secs(), most.as_secs());
                format!("{what} of {asked} seconds cannot be had; at most {most} are allowed here")
            };
            if asked.is_zero() || asked > most {
                Err(SessionError::Bad(words()))
            } else {
                Ok(asked)
            }
        };
        let ttl = within("a life", create.ttl.unwrap_or(options.ttl), options.ttl_max)?;
        let idle = match create.idle {
            None => options.idle,
            Some(Duration::ZERO) if options.idle_max.is_none() => None,
            Some(idle) => {
                Some(within("an idle time", idle, options.idle_max.unwrap_or(Duration::MAX))?)
            }
        };
        let max_cells = create.max_cells.unwrap_or(options.max_cells);
        if max_cells == 0 || max_cells > options.max_cells {
            let most = options.max_cells;
            return Err(SessionError::Bad(format!("max_cells must be from 1 to {most}")));
        }
        check_environment(&create.environment)?;
        check_metadata(&create.metadata)?;
        let limits = self.engine().check_limits(create.limits.as_ref().unwrap_or(&options.limits));
        let limits = limits.map_err(EngineError::from)?;
        Ok(Terms {
            id: SandboxId::random()?,
            tenant: tenant.clone(),
            template: create.template.clone().unwrap_or_else(|| options.template.clone()),
            metadata: create.metadata.clone(),
            environment: create.environment.clone(),
            directory: create.directory.as_ref().map(GuestPath::to_string),
            limits,
            ttl,
            idle,
            max_cells,
            timeout: create.timeout.unwrap_or(options.timeout),
            timeout_max: options.timeout_max,
            single,
            place: self.admission.sandbox(tenant)?,
        })
    }
}

/// Variables, their names and values all together.
const ENVIRONMENT_BYTES_MAX: usize = 32 * 1024;

/// What an owner may say about a sandbox, as many pairs and as many bytes as the store keeps.
const METADATA_PAIRS_MAX: usize = 64;
const METADATA_BYTES_MAX: usize = 8 * 1024;

fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), SessionError> {
    let bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
    if metadata.len() > METADATA_PAIRS_MAX || bytes > METADATA_BYTES_MAX {
        return Err(SessionError::Bad(format!(
            "metadata may have {METADATA_PAIRS_MAX} pairs and {METADATA_BYTES_MAX} bytes in all"
        )));
    }
    Ok(())
}

pub(crate) fn check_environment(
    environment: &BTreeMap<String, String>,
) -> Result<(), SessionError> {
    let mut bytes = 0;
    for (name, value) in environment {
        let good = !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
        if !good {
            return Err(SessionError::Bad(format!(
                "{name:?} cannot be a variable's name or value"
            )));
        }
        bytes += name.len() + value.len() + 2;
    }
    if bytes > ENVIRONMENT_BYTES_MAX {
        let words =
            format!("the variables are {bytes} bytes long; at most {ENVIRONMENT_BYTES_MAX}");
        return Err(SessionError::Bad(words));
    }
    Ok(())
}

/// Limits as they are recorded and shown.
pub fn limits_json(limits: &Limits) -> serde_json::Value {
    serde_json::json!({
        "memory_bytes": limits.memory_bytes,
        "disk_bytes": limits.disk_bytes,
        "cpus": f64::from(limits.cpu_millis) / 1000.0,
        "cpu_seconds": limits.cpu.as_secs_f64(),
        "wall_seconds": limits.wall.as_secs_f64(),
        "processes": limits.processes,
        "open_files": limits.open_files,
        "file_bytes": limits.file_bytes,
        "output_bytes": limits.output_bytes,
        "results": limits.results,
        "result_bytes": limits.result_bytes,
    })
}
