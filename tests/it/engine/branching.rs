//! Copies of live sandboxes: what comes along, what is left behind, what keeps them apart.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use silica_domain::{BranchOptions, Conflict, LeftBehind, LeftKind, Limits, Outcome, Randomness};
use silica_engine::{
    BranchError, Branched, Carried, CreateOptions, KernelOrigin, TWINS_MAX, ZygotePolicy,
};

use crate::harness::{
    EVERYTHING, LiveSandbox, PYTHON, SCIENCE, TestEngine, TestHome, cell, descriptors, print,
};

async fn sandbox(engine: &TestEngine, options: &CreateOptions) -> LiveSandbox {
    let mut sandbox = engine.create(options).await.unwrap();
    sandbox.ready().await.unwrap();
    sandbox
}

type Twins = Result<(Vec<LiveSandbox>, Vec<LeftBehind>), BranchError>;

/// Branches a sandbox; returns the copies and what they lack.
async fn branch_with(
    engine: &TestEngine,
    original: &mut LiveSandbox,
    options: &BranchOptions,
    carried: Carried,
    count: usize,
) -> Twins {
    let LiveSandbox { sandbox, kernel } = original;
    let branch = engine.begin_branch(sandbox, kernel, options, carried).await?;
    let Branched { twins, left_behind } = engine.finish_branch(branch, count).await?;
    let twins = twins.into_iter();
    let twins = twins.map(|twin| LiveSandbox { sandbox: twin.sandbox, kernel: twin.kernel });
    Ok((twins.collect(), left_behind))
}

/// Makes copies that lack nothing.
pub(crate) async fn twins(
    engine: &TestEngine,
    original: &mut LiveSandbox,
    count: usize,
) -> Vec<LiveSandbox> {
    let options = BranchOptions::default();
    let made = branch_with(engine, original, &options, Carried::OwnPages, count).await;
    let (twins, left_behind) = made.unwrap();
    assert_eq!(left_behind, []);
    twins
}

/// Makes one copy that lacks nothing.
async fn twin(engine: &TestEngine, original: &mut LiveSandbox) -> LiveSandbox {
    twins(engine, original, 1).await.remove(0)
}

#[tokio::test]
async fn twin_goes_on_with_variables_and_files() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let setup = "
x = [1, 2, 3]
open('notes', 'w').write('kept')
def count():
    yield from range(9)
g = count()
next(g)";
    let look = "print(x, open('notes').read(), next(g))";
    for origin in [KernelOrigin::Warm, KernelOrigin::Fresh] {
        let mut original = sandbox(&engine, &home.options(origin)).await;
        print(&mut original, setup).await;
        let none = BranchOptions::default();
        // A fresh interpreter shares no memory with the zygote whose fork becomes it.
        let warm = origin == KernelOrigin::Warm;
        let carried = if warm { Carried::OwnPages } else { Carried::Everything };
        let made = branch_with(&engine, &mut original, &none, carried, 1).await;
        let (mut twins, left_behind) = made.unwrap();
        assert_eq!(left_behind, []);
        let twin = &mut twins[0];
        assert_eq!(print(twin, look).await, "[1, 2, 3] kept 1");
        print(twin, "x.append('twin'); open('notes', 'w').write('twin')").await;
        assert_eq!(print(&mut original, look).await, "[1, 2, 3] kept 1");
        original.destroy().await.unwrap();
        assert_eq!(print(twin, look).await, "[1, 2, 3, 'twin'] twin 2");
        twin.destroy().await.unwrap();
    }
    engine.close().await;
}

/// Objects of libraries, with state in C.
const OBJECTS: &str = "
import numpy as np, pandas as pd, sqlite3, re, decimal, threading, asyncio
frame = pd.DataFrame({'x': np.arange(100_000), 'y': np.linspace(0, 1, 100_000)})
big = np.arange(4_000_000, dtype=np.int64)
database = sqlite3.connect(':memory:')
database.execute('create table t (a)')
database.execute('insert into t values (42)')
pattern = re.compile(r'(\\d+)-(\\d+)')
lock = threading.Lock()
await asyncio.sleep(0)
import matplotlib.pyplot as plt
figure = plt.figure()
";
const LOOK_AT_OBJECTS: &str = "
frame['z'] = frame.x * 2
with lock:
    print(frame.z.sum(), round(frame.y.mean(), 3), int(big[::1000].sum()), len(big),
      database.execute('select a from t').fetchone(), pattern.match('12-34').groups())
await asyncio.sleep(0.01)
import subprocess, io
figure.gca().plot([1, 2])
picture = io.BytesIO()
figure.savefig(picture)
print(picture.getvalue()[1:4], subprocess.run(['echo', 'child'], capture_output=True).stdout)
thread = threading.Thread(target=lambda: print('thread'))
thread.start(); thread.join()
try:
    1 / 0
except ZeroDivisionError as error:
    print(error)
print(np.linalg.norm(np.random.rand(200, 200) @ np.random.rand(200, 200)) > 0)
print(frame.groupby(frame.x % 3).y.mean().round(2).tolist(), len([bytes(2000) for _ in range(50_000)]))
";
const LOOKED_AT: &str = "9999900000 0.5 7998000000 4000000 (42,) ('12', '34')
b'PNG' b'child\\n'
thread
division by zero
True
[0.5, 0.5, 0.5] 50000";

#[tokio::test]
async fn objects_of_libraries_come_along_over_generations() {
    let home = TestHome::new(SCIENCE);
    let engine = home.engine().await;
    for carried in [Carried::OwnPages, Carried::Everything] {
        let mut options = home.options(KernelOrigin::Warm);
        options.limits.memory_bytes = 1 << 30;
        let mut current = sandbox(&engine, &options).await;
        print(&mut current, OBJECTS).await;
        for generation in 0..4 {
            let none = BranchOptions::default();
            let made = branch_with(&engine, &mut current, &none, carried, 1).await;
            let (mut twins, left) = made.unwrap_or_else(|error| panic!("{generation}: {error:?}"));
            assert_eq!(left, []);
            current.destroy().await.unwrap();
            current = twins.remove(0);
            assert_eq!(print(&mut current, LOOK_AT_OBJECTS).await, LOOKED_AT, "{generation}");
        }
        current.destroy().await.unwrap();
    }
    engine.close().await;
}

/// Everything that must differ between a sandbox and its copies.
const IDENTITY: &str = "
import json, multiprocessing, os, random, secrets, ssl, tempfile, uuid
import numpy
def identity():
    print(json.dumps({
        'random': random.random(),
        'numpy': numpy.random.random(),
        'normal': numpy.random.randn(),
        'uuid1': str(uuid.uuid1()),
        'node': uuid.getnode(),
        'uuid4': str(uuid.uuid4()),
        'ssl': ssl.RAND_bytes(16).hex(),
        'urandom': os.urandom(16).hex(),
        'tempfile': tempfile.mktemp(),
        'authkey': bytes(multiprocessing.current_process().authkey).hex(),
    }))
identity()
";

#[tokio::test]
async fn twins_share_no_randomness_unless_asked_to() {
    let home = TestHome::new(SCIENCE);
    let engine = home.engine().await;
    let mut original = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
    print(&mut original, IDENTITY).await;
    let renewed = BranchOptions::default();
    let kept = BranchOptions { randomness: Randomness::Keep, ..renewed };
    let made = branch_with(&engine, &mut original, &renewed, Carried::OwnPages, 4).await;
    let (mut different, _) = made.unwrap();
    let made = branch_with(&engine, &mut original, &kept, Carried::OwnPages, 2).await;
    let (mut equal, _) = made.unwrap();
    let mut seen: Vec<Value> = Vec::new();
    for sandbox in different.iter_mut().chain([&mut original]) {
        seen.push(serde_json::from_str(&print(sandbox, "identity()").await).unwrap());
    }
    for key in seen[0].as_object().unwrap().keys() {
        let values: BTreeSet<String> = seen.iter().map(|one| one[key].to_string()).collect();
        assert_eq!(values.len(), seen.len(), "{key} repeats: {values:?}");
    }
    let draw = "print(random.random(), numpy.random.random())";
    assert_eq!(print(&mut equal[0], draw).await, print(&mut equal[1], draw).await);
    for sandbox in different.iter().chain(&equal).chain([&original]) {
        sandbox.destroy().await.unwrap();
    }
    engine.close().await;
}

/// What cannot come along, by the code that makes it and the kind it is listed as.
const LOST: [(&str, LeftKind, &str); 6] = [
    ("import os; r, w = os.pipe()", LeftKind::Pipe, "pipe"),
    (
        "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()",
        LeftKind::Socket,
        "socket",
    ),
    ("import select; e = select.epoll()", LeftKind::Event, "eventpoll"),
    ("import tempfile; f = tempfile.TemporaryFile()", LeftKind::File, "(deleted)"),
    ("import signal; signal.setitimer(signal.ITIMER_REAL, 900)", LeftKind::Timer, "ITIMER_REAL"),
    (
        "import asyncio\nasync def begin():\n    return asyncio.create_task(asyncio.sleep(900), name='ticker')\nt = await begin()",
        LeftKind::Task,
        "ticker",
    ),
];

#[tokio::test]
async fn what_cannot_come_along_is_listed() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    for (code, kind, name) in LOST {
        let mut original = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
        print(&mut original, code).await;
        let none = BranchOptions::default();
        let made = branch_with(&engine, &mut original, &none, Carried::OwnPages, 1).await;
        let (mut twins, left) = made.unwrap_or_else(|error| panic!("{code}: {error:?}"));
        assert!(!left.is_empty(), "{code}");
        for thing in &left {
            assert!(thing.kind == kind && thing.name.contains(name), "{code}: {left:?}");
        }
        assert_eq!(print(&mut twins[0], "print('lives')").await, "lives");
        if kind == LeftKind::Pipe {
            let use_it = "
import errno
try:
    os.read(r, 1)
except OSError as error:
    print(errno.errorcode[error.errno])
assert open('/workspace/new', 'w').fileno() not in (r, w)";
            let said = print(&mut twins[0], use_it).await;
            assert!(matches!(said.as_str(), "EINVAL" | "ENOTCONN"), "{said}");
        }
        twins[0].destroy().await.unwrap();
        original.destroy().await.unwrap();
    }
    engine.close().await;
}

/// What would make a copy wrong, by the code that makes it.
const CONFLICTS: [(&str, LeftKind, &str); 4] = [
    (
        "import threading\nstop = threading.Event()\nthreading.Thread(target=stop.wait, name='worker', daemon=True).start()",
        LeftKind::Thread,
        "worker",
    ),
    ("import subprocess; p = subprocess.Popen(['sleep', '900'])", LeftKind::Process, "sleep"),
    ("import mmap; m = mmap.mmap(-1, 8192); m[:3] = b'abc'", LeftKind::SharedMemory, "/dev/zero"),
    (
        "from multiprocessing import shared_memory\nm = shared_memory.SharedMemory(create=True, size=10, name='mine')\nm.buf[:3] = b'abc'\nfrom multiprocessing import resource_tracker as t\nimport os, signal\nos.kill(t._resource_tracker._pid, signal.SIGKILL)\nos.waitpid(t._resource_tracker._pid, 0)",
        LeftKind::SharedMemory,
        "/dev/shm/mine",
    ),
];

#[tokio::test]
async fn what_would_make_a_copy_wrong_is_refused_unless_allowed() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    for (code, kind, name) in CONFLICTS {
        let mut original = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
        print(&mut original, code).await;
        let strict = BranchOptions::default();
        let made = branch_with(&engine, &mut original, &strict, Carried::OwnPages, 1).await;
        let Err(BranchError::Refused(reasons)) = made else { panic!("{code}: {made:?}") };
        assert_eq!(reasons.len(), 1, "{code}: {reasons:?}");
        assert!(reasons[0].kind == kind && reasons[0].name.contains(name), "{reasons:?}");
        assert_eq!(print(&mut original, "print('unharmed')").await, "unharmed");
        let leave = Conflict::LeaveBehind;
        let lenient = BranchOptions { threads: leave, shared: leave, processes: leave, ..strict };
        let made = branch_with(&engine, &mut original, &lenient, Carried::OwnPages, 1).await;
        let (mut twins, left) = made.unwrap_or_else(|error| panic!("{code}: {error:?}"));
        assert_eq!(left[0], reasons[0]);
        if kind == LeftKind::SharedMemory {
            let look = "print(bytes(m[:3]) if isinstance(m, mmap.mmap) else bytes(m.buf[:3]))";
            let look = format!("import mmap; {look}");
            assert_eq!(print(&mut twins[0], &look).await, "b'abc'");
            let change = "b = m if isinstance(m, mmap.mmap) else m.buf; b[:3] = b'new'";
            print(&mut twins[0], change).await;
            assert_eq!(print(&mut original, &look).await, "b'abc'");
        }
        twins[0].destroy().await.unwrap();
        original.destroy().await.unwrap();
    }
    engine.close().await;
}

/// Files of every kind, in every writable place.
const FILES: &str = "
import os
os.makedirs('a/b/c'); os.chmod('a/b', 0o500)
open('a/file', 'w').write('text'); os.chmod('a/file', 0o640); os.utime('a/file', (1, 1_000_000))
os.link('a/file', 'hard'); os.symlink('a/file', 'soft'); os.symlink('/nowhere', 'dangling')
os.mkfifo('fifo')
with open('sparse', 'wb') as f:
    f.truncate(60 << 20); f.seek(50 << 20); f.write(b'end')
open(b'name-\\xff\\xfe', 'w').close()
for place in ('/home/user', '/tmp', '/dev/shm'):
    open(place + '/here', 'w').write(place)
log = open('log', 'a+'); log.write('one\\n'); log.flush()
reader = open('a/file'); reader.read(2)
os.chdir('/workspace/a'); os.umask(0o027); os.environ['MINE'] = 'yes'
";
const LOOK_AT_FILES: &str = "
w = '/workspace/'
s = os.stat(w + 'a/file')
print(oct(s.st_mode), s.st_mtime, s.st_nlink, s.st_ino == os.stat(w + 'hard').st_ino, os.readlink(w + 'soft'), os.readlink(w + 'dangling'))
print(oct(os.stat(w + 'a/b').st_mode), os.stat(w + 'sparse').st_size >> 20, os.stat(w + 'sparse').st_blocks < 100, open(w + 'sparse', 'rb').read()[50 << 20:][:3])
print(oct(os.stat(w + 'fifo').st_mode), os.path.exists(w.encode() + b'name-\\xff\\xfe'), [open(p + '/here').read() for p in ('/home/user', '/tmp', '/dev/shm')])
log.write('two\\n'); log.flush(); log.seek(0)
print(log.read().split(), reader.read(), os.getcwd(), oct(os.umask(0o027)), os.environ['MINE'])
";
const FILES_LOOKED_AT: &str = "0o100640 1000000.0 2 True a/file /nowhere
0o40500 60 True b'end'
0o10644 True ['/home/user', '/tmp', '/dev/shm']
['one', 'two'] xt /workspace/a 0o27 yes";

#[tokio::test]
async fn files_and_open_files_come_along() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut original = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
    print(&mut original, FILES).await;
    let mut twin = twin(&engine, &mut original).await;
    assert_eq!(print(&mut twin, LOOK_AT_FILES).await, FILES_LOOKED_AT);
    assert_eq!(print(&mut original, "log.seek(0); print(log.read().split())").await, "['one']");
    twin.destroy().await.unwrap();
    original.destroy().await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn many_hard_links_take_no_descriptors() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut original = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
    let make = "
import os
os.makedirs('a/b')
for i in range(3000):
    open(f'a/b/{i}', 'w').close()
    os.link(f'a/b/{i}', f'a/{i}')";
    print(&mut original, make).await;
    let mut twin = twin(&engine, &mut original).await;
    let look =
        "print(all(os.stat(f'a/{i}').st_ino == os.stat(f'a/b/{i}').st_ino for i in range(3000)))";
    assert_eq!(print(&mut twin, look).await, "True");
    twin.destroy().await.unwrap();
    original.destroy().await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn limits_hold_in_a_twin() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut options = home.options(KernelOrigin::Warm);
    options.limits.memory_bytes = 200 << 20;
    options.limits.processes = 12;
    let mut original = sandbox(&engine, &options).await;
    print(&mut original, "data = bytearray(b'x' * (20 << 20))").await;
    let mut twin = twin(&engine, &mut original).await;
    let report = cell(&mut twin, "more = bytearray(b'y' * (400 << 20))", &Limits::default()).await;
    assert_eq!(report.outcome, Outcome::OutOfMemory);
    assert_eq!(print(&mut original, "print(len(data) >> 20)").await, "20");
    let spawn = "
import subprocess
started = []
try:
    while True:
        started.append(subprocess.Popen(['sleep', '100']))
except OSError as error:
    print(len(started) < 12, error.errno)
";
    let mut second = super::branching::twin(&engine, &mut original).await;
    assert_eq!(print(&mut second, spawn).await, "True 11");
    twin.destroy().await.unwrap();
    second.destroy().await.unwrap();
    original.destroy().await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn memory_of_an_image_is_given_back_to_its_original() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut options = home.options(KernelOrigin::Warm);
    options.limits.memory_bytes = 300 << 20;
    let mut original = sandbox(&engine, &options).await;
    print(&mut original, "import os; data = os.urandom(1 << 20) * 80").await;
    let mut all = Vec::new();
    // Each image takes more than 80 MiB while it is written.
    for _ in 0..5 {
        let mut twin = twin(&engine, &mut original).await;
        assert_eq!(print(&mut twin, "print(len(data) >> 20)").await, "80");
        all.push(twin);
    }
    assert_eq!(print(&mut original, "more = data * 2; print(len(more) >> 20)").await, "160");
    for twin in &all {
        twin.destroy().await.unwrap();
    }
    original.destroy().await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn too_little_memory_fails_the_copy_and_not_the_original() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut options = home.options(KernelOrigin::Warm);
    options.limits.memory_bytes = 200 << 20;
    let mut original = sandbox(&engine, &options).await;
    print(&mut original, "import os; data = os.urandom(1 << 20) * 120").await;
    let none = BranchOptions::default();
    let made = branch_with(&engine, &mut original, &none, Carried::OwnPages, 1).await;
    assert!(matches!(made, Err(BranchError::NotWritten(_))), "{made:?}");
    assert_eq!(print(&mut original, "print(len(data) >> 20)").await, "120");
    original.destroy().await.unwrap();
    engine.close().await;
}

/// Interpreters that answer the request for an image in their own way. Each replaces the carrier.
const HOSTILE: [(&str, &str, &str); 7] = [
    (
        "a mapping that writes",
        "real = carry.receive_descriptors
def receive(control):
    global held
    image, report = real(control)
    import mmap
    held = mmap.mmap(image, 4096)
    return [image, report]
carry.receive_descriptors = receive",
        "keeps the image open",
    ),
    (
        "a seal of its own",
        "real = carry.receive_descriptors
def receive(control):
    import fcntl
    image, report = real(control)
    fcntl.fcntl(image, 1033, 1)
    return [image, report]
carry.receive_descriptors = receive",
        "keeps the image open",
    ),
    (
        "garbage",
        "def write(image, report, any_zygote):
    import os
    os.write(image, os.urandom(1 << 20))
    os.write(report, b'written')
    os._exit(0)
carry.write_or_exit = write",
        "become-tables",
    ),
    (
        "nothing",
        "def write(image, report, any_zygote):
    import os
    os.write(report, b'written')
    os._exit(0)
carry.write_or_exit = write",
        "become-tables",
    ),
    (
        "a writer that dies",
        "def write(image, report, any_zygote):
    import os
    os.kill(os.getpid(), 9)
carry.write_or_exit = write",
        "could not be written",
    ),
    (
        "a lie about the end",
        "def write(image, report, any_zygote):
    import os
    os.write(report, b'error 99999999999')
    os._exit(0)
carry.write_or_exit = write",
        "nonsense",
    ),
    (
        "a kernel that ends",
        "def receive(control):
    import os
    os._exit(0)
carry.receive_descriptors = receive",
        "cannot be copied",
    ),
];

#[tokio::test]
async fn hostile_interpreters_get_no_copy_and_harm_nothing() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    for (what, code, word) in HOSTILE {
        let mut original = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
        print(&mut original, &format!("from silica_guest import carry\n{code}")).await;
        let none = BranchOptions::default();
        let made = branch_with(&engine, &mut original, &none, Carried::OwnPages, 2).await;
        let error = made.expect_err(what);
        let mut words = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            words = format!("{words}: {cause}");
            source = cause.source();
        }
        assert!(words.contains(word), "{what}: {words}");
        original.destroy().await.unwrap();
    }
    let mut honest = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
    assert_eq!(print(&mut honest, "print('unharmed')").await, "unharmed");
    honest.destroy().await.unwrap();
    engine.close().await;
}

/// What is in force in a process, without what differs between any two.
const CONTAINED: &str = "
import os
def contained():
    status = dict(line.split(':', 1) for line in open('/proc/self/status'))
    kept = ('Uid', 'Gid', 'Groups', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp', 'Seccomp_filters', 'Threads')
    shared = [line.split()[-1] for line in open('/proc/self/maps') if line.split()[1][1] == 'w' and line.split()[1][3] == 's']
    print({name: status.get(name, '').strip() for name in kept}, sorted(os.listdir('/proc/self/fd')), shared,
        sorted(name for name in os.listdir('/proc') if name.isdigit()), open('/proc/self/oom_score_adj').read().strip())
def namespaces():
    print(' '.join(os.readlink('/proc/self/ns/' + name) for name in ('user', 'mnt', 'net', 'ipc', 'uts', 'pid', 'cgroup')))
";

#[tokio::test]
async fn twin_is_contained_like_its_original_and_apart_from_it() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut original = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
    print(&mut original, CONTAINED).await;
    let mut twin = twin(&engine, &mut original).await;
    let expected = print(&mut original, "contained()").await;
    assert_eq!(print(&mut twin, "contained()").await, expected);
    let first = print(&mut original, "namespaces()").await;
    let second = print(&mut twin, "namespaces()").await;
    for (mine, theirs) in first.split(' ').zip(second.split(' ')) {
        assert_ne!(mine, theirs);
    }
    twin.destroy().await.unwrap();
    original.destroy().await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn replaced_zygote_is_told_and_everything_can_be_carried() {
    let home = TestHome::new(PYTHON);
    let policy = ZygotePolicy { forks_max: 2, age_max: Duration::from_mins(10) };
    let engine = home.engine_with(policy, EVERYTHING).await;
    let options = home.options(KernelOrigin::Warm);
    let mut original = sandbox(&engine, &options).await;
    let hash = print(&mut original, "x = 7; print(hash('abc'))").await;
    // Until a fork comes from another zygote.
    loop {
        let mut other = sandbox(&engine, &options).await;
        let replaced = print(&mut other, "print(hash('abc'))").await != hash;
        other.destroy().await.unwrap();
        if replaced {
            break;
        }
    }
    let none = BranchOptions::default();
    let made = branch_with(&engine, &mut original, &none, Carried::OwnPages, 1).await;
    assert!(matches!(made, Err(BranchError::OtherZygote)), "{made:?}");
    let made = branch_with(&engine, &mut original, &none, Carried::Everything, 1).await;
    let (mut twins, _) = made.unwrap();
    let look = "print(x, hash('abc'), [bytes(999) for _ in range(99_999)][-1][-1])";
    assert_eq!(print(&mut twins[0], look).await, format!("7 {hash} 0"));
    twins[0].destroy().await.unwrap();
    original.destroy().await.unwrap();
    engine.close().await;
}

#[tokio::test]
async fn many_twins_are_born_and_nothing_of_them_stays() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut original = sandbox(&engine, &home.options(KernelOrigin::Warm)).await;
    print(&mut original, "import os; x = list(range(1000))").await;
    let none = BranchOptions::default();
    let mut open = None;
    for _ in 0..4 {
        let made = branch_with(&engine, &mut original, &none, Carried::OwnPages, TWINS_MAX).await;
        let (mut twins, _) = made.unwrap();
        assert_eq!(twins.len(), TWINS_MAX);
        for twin in &mut twins {
            assert_eq!(print(twin, "print(sum(x))").await, "499500");
        }
        for twin in &twins {
            twin.destroy().await.unwrap();
        }
        drop(twins);
        let now = descriptors(std::process::id()).unwrap();
        assert!(now <= *open.get_or_insert(now) + 8, "{now} descriptors, {open:?} before");
    }
    assert_eq!(print(&mut original, "print(len(os.listdir('/proc/self/fd')))").await, "5");
    original.destroy().await.unwrap();
    engine.close().await;
}
