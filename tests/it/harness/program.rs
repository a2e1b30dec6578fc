//! Runs of programs: started, collected, and on a terminal.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

use super::{TIMEOUT, eventually};

/// The output and the exit status of a program.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    /// The object that `--json` printed.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Starts a program with its output to be collected.
pub(crate) fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs a program to its end.
pub(crate) fn finish(command: &mut Command) -> CommandOutput {
    collect(start(command))
}

/// Waits for the end of a program. A program that hangs fails the test.
pub(crate) fn collect(mut child: Child) -> CommandOutput {
    let drain = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut stream) = stream {
                stream.read_to_end(&mut bytes).unwrap();
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let stdout = drain(child.stdout.take().map(|stream| Box::new(stream) as Box<_>));
    let stderr = drain(child.stderr.take().map(|stream| Box::new(stream) as Box<_>));
    let ended = eventually(TIMEOUT, || child.try_wait().unwrap().is_some());
    if !ended {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    assert!(ended, "it hangs; stdout {stdout:?}, stderr {stderr:?}");
    let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
    CommandOutput { status, stdout, stderr }
}

/// Runs a program on a terminal and types each line when the text before it has been shown anew.
/// Returns everything that was shown, without colours.
pub(crate) fn on_terminal(command: Command, typed: &[(&str, &str)]) -> String {
    let shown = on_terminal_raw(command, typed);
    let colour = regex::Regex::new("\x1b\\[[0-9]*m").unwrap();
    colour.replace_all(&shown, "").replace("\r\n", "\n")
}

/// The same, with everything that was shown as it was.
pub(crate) fn on_terminal_raw(mut command: Command, typed: &[(&str, &str)]) -> String {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let controller = openpt(flags).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let terminal = fs::File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    command
        .stdin(terminal.try_clone().unwrap())
        .stdout(terminal.try_clone().unwrap())
        .stderr(terminal);
    let mut child = command.spawn().unwrap();
    // The program has the only other end.
    drop(command);
    let (mut controller, mut shown, mut from) = (fs::File::from(controller), String::new(), 0);
    let (mut chunk, mut typed) = ([0; 4096], typed.iter().peekable());
    // Linux ends a terminal whose other end is closed with EIO.
    while let Ok(length @ 1..) = controller.read(&mut chunk) {
        shown.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
        while let Some((awaited, line)) = typed.peek()
            && let Some(at) = shown[from..].find(awaited)
        {
            from += at + awaited.len();
            controller.write_all(line.as_bytes()).unwrap();
            typed.next();
        }
    }
    assert!(child.wait().unwrap().success(), "{shown}");
    assert!(typed.peek().is_none(), "{:?} never came: {shown}", typed.peek());
    shown
}

/// Reads one line of a running program's stdout. Dropping the reader closes the pipe.
pub(crate) fn first_line(child: &mut Child) -> (String, BufReader<std::process::ChildStdout>) {
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    (line.trim_end().to_owned(), reader)
}
