//! Whatever is killed, nothing of it stays: no process, no control group.

use std::io::Write;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use silica_engine::KernelOrigin;

use crate::harness::{
    GONE_WITHIN, PYTHON, Process, TIMEOUT, TestHome, collect, descendants, eventually,
    eventually_async, first_line, name_process, namespace_depth, namespace_ids, print, processes,
    processes_with, signal, slowness, start, unique_name,
};

/// A run that sleeps, with its interpreter and a child of it marked.
struct Sleeper {
    run: Child,
    marker: String,
    _stdout: std::io::BufReader<std::process::ChildStdout>,
}

impl Sleeper {
    /// The code comes by standard input: as an argument the run itself would have the marker.
    fn start(home: &TestHome) -> Self {
        let marker = unique_name();
        let code = format!(
            "import signal, subprocess, time\n{}\n\
             signal.signal(signal.SIGINT, lambda *_: exit())\n\
             subprocess.Popen(['sleep', '500'], env={{'MARK': {marker:?}}}, start_new_session=True)\n\
             print('up')\ntime.sleep(500)",
            name_process(&marker)
        );
        let mut run = start(home.command().stdin(Stdio::piped()));
        run.stdin.take().unwrap().write_all(code.as_bytes()).unwrap();
        let (line, stdout) = first_line(&mut run);
        assert_eq!(line, "up");
        // A child that has not executed yet still has its parent's name and environment.
        assert!(
            eventually(TIMEOUT, || processes_with(&marker).len() == 2),
            "{:?}",
            processes_with(&marker)
        );
        Self { run, marker, _stdout: stdout }
    }

    fn launcher(&self) -> Process {
        let of_run = |process: &Process| process.parent == self.run.id();
        descendants(self.run.id()).into_iter().find(of_run).unwrap()
    }

    fn master(&self) -> Process {
        let launcher = self.launcher().pid;
        descendants(launcher).into_iter().find(|process| process.parent == launcher).unwrap()
    }

    /// The first process of the sandbox: number 1 in a namespace below the master's.
    fn init(&self) -> Process {
        let master = self.master().pid;
        let is_init = |process: &Process| {
            let ids = namespace_ids(process.pid);
            ids.is_some_and(|ids| ids.len() == 3 && ids[2] == 1)
        };
        descendants(master).into_iter().find(is_init).unwrap()
    }

    fn is_gone(&self) -> bool {
        processes_with(&self.marker).is_empty()
    }
}

fn is_alive(pid: u32) -> bool {
    processes().iter().any(|process| process.pid == pid)
}

/// Kills what `choose` picks; the sandbox must go, and the next run must clear up.
fn check(choose: impl Fn(&Sleeper) -> u32, statuses: &[i32]) {
    let home = TestHome::new(PYTHON);
    let sleeper = Sleeper::start(&home);
    let zone: Vec<u32> = descendants(sleeper.run.id()).iter().map(|process| process.pid).collect();
    assert!(zone.len() >= 5, "launcher, master, init, origin, child: {zone:?}");
    signal(choose(&sleeper), Signal::KILL);
    assert!(eventually(GONE_WITHIN, || sleeper.is_gone()), "{:?}", processes_with(&sleeper.marker));
    let ended = collect(sleeper.run);
    assert!(statuses.contains(&ended.status), "{ended:?}");
    let left = || zone.iter().copied().filter(|&pid| is_alive(pid)).collect::<Vec<_>>();
    assert!(eventually(GONE_WITHIN, || left().is_empty()), "{:?}", left());
    let ran = home.run(&["-c", "print(2 + 2)"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "4\n"), "{}", ran.stderr);
    assert!(home.groups().is_empty(), "{:?}", home.groups());
}

#[test]
fn run_is_killed() {
    check(|sleeper| sleeper.run.id(), &[137]);
}

#[test]
fn launcher_is_killed() {
    check(|sleeper| sleeper.launcher().pid, &[70]);
}

#[test]
fn master_is_killed() {
    check(|sleeper| sleeper.master().pid, &[70]);
}

#[test]
fn init_is_killed() {
    // The kernel kills the interpreter before the init is gone, but that is not the status.
    check(|sleeper| sleeper.init().pid, &[70]);
}

#[test]
fn interpreter_is_killed() {
    let interpreter = |sleeper: &Sleeper| {
        let named = processes_with(&sleeper.marker)
            .into_iter()
            .find(|process| process.name == sleeper.marker);
        named.unwrap().pid
    };
    check(interpreter, &[137]);
}

#[test]
fn groups_of_a_killed_run_stay_only_until_the_next() {
    let home = TestHome::new(PYTHON);
    let sleeper = Sleeper::start(&home);
    let groups = home.groups();
    assert!(groups.iter().any(|group| group.ends_with("zone")), "{groups:?}");
    signal(sleeper.run.id(), Signal::KILL);
    assert!(eventually(GONE_WITHIN, || sleeper.is_gone()));
    collect(sleeper.run);
    assert_eq!(home.run(&["-c", ""]).status, 0);
    assert!(home.groups().is_empty(), "{:?}", home.groups());
}

#[test]
fn ordinary_end_leaves_nothing() {
    let home = TestHome::new(PYTHON);
    let marker = unique_name();
    let code = format!(
        "import subprocess\nsubprocess.Popen(['sleep', '500'], env={{'MARK': {marker:?}}})\nprint('up')"
    );
    let ran = home.run_with_stdin(&[], code.as_bytes());
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "up\n"), "{}", ran.stderr);
    assert_eq!(processes_with(&marker), []);
    assert!(home.groups().is_empty(), "{:?}", home.groups());
}

#[test]
fn two_zones_do_not_disturb_each_other() {
    let (one, other) = (TestHome::new(PYTHON), TestHome::new(PYTHON));
    let (victim, mut neighbour) = (Sleeper::start(&one), Sleeper::start(&other));
    // A second zone over the same data directory.
    let twin = Sleeper::start(&other);
    signal(victim.run.id(), Signal::KILL);
    signal(twin.run.id(), Signal::KILL);
    assert!(eventually(GONE_WITHIN, || victim.is_gone() && twin.is_gone()));
    for home in [&one, &other] {
        assert_eq!(home.run(&["-c", "print(1)"]).stdout, "1\n");
    }
    assert_eq!(processes_with(&neighbour.marker).len(), 2);
    assert!(neighbour.run.try_wait().unwrap().is_none());
    signal(neighbour.run.id(), Signal::INT);
    let ran = collect(neighbour.run);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    collect(victim.run);
    collect(twin.run);
    assert!(one.groups().is_empty() && other.groups().is_empty());
}

/// The zygote: a child of the master that runs its program, and no fork of it, which an earlier
/// zygote may have left to the master; those are one namespace deeper.
fn zygote(zone: u32) -> Option<u32> {
    let master = descendants(zone).into_iter().find(|process| process.parent == zone)?.pid;
    let runs_it = |process: &Process| {
        let command = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        process.parent == master
            && String::from_utf8_lossy(&command).contains("zygote.py")
            && namespace_depth(process.pid) == Some(2)
    };
    descendants(master).into_iter().find(runs_it).map(|process| process.pid)
}

#[tokio::test]
async fn zygote_that_is_killed_comes_back() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let options = home.options(KernelOrigin::Warm);
    let mut running = engine.create(&options).await.unwrap();
    print(&mut running, "kept = 'kept'").await;
    let zone = engine.zone_process_id();
    for _ in 0..2 {
        let killed = zygote(zone).unwrap();
        signal(killed, Signal::KILL);
        let replaced = || zygote(zone).is_some_and(|pid| pid != killed);
        assert!(eventually_async(Duration::from_secs(20), replaced).await, "it did not come back");
        let mut fresh = engine.create(&options).await.unwrap();
        assert_eq!(print(&mut fresh, "print(2 + 2)").await, "4");
        fresh.destroy().await.unwrap();
        assert_eq!(print(&mut running, "print(kept)").await, "kept");
    }
    running.destroy().await.unwrap();
    engine.close().await;
    assert!(home.groups().is_empty());
}

#[tokio::test]
async fn sandbox_asked_for_while_the_zygote_dies_is_made_or_refused_in_words() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let options = home.options(KernelOrigin::Warm);
    signal(zygote(engine.zone_process_id()).unwrap(), Signal::KILL);
    let ready = async {
        let mut sandbox = engine.create(&options).await?;
        Ok::<_, anyhow::Error>(sandbox.ready().await.map(|()| sandbox)?)
    };
    let patience = Duration::from_secs(20) * slowness();
    match tokio::time::timeout(patience, ready).await.expect("it hangs") {
        Ok(mut sandbox) => assert_eq!(print(&mut sandbox, "print(2 + 2)").await, "4"),
        Err(error) => {
            let text = format!("{error:#}");
            assert!(text.contains("zygote"), "{text}");
        }
    }
    crate::harness::assert_works(&engine, &options).await;
    engine.close().await;
}

#[tokio::test]
async fn engine_that_is_dropped_leaves_nothing() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let sandbox = engine.create(&home.options(KernelOrigin::Warm)).await.unwrap();
    let pids: Vec<u32> =
        descendants(engine.zone_process_id()).iter().map(|process| process.pid).collect();
    drop(sandbox);
    engine.close().await;
    let left: Vec<u32> = pids.into_iter().filter(|&pid| is_alive(pid)).collect();
    assert_eq!(left, [] as [u32; 0]);
    assert!(home.groups().is_empty(), "{:?}", home.groups());
}

#[tokio::test]
async fn sandbox_of_a_dead_zone_says_so() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let options = home.options(KernelOrigin::Warm);
    let mut sandbox = engine.create(&options).await.unwrap();
    sandbox.ready().await.unwrap();
    signal(engine.zone_process_id(), Signal::KILL);
    let limits = silica_domain::Limits::default();
    let report = crate::harness::cell(&mut sandbox, "import time; time.sleep(50)", &limits).await;
    assert_eq!(report.outcome, silica_domain::Outcome::SandboxDied);
    assert!(engine.create(&options).await.is_err());
    engine.close().await;
}
