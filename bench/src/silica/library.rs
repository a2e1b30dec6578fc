//! The engine as a library in this process, without the cost of a server.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use silica_domain::{Limits, LimitsMax, Outcome};
use silica_engine::jail_host::UseOfHost;
use silica_engine::{
    CreateOptions, Created, Engine, EngineOptions, JailOptions, Kernel, TierOptions, Unwatched,
    ZygotePolicy,
};
use silica_templates::{
    BuildOptions, Home, Silent, Template, TemplateName, TemplateSource, ensure,
};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::ZONE_ARGUMENT;

/// An engine with one warm template, and a runtime to drive it.
pub(crate) struct Library {
    pub(crate) runtime: Runtime,
    pub(crate) engine: Engine,
    pub(crate) options: CreateOptions,
}

impl Library {
    /// Starts an engine. Its zygote is never replaced, so that no replacement disturbs a measure.
    pub(crate) fn start(home: &Path, template: &str) -> Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let home = Home::new(home);
        let built = Self::template(&home, template)?;
        let guard = runtime.enter();
        let engine = Engine::start(EngineOptions {
            home,
            limits_max: LimitsMax::default(),
            tier: TierOptions::Jail(JailOptions {
                zone_program: (std::env::current_exe()?, vec![ZONE_ARGUMENT.to_owned()]),
                use_of_host: UseOfHost { cgroups: true, unique_ids: true },
                zygotes: ZygotePolicy { forks_max: 100_000, age_max: Duration::from_hours(1) },
            }),
            trust: None,
        })?;
        drop(guard);
        runtime.block_on(async {
            engine.add_template(built).await?;
            engine.warm(template).await
        })?;
        Ok(Self { runtime, engine, options: CreateOptions::new(template) })
    }

    /// Returns a template; builds it if needed.
    pub(crate) fn template(home: &Home, name: &str) -> Result<Template> {
        Self::template_with(home, name, &[])
    }

    /// Returns a template; builds it if needed, with further environment variables.
    pub(crate) fn template_with(
        home: &Home,
        name: &str,
        variables: &[(&str, &Path)],
    ) -> Result<Template> {
        let spec = TemplateSource::find(home, &TemplateName::new(name)?)?.spec()?;
        let own = variables.iter().map(|(name, value)| ((*name).into(), value.into()));
        let options = BuildOptions::new(std::env::vars_os().chain(own).collect());
        Ok(ensure(home, &spec, &options, &mut Silent)?)
    }

    /// Creates a sandbox and runs a cell; returns the time, without that of destroying the sandbox.
    pub(crate) fn once(&self, code: &str) -> Result<Duration> {
        self.runtime.block_on(self.make_and_run(code))
    }

    pub(crate) async fn make_and_run(&self, code: &str) -> Result<Duration> {
        let started = Instant::now();
        let Created { sandbox, mut kernel, .. } = self.engine.create(&self.options).await?;
        cell(&mut kernel, code).await?;
        let took = started.elapsed();
        sandbox.destroy().await?;
        Ok(took)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.runtime.block_on(self.engine.close());
    }
}

/// Runs a cell and returns what it printed.
pub(crate) async fn cell(kernel: &mut Kernel, code: &str) -> Result<String> {
    let (_keep, mut interrupts) = mpsc::channel(1);
    let report = kernel.run(code, &Limits::default(), &mut Unwatched, &mut interrupts).await?;
    if report.outcome != Outcome::Ok {
        bail!("the cell ended as {:?}: {:?}", report.outcome, report.error);
    }
    Ok(report.stdout.to_string())
}

/// Drives all futures on one task, each polled when any is woken; enough for a hundred.
pub(crate) async fn join_all<T>(
    futures: impl Iterator<Item = impl Future<Output = Result<T>>>,
) -> Result<Vec<T>> {
    let mut pending: Vec<_> = futures.map(Box::pin).collect();
    let mut done = Vec::with_capacity(pending.len());
    std::future::poll_fn(move |context| {
        let mut index = 0;
        while index < pending.len() {
            match pending[index].as_mut().poll(context) {
                std::task::Poll::Ready(result) => {
                    drop(pending.swap_remove(index));
                    match result {
                        Ok(value) => done.push(value),
                        Err(error) => return std::task::Poll::Ready(Err(error)),
                    }
                }
                std::task::Poll::Pending => index += 1,
            }
        }
        if pending.is_empty() {
            return std::task::Poll::Ready(Ok(std::mem::take(&mut done)));
        }
        std::task::Poll::Pending
    })
    .await
}
