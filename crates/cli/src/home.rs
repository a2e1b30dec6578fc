//! Where Silica keeps its data, and how its engine is started.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use silica_domain::{LimitsMax, Tier};
use silica_engine::jail_host::UseOfHost;
use silica_engine::{Engine, EngineOptions, JailOptions, TierOptions, ZygotePolicy};
use silica_store::{Access, DATABASE_NAME, Store, StoreOptions};
use silica_templates::{
    BuildOptions, Home, Progress, Template, TemplateName, TemplateSource, ensure, load,
};

use crate::template::progress::TerminalProgress;

/// The template of `silica run` and `silica repl`.
pub(crate) const TEMPLATE_DEFAULT: &str = "code-interpreter";

/// The file that marks a data directory as Silica's. `silica run` alone makes no database.
pub(crate) const MARK_NAME: &str = "silica.home";

/// What the file says to a person who finds it.
const MARK_TEXT: &str =
    "This directory holds data of Silica; silica uninstall --purge removes it.\n";

/// `SILICA_HOME`, else `/var/lib/silica` for root, else the user's data directory.
pub(crate) fn home() -> Result<Home> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = variable("SILICA_HOME") {
        return Ok(Home::new(std::path::absolute(path)?));
    }
    if rustix::process::geteuid().is_root() {
        return Ok(Home::new("/var/lib/silica"));
    }
    let data = variable("XDG_DATA_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/share")))
        .context("neither SILICA_HOME nor HOME says where to keep data")?;
    Ok(Home::new(data.join("silica")))
}

/// Makes the data directory, if it has to, and marks it as Silica's.
pub(crate) fn mark(home: &Home) {
    let path = home.path().join(MARK_NAME);
    if !path.exists() {
        // Without the mark only `silica uninstall --purge` does less. What cannot be written here is
        // reported by the step that needs it.
        let _ = std::fs::create_dir_all(home.path());
        let _ = std::fs::write(path, MARK_TEXT);
    }
}

/// Opens the store of the data directory.
pub(crate) fn store(access: Access) -> Result<Store> {
    Ok(Store::open(&database()?, StoreOptions::new(access))?)
}

/// The store's file, which need not be there.
pub(crate) fn database() -> Result<PathBuf> {
    Ok(home()?.path().join(DATABASE_NAME))
}

pub(crate) fn build_options() -> BuildOptions {
    BuildOptions::new(std::env::vars_os().collect())
}

/// The template of a name, built now if it is not there yet or its description has changed.
pub(crate) fn template(home: &Home, name: &str) -> Result<Template> {
    template_with(home, name, &mut TerminalProgress::stderr)
}

/// The same, with a progress of the caller's for a build.
pub(crate) fn template_with<P: Progress>(
    home: &Home,
    name: &str,
    progress: &mut dyn FnMut() -> P,
) -> Result<Template> {
    let name = TemplateName::new(name)?;
    mark(home);
    let built = load(home, &name)?;
    let spec = match (TemplateSource::find(home, &name), built) {
        // Built from a file elsewhere: it changes when its owner builds it again.
        (Err(_), Some(template)) => return Ok(template),
        (Err(unknown), None) => return Err(unknown.into()),
        (Ok(source), Some(template)) => {
            let spec = source.spec()?;
            if template.is_described_by(&spec) {
                return Ok(template);
            }
            say!("silica: template {name} has changed and is built again");
            spec
        }
        (Ok(source), None) => {
            let place = home.path().display();
            say!("silica: building template {name} (once; kept in {place})");
            source.spec()?
        }
    };
    let began = Instant::now();
    let built = ensure(home, &spec, &build_options(), &mut progress())?;
    crate::template::tell_built(&built, began.elapsed());
    Ok(built)
}

/// Starts the engine with everything the host offers. `trust` are certificates that programs in its
/// sandboxes trust beside the public ones, as PEM.
pub(crate) fn engine(home: &Home, tier: Tier, trust: Option<Vec<u8>>) -> Result<Engine> {
    let options = engine_options(home, tier, ZygotePolicy::default())?;
    Ok(Engine::start(EngineOptions { trust, ..options })?)
}

/// An engine of a tier that uses everything the host offers.
pub(crate) fn engine_options(
    home: &Home,
    tier: Tier,
    zygotes: ZygotePolicy,
) -> Result<EngineOptions> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let tier = match tier {
        Tier::Jail => TierOptions::Jail(JailOptions {
            zone_program: (program, vec![super::ZONE_ARGUMENT.to_owned()]),
            use_of_host: UseOfHost { cgroups: true, unique_ids: true },
            zygotes,
        }),
    };
    Ok(EngineOptions { home: home.clone(), limits_max: LimitsMax::default(), tier, trust: None })
}
