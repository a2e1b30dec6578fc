//! A sandbox in an engine of this process.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use silica_domain::{Limits, Outcome, Tier};
use silica_engine::{
    CellReport, CellSetup, Completions, Control, CreateOptions, Created, Engine, Faults, GuestPath,
    Kernel, KernelOrigin, Sandbox, Setup, Watcher,
};
use tokio::sync::mpsc;

use super::network::{LocalNetwork, NetworkPlan};
use super::{CellEnding, CellSummary, WorkspaceOptions, input};
use crate::{home, limits};

/// A sandbox, its interpreter, and the engine around both.
#[derive(Debug)]
pub(crate) struct LocalWorkspace {
    engine: Engine,
    network: Option<LocalNetwork>,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) kernel: Kernel,
    pub(crate) limits: Limits,
    setup: Setup,
}

impl LocalWorkspace {
    /// Builds the template if it has to be, starts an engine and makes a sandbox.
    pub(super) async fn open(options: &WorkspaceOptions<'_>, tier: Tier) -> Result<Self> {
        let inputs = options.inputs.iter().map(|text| input(text)).collect::<Result<Vec<_>>>()?;
        let plan = options.network.local()?;
        let home = home::home()?;
        let name = options.template.unwrap_or(home::TEMPLATE_DEFAULT);
        let template = home::template(&home, name)?;
        let engine = home::engine(&home, tier, plan.as_ref().map(NetworkPlan::trust))?;
        let made = async {
            engine.add_template(template).await?;
            let values = options.limits.values();
            let limits = engine.check_limits(&values)?;
            let create = CreateOptions {
                template: name.to_owned(),
                limits: values,
                inputs,
                kernel: KernelOrigin::Fresh,
                faults: Faults::default(),
            };
            let Created { sandbox, mut kernel, .. } = engine.create(&create).await?;
            let sandbox = Arc::new(sandbox);
            kernel.ready().await?;
            let given = plan.iter().flat_map(NetworkPlan::environment);
            let environment = given.chain(options.environment.iter().cloned()).collect();
            let setup = Setup { environment, ..Setup::default() };
            kernel.set_up(&setup).await?;
            let network = match plan {
                Some(plan) => Some(plan.attach(&sandbox).await?),
                None => None,
            };
            Ok((sandbox, network, kernel, limits, setup))
        };
        match made.await {
            Ok((sandbox, network, kernel, limits, setup)) => {
                Ok(Self { engine, network, sandbox, kernel, limits, setup })
            }
            Err(error) => {
                engine.close().await;
                Err(error)
            }
        }
    }

    pub(super) async fn run(
        &mut self,
        code: &str,
        setup: CellSetup,
        watcher: &mut dyn Watcher,
        controls: &mut mpsc::Receiver<Control>,
    ) -> Result<CellSummary> {
        let report = self.report(code, setup, watcher, controls).await?;
        Ok(summary(&report, &self.limits))
    }

    /// Runs a cell and returns the engine's own report.
    pub(crate) async fn report(
        &mut self,
        code: &str,
        setup: CellSetup,
        watcher: &mut dyn Watcher,
        controls: &mut mpsc::Receiver<Control>,
    ) -> Result<CellReport> {
        self.kernel.set_up_next_cell(setup);
        Ok(self.kernel.run(code, &self.limits, watcher, controls).await?)
    }

    /// Returns which names can follow the code before a cursor.
    pub(crate) async fn complete(&mut self, code: &str) -> Result<Completions> {
        Ok(self.kernel.complete(code).await?)
    }

    pub(super) async fn replace_interpreter(&mut self) -> Result<()> {
        anyhow::ensure!(!self.sandbox.is_dead(), "the whole sandbox ended, with its files");
        let mut kernel = self.sandbox.start_kernel()?;
        kernel.ready().await?;
        kernel.set_up(&self.setup).await?;
        std::mem::replace(&mut self.kernel, kernel).kill().await;
        Ok(())
    }

    pub(super) fn copy_out(&self, guest: &GuestPath, host: &Path) -> Result<u64> {
        Ok(self.sandbox.files().copy_out(guest, host)?)
    }

    /// Ends the sandbox and the engine; returns when nothing is left of both.
    pub(crate) async fn close(self) {
        if let Some(network) = self.network {
            network.close().await;
        }
        self.engine.close().await;
    }
}

/// Says how a cell ended: its traceback, and every limit it ran into.
fn summary(report: &CellReport, limits: &Limits) -> CellSummary {
    let mut notes: Vec<String> = report.outcome.explain(limits, limits::flag).into_iter().collect();
    for hit in &report.limits_hit {
        let message = hit.message(limits::flag(hit.limit));
        if !notes.contains(&message) {
            notes.push(message);
        }
    }
    let interrupted = report.outcome == Outcome::Interrupted;
    CellSummary {
        end: CellEnding::of(report.outcome, report.kernel_lives),
        exit_code: report.outcome.exit_code(),
        error: report.error.clone().filter(|_| !interrupted),
        notes,
    }
}
