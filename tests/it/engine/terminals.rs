//! Commands on a terminal.

use silica_engine::{CommandExit, CommandProcess, CommandSpec, TerminalSize};

use crate::engine::commands::{collect, end, finish, printed, read_until, sandbox};
use crate::harness::{
    GONE_WITHIN, LiveSandbox, PYTHON, TIMEOUT, TestHome, eventually_async, processes_with,
    unique_name,
};

const SIZE: TerminalSize = TerminalSize { rows: 33, columns: 101 };

fn on_terminal(spec: CommandSpec) -> CommandSpec {
    CommandSpec { terminal: Some(SIZE), ..spec }
}

async fn start(sandbox: &LiveSandbox, line: &str) -> CommandProcess {
    sandbox.start_command(&on_terminal(sandbox.shell_line(line))).await.unwrap()
}

async fn type_in(command: &mut CommandProcess, text: &str) {
    // Taken only once: the rest of a test types through what this returns.
    let mut input = command.take_input().unwrap();
    input.write_all(text.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn program_finds_itself_at_a_terminal_of_its_own() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let line = "tty; stty size; echo $TERM; for f in 0 1 2; do [ -t $f ] && echo $f; done; \
                ls -l $(tty) | cut -c1-10; ps -o tty= -p $$; echo to the terminal > /dev/tty; exit 4";
    let outcome = collect(&mut start(&sandbox, line).await).await;
    let expected = "/dev/pts/0\r\n33 101\r\nxterm-256color\r\n0\r\n1\r\n2\r\ncrw-------\r\npts/0\r\n\
                    to the terminal\r\n";
    assert_eq!((outcome.stdout.as_str(), outcome.exit), (expected, CommandExit::Status(4)));
    // The number is free again.
    assert_eq!(collect(&mut start(&sandbox, "tty").await).await.stdout, "/dev/pts/0\r\n");
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn typing_is_echoed_and_read() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let mut command = start(&sandbox, "read -r word; echo read $word").await;
    type_in(&mut command, "hallö\x7fo\n").await;
    let stdout = collect(&mut command).await.stdout;
    assert!(stdout.ends_with("read hallo\r\n"), "{stdout:?}");
    let mut command = start(&sandbox, "cat; echo end").await;
    type_in(&mut command, "line\n\x04").await;
    assert_eq!(collect(&mut command).await.stdout, "line\r\nline\r\nend\r\n");
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn control_c_interrupts_what_is_in_front() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let mut command =
        start(&sandbox, "trap 'echo caught; exit 9' INT; echo up; while :; do sleep 0.05; done")
            .await;
    read_until(&mut command, "up").await;
    type_in(&mut command, "\x03").await;
    let outcome = collect(&mut command).await;
    assert_eq!(outcome.exit, CommandExit::Status(9), "{outcome:?}");
    assert!(outcome.stdout.contains("caught"), "{outcome:?}");
    let mut command = start(&sandbox, "echo up; exec sleep 1000").await;
    read_until(&mut command, "up").await;
    type_in(&mut command, "\x03").await;
    assert_eq!(end(&command).await.exit, CommandExit::Signal(2));
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn interactive_shell_has_job_control() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let spec = on_terminal(CommandSpec::program(["/bin/bash", "--norc", "-i"]));
    let mut command = sandbox.start_command(&spec).await.unwrap();
    let mut input = command.take_input().unwrap();
    read_until(&mut command, "$ ").await;
    // A key that stops something also throws away what was typed before it.
    let marker = unique_name();
    input.write_all(format!("MARK={marker} sleep 1000\n").as_bytes()).await.unwrap();
    let sleeps = || processes_with(&marker).iter().any(|process| process.name == "sleep");
    assert!(eventually_async(TIMEOUT, sleeps).await);
    for (typed, expected) in [
        ("\x1a", "Stopped"),
        ("echo $((6 * 7))\n", "42"),
        // Once it only says why not.
        ("exit 5\n", "There are stopped jobs"),
    ] {
        input.write_all(typed.as_bytes()).await.unwrap();
        read_until(&mut command, expected).await;
    }
    input.write_all(b"exit 6\n").await.unwrap();
    assert_eq!(collect(&mut command).await.exit, CommandExit::Status(6));
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn resizing_is_signalled() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let mut command =
        start(&sandbox, "trap 'stty size; exit' WINCH; echo up; while :; do sleep 0.05; done")
            .await;
    read_until(&mut command, "up").await;
    command.handle().resize(TerminalSize { rows: 10, columns: 20 }).unwrap();
    assert_eq!(collect(&mut command).await.stdout.trim(), "10 20");
    // Without a terminal there is nothing to resize.
    let mut plain = sandbox.start_command(&sandbox.shell_line("[ ! -t 1 ]")).await.unwrap();
    plain.handle().resize(SIZE).unwrap();
    assert_eq!(collect(&mut plain).await.exit, CommandExit::Status(0));
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn dropping_does_not_hang_up_and_killing_does() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let (left, jobs) = (unique_name(), unique_name());
    let line = format!(
        "MARK={left} sleep 1000 & i=0; while :; do i=$((i+1)); echo $i; echo $i > /tmp/n; done"
    );
    let mut command = start(&sandbox, &line).await;
    read_until(&mut command, "1").await;
    drop(command);
    let more = "a=$(cat /tmp/n); for i in $(seq 1000); do b=$(cat /tmp/n); [ \"$b\" -gt $((a + 10000)) ] && break; sleep 0.05; done; [ \"$b\" -gt $((a + 10000)) ] && echo on";
    assert_eq!(printed(&sandbox, more).await, "on");
    assert_eq!(processes_with(&left).len(), 2, "{:?}", processes_with(&left));
    // What an interactive shell runs is in groups of its own; they lose their terminal with it.
    let line = format!("MARK={jobs} bash --norc -i -c 'set -m; sleep 1000; true'; true");
    let command = start(&sandbox, &line).await;
    let runs =
        || processes_with(&jobs).iter().any(|one| one.name == "sleep" && has_terminal(one.pid));
    assert!(eventually_async(TIMEOUT, runs).await, "{:?}", processes_with(&jobs));
    command.handle().signal(9).await.unwrap();
    end(&command).await;
    drop(command);
    assert!(
        eventually_async(GONE_WITHIN, || processes_with(&jobs).is_empty()).await,
        "{:?}",
        processes_with(&jobs)
    );
    finish(engine, sandbox).await;
}

#[tokio::test]
async fn terminals_of_the_guests_own_work() {
    let home = TestHome::new(PYTHON);
    let (engine, sandbox) = sandbox(&home).await;
    let code = "import pty; pty.spawn(['sh', '-c', 'tty; stty size; echo inside'])";
    let spec = CommandSpec::program(["python", "-c", code]);
    let outcome = collect(&mut sandbox.start_command(&spec).await.unwrap()).await;
    assert_eq!(outcome.stdout, "/dev/pts/0\r\n0 0\r\ninside\r\n", "{outcome:?}");
    let scripted = printed(&sandbox, "script -qec 'echo scripted' /dev/null < /dev/null").await;
    assert!(scripted.contains("scripted"), "{scripted}");
    // All in use: the error says so, and nothing hangs.
    let hoard = "import os\np = [os.open('/dev/ptmx', os.O_RDWR)]\n\
                 try:\n  while True: p.append(os.open('/dev/ptmx', os.O_RDWR))\n\
                 except OSError: print(len(p), flush=True)\n\
                 import time; time.sleep(1000)";
    let spec = CommandSpec::program(["python", "-c", hoard]);
    let mut hoarder = sandbox.start_command(&spec).await.unwrap();
    assert_eq!(read_until(&mut hoarder, "\n").await, "64\n");
    let error = sandbox.start_command(&on_terminal(sandbox.shell_line("true"))).await.unwrap_err();
    assert!(error.to_string().contains("failed at step enter-terminal"), "{error}");
    finish(engine, sandbox).await;
}

/// Whether a process is in the foreground group of its terminal. A shell makes it so after the start of the process.
fn has_terminal(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    matches!(fields[..], [_, _, group, _, _, foreground, ..] if group == foreground)
}
