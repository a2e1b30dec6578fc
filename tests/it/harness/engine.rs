//! Engines in the process of the test, and cells in their sandboxes.

use std::path::{Path, PathBuf};

use std::ops::Deref;

use silica_domain::{Limits, LimitsMax, Tier};
use silica_engine::jail_host::UseOfHost;
use silica_engine::{
    CellReport, Control, CreateOptions, Created, Engine, EngineError, EngineOptions, JailOptions,
    Kernel, KernelError, Sandbox, TierOptions, Unwatched, Watcher, ZygotePolicy,
};
use silica_templates::{Home, TemplateName, load};
use tokio::sync::mpsc;

use super::{SILICA, TIMEOUT};

/// The tier that the tests of the engine run against: `SILICA_TEST_TIER`, or the jail.
///
/// The tests in `tests/it/engine` are the contract that every tier keeps.
pub(crate) fn tier() -> Tier {
    match std::env::var("SILICA_TEST_TIER") {
        Ok(name) => name.parse().expect("SILICA_TEST_TIER names a tier"),
        Err(_) => Tier::Jail,
    }
}

/// An engine whose sandboxes come with their first interpreter.
#[derive(Debug)]
pub(crate) struct TestEngine(Engine);

impl TestEngine {
    pub(crate) async fn create(&self, options: &CreateOptions) -> Result<LiveSandbox, EngineError> {
        let Created { sandbox, kernel, .. } = self.0.create(options).await?;
        Ok(LiveSandbox { sandbox, kernel })
    }
}

impl Deref for TestEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0
    }
}

/// A sandbox and its first interpreter.
#[derive(Debug)]
pub(crate) struct LiveSandbox {
    pub(crate) sandbox: Sandbox,
    pub(crate) kernel: Kernel,
}

impl Deref for LiveSandbox {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl LiveSandbox {
    pub(crate) async fn ready(&mut self) -> Result<(), KernelError> {
        self.kernel.ready().await
    }

    pub(crate) async fn run(
        &mut self,
        code: &str,
        limits: &Limits,
        watcher: &mut dyn Watcher,
        controls: &mut mpsc::Receiver<Control>,
    ) -> Result<CellReport, KernelError> {
        self.kernel.run(code, limits, watcher, controls).await
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.kernel.is_alive()
    }
}

/// Starts an engine over a data directory and adds a template, with no zygote warm.
pub(crate) async fn start_engine(
    home: &Path,
    template: &str,
    zygotes: ZygotePolicy,
    use_of_host: UseOfHost,
) -> TestEngine {
    start_trusting_engine(home, template, zygotes, use_of_host, None).await
}

/// Like [`start_engine`], with further certificates that programs inside trust.
pub(crate) async fn start_trusting_engine(
    home: &Path,
    template: &str,
    zygotes: ZygotePolicy,
    use_of_host: UseOfHost,
    trust: Option<Vec<u8>>,
) -> TestEngine {
    let home = Home::new(home);
    let tier = match tier() {
        Tier::Jail => TierOptions::Jail(JailOptions {
            zone_program: (PathBuf::from(SILICA), vec!["__zone".to_owned()]),
            use_of_host,
            zygotes,
        }),
    };
    let limits_max = LimitsMax::default();
    let options = EngineOptions { home: home.clone(), limits_max, tier, trust };
    let engine = TestEngine(Engine::start(options).unwrap());
    let name = TemplateName::new(template).unwrap();
    engine.add_template(load(&home, &name).unwrap().unwrap()).await.unwrap();
    engine
}

/// Runs a cell without a watcher.
pub(crate) async fn cell(sandbox: &mut LiveSandbox, code: &str, limits: &Limits) -> CellReport {
    let (_keep, mut interrupts) = mpsc::channel::<Control>(1);
    let mut watcher = Unwatched;
    let run = sandbox.run(code, limits, &mut watcher, &mut interrupts);
    tokio::time::timeout(TIMEOUT, run).await.expect("the cell hangs").unwrap()
}

/// Runs a cell that must succeed and returns what it printed.
pub(crate) async fn print(sandbox: &mut LiveSandbox, code: &str) -> String {
    let report = cell(sandbox, code, &Limits::default()).await;
    let (stdout, stderr) = (text(&report.stdout), text(&report.stderr));
    assert_eq!(report.outcome, silica_domain::Outcome::Ok, "{code}: {:?} {stderr}", report.error);
    stdout.trim_end().to_owned()
}

pub(crate) fn text(stream: &silica_engine::HeadTail) -> String {
    stream.to_string()
}

/// Asserts that the engine creates a sandbox and runs code in it.
pub(crate) async fn assert_works(engine: &TestEngine, options: &CreateOptions) {
    let mut sandbox = engine.create(options).await.unwrap();
    sandbox.ready().await.unwrap();
    assert_eq!(print(&mut sandbox, "print(2 + 2)").await, "4");
    sandbox.destroy().await.unwrap();
}
