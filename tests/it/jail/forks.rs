//! Interpreters forked from one warm parent: what siblings share, and what they must not.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;
use silica_domain::{LimitValues, Limits};
use silica_engine::{
    CODE_BYTES_MAX, CellReport, Control, CreateOptions, KernelError, KernelOrigin, Unwatched,
    Watcher, ZygotePolicy,
};

use crate::harness::{
    EVERYTHING, LiveSandbox, PYTHON, SCIENCE, TIMEOUT, TestEngine, TestHome, descendants,
    eventually_async, namespace_depth, print,
};

/// Everything that must differ between any two sandboxes.
const IDENTITY: &str = "
import json, multiprocessing, os, random, secrets, ssl, tempfile, uuid
import numpy, pandas
frame = pandas.DataFrame({'a': range(10**6)})
print(json.dumps({
    'random': random.random(),
    'Random()': random.Random().random(),
    'numpy.random.random': numpy.random.random(),
    'numpy.random.randn': numpy.random.randn(),
    'default_rng': numpy.random.default_rng().random(),
    'RandomState()': numpy.random.RandomState().random(),
    'DataFrame.sample': frame.sample(5)['a'].tolist(),
    'uuid1': str(uuid.uuid1()),
    'uuid1.node': uuid.uuid1().node,
    'getnode': uuid.getnode(),
    'clock': uuid.uuid1().clock_seq,
    'uuid4': str(uuid.uuid4()),
    'secrets': secrets.token_hex(),
    'urandom': os.urandom(16).hex(),
    'ssl': ssl.RAND_bytes(16).hex(),
    'tempfile': tempfile.mktemp(),
    'authkey': bytes(multiprocessing.current_process().authkey).hex(),
}))
";

async fn sandbox(engine: &TestEngine, options: &CreateOptions) -> LiveSandbox {
    let mut sandbox = engine.create(options).await.unwrap();
    sandbox.ready().await.unwrap();
    sandbox
}

#[tokio::test]
async fn siblings_share_no_randomness_and_no_identity() {
    let home = TestHome::new(SCIENCE);
    let engine = home.engine().await;
    let mut seen: Vec<Value> = Vec::new();
    for _ in 0..20 {
        let mut sandbox = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
        seen.push(serde_json::from_str(&print(&mut sandbox, IDENTITY).await).unwrap());
        sandbox.destroy().await.unwrap();
    }
    // Only 14 bits, so that two may meet by chance.
    let clocks: BTreeSet<String> = seen.iter().map(|one| one["clock"].to_string()).collect();
    assert!(clocks.len() > 10, "{clocks:?}");
    for key in seen[0].as_object().unwrap().keys().filter(|key| *key != "clock") {
        let values: BTreeSet<String> = seen.iter().map(|one| one[key].to_string()).collect();
        assert_eq!(values.len(), seen.len(), "{key} repeats: {values:?}");
    }
    engine.close().await;
}

/// Where the interpreter's objects lie, and what happens when they outgrow that and go again.
const OBJECTS: &str = "
import asyncio, gc, os
def around(address):
    for line in open('/proc/self/maps'):
        start, end = (int(text, 16) for text in line.split()[0].split('-'))
        if start <= address < end:
            return (end - start) >> 20
def held():
    return int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGESIZE') >> 20
together, before = around(id(asyncio)), held()
many = [bytes(400) for _ in range(700_000)]
most = held()
del many
gc.collect()
print(together >= 8, most - before > 250, held() - before < 100, sum(map(len, [bytes(400)] * 9)))
";

#[tokio::test]
async fn objects_of_a_fork_lie_together_and_memory_is_given_back() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut sandbox = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
    for _ in 0..2 {
        assert_eq!(print(&mut sandbox, OBJECTS).await, "True True True 3600");
    }
    sandbox.destroy().await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn zygote_is_replaced_after_its_forks() {
    let home = TestHome::new(PYTHON);
    let policy = ZygotePolicy { forks_max: 5, age_max: Duration::from_mins(10) };
    let engine = home.engine_with(policy, EVERYTHING).await;
    let options = home.options(KernelOrigin::Warm);
    let mut oldest = sandbox(&engine, &options).await;
    print(&mut oldest, "kept = 'kept'").await;
    let mut generations = BTreeSet::new();
    let mut first_five = BTreeSet::new();
    let deadline = Instant::now() + TIMEOUT;
    for fork in 1.. {
        let mut sandbox = sandbox(&engine, &options).await;
        let hash = print(&mut sandbox, "print(hash('abc'))").await;
        sandbox.destroy().await.unwrap();
        if fork < 5 {
            first_five.insert(hash.clone());
        }
        generations.insert(hash);
        if generations.len() == 3 {
            break;
        }
        assert!(Instant::now() < deadline, "{fork} forks, {generations:?}");
    }
    assert_eq!(first_five.len(), 1, "siblings of one zygote share the seed");
    assert_eq!(print(&mut oldest, "print(kept)").await, "kept");
    oldest.destroy().await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn zygote_is_replaced_with_age() {
    let home = TestHome::new(PYTHON);
    let policy = ZygotePolicy { forks_max: 1000, age_max: Duration::from_millis(300) };
    let engine = home.engine_with(policy, EVERYTHING).await;
    let options = home.options(KernelOrigin::Warm);
    let mut generations = BTreeSet::new();
    let deadline = Instant::now() + TIMEOUT;
    while generations.len() < 2 {
        assert!(Instant::now() < deadline, "it is as old as ever");
        let mut sandbox = sandbox(&engine, &options).await;
        generations.insert(print(&mut sandbox, "print(hash('abc'))").await);
        sandbox.destroy().await.unwrap();
    }
    engine.close().await;
}

/// What a zygote was asked for when its successor took over is not forgotten.
#[tokio::test]
async fn crowd_loses_nobody_while_zygotes_are_replaced() {
    const CROWD: usize = 64;
    let home = TestHome::new(PYTHON);
    let policy = ZygotePolicy { forks_max: 3, age_max: Duration::from_mins(10) };
    let engine = home.engine_with(policy, EVERYTHING).await;
    let options = home.options(KernelOrigin::Warm);
    let one = async || {
        let mut sandbox = sandbox(&engine, &options).await;
        let hash = print(&mut sandbox, "print(hash('abc'))").await;
        sandbox.destroy().await.unwrap();
        hash
    };
    let mut generations = BTreeSet::new();
    let deadline = Instant::now() + TIMEOUT;
    while generations.len() < 6 {
        assert!(Instant::now() < deadline, "{generations:?}");
        generations.extend(futures_util::future::join_all((0..CROWD).map(|_| one())).await);
    }
    engine.close().await;
}

#[tokio::test]
async fn libraries_of_forks_are_sealed_and_never_writable_code() {
    const LOOK: &str = "
import json, os
rows = [line.split() for line in open('/proc/self/maps')]
ours = [row for row in rows if row[-2:] == ['/memfd:silica-libraries', '(deleted)']]
def opened(row):
    try:
        os.close(os.open('/proc/self/map_files/' + '-'.join(n.lstrip('0') for n in row[0].split('-')), os.O_RDWR))
        return True
    except OSError:
        return False
print(json.dumps([len(ours) > 20, [row for row in rows if 'w' in row[1] and 'x' in row[1]],
                  any(map(opened, ours)), any('memfd' in os.readlink(f'/proc/self/fd/{n}') for n in range(4))]))
";
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut sandbox = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
    assert_eq!(print(&mut sandbox, LOOK).await, "[true, [], false, false]");
    sandbox.destroy().await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn fresh_interpreters_share_no_hash_seed_and_no_addresses() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let (mut seeds, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..5 {
        let mut sandbox = sandbox(&engine, &home.options(KernelOrigin::Fresh)).await;
        seeds.insert(print(&mut sandbox, "print(hash('abc'))").await);
        let code = "print([l for l in open('/proc/self/maps') if 'stack' in l][0].split('-')[0])";
        addresses.insert(print(&mut sandbox, code).await);
        sandbox.destroy().await.unwrap();
    }
    assert_eq!((seeds.len(), addresses.len()), (5, 5));
    engine.close().await;
}

#[tokio::test]
async fn variables_stay_from_cell_to_cell_and_not_from_sandbox_to_sandbox() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    for origin in [KernelOrigin::Warm, KernelOrigin::Fresh] {
        let mut one = sandbox(&engine, &home.options(origin)).await;
        let mut other = sandbox(&engine, &home.options(origin)).await;
        print(&mut one, "import os; x = 41; os.environ['X'] = '1'; os.chdir('/tmp')").await;
        assert_eq!(print(&mut one, "x += 1; print(x, os.getcwd())").await, "42 /tmp");
        let code = "import os; print('x' in globals(), 'X' in os.environ, os.getcwd())";
        assert_eq!(print(&mut other, code).await, "False False /workspace");
        let report = crate::harness::cell(&mut one, "1 / 0", &Limits::default()).await;
        assert!(report.kernel_lives && one.is_alive());
        assert_eq!(print(&mut one, "print(x)").await, "42");
        one.destroy().await.unwrap();
        other.destroy().await.unwrap();
    }
    engine.close().await;
}

#[tokio::test]
async fn pool_hands_out_separate_sandboxes_and_refills() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let options = home.options(KernelOrigin::Warm);
    engine.keep_ready(&options, 3).unwrap();
    assert!(eventually_async(TIMEOUT, || engine.ready_count() == 3).await);
    let mut taken = Vec::new();
    for number in 0..3 {
        let mut sandbox = engine.create(&options).await.unwrap();
        assert_eq!(print(&mut sandbox, "print('x' in globals())").await, "False");
        print(&mut sandbox, &format!("x = {number}; open('/tmp/x', 'x').close()")).await;
        taken.push(sandbox);
    }
    assert!(eventually_async(TIMEOUT, || engine.ready_count() == 3).await, "it was not refilled");
    let mut random = BTreeSet::new();
    for (number, sandbox) in taken.iter_mut().enumerate() {
        assert_eq!(print(sandbox, "print(x)").await, number.to_string());
        random.insert(print(sandbox, "import random; print(random.random())").await);
    }
    assert_eq!(random.len(), 3);
    // Other limits are not what the pool holds.
    let limits = LimitValues { processes: 7, ..LimitValues::default() };
    let mut other = engine.create(&CreateOptions { limits, ..options }).await.unwrap();
    assert_eq!(engine.ready_count(), 3);
    assert_eq!(print(&mut other, "print(1)").await, "1");
    drop((taken, other));
    engine.close().await;
    assert!(home.groups().is_empty(), "{:?}", home.groups());
}

#[tokio::test]
async fn pool_does_not_hand_out_the_dead() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let options = home.options(KernelOrigin::Warm);
    engine.keep_ready(&options, 2).unwrap();
    assert!(eventually_async(TIMEOUT, || engine.ready_count() == 2).await);
    let inits = || {
        let deep = |pid: u32| namespace_depth(pid).is_some_and(|depth| depth > 2);
        let all = descendants(engine.zone_process_id());
        all.into_iter().map(|process| process.pid).filter(|&pid| deep(pid)).collect::<Vec<_>>()
    };
    let killed = inits();
    assert!(killed.len() >= 4, "two inits, two interpreters: {killed:?}");
    for &pid in &killed {
        // One may have taken another along.
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    assert!(eventually_async(TIMEOUT, || inits().iter().all(|pid| !killed.contains(pid))).await);
    let mut sandbox = engine.create(&options).await.unwrap();
    assert_eq!(print(&mut sandbox, "print(2 + 2)").await, "4");
    sandbox.destroy().await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn interpreter_that_has_ended_says_so() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    for origin in [KernelOrigin::Warm, KernelOrigin::Fresh] {
        let mut sandbox = sandbox(&engine, &home.options(origin)).await;
        let limits = Limits::default();
        let report = crate::harness::cell(&mut sandbox, "import os; os._exit(4)", &limits).await;
        assert_eq!(report.outcome, silica_domain::Outcome::Vanished(4));
        assert!(!report.kernel_lives && !sandbox.is_alive());
        let error = run(&mut sandbox, "1").await.unwrap_err();
        assert_eq!(error.to_string(), "the interpreter has ended");
        sandbox.destroy().await.unwrap();
    }
    engine.close().await;
}

#[tokio::test]
async fn code_that_is_too_long_is_refused_and_harms_nothing() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut sandbox = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
    let error = run(&mut sandbox, &"#".repeat(CODE_BYTES_MAX + 1)).await.unwrap_err();
    assert!(error.to_string().contains("1048577 bytes"), "{error}");
    assert_eq!(print(&mut sandbox, "print(2 + 2)").await, "4");
    engine.close().await;
}

#[tokio::test]
async fn cell_that_obeys_an_interrupt_keeps_its_interpreter() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut sandbox = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
    print(&mut sandbox, "x = 1").await;
    let values = LimitValues { wall: Duration::from_millis(200), ..LimitValues::default() };
    let limits = engine.check_limits(&values).unwrap();
    let report = crate::harness::cell(&mut sandbox, "while True: pass", &limits).await;
    assert_eq!(report.outcome, silica_domain::Outcome::TimedOut);
    assert!(report.kernel_lives);
    assert_eq!(print(&mut sandbox, "print(x)").await, "1");
    let (sender, mut interrupts) = tokio::sync::mpsc::channel(1);
    let code = "print('up'); import time; time.sleep(50)";
    let limits = Limits::default();
    let report = sandbox.run(code, &limits, &mut Impatient(sender), &mut interrupts).await.unwrap();
    assert_eq!(report.outcome, silica_domain::Outcome::Interrupted);
    assert_eq!(print(&mut sandbox, "print(x)").await, "1");
    engine.close().await;
}

/// Interrupts at the first output.
struct Impatient(tokio::sync::mpsc::Sender<Control>);

impl Watcher for Impatient {
    fn stdout(&mut self, _: &[u8]) {
        // Once is enough.
        let _ = self.0.try_send(Control::Interrupt);
    }
    fn stderr(&mut self, _: &[u8]) {}
    fn result(&mut self, _: &std::sync::Arc<silica_domain::Bundle>) {}
}

#[tokio::test]
async fn interrupt_that_comes_before_the_first_line_is_not_lost() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut sandbox = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
    for _ in 0..20 {
        let (sender, mut interrupts) = tokio::sync::mpsc::channel(1);
        sender.send(Control::Interrupt).await.unwrap();
        let limits = Limits::default();
        let code = "import time; time.sleep(2)";
        let report = sandbox.run(code, &limits, &mut Unwatched, &mut interrupts).await.unwrap();
        assert_eq!(report.outcome, silica_domain::Outcome::Interrupted);
    }
    engine.close().await;
}

async fn run(sandbox: &mut LiveSandbox, code: &str) -> Result<CellReport, KernelError> {
    let (_keep, mut interrupts) = tokio::sync::mpsc::channel(1);
    sandbox.run(code, &Limits::default(), &mut Unwatched, &mut interrupts).await
}
