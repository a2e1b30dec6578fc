//! Guests that do what they should not, and the engine that goes on as if nothing had been.

use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use silica_domain::{LimitValues, Limits};
use silica_engine::KernelOrigin;

use crate::harness::{
    PYTHON, TestHome, assert_works, cell, eventually_async, name_process, processes_with, text,
    unique_name,
};

/// Runs each piece of code in a sandbox of its own, on one engine, under a second on the clock; after
/// each the engine must still work. Compares how they ended.
async fn check(cases: &[(&str, &str)], expected: Expect) {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let values = LimitValues {
        wall: Duration::from_secs(1),
        memory_bytes: 96 << 20,
        disk_bytes: 32 << 20,
        processes: 32,
        ..LimitValues::default()
    };
    let limits = engine.check_limits(&values).unwrap();
    let options = home.options(KernelOrigin::Warm);
    let mut table = String::new();
    for (name, code) in cases {
        let mut sandbox = engine
            .create(&silica_engine::CreateOptions { limits: values.clone(), ..options.clone() })
            .await
            .unwrap();
        sandbox.ready().await.unwrap();
        let started = Instant::now();
        let report = cell(&mut sandbox, code, &limits).await;
        let took = started.elapsed();
        assert!(took < Duration::from_secs(6), "{name} took {took:?}");
        let hit: Vec<&str> = report.limits_hit.iter().map(|hit| hit.limit.name()).collect();
        let error = report.error.as_ref().map_or("", |error| &error.name);
        let error: String = error.chars().take(40).collect();
        table += format!("{name}: {:?} {error} {}", report.outcome, hit.join(" ")).trim_end();
        table.push('\n');
        sandbox.destroy().await.unwrap();
        assert_works(&engine, &options).await;
    }
    engine.close().await;
    expected.assert_eq(&table);
}

#[tokio::test]
async fn descriptors_closed_under_the_interpreter() {
    check(
        &[
            ("stdout", "import os; os.close(1)"),
            ("stderr", "import os; os.close(2)"),
            ("stdin", "import os; os.close(0); 1"),
            ("control", "import os; os.close(3)"),
            ("all", "import os; os.closerange(0, 100)"),
            ("control, then on", "import os, time; os.close(3); time.sleep(50)"),
            ("control replaced", "import os; os.dup2(1, 3)"),
        ],
        expect![[r"
            stdout: Ok
            stderr: Ok
            stdin: Ok
            control: Vanished(120)
            all: Vanished(120)
            control, then on: Disconnected
            control replaced: Vanished(120)
        "]],
    )
    .await;
}

#[tokio::test]
async fn nonsense_on_the_control_socket() {
    check(
        &[
            ("noise", "import os; os.write(3, b'\\xff' * 64)"),
            ("huge head", "import os, struct; os.write(3, struct.pack('<II', 0xffffffff, 0))"),
            ("huge body", "import os, struct; os.write(3, struct.pack('<II', 2, 0xffffffff) + b'{}')"),
            ("no object", "import os, struct; os.write(3, struct.pack('<II', 4, 0) + b'null')"),
            ("no JSON", "import os, struct; os.write(3, struct.pack('<II', 4, 0) + b'{{{{')"),
            (
                "deep",
                "import os, struct; d = b'[' * 50000; os.write(3, struct.pack('<II', len(d), 0) + d)",
            ),
            (
                "unknown type",
                "import os, struct; d = b'{\"type\":\"x\"}'; os.write(3, struct.pack('<II', len(d), 0) + d)",
            ),
            (
                "second hello",
                "import os, struct; d = b'{\"type\":\"hello\",\"version\":1}'\n\
                 os.write(3, struct.pack('<II', len(d), 0) + d)",
            ),
            ("half a frame", "import os, time; os.write(3, b'\\x10\\0'); time.sleep(50)"),
            ("read what is for it", "import os, time; os.set_blocking(3, False)\ntime.sleep(50)"),
        ],
        expect![[r"
            noise: Disconnected
            huge head: Disconnected
            huge body: Disconnected
            no object: Disconnected
            no JSON: Disconnected
            deep: Disconnected
            unknown type: Disconnected
            second hello: Disconnected
            half a frame: TimedOut  wall
            read what is for it: TimedOut KeyboardInterrupt wall
        "]],
    )
    .await;
}

#[tokio::test]
async fn output_without_end() {
    check(
        &[
            ("prints", "while True: print('x' * 1000)"),
            ("writes", "import os\nwhile True: os.write(2, b'x' * 65536)"),
            ("a child writes", "import subprocess; subprocess.run(['yes'])"),
            (
                "a child writes on",
                "import os, subprocess, time\n\
                 subprocess.Popen(['sh', '-c', 'yes | head -c 9000000; touch /tmp/much; exec yes'])\n\
                 while not os.path.exists('/tmp/much'): time.sleep(0.01)",
            ),
            ("shows", "while True: display('x' * 1000)"),
        ],
        expect![[r"
            prints: TimedOut KeyboardInterrupt wall output
            writes: TimedOut KeyboardInterrupt wall output
            a child writes: TimedOut KeyboardInterrupt wall output
            a child writes on: Ok  output
            shows: TimedOut KeyboardInterrupt wall results
        "]],
    )
    .await;
}

#[tokio::test]
async fn processes_out_of_hand() {
    check(
        &[
            (
                "fork bomb",
                "import os, signal\nsignal.signal(2, signal.SIG_IGN)\nwhile True:\n  try: os.fork()\n  except OSError: pass",
            ),
            (
                "shell bomb",
                "import subprocess; subprocess.run(['bash', '-c', ':(){ :|:& };:; sleep 50'])",
            ),
            ("stops itself", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"),
            ("kills init", "import os; os.kill(1, 9)"),
            ("kills all others", "import os; os.kill(-1, 9)"),
            ("terminates init", "import os\nfor s in range(1, 65): os.kill(1, s)"),
            ("forks and both go on", "import os; os.fork(); None"),
            ("child exits", "import os, sys\nif os.fork() == 0: sys.exit(3)\nos.wait()"),
            ("child dies", "import os\nif os.fork() == 0: os.abort()\nos.wait(); None"),
            ("executes", "import os; os.execv('/bin/true', ['true'])"),
            ("executes, goes on", "import os; os.execv('/bin/sleep', ['sleep', '50'])"),
            ("becomes leader", "import os\ntry: os.setsid()\nexcept PermissionError: pass"),
        ],
        expect![[r"
            fork bomb: TimedOut  wall processes
            shell bomb: TimedOut KeyboardInterrupt wall processes
            stops itself: TimedOut  wall
            kills init: Ok
            kills all others: Raised ProcessLookupError
            terminates init: Ok
            forks and both go on: Ok
            child exits: Ok
            child dies: Ok
            executes: Vanished(0)
            executes, goes on: Disconnected
            becomes leader: Ok
        "]],
    )
    .await;
}

#[tokio::test]
async fn memory_and_files_out_of_hand() {
    check(
        &[
            ("tmpfs", "f = open('/tmp/a', 'wb')\nwhile True: f.write(b'x' * 65536)"),
            ("shm", "f = open('/dev/shm/a', 'wb')\nwhile True: f.write(b'x' * 65536)"),
            ("memfd", "import os\nf = os.memfd_create('a')\nwhile True: os.write(f, b'x' * 65536)"),
            ("tmpfs and heap", "open('/tmp/a', 'wb').write(b'x' * (30 << 20)); x = b'x' * (80 << 20)"),
            ("recursion", "import sys; sys.setrecursionlimit(10**9)\ndef f(): return f()\nf()"),
            ("exhausts pipes", "import os\np = []\nwhile True: p.append(os.pipe())"),
            (
                "pipes hold memory",
                "import os, fcntl\np = []\nwhile True:\n  p.append(os.pipe()); os.set_blocking(p[-1][1], False)\n  os.write(p[-1][1], b'x' * 65536)",
            ),
        ],
        expect![[r"
            tmpfs: Raised OSError disk
            shm: Raised OSError disk
            memfd: OutOfMemory  memory
            tmpfs and heap: OutOfMemory  memory
            recursion: OutOfMemory  memory
            exhausts pipes: Raised OSError open_files
            pipes hold memory: Raised OSError open_files
        "]],
    )
    .await;
}

#[tokio::test]
async fn words_that_cannot_be_said() {
    check(
        &[
            ("prints a surrogate", "print('\\ud800')"),
            ("raises a surrogate", "raise ValueError('\\ud800')"),
            ("shows a surrogate", "'\\ud800'"),
            ("exits with words", "import sys; sys.exit('\\ud800')"),
            ("text that raises", "class E(Exception):\n  def __str__(self): return 1 / 0\nraise E"),
            ("repr that raises", "class C:\n  def __repr__(self): return 1 / 0\nC()"),
            ("repr that leaves", "import os\nclass C:\n  def __repr__(self): os._exit(7)\nC()"),
            ("repr without end", "class C:\n  def __repr__(self):\n    while True: pass\nC()"),
            ("exit status", "import sys; sys.exit(2 ** 70)"),
            ("long message", "raise ValueError('x' * 5_000_000)"),
            ("long name", "raise type('N' * 3_000_000, (Exception,), {})"),
            ("deep traceback", "def f(n): return f(n - 1) if n else 1 / 0\nf(900)"),
        ],
        expect![[r"
            prints a surrogate: Ok
            raises a surrogate: Raised ValueError
            shows a surrogate: Ok
            exits with words: Exited(1)
            text that raises: Raised E
            repr that raises: Ok
            repr that leaves: Vanished(7)
            repr without end: TimedOut KeyboardInterrupt wall
            exit status: Exited(0)
            long message: Raised ValueError
            long name: Raised NNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNNN
            deep traceback: Raised ZeroDivisionError
        "]],
    )
    .await;
}

#[tokio::test]
async fn interpreter_taken_apart() {
    check(
        &[
            ("no modules", "import sys; sys.modules.clear()"),
            ("no builtins", "import builtins; builtins.__dict__.clear()"),
            ("no stdout", "import sys; sys.stdout = sys.stderr = None; print(1)"),
            ("no JSON", "import json; json.dumps = json.loads = None; 1"),
            ("no os", "import os; os.read = os.write = os._exit = None; 1"),
            ("no socket", "import socket; socket.socket = None; 1"),
            ("signals blocked", "import signal; signal.pthread_sigmask(2, range(1, 65))"),
            ("exit hook", "import atexit; atexit.register(lambda: print('bye')); None"),
            ("settrace", "import sys; sys.settrace(lambda *_: 1 / 0); x = len('')"),
        ],
        expect![[r"
            no modules: Ok
            no builtins: Vanished(120)
            no stdout: Ok
            no JSON: Ok
            no os: Vanished(1)
            no socket: Ok
            signals blocked: Ok
            exit hook: Ok
            settrace: Raised ZeroDivisionError
        "]],
    )
    .await;
}

#[tokio::test]
async fn daemon_dies_with_its_sandbox() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let options = home.options(KernelOrigin::Warm);
    let mut sandbox = engine.create(&options).await.unwrap();
    let marker = unique_name();
    let code = format!(
        "import os, signal, time\n\
         if os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    os.closerange(0, 64)\n    \
         for s in range(1, 65):\n      try: signal.signal(s, signal.SIG_IGN)\n      except (OSError, ValueError): pass\n    \
         {}\n    time.sleep(500)\n  os._exit(0)\nos.wait(); None",
        name_process(&marker)
    );
    let report = cell(&mut sandbox, &code, &Limits::default()).await;
    assert_eq!(report.outcome, silica_domain::Outcome::Ok, "{}", text(&report.stderr));
    assert!(
        eventually_async(Duration::from_secs(5), || processes_with(&marker).len() == 1).await,
        "it never lived"
    );
    sandbox.destroy().await.unwrap();
    assert_eq!(processes_with(&marker), [], "destroy returned before everything was gone");
    assert_works(&engine, &options).await;
    engine.close().await;
}

#[tokio::test]
async fn thread_that_prints_on_does_not_hold_up_the_next_cell() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let mut sandbox = engine.create(&home.options(KernelOrigin::Warm)).await.unwrap();
    let code = "import threading, time\n\
                def on():\n  while True:\n    print('on'); time.sleep(0.001)\n\
                threading.Thread(target=on, daemon=True).start()";
    let limits = Limits::default();
    let report = cell(&mut sandbox, code, &limits).await;
    assert_eq!(report.outcome, silica_domain::Outcome::Ok);
    for _ in 0..3 {
        let report = cell(&mut sandbox, "2 + 2", &limits).await;
        assert_eq!(report.outcome, silica_domain::Outcome::Ok);
        assert_eq!(report.results[0].get("text/plain"), Some(b"4".as_slice()));
    }
    sandbox.destroy().await.unwrap();
    engine.close().await;
}
