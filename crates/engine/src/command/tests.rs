//! What is refused before the tier is asked, what refusals mean, and streams without a sandbox.

use std::io::Write;
use std::os::fd::OwnedFd;

use expect_test::expect;
use tokio::sync::Semaphore;

use super::starting::{
    CommandDefaults, E2BIG, EACCES, EINVAL, ELIBBAD, ELOOP, ENAMETOOLONG, ENOENT, ENOEXEC, ENOTDIR,
    ETXTBSY, command_start, refused,
};
use super::*;
use crate::tier::RefusedAt;

fn permit() -> Permit {
    Arc::new(Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap())
}

#[test]
fn nonsense_is_refused_at_once() {
    let variable = |name: &str, value: &str| CommandSpec {
        environment: BTreeMap::from([(name.to_owned(), value.to_owned())]),
        ..CommandSpec::program(["true"])
    };
    let directory = CommandSpec { directory: "/\0".to_owned(), ..CommandSpec::program(["true"]) };
    let specs = [
        CommandSpec::program(Vec::<String>::new()),
        CommandSpec::program(["echo", "a\0b"]),
        variable("", "x"),
        variable("A=B", "x"),
        variable("A\0", "x"),
        variable("A", "\0"),
        directory,
    ];
    for spec in specs {
        assert!(matches!(spec.check(), Err(CommandError::Invalid(_))), "{spec:?}");
    }
    variable("A", "").check().unwrap();
    CommandSpec::program([""]).check().unwrap();
}

#[test]
fn refusals_say_what_is_wrong() {
    let spec = CommandSpec { directory: "/there".to_owned(), ..CommandSpec::program(["tool"]) };
    let cases = [
        ("enter-directory", ENOENT),
        ("enter-directory", EACCES),
        ("enter-exec", ENOENT),
        ("enter-exec", ENOTDIR),
        ("enter-exec", EACCES),
        ("enter-exec", ENOEXEC),
        ("enter-exec", EINVAL),
        ("enter-exec", ETXTBSY),
        ("enter-exec", ELOOP),
        ("enter-exec", ELIBBAD),
        ("enter-exec", E2BIG),
        ("enter-exec", ENAMETOOLONG),
        ("enter-exec", 5),
        ("enter-terminal", ENOENT),
        ("enter-cgroup", EACCES),
    ];
    let told: Vec<String> = cases
        .iter()
        .map(|&(step, errno)| {
            let at = match step {
                "enter-directory" => RefusedAt::Directory,
                "enter-exec" => RefusedAt::Exec,
                step => RefusedAt::Step(step.to_owned()),
            };
            format!("{}\n", refused(&spec, at, errno))
        })
        .collect();
    expect![[r"
        cannot start in /there: No such file or directory (os error 2)
        cannot start in /there: Permission denied (os error 13)
        there is no program tool
        there is no program tool
        tool cannot be run: Permission denied (os error 13)
        tool cannot be run: Exec format error (os error 8)
        tool cannot be run: Invalid argument (os error 22)
        tool cannot be run: Text file busy (os error 26)
        tool cannot be run: Too many levels of symbolic links (os error 40)
        tool cannot be run: Accessing a corrupted shared library (os error 80)
        the arguments and variables of the command are too long
        the command makes no sense: the program's name is too long
        entering the sandbox failed at step enter-exec: Input/output error (os error 5)
        entering the sandbox failed at step enter-terminal: No such file or directory (os error 2)
        entering the sandbox failed at step enter-cgroup: Permission denied (os error 13)
    "]]
    .assert_eq(&told.concat());
}

#[test]
fn variables_of_the_command_win() {
    let environment = BTreeMap::from(
        [("TERM", "dumb"), ("PATH", "/bin")].map(|(name, value)| (name.into(), value.into())),
    );
    let defaults = CommandDefaults { environment, has_bash: false, reader: Vec::new() };
    let mut spec = CommandSpec::program(["true"]);
    let term = |spec: &CommandSpec| {
        let variables = command_start(spec, &defaults, Vec::new(), permit()).program.environment;
        assert_eq!(variables.len(), 2, "{variables:?}");
        variables.into_iter().find(|(name, _)| name == "TERM").unwrap().1
    };
    assert_eq!(term(&spec), "dumb");
    spec.terminal = Some(TerminalSize { rows: 24, columns: 80 });
    assert_eq!(term(&spec), "xterm-256color");
    spec.environment.insert("TERM".to_owned(), "vt100".to_owned());
    assert_eq!(term(&spec), "vt100");
}

const END: CommandEnd = CommandEnd { exit: CommandExit::Status(0), out_of_memory: false };

/// Output over pipes, the guest's ends of them, and a way to end the command.
fn piped() -> (Output, [std::fs::File; 2], watch::Sender<Option<CommandEnd>>) {
    let mut theirs: Vec<OwnedFd> = Vec::new();
    let pipes = streams::Pipes::make(Stdin::Closed, &mut theirs).unwrap();
    let (_, output) = pipes.split(permit());
    let mut files = theirs.into_iter().map(std::fs::File::from);
    let files = [files.next().unwrap(), files.next().unwrap()];
    (output, files, watch::channel(None).0)
}

#[tokio::test]
async fn output_comes_before_the_end_and_the_end_before_what_children_write() {
    let (mut output, [mut stdout, mut stderr], life) = piped();
    let mut watched = life.subscribe();
    stdout.write_all(b"one").unwrap();
    let first = output.next(&mut watched).await;
    assert_eq!(first, Some(CommandEvent::Stdout(b"one".to_vec())));
    stdout.write_all(b"two").unwrap();
    stderr.write_all(b"oops").unwrap();
    life.send_replace(Some(END));
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(output.next(&mut watched).await.unwrap());
    }
    let bytes = |text: &str| text.as_bytes().to_vec();
    let expected = [
        CommandEvent::Stdout(bytes("two")),
        CommandEvent::Stderr(bytes("oops")),
        CommandEvent::Ended(END),
    ];
    assert_eq!(events, expected);
    stdout.write_all(b"child").unwrap();
    assert_eq!(output.next(&mut watched).await, Some(CommandEvent::Stdout(bytes("child"))));
    drop((stdout, stderr));
    assert_eq!(output.next(&mut watched).await, None);
}

#[tokio::test]
async fn end_comes_even_if_children_never_stop_writing() {
    let (mut output, [mut stdout, _stderr], life) = piped();
    let mut watched = life.subscribe();
    std::thread::spawn(move || while stdout.write_all(&[0; 4096]).is_ok() {});
    output.next(&mut watched).await.unwrap();
    life.send_replace(Some(END));
    let mut drained = 0;
    loop {
        match output.next(&mut watched).await.unwrap() {
            CommandEvent::Stdout(bytes) => drained += bytes.len(),
            other => break assert_eq!(other, CommandEvent::Ended(END)),
        }
    }
    assert!(drained <= (1 << 20) + 65_536, "{drained}");
}

#[tokio::test]
async fn closed_streams_are_not_the_end() {
    let (mut output, files, life) = piped();
    let mut watched = life.subscribe();
    drop(files);
    tokio::select! {
        biased;
        event = output.next(&mut watched) => panic!("{event:?}"),
        () = tokio::task::yield_now() => {}
    }
    life.send_replace(Some(END));
    assert_eq!(output.next(&mut watched).await, Some(CommandEvent::Ended(END)));
    assert_eq!(output.next(&mut watched).await, None);
}
