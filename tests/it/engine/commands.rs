//! Commands beside a kernel: streams, ends, signals, errors, and what they may do.

use std::collections::BTreeMap;
use std::time::Duration;

use silica_domain::LimitValues;
use silica_engine::{
    COMMANDS_MAX, CommandEnd, CommandError, CommandEvent, CommandExit, CommandProcess, CommandSpec,
    CreateOptions, KernelOrigin, Stdin, ZygotePolicy,
};
use silica_jail::client::UseOfHost;
use silica_jail::command::Step;

use crate::harness::{
    GONE_WITHIN, LiveSandbox, PYTHON, TIMEOUT, TestEngine, TestHome, descendants, eventually_async,
    namespace_ids, print, processes, processes_with, signal, status_of, unique_name,
};
use crate::jail::failing::{holdings, settled};

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// A sandbox with its kernel.
pub(crate) async fn sandbox(home: &TestHome) -> (TestEngine, LiveSandbox) {
    let engine = home.engine().await;
    let mut sandbox = engine.create(&home.options(KernelOrigin::Warm)).await.unwrap();
    sandbox.ready().await.unwrap();
    (engine, sandbox)
}

pub(crate) async fn finish(engine: TestEngine, sandbox: LiveSandbox) {
    sandbox.destroy().await.unwrap();
    engine.close().await;
}

/// What a command came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: CommandExit,
    pub(crate) out_of_memory: bool,
}

/// Reads a command to its end.
pub(crate) async fn collect(command: &mut CommandProcess) -> Outcome {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        let event = tokio::time::timeout(TIMEOUT, command.next()).await;
        match event.unwrap_or_else(|_| panic!("it hangs after {stdout:?}, {stderr:?}")) {
            Some(CommandEvent::Stdout(bytes)) => stdout.extend(bytes),
            Some(CommandEvent::Stderr(bytes)) => stderr.extend(bytes),
            Some(CommandEvent::Ended(CommandEnd { exit, out_of_memory })) => {
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
                let (stdout, stderr) = (text(stdout), text(stderr));
                return Outcome { stdout, stderr, exit, out_of_memory };
            }
            None => panic!("nothing comes and no end was told"),
        }
    }
}

/// Reads until stdout holds a text.
pub(crate) async fn read_until(command: &mut CommandProcess, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        let event = tokio::time::timeout(TIMEOUT, command.next()).await;
        match event.unwrap_or_else(|_| panic!("no {text:?} in {seen:?}")) {
            Some(CommandEvent::Stdout(bytes)) => seen += &String::from_utf8_lossy(&bytes),
            other => panic!("{other:?} instead of {text:?} after {seen:?}"),
        }
    }
    seen
}

pub(crate) async fn start(sandbox: &LiveSandbox, line: &str) -> CommandProcess {
    sandbox.start_command(&sandbox.shell_line(line)).await.unwrap()
}

pub(crate) async fn run(sandbox: &LiveSandbox, line: &str) -> Outcome {
    collect(&mut start(sandbox, line).await).await
}

/// What an honest command printed.
pub(crate) async fn printed(sandbox: &LiveSandbox, line: &str) -> String {
    let outcome = run(sandbox, line).await;
    assert_eq!(outcome.exit, CommandExit::Status(0), "{line}: {outcome:?}");
    outcome.stdout.trim_end().to_owned()
}

pub(crate) async fn end(command: &CommandProcess) -> CommandEnd {
    tokio::time::timeout(TIMEOUT, command.handle().wait()).await.expect("it does not end")
}

#[tokio::test]
async fn streams_and_statuses_come_back() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    for (line, stdout, stderr, exit) in [
        ("echo out; echo err >&2", "out\n", "err\n", CommandExit::Status(0)),
        ("exit 7", "", "", CommandExit::Status(7)),
        ("printf 'no end'; exit 255", "no end", "", CommandExit::Status(255)),
        ("kill -SEGV $$", "", "", CommandExit::Signal(11)),
        ("kill -KILL $$", "", "", CommandExit::Signal(9)),
        ("cat; echo nothing to read", "nothing to read\n", "", CommandExit::Status(0)),
        // A signal that the host ignores is not ignored inside.
        ("set -o pipefail; yes | head -n 1; echo $?", "y\n141\n", "", CommandExit::Status(0)),
        ("exec >&- 2>&-; exit 3", "", "", CommandExit::Status(3)),
        ("(sleep 1000 &); echo left", "left\n", "", CommandExit::Status(0)),
    ] {
        let outcome = run(&sandbox, line).await;
        let expected = Outcome {
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            exit,
            out_of_memory: false,
        };
        assert_eq!(outcome, expected, "{line}");
    }
    assert_eq!(print(&mut sandbox, "print(2 + 2)").await, "4");
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn files_are_those_of_the_kernel() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    print(&mut sandbox, "open('note', 'w').write('from the kernel')").await;
    assert_eq!(printed(&sandbox, "cat note; echo answer > /tmp/reply").await, "from the kernel");
    assert_eq!(print(&mut sandbox, "print(open('/tmp/reply').read())").await, "answer");
    assert_eq!(
        printed(&sandbox, "mkdir d && ln note d/other && cat d/other").await,
        "from the kernel"
    );
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn input_is_read_and_output_comes_while_it_runs() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let line = "echo ready; while read word; do echo got $word; done; echo end";
    let spec = CommandSpec { stdin: Stdin::Piped, ..sandbox.shell_line(line) };
    let mut command = sandbox.start_command(&spec).await.unwrap();
    let mut input = command.take_input().unwrap();
    assert!(command.take_input().is_none());
    assert_eq!(read_until(&mut command, "ready\n").await, "ready\n");
    for word in ["one", "two", "three"] {
        input.write_all(format!("{word}\n").as_bytes()).await.unwrap();
        let expected = format!("got {word}\n");
        assert_eq!(read_until(&mut command, &expected).await, expected);
    }
    drop(input);
    assert_eq!(collect(&mut command).await.stdout, "end\n");
    let spec = CommandSpec { stdin: Stdin::Piped, ..CommandSpec::program(["cat"]) };
    let mut command = sandbox.start_command(&spec).await.unwrap();
    let mut input = command.take_input().unwrap();
    let sent = "all of it\n".repeat(100_000);
    let bytes = sent.clone().into_bytes();
    let writer = tokio::spawn(async move { input.write_all(&bytes).await });
    let outcome = collect(&mut command).await;
    writer.await.unwrap().unwrap();
    assert!(outcome.stdout == sent, "{} of {} bytes", outcome.stdout.len(), sent.len());
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn reader_that_does_not_listen_is_an_error_and_not_a_wait() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let spec = CommandSpec { stdin: Stdin::Piped, ..CommandSpec::program(["true"]) };
    let mut command = sandbox.start_command(&spec).await.unwrap();
    let mut input = command.take_input().unwrap();
    end(&command).await;
    let written = input.write_all(&vec![0; 1 << 20]).await;
    assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn many_run_at_once() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let mut commands = Vec::new();
    for number in 0..20 {
        // Each ends only when all have started.
        let line = format!(
            "touch /tmp/s{number}; until [ $(ls /tmp/s* | wc -l) = 20 ]; do sleep 0.02; done; echo {number}"
        );
        commands.push(start(&sandbox, &line).await);
    }
    for (number, command) in commands.iter_mut().enumerate() {
        assert_eq!(collect(command).await.stdout, format!("{number}\n"));
    }
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn number_and_size_are_bounded() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let sleep = CommandSpec::program(["sleep", "1000"]);
    let mut commands = Vec::new();
    for _ in 0..COMMANDS_MAX {
        commands.push(sandbox.start_command(&sleep).await.unwrap());
    }
    let refused = sandbox.start_command(&sleep).await.unwrap_err();
    assert!(matches!(refused, CommandError::TooMany), "{refused}");
    let mut last = commands.pop().unwrap();
    last.handle().signal(SIGKILL).await.unwrap();
    while last.next().await.is_some() {}
    drop(last);
    commands.push(sandbox.start_command(&sleep).await.unwrap());
    // What is dropped keeps its place until it ends.
    drop(commands);
    let refused = sandbox.start_command(&sleep).await.unwrap_err();
    assert!(matches!(refused, CommandError::TooMany), "{refused}");
    finish(engine, sandbox).await;
    let (engine, sandbox) = crate::engine::commands::sandbox(&home).await;
    for spec in [
        CommandSpec::program(["echo".to_owned(), "x".repeat(1 << 20)]),
        CommandSpec {
            environment: (0..50_000).map(|number| (format!("V{number}"), "x".into())).collect(),
            ..CommandSpec::program(["true"])
        },
    ] {
        let refused = sandbox.start_command(&spec).await.unwrap_err();
        assert!(matches!(refused, CommandError::TooLarge), "{refused}");
    }
    let argument = "x".repeat(100_000);
    let long = CommandSpec::program(["printf".to_owned(), "%s".to_owned(), argument.clone()]);
    let outcome = collect(&mut sandbox.start_command(&long).await.unwrap()).await;
    assert!(outcome.stdout == argument, "{}", outcome.stdout.len());
    // Nothing that was refused has taken a place.
    for _ in 0..COMMANDS_MAX {
        commands_leave_their_place(&sandbox).await;
    }
    finish(engine, sandbox).await;
}

async fn commands_leave_their_place(sandbox: &LiveSandbox) {
    let refused = sandbox.start_command(&CommandSpec::program(["no-such-tool"])).await.unwrap_err();
    assert!(matches!(refused, CommandError::NotFound(_)), "{refused}");
}

#[tokio::test]
async fn what_cannot_be_run_is_an_error_and_no_status() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    printed(
        &sandbox,
        "echo text > text; chmod 755 text; mkdir -m 0 shut; echo '#!/none' > lost; chmod 755 lost; ln -s round round",
    )
    .await;
    let program = |name: &str| CommandSpec::program([name]);
    let at = |directory: &str| CommandSpec {
        directory: directory.to_owned(),
        ..CommandSpec::program(["pwd"])
    };
    for (spec, message) in [
        (program("no-such-tool"), "there is no program no-such-tool"),
        (program("/no/such/tool"), "there is no program /no/such/tool"),
        (program("/etc/passwd/tool"), "there is no program /etc/passwd/tool"),
        (program(""), "there is no program "),
        (program("./lost"), "there is no program ./lost"),
        (program("/etc/passwd"), "/etc/passwd cannot be run: Permission denied (os error 13)"),
        (program("/workspace"), "/workspace cannot be run: Permission denied (os error 13)"),
        (program("./text"), "./text cannot be run: Exec format error (os error 8)"),
        (
            program("./round"),
            "./round cannot be run: Too many levels of symbolic links (os error 40)",
        ),
        (program(&"x".repeat(5000)), "the command makes no sense: the program's name is too long"),
        (program(&"x".repeat(300)), "the command makes no sense: the program's name is too long"),
        (at("/missing"), "cannot start in /missing: No such file or directory (os error 2)"),
        (at("/etc/passwd"), "cannot start in /etc/passwd: Not a directory (os error 20)"),
        (at("shut"), "cannot start in shut: Permission denied (os error 13)"),
    ] {
        let error = sandbox.start_command(&spec).await.unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let error = sandbox.start_command(&CommandSpec::program(["a\0"])).await.unwrap_err();
    assert!(matches!(error, CommandError::Invalid(_)), "{error}");
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn environment_and_directory_are_as_asked() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    printed(&sandbox, "mkdir -p sub 'with space'").await;
    for (directory, expected) in [
        ("/workspace", "/workspace"),
        ("/tmp", "/tmp"),
        ("sub", "/workspace/sub"),
        ("with space/../sub", "/workspace/sub"),
        ("/", "/"),
    ] {
        let spec = CommandSpec { directory: directory.to_owned(), ..CommandSpec::program(["pwd"]) };
        let outcome = collect(&mut sandbox.start_command(&spec).await.unwrap()).await;
        assert_eq!(outcome.stdout.trim_end(), expected);
    }
    let environment = [("GREETING", "hello\nworld"), ("HOME", "/tmp"), ("EMPTY", "")];
    let spec = CommandSpec {
        environment: environment.map(|(name, value)| (name.into(), value.into())).into(),
        ..CommandSpec::program([
            "python",
            "-c",
            "import json, os; print(json.dumps(dict(os.environ)))",
        ])
    };
    let outcome = collect(&mut sandbox.start_command(&spec).await.unwrap()).await;
    let mut seen: BTreeMap<String, String> = serde_json::from_str(&outcome.stdout).unwrap();
    for (name, value) in environment {
        assert_eq!(seen.remove(name).as_deref(), Some(value), "{name}");
    }
    seen.remove("LD_LIBRARY_PATH");
    // C sets this one itself when the locale is not fit for UTF-8.
    seen.remove("LC_CTYPE");
    let names: Vec<&str> = seen.keys().map(String::as_str).collect();
    let expected =
        ["LANG", "MIMALLOC_ARENA_EAGER_COMMIT", "PATH", "PYTHONHASHSEED", "TERM", "USER"];
    assert_eq!(names, expected);
    assert_eq!(seen["TERM"], "dumb");
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn process_id_is_that_inside() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let mut command = start(&sandbox, "echo $$; ps -o pid=,sid=,pgid= -p $$").await;
    let id = command.handle().process_id().to_string();
    let stdout = collect(&mut command).await.stdout;
    let told: Vec<&str> = stdout.split_whitespace().collect();
    assert_eq!(told, [id.as_str(); 4]);
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn signal_reaches_the_whole_group_and_nobody_else() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    let (tree, other) = (unique_name(), unique_name());
    let mut neighbour = start(&sandbox, &format!("MARK={other} sleep 1000 & echo up; wait")).await;
    read_until(&mut neighbour, "up").await;
    let line = format!("export MARK={tree}; sleep 1000 & (sleep 1000 & sleep 1000); wait");
    let command = start(&sandbox, &line).await;
    // The shell itself has the marker among its arguments.
    assert!(
        eventually_async(TIMEOUT, || processes_with(&tree).len() == 5).await,
        "{:?}",
        processes_with(&tree)
    );
    command.handle().signal(SIGTERM).await.unwrap();
    assert_eq!(end(&command).await.exit, CommandExit::Signal(SIGTERM));
    assert!(
        eventually_async(GONE_WITHIN, || processes_with(&tree).is_empty()).await,
        "{:?}",
        processes_with(&tree)
    );
    assert_eq!(processes_with(&other).len(), 2);
    assert_eq!(print(&mut sandbox, "print('kernel lives')").await, "kernel lives");
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn signal_after_the_end_hits_nobody() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let marker = unique_name();
    // A process that it left behind is in its group, and a signal to the command must not reach it.
    let mut command = start(&sandbox, &format!("MARK={marker} sleep 1000 & echo up")).await;
    assert_eq!(collect(&mut command).await.stdout, "up\n");
    assert!(eventually_async(TIMEOUT, || processes_with(&marker).len() == 1).await);
    command.handle().signal(SIGKILL).await.unwrap();
    assert_eq!(printed(&sandbox, "echo on").await, "on");
    assert_eq!(processes_with(&marker).len(), 1);
    for nonsense in [0, -1, 65, 1000] {
        assert!(command.handle().signal(nonsense).await.is_err(), "{nonsense}");
    }
    finish(engine, sandbox).await;
    assert_eq!(processes_with(&marker), []);
}

#[tokio::test]
async fn command_that_ignores_termination_can_be_killed() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let code = "import os, signal, time\nsignal.signal(signal.SIGTERM, lambda *_: os.write(1, b'no\\n'))\n\
                print('up', flush=True)\nwhile True: time.sleep(1000)";
    let spec = CommandSpec::program(["python", "-c", code]);
    let mut command = sandbox.start_command(&spec).await.unwrap();
    read_until(&mut command, "up\n").await;
    command.handle().signal(SIGTERM).await.unwrap();
    read_until(&mut command, "no\n").await;
    command.handle().signal(SIGKILL).await.unwrap();
    assert_eq!(end(&command).await.exit, CommandExit::Signal(SIGKILL));
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn end_is_known_while_children_hold_the_pipes() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let mut command = start(&sandbox, "(while :; do echo noise; done) & exit 5").await;
    assert_eq!(end(&command).await.exit, CommandExit::Status(5));
    assert_eq!(collect(&mut command).await.exit, CommandExit::Status(5));
    // They can still be heard.
    read_until(&mut command, "noise").await;
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn server_goes_on_when_nobody_holds_it() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    // It prints more than a pipe holds for each request.
    let code = "import http.server\n\
                class Answer(http.server.BaseHTTPRequestHandler):\n  \
                def do_GET(self):\n    print('x' * 200_000, flush=True)\n    \
                self.send_response(200); self.end_headers(); self.wfile.write(b'served')\n\
                server = http.server.HTTPServer(('127.0.0.1', 8000), Answer)\n\
                print('up', flush=True)\nserver.serve_forever()";
    let spec = CommandSpec::program(["python", "-c", code]);
    let mut command = sandbox.start_command(&spec).await.unwrap();
    read_until(&mut command, "up").await;
    drop(command);
    let get = "python -c \"from urllib.request import urlopen; print(urlopen('http://127.0.0.1:8000').read().decode())\"";
    for _ in 0..3 {
        assert_eq!(printed(&sandbox, get).await, "served");
    }
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn daemon_outlives_its_command_and_not_its_sandbox() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let marker = unique_name();
    let line =
        format!("MARK={marker} setsid nohup sleep 1000 >/dev/null 2>&1 </dev/null & echo up");
    let mut command = start(&sandbox, &line).await;
    assert_eq!(collect(&mut command).await.stdout, "up\n");
    assert_eq!(command.next().await, None);
    assert!(
        eventually_async(TIMEOUT, || processes_with(&marker).len() == 1).await,
        "{:?}",
        processes_with(&marker)
    );
    sandbox.destroy().await.unwrap();
    assert_eq!(processes_with(&marker), []);
    engine.close().await;
}

#[tokio::test]
async fn output_goes_through_without_being_held() {
    const BYTES: usize = 50 << 20;
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let peak = || -> usize {
        let text = status_of(std::process::id(), "VmHWM");
        text.split_whitespace().next().unwrap().parse().unwrap()
    };
    assert_eq!(run(&sandbox, "head -c 1M /dev/zero").await.stdout.len(), 1 << 20);
    let before_kib = peak();
    let mut command = start(&sandbox, &format!("head -c {BYTES} /dev/zero")).await;
    let mut length = 0;
    loop {
        match command.next().await.unwrap() {
            CommandEvent::Stdout(bytes) => length += bytes.len(),
            CommandEvent::Stderr(bytes) => panic!("{}", String::from_utf8_lossy(&bytes)),
            CommandEvent::Ended(end) => break assert_eq!(end.exit, CommandExit::Status(0)),
        }
    }
    assert_eq!(length, BYTES);
    let grown_kib = peak() - before_kib;
    assert!(grown_kib < 8 << 10, "{grown_kib} KiB more");
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn lack_of_memory_is_said() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let limits =
        LimitValues { memory_bytes: 128 << 20, disk_bytes: 32 << 20, ..LimitValues::default() };
    let options = CreateOptions { limits, ..home.options(KernelOrigin::Warm) };
    let mut sandbox = engine.create(&options).await.unwrap();
    sandbox.ready().await.unwrap();
    let hog = "b = []\nwhile True: b.append(bytes(range(256)) * 4096)";
    let mut command =
        sandbox.start_command(&CommandSpec::program(["python", "-c", hog])).await.unwrap();
    let outcome = collect(&mut command).await;
    assert_eq!((outcome.exit, outcome.out_of_memory), (CommandExit::Signal(9), true));
    let outcome = run(&sandbox, &format!("python -c '{hog}'; exit $?")).await;
    assert_eq!((outcome.exit, outcome.out_of_memory), (CommandExit::Status(137), true));
    // Neither a later command nor one that coped is blamed.
    let outcome = run(&sandbox, "exit 3").await;
    assert_eq!((outcome.exit, outcome.out_of_memory), (CommandExit::Status(3), false));
    let outcome = run(&sandbox, &format!("python -c '{hog}'; echo coped")).await;
    assert_eq!((outcome.exit, outcome.out_of_memory), (CommandExit::Status(0), false));
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn sandbox_without_a_process_left_can_be_looked_into() {
    let home = TestHome::new(PYTHON);
    let engine = home.engine().await;
    let limits = LimitValues { processes: 16, ..LimitValues::default() };
    let options = CreateOptions { limits, ..home.options(KernelOrigin::Warm) };
    let mut sandbox = engine.create(&options).await.unwrap();
    let code = "import subprocess\nheld = []\ntry:\n  while True: held.append(subprocess.Popen(['sleep', '1000']))\n\
                except BlockingIOError: print(len(held))";
    assert_eq!(print(&mut sandbox, code).await, "15");
    let list = CommandSpec::program([
        "python",
        "-c",
        "import os\nprint(len(os.listdir('/proc')) > 16)\nos.fork()",
    ]);
    let outcome = collect(&mut sandbox.start_command(&list).await.unwrap()).await;
    assert_eq!((outcome.stdout.as_str(), outcome.exit), ("True\n", CommandExit::Status(1)));
    assert!(outcome.stderr.contains("BlockingIOError"), "{outcome:?}");
    finish(engine, sandbox).await;
}

/// The init of the sandbox in which a marked process runs.
fn init(engine: &TestEngine, marker: &str) -> u32 {
    let namespace = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let of_sandbox = namespace(processes_with(marker)[0].pid);
    let is_init = |pid: u32| {
        namespace_ids(pid).is_some_and(|ids| ids.last() == Some(&1)) && namespace(pid) == of_sandbox
    };
    let zone = descendants(engine.zone_process_id());
    zone.into_iter().map(|process| process.pid).find(|&pid| is_init(pid)).unwrap()
}

#[tokio::test]
async fn death_of_the_sandbox_is_reported_as_that() {
    for kill in ["init", "master", "engine's order"] {
        let home = TestHome::new(PYTHON);
        let (engine, sandbox) = sandbox(&home).await;
        let mut commands = Vec::new();
        let marker = unique_name();
        for _ in 0..3 {
            commands.push(start(&sandbox, &format!("sleep 1000; echo {marker}")).await);
        }
        let launcher = engine.zone_process_id();
        let mut sandbox = Some(sandbox);
        match kill {
            "init" => signal(init(&engine, &marker), rustix::process::Signal::KILL),
            "master" => {
                let of_launcher = |process: &crate::harness::Process| process.parent == launcher;
                let master = processes().into_iter().find(of_launcher).unwrap();
                signal(master.pid, rustix::process::Signal::KILL);
            }
            _ => sandbox.take().unwrap().destroy().await.unwrap(),
        }
        for command in &mut commands {
            assert_eq!(end(command).await.exit, CommandExit::SandboxDied, "{kill}");
            assert_eq!(collect(command).await.exit, CommandExit::SandboxDied, "{kill}");
            assert_eq!(command.next().await, None);
            command.handle().signal(SIGKILL).await.unwrap();
        }
        if let Some(sandbox) = sandbox {
            let error = sandbox.start_command(&sandbox.shell_line("true")).await.unwrap_err();
            assert!(matches!(error, CommandError::SandboxDied), "{kill}: {error}");
        }
        engine.close().await;
    }
}

#[tokio::test]
async fn starting_fails_cleanly_at_each_step() {
    let home = TestHome::new(PYTHON);
    let (engine, mut sandbox) = sandbox(&home).await;
    printed(&sandbox, "true").await;
    let steps = silica_gate::Step::ALL.iter().map(|step| (step.name(), *step as u32));
    let steps = steps.chain(Step::ALL.iter().map(|step| (step.name(), *step as u32)));
    let before = settled(&engine, &home).await;
    for (name, fail_at) in steps {
        for terminal in [None, Some(silica_engine::TerminalSize { rows: 24, columns: 80 })] {
            let marker = unique_name();
            let line =
                sandbox.shell_line(&format!("echo {marker} | tee /tmp/{marker}; sleep 1000"));
            let error = sandbox.start_command(&CommandSpec { fail_at, terminal, ..line }).await;
            let error = error.map(drop).unwrap_err().to_string();
            let expected = match name {
                "enter-directory" => "cannot start in /workspace: Input/output error",
                name => &format!("failed at step {name}: Input/output error"),
            };
            assert!(error.contains(expected), "{name}: {error}");
            let clean = eventually_async(GONE_WITHIN, || holdings(&engine, &home) == before).await;
            assert!(clean, "{name}: {before:?} became {:?}", holdings(&engine, &home));
            assert_eq!(printed(&sandbox, &format!("ls /tmp/{marker} 2>&1 | wc -l")).await, "1");
        }
    }
    assert_eq!(print(&mut sandbox, "print('kernel lives')").await, "kernel lives");
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn start_that_is_no_longer_awaited_is_taken_back() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let marker = unique_name();
    let spec = sandbox.shell_line(&format!("MARK={marker} exec sleep 1000"));
    for _ in 0..2 * COMMANDS_MAX {
        // It is polled once, which is hardly ever enough.
        let start = tokio::time::timeout(Duration::ZERO, sandbox.start_command(&spec)).await;
        if let Ok(started) = start {
            started.unwrap().handle().signal(SIGKILL).await.unwrap();
        }
        // Let the ends be told, so that the places are free again.
        assert_eq!(printed(&sandbox, "echo on").await, "on");
    }
    assert!(
        eventually_async(GONE_WITHIN, || processes_with(&marker).is_empty()).await,
        "{:?}",
        processes_with(&marker)
    );
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn commands_work_with_less_of_the_host() {
    let home = TestHome::new(PYTHON);
    for (cgroups, unique_ids) in [(false, true), (true, false), (false, false)] {
        let use_of_host = UseOfHost { cgroups, unique_ids };
        let engine = home.engine_with(ZygotePolicy::default(), use_of_host).await;
        let mut sandbox = engine.create(&home.options(KernelOrigin::Fresh)).await.unwrap();
        sandbox.ready().await.unwrap();
        let found =
            printed(&sandbox, "id -u; pwd; grep -c ^Cap.*0000000000000000$ /proc/self/status")
                .await;
        assert_eq!(found, "1000\n/workspace\n5", "{use_of_host:?}");
        let command = start(&sandbox, "sleep 1000").await;
        command.handle().signal(SIGTERM).await.unwrap();
        assert_eq!(end(&command).await.exit, CommandExit::Signal(SIGTERM));
        finish(engine, sandbox).await;
    }
}

/// Python that stops every process it has not seen, and notes those in whose memory it finds the
/// zone's own program.
const PRYING: &str = "import os, signal\n\
    print('up', flush=True)\n\
    known, seen, found = {os.getpid(), 1}, 0, 0\n\
    while not os.path.exists('/tmp/enough'):\n  \
    for name in os.listdir('/proc'):\n    \
    if not name.isdigit() or int(name) in known: continue\n    \
    pid = int(name); known.add(pid)\n    \
    try:\n      \
    os.kill(pid, signal.SIGSTOP)\n      \
    seen += open(f'/proc/{pid}/comm').read() == 'silica\\n'\n      \
    found += '/silica\\n' in open(f'/proc/{pid}/maps').read()\n    \
    except OSError: pass\n    \
    try: os.kill(pid, signal.SIGCONT)\n    \
    except OSError: pass\n\
    print(found, 'of', seen)";

#[tokio::test]
async fn nobody_inside_can_look_into_a_command_on_its_way() {
    let home = TestHome::new(PYTHON);
    for unique_ids in [true, false] {
        let use_of_host = UseOfHost { cgroups: true, unique_ids };
        let engine = home.engine_with(ZygotePolicy::default(), use_of_host).await;
        let sandbox = engine.create(&home.options(KernelOrigin::Warm)).await.unwrap();
        let prying = CommandSpec::program(["python", "-c", PRYING]);
        let mut prying = sandbox.start_command(&prying).await.unwrap();
        read_until(&mut prying, "up\n").await;
        let harmless = CommandSpec::program(["true"]);
        for _ in 0..100 {
            let start = tokio::time::timeout(TIMEOUT, sandbox.start_command(&harmless)).await;
            drop(start.expect("it was stopped for good").unwrap());
        }
        printed(&sandbox, "touch /tmp/enough").await;
        let found = collect(&mut prying).await.stdout;
        assert!(found.starts_with("0 of "), "{found}");
        finish(engine, sandbox).await;
    }
}
