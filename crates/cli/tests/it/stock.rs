//! What the zone makes ahead for the customer it expects also fits the one who comes.

use rustix::process::Signal;
use silica_domain::{Limits, Outcome};
use silica_engine::template::{Home, TemplateName, load};
use silica_engine::{CreateOptions, Engine, Input, Interpreter};

use crate::failing::settled;
use crate::ground::{
    Ground, PYTHON, SCIENCE, assert_works, below, cell, namespace_ids, print, signal,
};

/// Prints how much the writable places hold at most, in MiB, and how many files.
const DISK: &str = "import os\nd = os.statvfs('/workspace')\n\
                    print(d.f_blocks * d.f_frsize >> 20, d.f_files, end='')";

/// A stock that is full of shells made for ordinary customers.
async fn filled(engine: &Engine, ground: &Ground) -> CreateOptions {
    let ordinary = ground.options(Interpreter::Forked);
    for _ in 0..3 {
        assert_works(engine, &ordinary).await;
    }
    settled(engine, ground).await;
    ordinary
}

/// What code prints in a sandbox made like this.
async fn printed(engine: &Engine, options: &CreateOptions, code: &str) -> String {
    let mut sandbox = engine.create(options).await.unwrap();
    let text = print(&mut sandbox, code).await;
    sandbox.destroy().await.unwrap();
    text
}

#[tokio::test]
async fn another_disk_is_given_to_a_shell_made_ahead() {
    let ground = Ground::new(PYTHON);
    let engine = ground.engine().await;
    let ordinary = filled(&engine, &ground).await;
    for (mib, files) in [(8, 2048), (300, 76_800), (100, 25_600), (1, 1024)] {
        let limits = Limits { disk_bytes: mib << 20, ..Limits::default() };
        let options = CreateOptions { limits, ..ordinary.clone() };
        assert_eq!(printed(&engine, &options, DISK).await, format!("{mib} {files}"));
    }
    let full =
        "try: open('/tmp/a', 'wb').write(b'x' * (9 << 20))\nexcept OSError as e: print(e.errno)";
    let limits = Limits { disk_bytes: 8 << 20, ..Limits::default() };
    assert_eq!(printed(&engine, &CreateOptions { limits, ..ordinary }, full).await, "28");
    engine.close().await;
}

#[tokio::test]
async fn other_limits_are_put_on_a_group_made_ahead() {
    let ground = Ground::new(PYTHON);
    let engine = ground.engine().await;
    let ordinary = filled(&engine, &ground).await;
    let limits = Limits { memory_bytes: 64 << 20, disk_bytes: 16 << 20, ..Limits::default() };
    let options = CreateOptions { limits: limits.clone(), ..ordinary.clone() };
    let mut sandbox = engine.create(&options).await.unwrap();
    let report = cell(&mut sandbox, "x = b'x' * (300 << 20)", &limits).await;
    assert_eq!(report.outcome, Outcome::OutOfMemory);
    sandbox.destroy().await.unwrap();
    assert_eq!(printed(&engine, &ordinary, "print(len(b'x' * (300 << 20)))").await, "314572800");
    engine.close().await;
}

#[tokio::test]
async fn inputs_are_mounted_in_a_shell_made_ahead() {
    let ground = Ground::new(PYTHON);
    let engine = ground.engine().await;
    let ordinary = filled(&engine, &ground).await;
    let inputs = vec![Input::from_bytes("note", b"brought along".to_vec()).unwrap()];
    let read = "import os\nprint(open('/data/input/note').read(), os.listdir('/data/input'))";
    let with_input = CreateOptions { inputs, ..ordinary.clone() };
    assert_eq!(printed(&engine, &with_input, read).await, "brought along ['note']");
    let list = "import os\nprint(os.listdir('/data/input'))";
    assert_eq!(printed(&engine, &ordinary, list).await, "[]");
    engine.close().await;
}

#[tokio::test]
async fn stock_follows_its_customers_from_template_to_template() {
    let (ground, other) = (Ground::new(PYTHON), Ground::new(SCIENCE));
    let engine = other.engine().await;
    let name = TemplateName::new(PYTHON).unwrap();
    let template = load(&Home::new(ground.home()), &name).unwrap().unwrap();
    engine.add_template(template).await.unwrap();
    let numpy = "try: import numpy; print('numpy')\nexcept ImportError: print('none')";
    for (name, expected) in [
        (PYTHON, "none"),
        (PYTHON, "none"),
        (SCIENCE, "numpy"),
        (PYTHON, "none"),
        (SCIENCE, "numpy"),
        (SCIENCE, "numpy"),
        (PYTHON, "none"),
    ] {
        assert_eq!(printed(&engine, &CreateOptions::new(name), numpy).await, expected);
    }
    settled(&engine, &other).await;
    engine.close().await;
    assert!(other.groups().is_empty());
}

/// The first processes of the shells: two namespaces below the launcher, which is outside.
fn inits(engine: &Engine) -> Vec<u32> {
    let launcher = engine.zone_process_id();
    let level = namespace_ids(launcher).unwrap().len() + 2;
    let is_init = |pid: &u32| {
        namespace_ids(*pid).is_some_and(|ids| ids.len() == level && ids.last() == Some(&1))
    };
    below(launcher).into_iter().map(|process| process.pid).filter(is_init).collect()
}

#[tokio::test]
async fn shells_made_ahead_that_are_killed_are_replaced() {
    let ground = Ground::new(PYTHON);
    let engine = ground.engine().await;
    let ordinary = filled(&engine, &ground).await;
    let before = settled(&engine, &ground).await;
    let waiting = inits(&engine);
    assert!(waiting.len() >= 16, "{waiting:?}");
    for &pid in &waiting[waiting.len() / 2..] {
        signal(pid, Signal::KILL);
    }
    for _ in 0..4 {
        assert_works(&engine, &ordinary).await;
    }
    assert_eq!(settled(&engine, &ground).await, before);
    engine.close().await;
    assert!(ground.groups().is_empty());
}
