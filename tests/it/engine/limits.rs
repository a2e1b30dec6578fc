//! Every limit is reached, has its own outcome, and says how to raise it.

use serde_json::Value;

use crate::harness::{PYTHON, TestHome};

/// Runs code into one limit and checks how it is reported.
fn check(
    arguments: &[&str],
    code: &str,
    outcome: &str,
    status: i32,
    limit: &str,
    flag: &str,
) -> Value {
    let json = TestHome::new(PYTHON).json(code, arguments);
    assert_eq!(json["outcome"], outcome, "{json:#}");
    assert_eq!(json["exit_code"], status, "{json:#}");
    let hits = json["limits_hit"].as_array().unwrap();
    assert_eq!(hits.len(), 1, "{json:#}");
    assert_eq!(hits[0]["limit"], limit);
    let message = hits[0]["message"].as_str().unwrap();
    assert!(message.ends_with(&format!("(the {limit} limit); raise it with {flag}")), "{message}");
    json
}

const SMALL: [&str; 4] = ["--memory", "64M", "--disk", "16M"];

#[test]
fn memory_that_is_used_kills() {
    let code = "print('before')\nx = b'x' * (300 << 20)\nprint('after')";
    let json = check(&SMALL, code, "out_of_memory", 137, "memory", "--memory");
    assert_eq!(json["stdout"], "before\n");
    assert!(json["usage"]["memory_peak_bytes"].as_u64().unwrap() <= 64 << 20);
}

#[test]
fn memory_of_children_counts() {
    let code = "import subprocess, sys\n\
                print(subprocess.run([sys.executable, '-c', 'b\"x\" * (300 << 20)']).returncode)";
    let json = TestHome::new(PYTHON).json(code, &SMALL);
    assert_eq!((&json["outcome"], &json["stdout"]), (&"ok".into(), &"-9\n".into()), "{json:#}");
    assert_eq!(json["limits_hit"][0]["limit"], "memory");
}

#[test]
fn memory_of_files_counts() {
    let code = "open('/dev/shm/a', 'wb').write(b'x' * (10 << 20))\nx = b'x' * (60 << 20)";
    check(&SMALL, code, "out_of_memory", 137, "memory", "--memory");
}

#[test]
fn memory_that_cannot_be_had_raises() {
    let code = "bytearray(1 << 60)";
    let json = check(&SMALL, code, "raised", 1, "memory", "--memory");
    assert_eq!(json["error"]["name"], "MemoryError");
}

#[test]
fn processor_time_ends_the_code() {
    let json = check(
        &["--cpu-seconds", "1", "--timeout", "30"],
        "while True: pass",
        "cpu_exceeded",
        152,
        "cpu",
        "--cpu-seconds",
    );
    let used = json["usage"]["cpu_ms"].as_f64().unwrap();
    assert!((1000.0..1700.0).contains(&used), "{used}");
}

#[test]
fn processor_time_of_children_counts() {
    let code = "import subprocess, sys\n\
                subprocess.run([sys.executable, '-c', 'while True: pass'])";
    let arguments = ["--cpu-seconds", "1", "--timeout", "30"];
    check(&arguments, code, "cpu_exceeded", 152, "cpu", "--cpu-seconds");
}

#[test]
fn time_on_the_clock_ends_the_code() {
    for code in [
        "import time; time.sleep(50)",
        "import signal, time\nfor s in (2, 15): signal.signal(s, signal.SIG_IGN)\ntime.sleep(50)",
        "import time\nwhile True:\n  try: time.sleep(50)\n  except BaseException: pass",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nsignal.pause()",
        "import subprocess; subprocess.run(['sleep', '50'])",
    ] {
        let json = check(&["--timeout", "0.3"], code, "timed_out", 124, "wall", "--timeout");
        let took = json["duration_ms"].as_f64().unwrap();
        assert!((300.0..1800.0).contains(&took), "{code}: {took}");
    }
}

#[test]
fn share_of_a_processor_is_kept() {
    let arguments = ["--cpus", "0.2", "--timeout", "2"];
    let json = check(&arguments, "while True: pass", "timed_out", 124, "wall", "--timeout");
    let used = json["usage"]["cpu_ms"].as_f64().unwrap();
    let took = json["duration_ms"].as_f64().unwrap();
    // One period more than the share is the kernel's to give.
    assert!(used <= 0.2 * took + 60.0, "{used} of {took} ms");
}

#[test]
fn processes_are_counted() {
    let code = "import os, time\n\
                while True:\n  if os.fork() == 0:\n    time.sleep(30)\n    os._exit(0)";
    let arguments = ["--processes", "16"];
    let json = check(&arguments, code, "raised", 1, "processes", "--processes");
    assert_eq!(json["error"]["name"], "BlockingIOError");
}

#[test]
fn threads_are_counted() {
    let code = "import threading\n\
                while True: threading.Thread(target=threading.Event().wait, daemon=True).start()";
    let arguments = ["--processes", "16"];
    let json = check(&arguments, code, "raised", 1, "processes", "--processes");
    assert_eq!(json["error"]["name"], "RuntimeError");
}

#[test]
fn asked_for_processes_can_be_had() {
    let code = "import os, time\nn = 0\n\
                try:\n  while True:\n    if os.fork() == 0: time.sleep(30)\n    n += 1\n\
                except BlockingIOError: print(n + 1)";
    let json = TestHome::new(PYTHON).json(code, &["--processes", "16"]);
    assert_eq!(json["stdout"], "16\n", "{json:#}");
}

#[test]
fn open_files_are_counted() {
    let code = "files = []\nwhile True: files.append(open('/dev/null'))";
    let arguments = ["--open-files", "32"];
    check(&arguments, code, "raised", 1, "open_files", "--open-files");
}

#[test]
fn disk_is_bounded() {
    for place in ["/workspace", "/home/user", "/tmp", "/dev/shm"] {
        let code = format!("open('{place}/a', 'wb').write(b'x' * (2 << 20))");
        let json = check(&["--disk", "1M"], &code, "raised", 1, "disk", "--disk");
        assert_eq!(json["error"]["name"], "OSError");
    }
}

#[test]
fn number_of_files_is_bounded() {
    let code = "for i in range(10**6): open(f'/tmp/{i}', 'w').close()";
    check(&["--disk", "4M"], code, "raised", 1, "disk", "--disk");
}

#[test]
fn one_file_is_bounded() {
    let code = "open('/tmp/a', 'wb').write(b'x' * (2 << 20))";
    let arguments = ["--file-size", "64K"];
    check(&arguments, code, "raised", 1, "file_size", "--file-size");
}

#[test]
fn head_and_tail_of_each_stream_are_kept() {
    let code = "import sys\n\
                print('HEAD' + 'x' * 100_000 + 'TAIL')\n\
                print('short', file=sys.stderr)";
    let json = check(&["--output", "1K"], code, "ok", 0, "output", "--output");
    let stdout = json["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("HEADxxx") && stdout.ends_with("xxxTAIL\n"), "{stdout}");
    assert!(stdout.contains("\n[… 98985 bytes left out …]\n"), "{stdout}");
    assert_eq!(json["truncated"]["stdout"], 100_009 - 1024);
    assert_eq!((&json["truncated"]["stderr"], &json["stderr"]), (&0.into(), &"short\n".into()));
}

#[test]
fn stderr_has_its_own_allowance() {
    let code = "import sys; print('HEAD' + 'x' * 9000 + 'TAIL', file=sys.stderr); print('short')";
    let json = check(&["--output", "1K"], code, "ok", 0, "output", "--output");
    let stderr = json["stderr"].as_str().unwrap();
    assert!(stderr.starts_with("HEAD") && stderr.ends_with("TAIL\n"), "{stderr}");
    assert_eq!(json["stdout"], "short\n");
}

#[test]
fn live_output_is_marked_where_it_was_cut() {
    let ran = TestHome::new(PYTHON).run(&["--output", "16", "-c", "print('a' * 50 + 'b' * 50)"]);
    assert_eq!(ran.stdout, "aaaaaaaa\n[… 85 bytes left out …]\nbbbbbbb\n");
    assert!(ran.stderr.contains("raise it with --output"), "{}", ran.stderr);
}

#[test]
fn number_of_results_is_bounded() {
    let code = "for i in range(5): display(i)";
    let json = check(&["--results", "2"], code, "ok", 0, "results", "--results");
    assert_eq!(json["results"].as_array().unwrap().len(), 2);
    assert_eq!(json["truncated"]["results"], 3);
}

#[test]
fn bytes_of_results_are_bounded() {
    let code = "display('small')\ndisplay('x' * 100_000)\n";
    let arguments = ["--result-bytes", "1K"];
    let json = check(&arguments, code, "ok", 0, "result_bytes", "--result-bytes");
    assert_eq!(json["results"].as_array().unwrap().len(), 1);
    assert_eq!(json["truncated"]["results"], 1);
}

#[test]
fn limit_that_was_hit_is_said_on_stderr() {
    let ran =
        TestHome::new(PYTHON).run(&["--timeout", "200ms", "-c", "import time; time.sleep(9)"]);
    assert_eq!(ran.status, 124);
    let words =
        "silica: the code ran longer than 0.2 s (the wall limit); raise it with --timeout\n";
    assert!(ran.stderr.ends_with(words), "{}", ran.stderr);
    assert!(!ran.stderr.contains("silica_guest"), "{}", ran.stderr);
}
