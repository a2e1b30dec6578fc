//! What the zone makes ahead for the sandbox it expects also fits any other sandbox.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use silica_domain::{LimitValues, Outcome};
use silica_engine::{CreateOptions, GuestSocket, Input, KernelOrigin};
use silica_templates::{Home, TemplateName, load};

use crate::harness::{
    PYTHON, SCIENCE, TestEngine, TestHome, assert_works, cell, descendants, namespace_ids, print,
    signal,
};
use crate::jail::failing::settled;

/// Prints how much the writable places hold at most, in MiB, and how many files.
const DISK: &str = "import os\nd = os.statvfs('/workspace')\n\
                    print(d.f_blocks * d.f_frsize >> 20, d.f_files, end='')";

/// A pool that is full of enclosures made for ordinary sandboxes.
async fn filled(engine: &TestEngine, home: &TestHome) -> CreateOptions {
    let ordinary = home.options(KernelOrigin::Warm);
    for _ in 0..3 {
        assert_works(engine, &ordinary).await;
    }
    settled(engine, home).await;
    ordinary
}

/// What code prints in a sandbox made like this.
async fn printed(engine: &TestEngine, options: &CreateOptions, code: &str) -> String {
    let mut sandbox = engine.create(options).await.unwrap();
    let text = print(&mut sandbox, code).await;
    sandbox.destroy().await.unwrap();
    text
}

/// Prints the number of the network namespace, which unlike an inode's the kernel gives only once.
const COOKIE: &str = "import socket\nwith socket.socket(socket.AF_UNIX) as s:\n    \
                      print(int.from_bytes(s.getsockopt(socket.SOL_SOCKET, 71, 8), 'little'), end='')";

/// Sandboxes made one after the other: more than the pool holds, twice.
const MANY: usize = 40;

#[tokio::test]
async fn another_disk_is_given_to_an_enclosure_made_ahead() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let ordinary = filled(&engine, &home).await;
    for (mib, files) in [(8, 2048), (300, 76_800), (100, 25_600), (1, 1024)] {
        let limits = LimitValues { disk_bytes: mib << 20, ..LimitValues::default() };
        let options = CreateOptions { limits, ..ordinary.clone() };
        assert_eq!(printed(&engine, &options, DISK).await, format!("{mib} {files}"));
    }
    let full =
        "try: open('/tmp/a', 'wb').write(b'x' * (9 << 20))\nexcept OSError as e: print(e.errno)";
    let limits = LimitValues { disk_bytes: 8 << 20, ..LimitValues::default() };
    assert_eq!(printed(&engine, &CreateOptions { limits, ..ordinary }, full).await, "28");
    engine.close().await;
}

#[tokio::test]
async fn other_limits_are_put_on_a_group_made_ahead() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let ordinary = filled(&engine, &home).await;
    let limits =
        LimitValues { memory_bytes: 64 << 20, disk_bytes: 16 << 20, ..LimitValues::default() };
    let options = CreateOptions { limits: limits.clone(), ..ordinary.clone() };
    let limits = engine.check_limits(&limits).unwrap();
    let mut sandbox = engine.create(&options).await.unwrap();
    let report = cell(&mut sandbox, "x = b'x' * (300 << 20)", &limits).await;
    assert_eq!(report.outcome, Outcome::OutOfMemory);
    sandbox.destroy().await.unwrap();
    assert_eq!(printed(&engine, &ordinary, "print(len(b'x' * (300 << 20)))").await, "314572800");
    engine.close().await;
}

#[tokio::test]
async fn inputs_are_mounted_in_an_enclosure_made_ahead() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let ordinary = filled(&engine, &home).await;
    let inputs = vec![Input::from_bytes("note", b"brought along".to_vec()).unwrap()];
    let read = "import os\nprint(open('/data/input/note').read(), os.listdir('/data/input'))";
    let with_input = CreateOptions { inputs, ..ordinary.clone() };
    assert_eq!(printed(&engine, &with_input, read).await, "brought along ['note']");
    let list = "import os\nprint(os.listdir('/data/input'))";
    assert_eq!(printed(&engine, &ordinary, list).await, "[]");
    engine.close().await;
}

#[tokio::test]
async fn pool_follows_requests_from_template_to_template() {
    let (home, other) = (TestHome::new(PYTHON), TestHome::new(SCIENCE));
    let engine = other.engine().await;
    let name = TemplateName::new(PYTHON).unwrap();
    let template = load(&Home::new(home.path()), &name).unwrap().unwrap();
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
pub(crate) fn inits(engine: &TestEngine) -> Vec<u32> {
    let launcher = engine.zone_process_id();
    let level = namespace_ids(launcher).unwrap().len() + 2;
    let is_init = |pid: &u32| {
        namespace_ids(*pid).is_some_and(|ids| ids.len() == level && ids.last() == Some(&1))
    };
    descendants(launcher).into_iter().map(|process| process.pid).filter(is_init).collect()
}

#[tokio::test]
async fn enclosures_made_ahead_that_are_killed_are_replaced() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let ordinary = filled(&engine, &home).await;
    let before = settled(&engine, &home).await;
    let waiting = inits(&engine);
    assert!(waiting.len() >= 16, "{waiting:?}");
    for &pid in &waiting[waiting.len() / 2..] {
        signal(pid, Signal::KILL);
    }
    for _ in 0..4 {
        assert_works(&engine, &ordinary).await;
    }
    assert_eq!(settled(&engine, &home).await, before);
    engine.close().await;
    assert!(home.groups().is_empty());
}

#[tokio::test]
async fn unused_network_is_used_again_and_shows_nothing() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let ordinary = home.options(KernelOrigin::Warm);
    // One socket of each common kind, closed without a word, an address of its own taken and given back.
    let shown = format!(
        "{COOKIE}\nfor kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n    \
         with socket.socket(type=kind) as s: s.bind(('127.0.0.1', 0))\n\
         s = socket.socket(socket.AF_UNIX); s.bind('\\0name'); s.close()\n\
         for name in ('snmp', 'snmp6', 'netstat', 'dev', 'unix'):\n    \
         print('', open(f'/proc/self/net/{{name}}').read(), end='')"
    );
    let (mut networks, mut counts) = (HashSet::new(), HashSet::new());
    for _ in 0..MANY {
        let text = printed(&engine, &ordinary, &shown).await;
        let (network, rest) = text.split_once(' ').unwrap();
        networks.insert(network.to_owned());
        counts.insert(rest.to_owned());
    }
    assert!(networks.len() < MANY, "each had one of its own");
    assert_eq!(counts.len(), 1, "{counts:?}");
    engine.close().await;
}

#[tokio::test]
async fn used_network_is_not_used_again() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let ordinary = home.options(KernelOrigin::Warm);
    let uses = [
        // A packet over loopback, and one without a receiver.
        "u = socket.socket(type=socket.SOCK_DGRAM); u.bind(('127.0.0.1', 0)); u.sendto(b'x', u.getsockname())",
        "socket.socket().connect_ex(('127.0.0.1', 9))",
        // An address to which there is no way: no packet at all, but the attempt is counted.
        "u = socket.socket(type=socket.SOCK_DGRAM)\ntry: u.sendto(b'x', ('10.0.0.1', 9))\nexcept OSError: pass",
        "u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); u.sendto(b'x', ('::1', 9))",
        // A flow label that no other socket may use for some seconds, whether this socket exists or not.
        "import struct; u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); u.setsockopt(41, 32, \
         socket.inet_pton(socket.AF_INET6, '::1') + struct.pack('!I', 7) + struct.pack('BBHHHI', 0, 1, 1, 6, 6, 0))",
    ];
    let mut networks = HashSet::new();
    for number in 0..MANY {
        let code = format!("{COOKIE}\n{}", uses[number % uses.len()]);
        networks.insert(printed(&engine, &ordinary, &code).await);
    }
    assert_eq!(networks.len(), MANY, "{networks:?}");
    engine.close().await;
}

#[tokio::test]
async fn network_with_sockets_of_the_host_is_not_used_again() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let ordinary = home.options(KernelOrigin::Warm);
    let synthetic = "import socket\nprint(socket.socket().connect_ex(('198.18.0.1', 9)), end='')";
    let mut networks = HashSet::new();
    for number in 0..MANY {
        let mut sandbox = engine.create(&ordinary).await.unwrap();
        networks.insert(print(&mut sandbox, COOKIE).await);
        if number % 2 == 0 {
            // Closed at once and without a packet: no counter of the namespace has changed.
            drop(sandbox.open_sockets(&[GuestSocket::Stream], &[]).await.unwrap());
        } else {
            // Unreachable: the addresses of the last sandbox are not there.
            assert_eq!(print(&mut sandbox, synthetic).await, "101");
        }
        sandbox.destroy().await.unwrap();
    }
    assert_eq!(networks.len(), MANY, "{networks:?}");
    engine.close().await;
}

#[tokio::test]
async fn what_was_left_on_its_way_is_not_found_by_the_next() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let ordinary = home.options(KernelOrigin::Warm);
    // A listener that is held only by a message in flight, which is held only by itself.
    let leave = "import array, socket\nl = socket.socket(socket.AF_UNIX); l.bind('\\0planted'); l.listen()\n\
                 a, b = socket.socketpair()\nfor s in (l, a, b): a.sendmsg([b'x'], [(socket.SOL_SOCKET, \
                 socket.SCM_RIGHTS, array.array('i', [s.fileno()]))])\nprint('left')";
    let find = "import socket\nprint(socket.socket(socket.AF_UNIX).connect_ex('\\0planted'))";
    for _ in 0..MANY / 2 {
        assert_eq!(printed(&engine, &ordinary, leave).await, "left");
        assert_eq!(printed(&engine, &ordinary, find).await, "111");
    }
    engine.close().await;
}

/// A sandbox that leaves as much as it can behind in its group: processor time, a high peak, a fork that was
/// refused, and an end for lack of memory.
async fn leave_traces(engine: &TestEngine, ordinary: &CreateOptions) {
    let disk_bytes = 16 << 20;
    let limits =
        LimitValues { memory_bytes: 64 << 20, disk_bytes, processes: 3, ..LimitValues::default() };
    let options = CreateOptions { limits: limits.clone(), ..ordinary.clone() };
    let limits = engine.check_limits(&limits).unwrap();
    let mut sandbox = engine.create(&options).await.unwrap();
    let code = "import os, time\nwhile time.thread_time() < 0.05: pass\n\
                try:\n    while os.fork(): pass\n    time.sleep(9)\nexcept OSError: pass";
    cell(&mut sandbox, code, &limits).await;
    let report = cell(&mut sandbox, "x = b'x' * (300 << 20)", &limits).await;
    assert_eq!(report.outcome, Outcome::OutOfMemory);
    let usage = sandbox.usage();
    assert!(usage.oom_kills > 0 && usage.fork_refusals > 0, "{usage:?}");
    sandbox.destroy().await.unwrap();
}

/// The highest number that a group of a sandbox has; they are given one after the other.
fn highest_number(home: &TestHome) -> Option<usize> {
    let groups = home.groups().into_iter();
    let numbers = groups.filter_map(|group| {
        group.file_name()?.to_str()?.strip_prefix('s').and_then(|rest| rest.parse().ok())
    });
    numbers.max()
}

/// Whether the kernel can forget how much memory a group has held at most. With v2 it says so by a file that may be
/// written to, since Linux 6.12.
fn forgets_peaks(home: &TestHome) -> bool {
    let peaks = home.groups().into_iter().map(|group| group.join("memory.peak"));
    let mut peaks = peaks.filter_map(|peak| std::fs::metadata(peak).ok());
    peaks.all(|peak| peak.permissions().mode() & 0o200 != 0)
}

#[tokio::test]
async fn group_is_used_again_and_shows_nothing_of_its_last_sandbox() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let ordinary = home.options(KernelOrigin::Warm);
    let mut highest = None;
    for _ in 0..MANY / 2 {
        leave_traces(&engine, &ordinary).await;
        let mut sandbox = engine.create(&ordinary).await.unwrap();
        assert_eq!(print(&mut sandbox, "print(1)").await, "1");
        let usage = sandbox.usage();
        assert_eq!((usage.oom_kills, usage.fork_refusals), (0, 0));
        assert!(usage.cpu_us.is_some_and(|us| us < 50_000), "{usage:?}");
        assert!(usage.memory_peak_bytes.is_some_and(|bytes| bytes < 8 << 20), "{usage:?}");
        highest = highest.max(highest_number(&home));
        sandbox.destroy().await.unwrap();
    }
    let is_used_again = highest.is_some_and(|number| number < MANY);
    assert_eq!(is_used_again, forgets_peaks(&home), "{highest:?}");
    engine.close().await;
    assert!(home.groups().is_empty());
}

#[tokio::test]
async fn what_a_sandbox_has_used_is_not_what_the_next_in_its_group_uses() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let ordinary = home.options(KernelOrigin::Warm);
    let mut ended = Vec::new();
    for _ in 0..4 {
        let mut sandbox = engine.create(&ordinary).await.unwrap();
        assert_eq!(print(&mut sandbox, "print(1)").await, "1");
        sandbox.destroy().await.unwrap();
        let usage = sandbox.usage();
        assert!(usage.cpu_us.is_some_and(|us| us > 0), "{usage:?}");
        ended.push((sandbox, usage));
    }
    for _ in 0..MANY / 4 {
        leave_traces(&engine, &ordinary).await;
    }
    for (sandbox, usage) in &ended {
        assert_eq!(sandbox.usage(), *usage);
    }
    engine.close().await;
}

#[tokio::test]
async fn group_that_still_pays_for_files_is_not_used_again() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let ordinary = home.options(KernelOrigin::Warm);
    let mut held = Vec::new();
    for _ in 0..MANY / 2 {
        let mut sandbox = engine.create(&ordinary).await.unwrap();
        let usage = sandbox.usage();
        assert!(usage.memory_bytes.is_some_and(|bytes| bytes < 8 << 20), "{usage:?}");
        let write = "print(open('/workspace/held', 'wb').write(b'x' * (24 << 20)))";
        assert_eq!(print(&mut sandbox, write).await, "25165824");
        // Who reads a file keeps its file system.
        held.push(sandbox.files().clone());
        sandbox.destroy().await.unwrap();
    }
    engine.close().await;
}
