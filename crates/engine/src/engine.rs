//! The engine: one zone, the templates added to it, the pools filled from it.
//! Tests: `tests/it/engine/work.rs`, `tests/it/jail/failing.rs`.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use silica_domain::{Containment, LimitError, Limits, LimitsMax};
use silica_jail::client::{self, UseOfHost, ZoneError, ZoneOptions};
use silica_jail::protocol::{
    EnclosureSpec, Origin, Program, Source, SystemDirectory, TemplateLayers, ZoneRequest,
};

use crate::command::Surroundings;
use crate::containment;
use crate::guest::{self, GuestError};
use crate::inputs::{self, Input, InputError};
use crate::kernel::KernelError;
use crate::pool::Pool;
use crate::sandbox::{CreateError, Faults, Plan, Sandbox};
use crate::zone::{CallError, ZoneHandle, borrowed};
use silica_templates::{Hold, Home, Template, TemplateStoreError};

/// What an engine is started with. No default: every field says something about containment.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The data directory.
    pub home: Home,
    /// The program whose process becomes the zone, and its arguments.
    pub zone_program: (PathBuf, Vec<String>),
    /// What of the host's offers to use.
    pub use_of_host: UseOfHost,
    /// The most anybody may ask for.
    pub limits_max: LimitsMax,
    /// When zygotes are replaced.
    pub zygotes: ZygotePolicy,
}

/// When zygotes are replaced. Siblings share address layout and hash seed; this bounds how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZygotePolicy {
    /// After this many forks.
    pub forks_max: u64,
    /// After this long.
    pub age_max: Duration,
}

impl Default for ZygotePolicy {
    fn default() -> Self {
        Self { forks_max: 10_000, age_max: Duration::from_mins(10) }
    }
}

/// Where a sandbox's interpreter comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpreter {
    /// A fork of the template's zygote, in milliseconds.
    Forked,
    /// Started for this sandbox alone; shares nothing with any other.
    Fresh,
}

/// What a new sandbox is to be.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// The template, by name; it must have been added.
    pub template: String,
    /// What it may use.
    pub limits: Limits,
    /// Read-only inputs.
    pub inputs: Vec<Input>,
    /// Where its interpreter comes from.
    pub interpreter: Interpreter,
    /// For tests.
    pub faults: Faults,
}

impl CreateOptions {
    /// A sandbox of a template with default limits, forked from its zygote.
    pub fn new(template: &str) -> Self {
        Self {
            template: template.to_owned(),
            limits: Limits::default(),
            inputs: Vec::new(),
            interpreter: Interpreter::Forked,
            faults: Faults::default(),
        }
    }
}

/// Why the engine could not do something.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The zone did not start.
    #[error("sandboxes cannot run on this host")]
    Zone(#[source] ZoneError),
    /// The guest's layer could not be written.
    #[error("cannot prepare the guest's code")]
    Guest(#[from] GuestError),
    /// The template was not added.
    #[error("there is no template called {0}")]
    UnknownTemplate(String),
    /// The template could not be held.
    #[error("cannot use the template")]
    Template(#[source] TemplateStoreError),
    /// A layer of the template could not be mounted.
    #[error("cannot mount {0}")]
    Layer(PathBuf, #[source] std::io::Error),
    /// The zone refused the template or its zygote.
    #[error("the zone refused template {0}")]
    Refused(String, #[source] CallError),
    /// The zygote cannot start.
    #[error("the warm interpreter of template {0} cannot start: {1}")]
    Zygote(String, String),
    /// A limit that cannot be had.
    #[error(transparent)]
    Limits(#[from] LimitError),
    /// An input that is refused.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The sandbox could not be made.
    #[error(transparent)]
    Create(#[from] CreateError),
}

/// Where copies of private inputs stand for a moment, below the data directory.
const INPUT_COPIES: &str = "run/inputs";

/// A template the zone knows.
#[derive(Debug)]
struct Added {
    template: Template,
    surroundings: Arc<Surroundings>,
    /// Set once the zone keeps a warm interpreter of it.
    warm: tokio::sync::OnceCell<()>,
    _hold: (Hold, guest::Layer),
}

#[derive(Debug, Default)]
struct Tables {
    templates: HashMap<String, Arc<Added>>,
    pools: Vec<Arc<Pool>>,
}

/// One zone and everything in it.
#[derive(Debug)]
pub struct Engine {
    options: EngineOptions,
    zone: ZoneHandle,
    containment: Containment,
    tables: Mutex<Tables>,
}

impl Engine {
    /// Clears up after dead ones and starts a zone. Must be called within a Tokio runtime.
    pub fn start(options: EngineOptions) -> Result<Self, EngineError> {
        inputs::sweep(&options.home.path().join(INPUT_COPIES));
        let zone = ZoneHandle::start(ZoneOptions {
            program: options.zone_program.clone(),
            run_directory: options.home.path().join("run"),
            use_of_host: options.use_of_host,
        })
        .map_err(EngineError::Zone)?;
        let containment = containment::report(zone.facts());
        Ok(Self { options, zone, containment, tables: Mutex::default() })
    }

    /// What is enforced for every sandbox of this engine.
    pub fn containment(&self) -> &Containment {
        &self.containment
    }

    /// The process that stands for the zone on the host.
    pub fn zone_process_id(&self) -> u32 {
        self.zone.process_id()
    }

    fn tables(&self) -> std::sync::MutexGuard<'_, Tables> {
        // The tables hold no invariant that a panic elsewhere could have broken halfway.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a template known to the zone.
    pub async fn add_template(&self, template: Template) -> Result<(), EngineError> {
        let name = template.manifest.name.clone();
        let hold = template.hold().map_err(EngineError::Template)?;
        let guest = guest::ensure(&self.options.home, &template)?;
        let mut fds = Vec::new();
        let layers = TemplateLayers {
            name: name.clone(),
            guest: layer(&guest.path, &mut fds)?,
            root: layer(&template.root(), &mut fds)?,
            system: template
                .manifest
                .system_dirs
                .iter()
                .map(|path| {
                    let source = layer(path, &mut fds)?;
                    Ok(SystemDirectory { path: path.display().to_string(), source })
                })
                .collect::<Result<_, EngineError>>()?,
        };
        let request = ZoneRequest::AddTemplate(layers);
        let refused = |error| EngineError::Refused(name.clone(), error);
        self.zone.call(request, &borrowed(&fds)).await.map_err(refused)?;
        let surroundings = Arc::new(surroundings(&template));
        let warm = tokio::sync::OnceCell::new();
        let added = Arc::new(Added { template, surroundings, warm, _hold: (hold, guest) });
        self.tables().templates.insert(name.clone(), added);
        Ok(())
    }

    /// Keeps a warm interpreter of a template from now on, and waits until it is ready.
    pub async fn warm(&self, name: &str) -> Result<(), EngineError> {
        self.keep_warm(&*self.added(name)?).await?;
        let ready = self.zone.zygote_ready(name).await;
        ready.map_err(|reason| EngineError::Zygote(name.to_owned(), reason))
    }

    /// Has the zone start a warm interpreter, unless it keeps one already. Who asks for a fork before
    /// it is ready waits for it.
    async fn keep_warm(&self, added: &Added) -> Result<(), EngineError> {
        let start = async || {
            let name = added.template.manifest.name.clone();
            let request = ZoneRequest::StartZygote {
                template: name.clone(),
                program: zygote_program(&added.template),
                forks_max: self.options.zygotes.forks_max,
                age_ms_max: self.options.zygotes.age_max.as_millis() as u64,
            };
            let started = self.zone.call(request, &[]).await;
            started.map(drop).map_err(|error| EngineError::Refused(name, error))
        };
        added.warm.get_or_try_init(start).await.map(drop)
    }

    /// Keeps `size` sandboxes with these options ready, interpreter included.
    pub fn keep_ready(&self, options: &CreateOptions, size: usize) -> Result<(), EngineError> {
        let plan = self.plan(&*self.added(&options.template)?, options)?;
        let pool = Pool::start(self.zone.clone(), plan, self.containment.clone(), size);
        self.tables().pools.push(pool);
        Ok(())
    }

    /// Whether its zone is there. Without one nothing can be made any more.
    pub fn is_alive(&self) -> bool {
        !self.zone.is_gone()
    }

    /// Waits until its zone has gone, which takes every sandbox along.
    pub async fn ended(&self) {
        self.zone.gone().await;
    }

    /// How many sandboxes stand ready.
    pub fn ready_count(&self) -> usize {
        self.tables().pools.iter().map(|pool| pool.len()).sum()
    }

    /// A sandbox with these options that stands ready, if there is one.
    pub fn take_ready(&self, options: &CreateOptions) -> Result<Option<Sandbox>, EngineError> {
        let is_poolable = options.inputs.is_empty() && options.faults == Faults::default();
        if !is_poolable {
            return Ok(None);
        }
        let plan = self.plan(&*self.added(&options.template)?, options)?;
        let pools = self.tables().pools.clone();
        Ok(pools.iter().find_map(|pool| pool.take(&plan.spec, &plan.origin)))
    }

    /// A sandbox with these options: one that stands ready, else made now.
    pub async fn create(&self, options: &CreateOptions) -> Result<Sandbox, EngineError> {
        if let Some(sandbox) = self.take_ready(options)? {
            return Ok(sandbox);
        }
        let added = self.added(&options.template)?;
        let plan = self.plan(&added, options)?;
        if options.interpreter == Interpreter::Forked {
            self.keep_warm(&added).await?;
        }
        Ok(Sandbox::create(&self.zone, plan, self.containment.clone()).await?)
    }

    /// Makes an enclosure without an interpreter, ends it, and returns how long the making took.
    pub async fn time_enclosure(&self, options: &CreateOptions) -> Result<Duration, EngineError> {
        let plan = self.plan(&*self.added(&options.template)?, options)?;
        let enclosure = self.zone.number();
        let request = ZoneRequest::CreateEnclosure {
            enclosure,
            spec: plan.spec,
            inputs: Vec::new(),
            fail_at: 0,
        };
        let failed = |error| EngineError::Create(CreateError::Enclosure(error));
        let started = std::time::Instant::now();
        self.zone.call(request, &[]).await.map_err(failed)?;
        let took = started.elapsed();
        self.zone.call(ZoneRequest::Destroy { enclosure }, &[]).await.map_err(failed)?;
        Ok(took)
    }

    /// Checks the options and turns them into what the zone needs.
    fn plan(&self, added: &Added, options: &CreateOptions) -> Result<Plan, EngineError> {
        let limits = options.limits.clone().checked(&self.options.limits_max)?;
        inputs::check_names(&options.inputs)?;
        let scratch = self.options.home.path().join(INPUT_COPIES);
        let inputs = options
            .inputs
            .iter()
            .map(|input| inputs::prepare(input, &scratch))
            .collect::<Result<Vec<_>, _>>()?;
        let origin = match options.interpreter {
            Interpreter::Forked => Origin::Zygote,
            Interpreter::Fresh => Origin::Program(fresh_program(&added.template)),
        };
        let spec = enclosure_spec(&options.template, &limits);
        let surroundings = Arc::clone(&added.surroundings);
        Ok(Plan { spec, inputs, origin, faults: options.faults, surroundings })
    }

    fn added(&self, name: &str) -> Result<Arc<Added>, EngineError> {
        let added = self.tables().templates.get(name).cloned();
        added.ok_or_else(|| EngineError::UnknownTemplate(name.to_owned()))
    }

    /// Ends every sandbox and the zone; returns when nothing is left.
    pub async fn close(&self) {
        let pools = std::mem::take(&mut self.tables().pools);
        for pool in pools {
            pool.stop();
        }
        self.zone.hang_up();
        self.zone.ended().await;
    }
}

impl From<KernelError> for CreateError {
    fn from(error: KernelError) -> Self {
        Self::Kernel(error)
    }
}

/// How the zone gets a directory: mounted by us where we may, else found by its path.
fn layer(path: &Path, fds: &mut Vec<OwnedFd>) -> Result<Source, EngineError> {
    let failed = |error| EngineError::Layer(path.to_owned(), error);
    let path = path.canonicalize().map_err(failed)?;
    match client::detach(&path, true).map_err(failed)? {
        Some(tree) => {
            fds.push(tree);
            Ok(Source::Mount)
        }
        None => Ok(Source::Path(path)),
    }
}

fn enclosure_spec(template: &str, limits: &Limits) -> EnclosureSpec {
    EnclosureSpec {
        template: template.to_owned(),
        memory_bytes: limits.memory_bytes,
        cpu_millis: limits.cpu_millis,
        processes: limits.processes,
        open_files: limits.open_files,
        disk_bytes: limits.disk_bytes,
        file_bytes: limits.file_bytes,
        cpu_seconds: limits.cpu.as_secs().max(1),
    }
}

/// What every process in a sandbox starts with, before the template's own variables.
const BASE_ENVIRONMENT: [(&str, &str); 7] = [
    ("HOME", "/home/user"),
    ("USER", "user"),
    ("LANG", "C.UTF-8"),
    ("PATH", "/opt/silica/venv/bin:/usr/local/bin:/usr/bin:/bin"),
    ("TERM", "dumb"),
    ("PYTHONHASHSEED", "random"),
    // The allocator in pyarrow, which pandas uses for text, otherwise maps 1 GiB at its first use.
    // Where no group limits memory, RLIMIT_DATA counts that as used, and nothing works any more.
    ("MIMALLOC_ARENA_EAGER_COMMIT", "0"),
];

fn variables(template: &Template) -> BTreeMap<String, String> {
    let manifest = &template.manifest;
    let mut variables: BTreeMap<String, String> = BASE_ENVIRONMENT
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .chain(manifest.environment.clone())
        .collect();
    if !manifest.library_path.is_empty() {
        variables.insert("LD_LIBRARY_PATH".to_owned(), joined(&manifest.library_path));
    }
    variables
}

fn joined(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(":")
}

/// The same for an interpreter, whose guest code takes away again what is meant for it alone.
fn environment(template: &Template) -> Vec<(String, String)> {
    let manifest = &template.manifest;
    let mut variables = variables(template);
    variables.insert("SILICA_SITE".to_owned(), joined(&manifest.site));
    variables.insert("SILICA_PREFIX".to_owned(), manifest.prefix.display().to_string());
    variables.into_iter().collect()
}

/// What commands start from. bash is in the template's own tree, or in a directory of the host that
/// is shown inside at the same path.
fn surroundings(template: &Template) -> Surroundings {
    let bash = Path::new("/bin/bash");
    let shown = |path: PathBuf| {
        template.manifest.system_dirs.iter().any(|directory| path.starts_with(directory))
    };
    let has_bash =
        template.root().join("bin/bash").exists() || bash.canonicalize().is_ok_and(shown);
    Surroundings { environment: variables(template), has_bash }
}

/// Isolated from the environment and the user's files, and without `site`, whose work the guest's
/// own code does faster.
fn python(template: &Template, script: &str) -> Vec<String> {
    let interpreter = template.manifest.interpreter.display().to_string();
    let script = format!("{}/{script}", guest::PACKAGE);
    let flags = ["-I", "-S", "-B"].map(str::to_owned);
    std::iter::once(interpreter).chain(flags).chain([script]).collect()
}

fn fresh_program(template: &Template) -> Program {
    Program { arguments: python(template, "fresh.py"), environment: environment(template) }
}

fn zygote_program(template: &Template) -> Program {
    let mut environment = environment(template);
    let preload = template.manifest.preload.join(",");
    environment.push(("SILICA_PRELOAD".to_owned(), preload));
    // Symbols are looked up once here and not again, with a page copied each time, in every fork.
    environment.push(("LD_BIND_NOW".to_owned(), "1".to_owned()));
    Program { arguments: python(template, "zygote.py"), environment }
}
