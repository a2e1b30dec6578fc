//! The measures themselves.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use silica_domain::{Limits, LimitsMax, Outcome};
use silica_engine::template::{
    BuildOptions, Home, Template, TemplateName, TemplateSource, TerminalProgress, ensure,
};
use silica_engine::{CreateOptions, Engine, EngineOptions, Sandbox, Unwatched, ZygotePolicy};
use silica_jail::client::UseOfHost;
use tokio::sync::mpsc;

use crate::Arguments;
use crate::measure::{Promise, Row, Samples};
use crate::plain::Plain;

const PRINT: &str = "print(1)";
const DESCRIBE: &str =
    "import pandas as pd\nprint(pd.DataFrame({'x': range(100), 'y': range(100)}).describe())";
const CPU_BOUND: &str = "import time\nt = time.perf_counter()\ns = 0\nfor i in range(3_000_000):\n    s += i * i % 7\nprint(time.perf_counter() - t)";
const PANDAS_BOUND: &str = "import time\nimport numpy as np, pandas as pd\nd = pd.DataFrame({'k': np.arange(300_000) % 1000, 'v': np.arange(300_000.)})\nd.groupby('k').v.sum()\nt = time.perf_counter()\nfor _ in range(8):\n    d.groupby('k').v.agg(['sum', 'mean', 'std']); d.sort_values('v', ascending=False); d.merge(d.head(1000), on='k').shape\nprint(time.perf_counter() - t)";

/// How many sandboxes the crowd measure makes at once.
const CROWD: usize = 100;

/// What the measures share.
struct Ground<'a> {
    arguments: &'a Arguments,
    engine: Engine,
    plain: Plain,
    home: Home,
    options: CreateOptions,
}

pub(crate) async fn run_all(arguments: &Arguments) -> Result<Vec<Row>> {
    let home = Home::new(std::env::var_os("SILICA_HOME").context("set SILICA_HOME")?);
    let template = template(&home, &arguments.template)?;
    let plain = Plain::new(&template);
    let engine =
        engine(&home, ZygotePolicy { forks_max: 10_000, age_max: Duration::from_hours(1) })?;
    engine.add_template(template).await?;
    engine.warm(&arguments.template).await?;
    let options = CreateOptions::new(&arguments.template);
    let ground = Ground { arguments, engine, plain, home, options };
    let wanted = |name: &str| arguments.only.as_ref().is_none_or(|only| name.contains(only));
    let mut rows = Vec::new();
    if wanted("on-demand") {
        rows.push(on_demand(&ground, PRINT, "on-demand create + print(1)", 0.6).await?);
        rows.push(
            on_demand(&ground, DESCRIBE, "on-demand create + DataFrame + describe()", 0.04).await?,
        );
    }
    if wanted("shell") {
        rows.push(shells(&ground).await?);
    }
    if wanted("crowd") {
        rows.push(crowd(&ground).await?);
    }
    if wanted("memory") {
        rows.push(memory(&ground).await?);
    }
    if wanted("inside") {
        rows.push(inside(&ground, CPU_BOUND, "inside / outside, CPU-bound").await?);
        rows.push(inside(&ground, PANDAS_BOUND, "inside / outside, pandas-bound").await?);
    }
    if wanted("whole") {
        rows.push(whole_process(&ground)?);
    }
    if wanted("churn") {
        rows.extend(churn(&ground).await?);
    }
    if wanted("pool") {
        rows.insert(0, pool(&ground).await?);
    }
    ground.engine.close().await;
    Ok(rows)
}

fn template(home: &Home, name: &str) -> Result<Template> {
    let spec = TemplateSource::find(home, &TemplateName::new(name)?)?.spec()?;
    let options = BuildOptions::new(std::env::vars_os().collect());
    Ok(ensure(home, &spec, &options, &mut TerminalProgress::stderr())?)
}

fn engine(home: &Home, zygotes: ZygotePolicy) -> Result<Engine> {
    Ok(Engine::start(EngineOptions {
        home: home.clone(),
        zone_program: (std::env::current_exe()?, vec![crate::ZONE_ARGUMENT.to_owned()]),
        use_of_host: UseOfHost { cgroups: true, unique_ids: true },
        limits_max: LimitsMax::default(),
        zygotes,
    })?)
}

/// Runs a cell and returns what it printed.
async fn cell(sandbox: &mut Sandbox, code: &str) -> Result<String> {
    let (_keep, mut interrupts) = mpsc::channel(1);
    let report = sandbox.run(code, &Limits::default(), &mut Unwatched, &mut interrupts).await?;
    if report.outcome != Outcome::Ok {
        bail!("the cell ended as {:?}: {:?}", report.outcome, report.error);
    }
    Ok(String::from_utf8_lossy(&report.stdout.into_bytes()).into_owned())
}

/// Create, run, result; the destroying is not part of the time.
async fn once(ground: &Ground<'_>, code: &str) -> Result<Duration> {
    let started = Instant::now();
    let mut sandbox = ground.engine.create(&ground.options).await?;
    cell(&mut sandbox, code).await?;
    let took = started.elapsed();
    sandbox.destroy().await?;
    Ok(took)
}

async fn on_demand(ground: &Ground<'_>, code: &str, name: &'static str, bar: f64) -> Result<Row> {
    let (mut ours, mut plain) = (Samples::default(), Samples::default());
    once(ground, code).await?;
    ground.plain.run(code)?;
    for _ in 0..ground.arguments.samples {
        ours.push(once(ground, code).await?);
        plain.push(ground.plain.run(code)?);
    }
    Ok(Row::ratio(name, ours, plain, bar))
}

async fn pool(ground: &Ground<'_>) -> Result<Row> {
    const SIZE: usize = 4;
    ground.engine.keep_ready(&ground.options, SIZE)?;
    let (mut ours, mut plain) = (Samples::default(), Samples::default());
    for _ in 0..ground.arguments.samples {
        while ground.engine.ready_count() < SIZE {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        ours.push(once(ground, PRINT).await?);
        plain.push(ground.plain.run(PRINT)?);
    }
    Ok(Row::ratio("pool hit: create + print(1) + result", ours, plain, 0.15))
}

/// Shells alone, without an interpreter.
async fn shells(ground: &Ground<'_>) -> Result<Row> {
    let mut ours = Samples::default();
    for _ in 0..ground.arguments.samples * 2 {
        ours.push(ground.engine.time_shell(&ground.options).await?);
    }
    Ok(Row::time("making a shell", ours, 1.5))
}

async fn crowd(ground: &Ground<'_>) -> Result<Row> {
    let mut ours = Samples::default();
    for _ in 0..5 {
        let started = Instant::now();
        let runs = (0..CROWD).map(|_| async {
            let mut sandbox = ground.engine.create(&ground.options).await?;
            cell(&mut sandbox, PRINT).await?;
            anyhow::Ok(sandbox)
        });
        let sandboxes = join_all(runs).await?;
        ours.push(started.elapsed());
        for sandbox in sandboxes {
            sandbox.destroy().await?;
        }
    }
    Ok(Row::time("crowd: 100 sandboxes on demand, all printed", ours, 1000.0))
}

/// Drives all futures on one task, each polled when any is woken; enough for a hundred.
async fn join_all<T>(
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

/// Private memory of sandboxes that have run one cell and wait for the next.
async fn memory(ground: &Ground<'_>) -> Result<Row> {
    const COUNT: usize = 10;
    let before = descendants(ground.engine.zone_process_id());
    let mut sandboxes = Vec::new();
    for _ in 0..COUNT {
        let mut sandbox = ground.engine.create(&ground.options).await?;
        cell(&mut sandbox, PRINT).await?;
        sandboxes.push(sandbox);
    }
    let mut private = 0;
    for pid in descendants(ground.engine.zone_process_id()) {
        if !before.contains(&pid) {
            private += private_bytes(pid);
        }
    }
    for sandbox in sandboxes {
        sandbox.destroy().await?;
    }
    let value = private as f64 / COUNT as f64 / 1e6;
    let promise = Promise { value, bar: 4.0, unit: "MB" };
    Ok(Row::number("private memory of an idle sandbox", promise, "interpreter and init".to_owned()))
}

/// Every process below one, by parent.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    let mut children: std::collections::HashMap<u32, Vec<u32>> = std::collections::HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent =
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut pending = vec![root];
    while let Some(pid) = pending.pop() {
        for &child in children.get(&pid).into_iter().flatten() {
            found.push(child);
            pending.push(child);
        }
    }
    found
}

fn private_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    text.lines()
        .filter(|line| line.starts_with("Private_"))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum::<u64>()
        * 1024
}

/// The same code timed by itself, in a new sandbox and in a new process.
async fn inside(ground: &Ground<'_>, code: &str, name: &'static str) -> Result<Row> {
    let (mut ours, mut plain) = (Samples::default(), Samples::default());
    for _ in 0..(ground.arguments.samples / 2).max(10) {
        let mut sandbox = ground.engine.create(&ground.options).await?;
        let seconds: f64 = cell(&mut sandbox, code).await?.trim().parse()?;
        sandbox.destroy().await?;
        ours.push(Duration::from_secs_f64(seconds));
        plain.push(ground.plain.seconds(code)?);
    }
    Ok(Row::ratio(name, ours, plain, 1.03))
}

/// `silica run` from start to exit, with no server running.
fn whole_process(ground: &Ground<'_>) -> Result<Row> {
    let silica = match &ground.arguments.silica {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("silica"),
    };
    let (mut ours, mut plain) = (Samples::default(), Samples::default());
    for _ in 0..ground.arguments.samples {
        let started = Instant::now();
        let output = std::process::Command::new(&silica)
            .args(["run", "--template", &ground.arguments.template, "-c", PRINT])
            .env("SILICA_HOME", ground.home.path())
            .output()
            .with_context(|| format!("cannot start {}", silica.display()))?;
        ours.push(started.elapsed());
        anyhow::ensure!(output.stdout == b"1\n", "{}", String::from_utf8_lossy(&output.stderr));
        plain.push(ground.plain.run(PRINT)?);
    }
    Ok(Row::ratio("whole process: silica run -c 'print(1)'", ours, plain, 3.0))
}

/// What must not grow.
#[derive(Clone, Copy, Debug)]
struct Footprint {
    processes: usize,
    mounts: usize,
    groups: usize,
    descriptors: usize,
    memory: u64,
}

fn footprint(ground: &Ground<'_>) -> Footprint {
    let own = std::process::id();
    let zone = ground.engine.zone_process_id();
    let family: Vec<u32> = [own, zone].into_iter().chain(descendants(zone)).collect();
    let descriptors =
        |pid: u32| std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    let groups = walk("/sys/fs/cgroup".as_ref(), 6)
        .into_iter()
        .filter(|path| path.to_string_lossy().contains("/silica-"))
        .count();
    Footprint {
        processes: family.len(),
        mounts: std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines().count(),
        groups,
        descriptors: family.iter().map(|&pid| descriptors(pid)).sum(),
        memory: family.iter().map(|&pid| private_bytes(pid)).sum(),
    }
}

fn walk(directory: &std::path::Path, depth: usize) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    if depth > 0 {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.extend(walk(&entry.path(), depth - 1));
                found.push(entry.path());
            }
        }
    }
    found
}

/// Makes and ends many sandboxes and looks what stays.
async fn churn(ground: &Ground<'_>) -> Result<Vec<Row>> {
    const WARM_UP: usize = 200;
    const AT_ONCE: usize = 4;
    /// Until the zone has filled its stock again.
    const SETTLE: Duration = Duration::from_secs(1);
    let rounds = |count: usize| async move {
        let one = |_| async {
            for _ in 0..count / AT_ONCE {
                once(ground, PRINT).await?;
            }
            Ok(())
        };
        join_all((0..AT_ONCE).map(one)).await
    };
    rounds(WARM_UP).await?;
    tokio::time::sleep(SETTLE).await;
    let before = footprint(ground);
    let started = Instant::now();
    rounds(ground.arguments.churn).await?;
    let rate = ground.arguments.churn as f64 / started.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLE).await;
    let after = footprint(ground);
    let note = format!("{} made and ended, {rate:.0} a second", ground.arguments.churn);
    let growth = |name, before: usize, after: usize| {
        let value = after as f64 - before as f64;
        Row::number(name, Promise { value, bar: 0.0, unit: "" }, note.clone())
    };
    let grown = (after.memory as f64 - before.memory as f64) / 1e6;
    Ok(vec![
        growth("churn: more processes", before.processes, after.processes),
        growth("churn: more mounts", before.mounts, after.mounts),
        growth("churn: more cgroups", before.groups, after.groups),
        growth("churn: more descriptors", before.descriptors, after.descriptors),
        Row::number(
            "churn: more private memory",
            Promise { value: grown, bar: 2.0, unit: "MB" },
            format!(
                "{:.1} MB of {} processes before",
                before.memory as f64 / 1e6,
                before.processes
            ),
        ),
    ])
}
