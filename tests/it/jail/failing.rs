//! Making a sandbox fails at each step in turn: the error names the step, nothing is left, and the
//! engine goes on.

use silica_engine::{CreateOptions, Faults, KernelOrigin};
use silica_jail::enclosure;

use crate::harness::{
    GONE_WITHIN, PYTHON, TestEngine, TestHome, assert_works, descendants, descriptors,
    eventually_async, print, zombies,
};

/// What an engine holds: how many descriptors each of its processes and this one have open, and how
/// many control groups there are. Inits and groups are made ahead, so which they are says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holdings {
    descriptors: Vec<usize>,
    groups: usize,
}

pub(crate) fn holdings(engine: &TestEngine, home: &TestHome) -> Holdings {
    let zone = engine.zone_process_id();
    let pids = descendants(zone).into_iter().map(|process| process.pid);
    let mut descriptors: Vec<usize> =
        pids.chain([zone, std::process::id()]).filter_map(descriptors).collect();
    descriptors.sort_unstable();
    Holdings { descriptors, groups: home.groups().len() }
}

/// How often in a row the same must be held to count as settled.
const SETTLED: u32 = 20;

/// The same once what is made ahead has been made again and what is dying is dead.
pub(crate) async fn settled(engine: &TestEngine, home: &TestHome) -> Holdings {
    let mut last = holdings(engine, home);
    let mut times = 0;
    let settle = || {
        let now = holdings(engine, home);
        times = if now == last { times + 1 } else { 0 };
        last = now;
        times == SETTLED
    };
    assert!(eventually_async(GONE_WITHIN, settle).await, "it never settles");
    last
}

/// An error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text += ": ";
        text += &cause.to_string();
        next = cause.source();
    }
    text
}

/// What making a sandbox with a fault comes to; it must not succeed.
async fn failure(engine: &TestEngine, options: &CreateOptions) -> String {
    let mut sandbox = match engine.create(options).await {
        Ok(sandbox) => sandbox,
        Err(error) => return chain(&error),
    };
    let error = sandbox.ready().await.expect_err("a step failed, and yet there is an interpreter");
    assert!(!sandbox.is_alive(), "{error}");
    sandbox.destroy().await.unwrap();
    chain(&error)
}

async fn check(origin: KernelOrigin, faults: &[(&str, Faults)]) {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let honest = home.options(origin);
    let mut neighbour = engine.create(&honest).await.unwrap();
    print(&mut neighbour, "kept = 'kept'").await;
    assert_works(&engine, &honest).await;
    let mut before = settled(&engine, &home).await;
    let mut wrong = Vec::new();
    for &(name, faults) in faults {
        let text = failure(&engine, &CreateOptions { faults, ..honest.clone() }).await;
        if !text.contains(name) {
            wrong.push(format!("{name}: {text}"));
        }
        if !eventually_async(GONE_WITHIN, || holdings(&engine, &home) == before).await {
            let now = settled(&engine, &home).await;
            wrong.push(format!("{name}: {before:?} became {now:?}"));
            before = now;
        }
        assert_works(&engine, &honest).await;
    }
    assert_eq!(wrong, Vec::<String>::new());
    let collected = || zombies(engine.zone_process_id()).is_empty();
    assert!(
        eventually_async(GONE_WITHIN, collected).await,
        "{:?}",
        zombies(engine.zone_process_id())
    );
    assert_eq!(print(&mut neighbour, "print(kept)").await, "kept");
    neighbour.destroy().await.unwrap();
    engine.close().await;
    assert!(home.groups().is_empty());
}

fn enclosure_faults() -> Vec<(&'static str, Faults)> {
    let fault = |step: &enclosure::Step| Faults { enclosure_step: *step as u32, enter_step: 0 };
    enclosure::Step::ALL.iter().map(|step| (step.name(), fault(step))).collect()
}

fn enter_faults() -> Vec<(&'static str, Faults)> {
    let fault = |step: &silica_gate::Step| Faults { enclosure_step: 0, enter_step: *step as u32 };
    silica_gate::Step::ALL.iter().map(|step| (step.name(), fault(step))).collect()
}

#[tokio::test]
async fn enclosure_for_a_fork_fails_cleanly_at_each_step() {
    check(KernelOrigin::Warm, &enclosure_faults()).await;
}

#[tokio::test]
async fn enclosure_for_a_fresh_interpreter_fails_cleanly_at_each_step() {
    check(KernelOrigin::Fresh, &enclosure_faults()).await;
}

#[tokio::test]
async fn fork_fails_to_enter_cleanly_at_each_step() {
    check(KernelOrigin::Warm, &enter_faults()).await;
}

#[tokio::test]
async fn fresh_interpreter_fails_to_enter_cleanly_at_each_step() {
    check(KernelOrigin::Fresh, &enter_faults()).await;
}

#[tokio::test]
async fn many_failures_and_ends_leave_nothing() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let honest = home.options(KernelOrigin::Warm);
    // From the second sandbox on the zone fills its pool of inits, which is part of what it holds.
    for _ in 0..3 {
        assert_works(&engine, &honest).await;
    }
    let before = settled(&engine, &home).await;
    for round in 0..10 {
        let faults = enclosure_faults()[round].1;
        drop(engine.create(&CreateOptions { faults, ..honest.clone() }).await);
        let sandbox = engine.create(&honest).await.unwrap();
        // Neither waited for nor destroyed.
        drop(sandbox);
    }
    let clean = eventually_async(GONE_WITHIN, || holdings(&engine, &home) == before).await;
    assert!(clean, "{before:?} became {:?}", holdings(&engine, &home));
    engine.close().await;
}

#[tokio::test]
async fn template_that_was_not_added_is_an_error() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let error = engine.create(&CreateOptions::new("absent")).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no template called absent");
    engine.close().await;
}
