//! The binary without any privilege: less can be enforced, what is missing is said, nothing is left.
//!
//! Where the tests run as root the binary is started as another user; else it is run as it is.

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use silica_engine::{
    CommandExit, CommandSpec, CreateOptions, GuestPrefix, GuestSocket, KernelOrigin, TerminalSize,
    ZygotePolicy,
};

use crate::engine::{branching, commands, sockets};
use crate::harness::{
    CommandOutput, EVERYTHING, GONE_WITHIN, PYTHON, SILICA, TIMEOUT, TestHome, collect,
    descendants, eventually, finish, first_line, name_process, print, processes_with, signal,
    slowness, start, start_engine, unique_name,
};

const USER: u32 = 12345;

/// A data directory that belongs to the ordinary user.
fn home() -> TestHome {
    let home = TestHome::new(PYTHON);
    if rustix::process::geteuid().is_root() {
        // The guest's layer is written by the user; the templates are only read.
        std::fs::remove_file(home.path().join("guest")).unwrap();
        for path in [home.path().to_owned(), home.working_directory()] {
            chown(path, Some(USER), Some(USER)).unwrap();
        }
    }
    home
}

/// A program to be run as the ordinary user.
fn as_ordinary_user(program: &str) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=12345", "--regid=12345", "--clear-groups", "--inh-caps=-all", program]);
    command
}

fn command(home: &TestHome) -> Command {
    let mut command = as_ordinary_user(SILICA);
    command
        .args(["run", "--template", PYTHON])
        .env("SILICA_HOME", home.path())
        .env("HOME", home.path())
        .current_dir(home.working_directory())
        .stdin(Stdio::null());
    command
}

fn run(home: &TestHome, arguments: &[&str]) -> CommandOutput {
    finish(command(home).args(arguments))
}

fn state<'a>(json: &'a Value, measure: &str) -> &'a str {
    json["containment"]["measures"][measure]["state"].as_str().unwrap()
}

#[test]
fn code_runs_and_containment_tells_the_truth() {
    let home = home();
    let code = "import os; print(os.getuid(), os.getcwd()); 2 + 2";
    let ran = run(&home, &["--json", "-c", code]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let json = ran.json();
    assert_eq!(json["stdout"], "1000 /workspace\n");
    assert_eq!(json["results"][0]["data"]["text/plain"], "4");
    assert_eq!(state(&json, "user_id"), "partial");
    for measure in ["namespaces", "root", "network", "capabilities", "seccomp", "disk"] {
        assert_eq!(state(&json, measure), "full", "{measure}");
    }
    // Whether groups are delegated is the host's to say; here they are not, or they are used.
    let delegated = !silica_can_make_groups(&home).is_empty();
    for (measure, otherwise) in
        [("memory", "partial"), ("cpu_share", "missing"), ("cpu_time", "partial")]
    {
        let expected = if delegated { "full" } else { otherwise };
        assert_eq!(state(&json, measure), expected, "{json:#}");
    }
    assert_eq!(json["usage"]["memory_peak_bytes"].is_null(), !delegated);
}

/// The groups that a run of the ordinary user recorded as its own.
fn silica_can_make_groups(home: &TestHome) -> Vec<String> {
    let record = std::fs::read_to_string(home.path().join("run/zone-0.lock")).unwrap();
    serde_json::from_str(&record).unwrap()
}

#[test]
fn limits_hold_without_groups() {
    let home = home();
    // Without a group the interpreter's own start counts.
    let seconds = slowness().to_string();
    for (arguments, code, outcomes, limit) in [
        (["--memory", "128M"], "x = b'x' * (500 << 20)", ["raised", "out_of_memory"], "memory"),
        (["--cpu-seconds", &seconds], "while True: pass", ["cpu_exceeded", "cpu_exceeded"], "cpu"),
        (["--timeout", "500ms"], "import time; time.sleep(50)", ["timed_out", "timed_out"], "wall"),
        (
            ["--processes", "16"],
            "import os, time\nwhile True:\n  if os.fork() == 0: time.sleep(50)",
            ["raised", "raised"],
            "processes",
        ),
        (
            ["--disk", "1M"],
            "open('/tmp/a', 'wb').write(b'x' * (2 << 20))",
            ["raised", "raised"],
            "disk",
        ),
    ] {
        let mut all = vec!["--json", "-c", code];
        all.extend(arguments);
        let json = run(&home, &all).json();
        let outcome = json["outcome"].as_str().unwrap();
        assert!(outcomes.contains(&outcome), "{limit}: {json:#}");
        assert_eq!(json["limits_hit"][0]["limit"], limit, "{json:#}");
    }
}

#[test]
fn fork_bomb_is_stopped() {
    let home = home();
    let marker = unique_name();
    let code = format!(
        "{}\nimport os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
        name_process(&marker)
    );
    std::fs::write(home.working_directory().join("bomb.py"), code).unwrap();
    let ran = run(&home, &["--json", "--timeout", "1", "--processes", "32", "bomb.py"]);
    assert_eq!(ran.json()["outcome"], "timed_out", "{ran:?}");
    assert_eq!(processes_with(&marker), []);
}

#[test]
fn inputs_and_outputs_work() {
    let home = home();
    let here = home.working_directory();
    std::fs::write(here.join("in.txt"), "from the host").unwrap();
    std::fs::create_dir(here.join("folder")).unwrap();
    std::fs::write(here.join("folder/leaf"), "leaf").unwrap();
    let code = "text = open('/data/input/in.txt').read() + open('/data/input/folder/leaf').read()\n\
                open('out.txt', 'w').write(text.upper())\n\
                try: open('/data/input/in.txt', 'a'); print('changed')\n\
                except OSError as error: print(error.errno in (1, 13, 30))";
    let files = ["--in", "in.txt", "--in", "folder", "--out", "out.txt"];
    let ran = run(&home, &[&["-c", code], files.as_slice()].concat());
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "True\n"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(here.join("out.txt")).unwrap(), "FROM THE HOSTLEAF");
}

#[test]
fn file_that_the_user_may_not_read_stays_unread() {
    let home = home();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let secret = home.working_directory().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    let code = "print(open('/data/input/secret').read())";
    let ran = run(&home, &["--in", "secret", "-c", code]);
    assert_ne!(ran.status, 0);
    assert!(!ran.stdout.contains("secret"), "{ran:?}");
}

#[test]
fn host_is_as_invisible_as_with_privilege() {
    let home = home();
    let token = unique_name();
    let canary = std::path::Path::new("/tmp").join(&token);
    std::fs::write(&canary, "").unwrap();
    let code = format!(
        "import os, socket\n\
         print(any({token:?} in f + d for _, d, f in os.walk('/') for f in [' '.join(f)] for d in [' '.join(d)]))\n\
         print(os.path.exists('/host'), open('/proc/self/uid_map').read().split()[0])\n\
         print([l.split(':')[0].strip() for l in open('/proc/self/net/dev') if ':' in l])"
    );
    let mut command = command(&home);
    let mut child = start(command.stdin(Stdio::piped()));
    child.stdin.take().unwrap().write_all(code.as_bytes()).unwrap();
    let ran = collect(child);
    std::fs::remove_file(canary).unwrap();
    assert_eq!(ran.stdout, "False\nFalse 1000\n['lo']\n", "{}", ran.stderr);
}

#[test]
fn killed_run_leaves_nothing() {
    let home = home();
    let marker = unique_name();
    let code = format!(
        "import subprocess, time\n{}\n\
         subprocess.Popen(['sleep', '500'], env={{'MARK': {marker:?}}}, start_new_session=True)\n\
         print('up')\ntime.sleep(500)",
        name_process(&marker)
    );
    let mut command = command(&home);
    let mut child = start(command.stdin(Stdio::piped()));
    child.stdin.take().unwrap().write_all(code.as_bytes()).unwrap();
    let (line, _stdout) = first_line(&mut child);
    assert_eq!(line, "up");
    assert!(eventually(TIMEOUT, || processes_with(&marker).len() == 2));
    assert!(descendants(child.id()).len() >= 5);
    signal(child.id(), Signal::KILL);
    assert!(
        eventually(GONE_WITHIN, || processes_with(&marker).is_empty()),
        "{:?}",
        processes_with(&marker)
    );
    collect(child);
    assert_eq!(run(&home, &["-c", "print(2 + 2)"]).stdout, "4\n");
}

/// Says to this very test, started again as the ordinary user, where its data directory is.
const HOME_VARIABLE: &str = "SILICA_TEST_ORDINARY_HOME";

/// Runs `part` in this very test, started again as the ordinary user: an engine lives in the process
/// that starts it, so the test does both parts.
fn again_as_ordinary_user<Part: Future<Output = ()>>(
    name: &str,
    part: impl FnOnce(std::path::PathBuf) -> Part,
) {
    if let Some(home) = std::env::var_os(HOME_VARIABLE) {
        assert!(!rustix::process::geteuid().is_root());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(part(home.into()));
        return;
    }
    let home = home();
    let test = std::env::current_exe().unwrap();
    let mut again = as_ordinary_user(test.to_str().unwrap());
    again.args(["--exact", name, "--nocapture"]).env(HOME_VARIABLE, home.path());
    let ran = finish(again.current_dir(home.working_directory()));
    assert!(ran.status == 0 && ran.stdout.contains("1 passed"), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn commands_and_terminals_work() {
    again_as_ordinary_user("jail::ordinary_user::commands_and_terminals_work", use_commands);
}

#[test]
fn sockets_of_the_host_work() {
    again_as_ordinary_user("jail::ordinary_user::sockets_of_the_host_work", use_sockets);
}

/// Opens listeners on ports that only the zone may bind to, ranges, and a socket to connect.
async fn use_sockets(home: std::path::PathBuf) {
    let engine = start_engine(&home, PYTHON, ZygotePolicy::default(), EVERYTHING).await;
    let options = CreateOptions { kernel: KernelOrigin::Fresh, ..CreateOptions::new(PYTHON) };
    let mut sandbox = engine.create(&options).await.unwrap();
    let any = std::net::Ipv4Addr::UNSPECIFIED;
    let address = std::net::SocketAddrV4::new(any, 443);
    let range = GuestPrefix::new([93, 184, 215, 0].into(), 24).unwrap();
    let sockets = [GuestSocket::Listener { address, backlog: 4 }, GuestSocket::Stream];
    let mut opened = sandbox.open_sockets(&sockets, &[range]).await.unwrap().into_iter();
    let listener = tokio::net::TcpListener::from_std(opened.next().unwrap().into()).unwrap();
    for address in ["127.0.0.1", "198.18.4.4", "93.184.215.14"] {
        let text = sockets::fetched(&mut sandbox, &listener, address).await;
        assert_eq!(text, format!("{address}:443"));
    }
    let unbound = tokio::net::TcpSocket::from_std_stream(opened.next().unwrap().into());
    assert!(unbound.connect("127.0.0.1:443".parse().unwrap()).await.is_ok());
    sandbox.destroy().await.unwrap();
    engine.close().await;
}

#[test]
fn live_sandboxes_are_copied() {
    again_as_ordinary_user("jail::ordinary_user::live_sandboxes_are_copied", use_copies);
}

async fn use_copies(home: std::path::PathBuf) {
    let engine = start_engine(&home, PYTHON, ZygotePolicy::default(), EVERYTHING).await;
    engine.warm(PYTHON).await.unwrap();
    let mut sandbox = engine.create(&CreateOptions::new(PYTHON)).await.unwrap();
    sandbox.ready().await.unwrap();
    print(&mut sandbox, "x = {'a': [1]}; open('notes', 'w').write('kept')").await;
    let mut twins = branching::twins(&engine, &mut sandbox, 3).await;
    for twin in &mut twins {
        print(twin, "x['a'].append(2)").await;
        assert_eq!(print(twin, "print(x, open('notes').read())").await, "{'a': [1, 2]} kept");
        twin.destroy().await.unwrap();
    }
    assert_eq!(print(&mut sandbox, "print(x)").await, "{'a': [1]}");
    sandbox.destroy().await.unwrap();
    engine.close().await;
}

async fn use_commands(home: std::path::PathBuf) {
    let engine = start_engine(&home, PYTHON, ZygotePolicy::default(), EVERYTHING).await;
    let options = CreateOptions { kernel: KernelOrigin::Fresh, ..CreateOptions::new(PYTHON) };
    let mut sandbox = engine.create(&options).await.unwrap();
    sandbox.ready().await.unwrap();
    assert_eq!(commands::printed(&sandbox, "id -u; pwd").await, "1000\n/workspace");
    let terminal = Some(TerminalSize { rows: 10, columns: 20 });
    let spec = CommandSpec { terminal, ..sandbox.shell_line("tty; stty size") };
    let outcome = commands::collect(&mut sandbox.start_command(&spec).await.unwrap()).await;
    assert_eq!(outcome.stdout, "/dev/pts/0\r\n10 20\r\n", "{outcome:?}");
    let command = commands::start(&sandbox, "sleep 1000 & sleep 1000").await;
    command.handle().signal(15).await.unwrap();
    assert_eq!(commands::end(&command).await.exit, CommandExit::Signal(15));
    let command = commands::start(&sandbox, "sleep 1000").await;
    sandbox.destroy().await.unwrap();
    assert_eq!(commands::end(&command).await.exit, CommandExit::SandboxDied);
    engine.close().await;
}
