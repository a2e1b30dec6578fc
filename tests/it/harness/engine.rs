//! Engines in the process of the test, and cells in their sandboxes.

use std::path::{Path, PathBuf};

use silica_domain::{Limits, LimitsMax};
use silica_engine::{
    Control, CreateOptions, Engine, EngineOptions, Report, Sandbox, Unwatched, ZygotePolicy,
};
use silica_jail::client::UseOfHost;
use silica_templates::{Home, TemplateName, load};
use tokio::sync::mpsc;

use super::{SILICA, TIMEOUT};

/// Starts an engine over a data directory and adds a template, with no zygote warm.
pub(crate) async fn start_engine(
    home: &Path,
    template: &str,
    zygotes: ZygotePolicy,
    use_of_host: UseOfHost,
) -> Engine {
    let home = Home::new(home);
    let options = EngineOptions {
        home: home.clone(),
        zone_program: (PathBuf::from(SILICA), vec!["__zone".to_owned()]),
        use_of_host,
        limits_max: LimitsMax::default(),
        zygotes,
    };
    let engine = Engine::start(options).unwrap();
    let name = TemplateName::new(template).unwrap();
    engine.add_template(load(&home, &name).unwrap().unwrap()).await.unwrap();
    engine
}

/// Runs a cell without a watcher.
pub(crate) async fn cell(sandbox: &mut Sandbox, code: &str, limits: &Limits) -> Report {
    let (_keep, mut interrupts) = mpsc::channel::<Control>(1);
    let mut watcher = Unwatched;
    let run = sandbox.run(code, limits, &mut watcher, &mut interrupts);
    tokio::time::timeout(TIMEOUT, run).await.expect("the cell hangs").unwrap()
}

/// Runs a cell that must succeed and returns what it printed.
pub(crate) async fn print(sandbox: &mut Sandbox, code: &str) -> String {
    let report = cell(sandbox, code, &Limits::default()).await;
    let (stdout, stderr) = (text(&report.stdout), text(&report.stderr));
    assert_eq!(report.outcome, silica_domain::Outcome::Ok, "{code}: {:?} {stderr}", report.error);
    stdout.trim_end().to_owned()
}

pub(crate) fn text(stream: &silica_engine::HeadTail) -> String {
    String::from_utf8_lossy(&stream.clone().into_bytes()).into_owned()
}

/// Asserts that the engine creates a sandbox and runs code in it.
pub(crate) async fn assert_works(engine: &Engine, options: &CreateOptions) {
    let mut sandbox = engine.create(options).await.unwrap();
    sandbox.ready().await.unwrap();
    assert_eq!(print(&mut sandbox, "print(2 + 2)").await, "4");
    sandbox.destroy().await.unwrap();
}
