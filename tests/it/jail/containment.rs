//! What is really in force, seen from inside and from the host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use expect_test::expect_file;
use serde_json::Value;
use silica_domain::{Enforcement, Outcome};
use silica_engine::{CommandExit, CommandSpec, KernelOrigin, TerminalSize};
use silica_jail::client::UseOfHost;

use crate::engine::commands;
use crate::harness::{
    LiveSandbox, PYTHON, TestEngine, TestHome, cell, eventually_async, name_process, print,
    processes, processes_with, status_of, text, unique_name,
};

const INSPECTOR: &str = include_str!("inspector.py");

/// Lines of `key: value`, nested keys joined by a slash.
fn flat(value: &Value, prefix: &str) -> Vec<String> {
    match value {
        Value::Object(map) => {
            map.iter().flat_map(|(key, value)| flat(value, &format!("{prefix}/{key}"))).collect()
        }
        _ => vec![format!("{}: {value}\n", prefix.trim_start_matches('/'))],
    }
}

/// What a guest finds, as text; that its namespaces are its own is checked here.
async fn inspect(origin: KernelOrigin) -> String {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut sandbox = engine.create(&home.options(origin)).await.unwrap();
    sandbox.ready().await.unwrap();
    let found = findings(&engine, &print(&mut sandbox, INSPECTOR).await);
    sandbox.destroy().await.unwrap();
    engine.close().await;
    found
}

/// The inspector's words as lines.
fn findings(engine: &TestEngine, words: &str) -> String {
    let found: Value = serde_json::from_str(words).unwrap();
    for (name, inside) in found["namespaces"].as_object().unwrap() {
        let link = std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        assert_ne!(inside.as_str(), link.to_str(), "{name}");
        let link = zone_namespace(engine, name);
        assert_ne!(inside.as_str(), link.to_str(), "{name} is the zone's");
    }
    let mut lines = flat(&found["seen"], "");
    lines.sort_unstable();
    lines.concat()
}

fn zone_namespace(engine: &TestEngine, name: &str) -> PathBuf {
    let launcher = engine.zone_process_id();
    let master = processes().into_iter().find(|process| process.parent == launcher).unwrap();
    std::fs::read_link(format!("/proc/{}/ns/{name}", master.pid)).unwrap()
}

#[tokio::test]
async fn guest_sees_and_does_no_more_than_this() {
    let fork = inspect(KernelOrigin::Warm).await;
    expect_file!["inspector.expected"].assert_eq(&fork);
    assert_eq!(inspect(KernelOrigin::Fresh).await, fork);
}

#[tokio::test]
async fn command_sees_and_does_no_more_than_a_kernel() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = commands::sandbox(&home).await;
    // There is the kernel too, and what its guest code sets is not set.
    let expected = include_str!("inspector.expected")
        .replace("processes: 2\n", "processes: 3\n")
        .replace("\"PLOTLY_RENDERER\",", "");
    for terminal in [None, Some(TerminalSize { rows: 24, columns: 80 })] {
        let program = CommandSpec::program(["python", "-c", INSPECTOR]);
        let spec = CommandSpec { terminal, ..program };
        let outcome = commands::collect(&mut sandbox.start_command(&spec).await.unwrap()).await;
        assert_eq!(outcome.exit, CommandExit::Status(0), "{outcome:?}");
        let found = findings(&engine, outcome.stdout.trim_end());
        assert_eq!(found, expected, "{terminal:?}");
    }
    commands::finish(engine, sandbox).await;
}

#[test]
fn call_of_another_architecture_kills() {
    // mov eax, 20 (getpid of i386); int 0x80; ret
    let code = "import ctypes, mmap\n\
                m = mmap.mmap(-1, 4096, prot=7)\n\
                m.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')\n\
                a = ctypes.addressof(ctypes.c_char.from_buffer(m))\n\
                print('up')\n\
                print(ctypes.CFUNCTYPE(ctypes.c_int)(a)())";
    let json = TestHome::new(PYTHON).json(code, &[]);
    assert_eq!((&json["outcome"], &json["exit_code"]), (&"crashed".into(), &(128 + 31).into()));
    assert_eq!(json["stdout"], "up\n");
}

#[test]
fn call_of_the_x32_interface_kills() {
    let code = "import ctypes; ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 + 39))";
    let json = TestHome::new(PYTHON).json(code, &[]);
    assert_eq!((&json["outcome"], &json["exit_code"]), (&"crashed".into(), &(128 + 31).into()));
}

#[test]
fn host_files_are_invisible() {
    let home = TestHome::new(PYTHON);
    let token = format!("canary-{}-{}", unique_name(), std::process::id());
    let places = ["/root", "/home", "/tmp", "/var", "/var/tmp", "/opt", "/srv", "/mnt"];
    let canaries: Vec<PathBuf> = places
        .iter()
        .map(|place| Path::new(place).join(&token))
        .filter(|path| std::fs::write(path, &token).is_ok())
        .collect();
    assert!(canaries.len() >= 2, "{canaries:?}");
    let code = format!(
        "import os\n\
         for root, folders, files in os.walk('/'):\n  \
         if root.startswith('/proc/'): folders.clear(); continue\n  \
         for name in files + folders:\n    if {token:?} in name: print(root, name)\n\
         for place in {places:?}:\n  \
         if os.path.lexists(place + '/' + {token:?}): print(place)\n\
         print('done')"
    );
    let ran = home.run_with_stdin(&[], code.as_bytes());
    for canary in canaries {
        std::fs::remove_file(canary).unwrap();
    }
    assert_eq!(ran.stdout, "done\n", "{}", ran.stderr);
}

#[test]
fn host_variables_are_not_inherited() {
    let home = TestHome::new(PYTHON);
    let code = "import os, glob\n\
                print(os.environ.get('CANARY'))\n\
                for path in glob.glob('/proc/[0-9]*/environ'):\n  \
                try: print('canary' in open(path).read())\n  \
                except PermissionError: print('hidden')";
    let mut command = home.command();
    let ran = crate::harness::finish(command.env("CANARY", "canary").args(["-c", code]));
    let lines: BTreeSet<&str> = ran.stdout.lines().collect();
    assert_eq!(lines, BTreeSet::from(["None", "False", "hidden"]), "{}", ran.stderr);
}

/// As of a program that `nohup` has started in the background of a script.
#[test]
fn ignored_signals_are_not_inherited() {
    let home = TestHome::new(PYTHON);
    let code = "import signal\n\
                print([int(signal.getsignal(number)) for number in (1, 3, 15)])\n\
                import subprocess\n\
                print(subprocess.call(['sh', '-c', 'kill -HUP $$']))";
    let plain = home.command();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' HUP QUIT TERM; exec \"$0\" \"$@\""]).arg(plain.get_program());
    command.args(plain.get_args()).args(["-c", code]).current_dir(home.working_directory());
    command.env("SILICA_HOME", home.path()).stdin(std::process::Stdio::null());
    let ran = crate::harness::finish(&mut command);
    assert_eq!(ran.stdout, "[0, 0, 0]\n-1\n", "{}", ran.stderr);
}

#[test]
fn host_listeners_cannot_be_reached() {
    let home = TestHome::new(PYTHON);
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = unique_name();
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let local = UnixListener::bind_addr(&address).unwrap();
    tcp.set_nonblocking(true).unwrap();
    local.set_nonblocking(true).unwrap();
    let code = format!(
        "import socket\n\
         for family, address in [(2, ('127.0.0.1', {0})), (2, ('10.0.0.1', {0})), (2, ('8.8.8.8', 53)), \
         (10, ('::1', {0})), (1, '\\0{name}')]:\n  \
         s = socket.socket(family); s.settimeout(2)\n  \
         try: s.connect(address); print('reached', address)\n  \
         except OSError as error: print(error.errno)\n\
         try: print(socket.getaddrinfo('example.com', 80))\n\
         except OSError: print('no name')\n",
        tcp.local_addr().unwrap().port()
    );
    let ran = home.run_with_stdin(&[], code.as_bytes());
    assert_eq!(ran.stdout, "111\n101\n101\n111\n111\nno name\n", "{}", ran.stderr);
    assert!(tcp.accept().is_err() && local.accept().is_err());
}

#[test]
fn nothing_of_the_guests_is_left_executable_with_rights() {
    let code = "import os, stat\n\
                open('/tmp/s', 'w').write('x'); os.chmod('/tmp/s', 0o6755)\n\
                found = []\n\
                for place in ('/usr/bin', '/usr/sbin', '/bin', '/sbin'):\n  \
                for name in os.listdir(place) if os.path.isdir(place) else ():\n    \
                s = os.stat(os.path.join(place, name)) if os.path.exists(os.path.join(place, name)) else None\n    \
                if s and s.st_mode & stat.S_ISUID: found.append((name, s.st_uid))\n\
                print(all(uid != 1000 for _, uid in found))\n\
                import subprocess\n\
                print(subprocess.run(['su', '-c', 'id'], capture_output=True, stdin=-3).returncode != 0)";
    let ran = TestHome::new(PYTHON).run(&["-c", code]);
    assert_eq!(ran.stdout, "True\nTrue\n", "{}", ran.stderr);
}

/// Two sandboxes of one engine.
async fn pair(home: &TestHome, origin: KernelOrigin) -> (TestEngine, LiveSandbox, LiveSandbox) {
    let engine = home.engine().await;
    let mut one = engine.create(&home.options(origin)).await.unwrap();
    let mut other = engine.create(&home.options(origin)).await.unwrap();
    one.ready().await.unwrap();
    other.ready().await.unwrap();
    (engine, one, other)
}

#[tokio::test]
async fn two_sandboxes_have_their_own_host_user() {
    let home = TestHome::new(PYTHON);
    let (engine, mut one, mut other) = pair(&home, KernelOrigin::Warm).await;
    let mut users = BTreeSet::new();
    for sandbox in [&mut one, &mut other] {
        let marker = unique_name();
        print(sandbox, &name_process(&marker)).await;
        let found = processes_with(&marker);
        assert_eq!(found.len(), 1);
        let uid = status_of(found[0].pid, "Uid");
        let ids: BTreeSet<&str> = uid.split_whitespace().collect();
        assert_eq!(ids.len(), 1, "{uid}");
        let id: u32 = ids.into_iter().next().unwrap().parse().unwrap();
        assert!(id > 100_000, "{id} is a user of the host");
        assert_eq!(status_of(found[0].pid, "Groups"), "");
        users.insert(id);
    }
    assert_eq!(users.len(), 2);
    drop((one, other));
    engine.close().await;
}

/// What one sandbox does, and what the other then sees of it.
const CROSSINGS: [(&str, &str, &str, &str); 8] = [
    (
        "flock",
        "import fcntl, os; l = open(os.__file__); fcntl.flock(l, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "import fcntl, os; l = open(os.__file__); fcntl.flock(l, fcntl.LOCK_EX | fcntl.LOCK_NB); print('free')",
        "free",
    ),
    (
        "flock of /etc",
        "import fcntl; e = open('/etc/passwd'); fcntl.flock(e, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "import fcntl; e = open('/etc/passwd'); fcntl.flock(e, fcntl.LOCK_EX | fcntl.LOCK_NB); print('free')",
        "free",
    ),
    (
        "files",
        "for p in ('/tmp', '/workspace', '/home/user', '/dev/shm'): open(p + '/mine', 'w').write('x')",
        "import os; print([p for p in ('/tmp', '/workspace', '/home/user', '/dev/shm') if os.listdir(p)])",
        "[]",
    ),
    (
        "abstract sockets",
        "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0meet'); s.listen()",
        "import socket; print(socket.socket(socket.AF_UNIX).connect_ex('\\0meet'))",
        "111",
    ),
    (
        "loopback",
        "import socket; t = socket.create_server(('127.0.0.1', 7777))",
        "import socket; print(socket.socket().connect_ex(('127.0.0.1', 7777)))",
        "111",
    ),
    (
        "shared memory",
        "from multiprocessing import shared_memory; m = shared_memory.SharedMemory('meet', True, 10)",
        "from multiprocessing import shared_memory\n\
         try: shared_memory.SharedMemory('meet'); print('crossed')\n\
         except FileNotFoundError: print('absent')",
        "absent",
    ),
    (
        "inotify",
        "import os; [open(os.__file__).read() for _ in range(3)]; None",
        "import ctypes, os; print(ctypes.CDLL(None).inotify_init())",
        "-1",
    ),
    (
        "processes",
        "import subprocess; p = subprocess.Popen(['sleep', '50'])",
        "import os; print(sum(n.isdigit() for n in os.listdir('/proc')))",
        "2",
    ),
];

async fn check_crossings(origin: KernelOrigin) {
    let home = TestHome::new(PYTHON);
    let (engine, mut one, mut other) = pair(&home, origin).await;
    for (name, act, look, expected) in CROSSINGS {
        print(&mut one, act).await;
        assert_eq!(print(&mut other, look).await, expected, "{name}");
    }
    drop((one, other));
    engine.close().await;
}

#[tokio::test]
async fn nothing_crosses_between_forks() {
    check_crossings(KernelOrigin::Warm).await;
}

#[tokio::test]
async fn nothing_crosses_between_fresh_interpreters() {
    check_crossings(KernelOrigin::Fresh).await;
}

#[tokio::test]
async fn one_sandbox_cannot_signal_another() {
    let home = TestHome::new(PYTHON);
    let (engine, mut one, mut other) = pair(&home, KernelOrigin::Warm).await;
    print(&mut other, "kept = 1").await;
    let code = "import os\n\
                for pid in range(2, 100_000):\n  \
                if pid == os.getpid(): continue\n  \
                try: os.kill(pid, 9); print('killed', pid)\n  \
                except ProcessLookupError: pass";
    assert_eq!(print(&mut one, code).await, "");
    assert_eq!(print(&mut other, "print(kept)").await, "1");
    drop((one, other));
    engine.close().await;
}

#[tokio::test]
async fn host_sees_no_guest_process_with_a_capability() {
    let home = TestHome::new(PYTHON);
    let (engine, mut one, _other) = pair(&home, KernelOrigin::Warm).await;
    let marker = unique_name();
    let code = format!(
        "import subprocess\np = subprocess.Popen(['sleep', '50'], env={{'MARK': {marker:?}}})\n{}",
        name_process(&marker)
    );
    let report = cell(&mut one, &code, &silica_domain::Limits::default()).await;
    assert_eq!(report.outcome, Outcome::Ok, "{}", text(&report.stderr));
    assert!(eventually_async(Duration::from_secs(5), || processes_with(&marker).len() == 2).await);
    for process in processes_with(&marker) {
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(status_of(process.pid, set), "0000000000000000", "{set}");
        }
        assert_eq!(status_of(process.pid, "NoNewPrivs"), "1");
        assert_eq!(status_of(process.pid, "Seccomp"), "2");
    }
    drop(one);
    engine.close().await;
}

#[tokio::test]
async fn containment_says_what_is_not_enforced() {
    let home = TestHome::new(PYTHON);
    for (cgroups, unique_ids) in [(true, true), (false, true), (true, false), (false, false)] {
        let policy = silica_engine::ZygotePolicy::default();
        let engine = home.engine_with(policy, UseOfHost { cgroups, unique_ids }).await;
        let states: BTreeMap<&str, bool> = engine
            .containment()
            .measures
            .iter()
            .map(|measure| (measure.name, matches!(measure.enforcement, Enforcement::Full(_))))
            .collect();
        let case = format!("groups {cgroups}, ids {unique_ids}: {states:?}");
        assert_eq!(states["user_id"], unique_ids, "{case}");
        for measure in ["memory", "cpu_share", "cpu_time"] {
            assert_eq!(states[measure], cgroups, "{measure} {case}");
        }
        for measure in ["namespaces", "root", "network", "capabilities", "seccomp", "disk"] {
            assert!(states[measure], "{measure} {case}");
        }
        for origin in [KernelOrigin::Warm, KernelOrigin::Fresh] {
            let mut sandbox = engine.create(&home.options(origin)).await.unwrap();
            let found: Value = serde_json::from_str(&print(&mut sandbox, INSPECTOR).await).unwrap();
            assert_eq!(
                found["seen"]["uid"],
                serde_json::json!([1000, 1000, 1000, 1000, 1000, 1000]),
                "{case}"
            );
            assert_eq!(found["seen"]["Seccomp"], "2", "{case}");
            sandbox.destroy().await.unwrap();
        }
        engine.close().await;
        assert!(home.groups().is_empty(), "{case}");
    }
}
