//! The engine: one tier, the templates added to it, the pools filled from it.
//!
//! Tests: `tests/it/engine/work.rs`, `tests/it/jail/failing.rs`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use silica_domain::{Containment, LimitError, LimitValues, Limits, LimitsMax, Tier};
use silica_templates::{Hold, Home, Template, TemplateStoreError};

use crate::command::CommandDefaults;
use crate::guest::{self, Additions, GuestError};
use crate::inputs::{self, Input, InputError};
use crate::pool::Pool;
use crate::program;
use crate::sandbox::{CreateError, Created, Faults, Sandbox, SandboxPlan};
use crate::tier::jail::Jail;
use crate::tier::{EnclosureSpec, KernelStart, NewEnclosure, TierDriver, TierError, TierOptions};

/// What an engine is started with. No default: every field says something about containment.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    pub home: Home,
    /// The largest limits that a sandbox may have.
    pub limits_max: LimitsMax,
    /// What isolates the sandboxes.
    pub tier: TierOptions,
    /// Certificates that programs in its sandboxes trust beside those of the public authorities, as
    /// PEM.
    pub trust: Option<Vec<u8>>,
}

/// Where a sandbox's interpreter comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelOrigin {
    /// From what the tier keeps warm of the template: in the jail a fork of its zygote.
    Warm,
    /// Started for this sandbox alone; shares nothing with any other.
    Fresh,
}

/// What a new sandbox is made with.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// The template, by name; it must have been added.
    pub template: String,
    /// What it may use; checked against the engine's maximum.
    pub limits: LimitValues,
    /// Read-only inputs.
    pub inputs: Vec<Input>,
    /// Where its interpreters come from.
    pub kernel: KernelOrigin,
    /// For tests.
    pub faults: Faults,
}

impl CreateOptions {
    /// Returns the options of a sandbox with default limits and a warm interpreter.
    pub fn new(template: &str) -> Self {
        Self {
            template: template.to_owned(),
            limits: LimitValues::default(),
            inputs: Vec::new(),
            kernel: KernelOrigin::Warm,
            faults: Faults::default(),
        }
    }
}

/// Why the engine could not do something.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The tier did not start.
    #[error("sandboxes cannot run on this host")]
    Tier(#[source] TierError),
    /// The guest's layer could not be written.
    #[error("cannot prepare the guest's code")]
    Guest(#[from] GuestError),
    /// The template was not added.
    #[error("there is no template called {0}")]
    UnknownTemplate(String),
    /// The template could not be held.
    #[error("cannot use the template")]
    Template(#[source] TemplateStoreError),
    /// The tier refused the template or its warm interpreter.
    #[error("the sandbox supervisor refused template {0}")]
    Refused(String, #[source] TierError),
    /// The warm interpreter cannot start.
    #[error("the warm interpreter of template {0} cannot start: {1}")]
    Warm(String, String),
    /// A limit is out of range.
    #[error(transparent)]
    Limits(#[from] LimitError),
    /// An input is refused.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The sandbox could not be made.
    #[error(transparent)]
    Create(CreateError),
}

impl From<CreateError> for EngineError {
    /// Converts the error of a create. An input that cannot be used is the caller's fault, also
    /// where the tier finds it out.
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Enclosure(TierError::Input(error)) => Self::Input(error),
            error => Self::Create(error),
        }
    }
}

/// A template that the tier knows.
#[derive(Debug)]
struct Added {
    template: Template,
    commands: Arc<CommandDefaults>,
    /// Set once the tier keeps an interpreter of it warm.
    warm: tokio::sync::OnceCell<()>,
    /// Whether sandboxes get fresh interpreters until the warm one is ready, instead of waiting.
    fresh_meanwhile: AtomicBool,
    _hold: (Hold, guest::Layer),
}

#[derive(Debug, Default)]
struct Tables {
    templates: HashMap<String, Arc<Added>>,
    pools: Vec<Arc<Pool>>,
}

/// One tier and every sandbox in it.
#[derive(Debug)]
pub struct Engine {
    home: Home,
    limits_max: LimitsMax,
    tier: Arc<dyn TierDriver>,
    /// See [`EngineOptions::trust`].
    trust: Option<Vec<u8>>,
    tables: Mutex<Tables>,
}

impl Engine {
    /// Starts the tier, which clears up after dead ones. Must be called within a Tokio runtime.
    pub fn start(options: EngineOptions) -> Result<Self, EngineError> {
        let EngineOptions { home, limits_max, tier, trust } = options;
        let run_directory = home.path().join("run");
        let tier: Arc<dyn TierDriver> = match tier {
            TierOptions::Jail(jail) => {
                Arc::new(Jail::start(jail, run_directory).map_err(EngineError::Tier)?)
            }
        };
        Ok(Self { home, limits_max, tier, trust, tables: Mutex::default() })
    }

    /// Returns what isolates its sandboxes.
    pub fn tier(&self) -> Tier {
        self.tier.containment().tier
    }

    /// Returns what is enforced for every sandbox of this engine.
    pub fn containment(&self) -> &Containment {
        self.tier.containment()
    }

    /// Returns the tier's process on the host.
    pub fn zone_process_id(&self) -> u32 {
        self.tier.process_id()
    }

    fn tables(&self) -> std::sync::MutexGuard<'_, Tables> {
        // The tables hold no invariant that a panic elsewhere could have broken halfway.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a template known to the tier.
    pub async fn add_template(&self, template: Template) -> Result<(), EngineError> {
        let name = template.manifest.name.clone();
        // Before the tier learns of it: a rebuild removes builds that no process holds.
        let hold = template.hold().map_err(EngineError::Template)?;
        let additions =
            Additions { tier_files: self.tier.guest_files(), trust: self.trust.as_deref() };
        let guest = guest::ensure(&self.home, &template, additions)?;
        let added = self.tier.add_template(&template, &guest).await;
        added.map_err(|error| EngineError::Refused(name.clone(), error))?;
        let commands = Arc::new(program::command_defaults(&template));
        let warm = tokio::sync::OnceCell::new();
        let fresh_meanwhile = AtomicBool::new(false);
        let hold = (hold, guest);
        let added = Arc::new(Added { template, commands, warm, fresh_meanwhile, _hold: hold });
        self.tables().templates.insert(name, added);
        Ok(())
    }

    /// Keeps an interpreter of a template warm from now on. A sandbox that is asked for before it is
    /// ready gets fresh interpreters.
    pub async fn begin_warming(&self, name: &str) -> Result<(), EngineError> {
        let added = self.added(name)?;
        added.fresh_meanwhile.store(true, Ordering::Relaxed);
        self.keep_warm(&added).await
    }

    /// Keeps an interpreter of a template warm from now on, and waits until it is ready.
    pub async fn warm(&self, name: &str) -> Result<(), EngineError> {
        self.keep_warm(&*self.added(name)?).await?;
        let ready = self.tier.warmed(name).await;
        ready.map_err(|reason| EngineError::Warm(name.to_owned(), reason))
    }

    /// Has the tier keep an interpreter warm, unless it does already. A sandbox that is asked for
    /// before the interpreter is ready waits for it.
    async fn keep_warm(&self, added: &Added) -> Result<(), EngineError> {
        let start = async || {
            let name = added.template.manifest.name.clone();
            let started = self.tier.keep_warm(&name, program::warm(&added.template)).await;
            started.map_err(|error| EngineError::Refused(name, error))
        };
        // A failure leaves the cell empty, so that the next create tries again.
        added.warm.get_or_try_init(start).await.map(drop)
    }

    /// Keeps `size` sandboxes with these options ready, interpreter included.
    pub fn keep_ready(&self, options: &CreateOptions, size: usize) -> Result<(), EngineError> {
        let plan = self.plan(options)?;
        let pool = Pool::start(Arc::clone(&self.tier), plan, size);
        self.tables().pools.push(pool);
        Ok(())
    }

    /// Returns whether its tier runs. Without it nothing can be made any more.
    pub fn is_alive(&self) -> bool {
        !self.tier.is_gone()
    }

    /// Waits until its tier has ended, which takes every sandbox along.
    pub async fn ended(&self) {
        self.tier.gone().await;
    }

    /// Returns how many sandboxes are ready.
    pub fn ready_count(&self) -> usize {
        self.tables().pools.iter().map(|pool| pool.len()).sum()
    }

    /// Checks values against what this engine allows.
    pub fn check_limits(&self, values: &LimitValues) -> Result<Limits, LimitError> {
        values.clone().checked(&self.limits_max)
    }

    /// Checks the options. The plan is made once and then used to take or to make a sandbox.
    pub fn plan(&self, options: &CreateOptions) -> Result<SandboxPlan, EngineError> {
        let added = self.added(&options.template)?;
        let limits = self.check_limits(&options.limits)?;
        inputs::check_names(&options.inputs)?;
        let kernel = match options.kernel {
            KernelOrigin::Warm => KernelStart::Warm,
            KernelOrigin::Fresh => KernelStart::Fresh(Arc::new(program::fresh(&added.template))),
        };
        let spec = EnclosureSpec {
            template: options.template.clone(),
            limits,
            inputs: options.inputs.clone(),
            fail_at: options.faults.enclosure_step,
        };
        let enter_step = options.faults.enter_step;
        Ok(SandboxPlan { spec, kernel, enter_step, commands: Arc::clone(&added.commands) })
    }

    /// Takes a sandbox for a plan that is ready, if there is one.
    pub fn take_ready(&self, plan: &SandboxPlan) -> Option<Created> {
        // Cloned, so that the lock is free while sandboxes that died in a pool are ended.
        let pools = self.tables().pools.clone();
        pools.iter().find_map(|pool| pool.take(plan))
    }

    /// Makes a sandbox now.
    pub async fn make(&self, mut plan: SandboxPlan) -> Result<Created, EngineError> {
        if plan.kernel == KernelStart::Warm {
            let added = self.added(&plan.spec.template)?;
            self.keep_warm(&added).await?;
            let is_ready = || self.tier.warmed(&plan.spec.template).now_or_never().is_some();
            if added.fresh_meanwhile.load(Ordering::Relaxed) && !is_ready() {
                plan.kernel = KernelStart::Fresh(Arc::new(program::fresh(&added.template)));
            }
        }
        Ok(Sandbox::create(&*self.tier, plan).await?)
    }

    /// Makes a sandbox without an interpreter, for one that becomes an image.
    pub(crate) async fn make_empty(&self, plan: &SandboxPlan) -> Result<Sandbox, EngineError> {
        // An image is woken by a fork of the warm interpreter, wherever its original came from.
        self.keep_warm(&*self.added(&plan.spec.template)?).await?;
        Ok(Sandbox::create_empty(&*self.tier, plan.clone()).await?)
    }

    /// Returns a sandbox with these options: one that is ready, else one made now.
    pub async fn create(&self, options: &CreateOptions) -> Result<Created, EngineError> {
        let plan = self.plan(options)?;
        match self.take_ready(&plan) {
            Some(created) => Ok(created),
            None => self.make(plan).await,
        }
    }

    /// Makes an enclosure without an interpreter, ends it, and returns how long the making took.
    pub async fn time_enclosure(&self, options: &CreateOptions) -> Result<Duration, EngineError> {
        let plan = self.plan(options)?;
        let failed = |error| EngineError::from(CreateError::Enclosure(error));
        let started = Instant::now();
        let NewEnclosure { enclosure, made } = self.tier.create(&plan.spec).map_err(failed)?;
        made.await.map_err(failed)?;
        let took = started.elapsed();
        enclosure.end().await.map_err(failed)?;
        Ok(took)
    }

    fn added(&self, name: &str) -> Result<Arc<Added>, EngineError> {
        let added = self.tables().templates.get(name).cloned();
        added.ok_or_else(|| EngineError::UnknownTemplate(name.to_owned()))
    }

    /// Ends every sandbox and the tier; returns when nothing is left.
    pub async fn close(&self) {
        // The pools first, or they would go on filling from a tier that ends.
        let pools = std::mem::take(&mut self.tables().pools);
        for pool in pools {
            pool.stop();
        }
        self.tier.close().await;
    }
}
