//! What the tests share: data directories, runs of the binary, engines, servers, an HTTP client, and
//! a look at the processes of the host.

pub(crate) mod http;
pub(crate) mod served;
pub(crate) mod server;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use silica_domain::{Limits, LimitsMax};
use silica_engine::{
    Control, CreateOptions, Engine, EngineOptions, Interpreter, Report, Sandbox, Unwatched,
    ZygotePolicy,
};
use silica_jail::client::UseOfHost;
use silica_templates::{Home, TemplateName, load};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// The binary under test.
pub(crate) const SILICA: &str = env!("CARGO_BIN_EXE_silica");

/// Plain Python.
pub(crate) const PYTHON: &str = "python";
/// Python with the usual libraries.
pub(crate) const SCIENCE: &str = "code-interpreter";

/// All that the host offers is used.
pub(crate) const EVERYTHING: UseOfHost = UseOfHost { cgroups: true, unique_ids: true };

/// How long anything may take that should take no time; generous, for busy machines.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// How long what has been killed may take to be gone.
pub(crate) const GONE_WITHIN: Duration = Duration::from_secs(5);

/// How many times more patience is to be had, on machines that are emulated.
pub(crate) fn slowness() -> u32 {
    std::env::var("SILICA_TEST_SLOWNESS").map_or(1, |times| times.parse().unwrap())
}

/// Polls until `holds`, for as long as `patience`.
pub(crate) fn eventually(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience * slowness();
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The same for tests that share their thread with an engine.
pub(crate) async fn soon(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience * slowness();
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A word that nothing else on this machine contains, short enough for a process name.
pub(crate) fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("m{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Python that names its own process after a mark, so that it can be found from outside.
pub(crate) fn wear(mark: &str) -> String {
    format!("open('/proc/self/comm', 'w').write({mark:?});")
}

/// The data directory in which a template was built, by this very binary, once for all tests.
fn shared_home(template: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let home = target.join(match template {
        SCIENCE => "silica-test-home-ci",
        _ => "silica-test-home",
    });
    fs::create_dir_all(&home).unwrap();
    let lock = fs::File::create(home.join(".test-lock")).unwrap();
    lock.lock().unwrap();
    let stamp = home.join(".test-stamp");
    let binary = format!("{:?}", fs::metadata(SILICA).unwrap().modified().unwrap());
    if fs::read_to_string(&stamp).is_ok_and(|text| text == binary) {
        return home;
    }
    let built = Command::new(SILICA)
        .args(["template", "build", template])
        .env("SILICA_HOME", &home)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    // The guest's layer is written by the first run.
    let run = Command::new(SILICA)
        .args(["run", "--template", template, "-c", ""])
        .env("SILICA_HOME", &home)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    fs::write(&stamp, binary).unwrap();
    home
}

/// A data directory of one test, with a template ready.
pub(crate) struct Ground {
    directory: TempDir,
    template: &'static str,
}

/// What a run of the binary came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The one object of `--json`.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Ground {
    pub(crate) fn new(template: &'static str) -> Self {
        let shared = shared_home(template);
        let directory = tempfile::Builder::new().prefix("silica-test-").tempdir().unwrap();
        fs::create_dir(directory.path().join("here")).unwrap();
        for name in ["templates", "guest"] {
            std::os::unix::fs::symlink(shared.join(name), directory.path().join(name)).unwrap();
        }
        Self { directory, template }
    }

    pub(crate) fn home(&self) -> &Path {
        self.directory.path()
    }

    /// The directory in which the binary is run.
    pub(crate) fn here(&self) -> PathBuf {
        self.home().join("here")
    }

    /// `silica run --template …`, not started yet.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(SILICA);
        command
            .args(["run", "--template", self.template])
            .env("SILICA_HOME", self.home())
            .env_remove("SILICA_LOG")
            .current_dir(self.here())
            .stdin(Stdio::null());
        command
    }

    /// Runs with these arguments to the end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command().args(arguments))
    }

    /// Runs code with `--json` and further arguments.
    pub(crate) fn json(&self, code: &str, arguments: &[&str]) -> Value {
        self.run(&[&["--json", "-c", code], arguments].concat()).json()
    }

    /// Runs with `input` on standard input.
    pub(crate) fn run_with_stdin(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command();
        let mut child = start(command.args(arguments).stdin(Stdio::piped()));
        // A program that does not want all of it closes the pipe.
        let _ = child.stdin.take().unwrap().write_all(input);
        collect(child)
    }

    /// An engine over this data directory with the template added and warm.
    pub(crate) async fn engine(&self) -> Engine {
        self.engine_with(ZygotePolicy::default(), EVERYTHING).await
    }

    pub(crate) async fn engine_with(
        &self,
        zygotes: ZygotePolicy,
        use_of_host: UseOfHost,
    ) -> Engine {
        let engine = start_engine(self.home(), self.template, zygotes, use_of_host).await;
        engine.warm(self.template).await.unwrap();
        engine
    }

    pub(crate) fn options(&self, interpreter: Interpreter) -> CreateOptions {
        CreateOptions { interpreter, ..CreateOptions::new(self.template) }
    }

    /// The control groups of the zones of this data directory that exist now, with all below them.
    pub(crate) fn groups(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(self.home().join("run")).into_iter().flatten().flatten() {
            let record = fs::read_to_string(entry.path()).unwrap_or_default();
            let recorded: Vec<PathBuf> = serde_json::from_str(&record).unwrap_or_default();
            for directory in recorded {
                add_groups(&directory, &mut found);
            }
        }
        found
    }
}

impl Drop for Ground {
    /// Nobody comes after this data directory to clear up what a killed zone left.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let cleared = eventually(GONE_WITHIN, || {
            // A group whose processes are still dying is tried again.
            self.groups().iter().rev().for_each(|group| drop(fs::remove_dir(group)));
            self.groups().is_empty()
        });
        assert!(cleared, "left {:?}", self.groups());
    }
}

fn add_groups(directory: &Path, found: &mut BTreeSet<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    found.insert(directory.to_owned());
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_groups(&entry.path(), found);
        }
    }
}

/// An engine over a data directory with a template added, and nothing warm.
pub(crate) async fn start_engine(
    home: &Path,
    template: &str,
    zygotes: ZygotePolicy,
    use_of_host: UseOfHost,
) -> Engine {
    let home = Home::new(home);
    let options = EngineOptions {
        home: home.clone(),
        zone_program: (PathBuf::from(SILICA), vec!["__zone".to_owned()]),
        use_of_host,
        limits_max: LimitsMax::default(),
        zygotes,
    };
    let engine = Engine::start(options).unwrap();
    let name = TemplateName::new(template).unwrap();
    engine.add_template(load(&home, &name).unwrap().unwrap()).await.unwrap();
    engine
}

/// Starts a program with its output to be collected.
pub(crate) fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs a program to its end.
pub(crate) fn finish(command: &mut Command) -> Ran {
    collect(start(command))
}

/// Waits for the end of a program; one that hangs fails the test.
pub(crate) fn collect(mut child: Child) -> Ran {
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
    let ended = eventually(PATIENCE, || child.try_wait().unwrap().is_some());
    if !ended {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    assert!(ended, "it hangs; stdout {stdout:?}, stderr {stderr:?}");
    let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
    Ran { status, stdout, stderr }
}

/// Runs on a terminal and types each line when the words before it have been shown anew; returns all
/// that was to be seen, without colours.
pub(crate) fn on_terminal(mut command: Command, typed: &[(&str, &str)]) -> String {
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
    // Linux ends a terminal that nobody else has open with EIO.
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
    let colour = regex::Regex::new("\x1b\\[[0-9]*m").unwrap();
    colour.replace_all(&shown, "").replace("\r\n", "\n")
}

/// Reads one line of a running program's stdout; the reader is to be kept.
pub(crate) fn first_line(child: &mut Child) -> (String, BufReader<std::process::ChildStdout>) {
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    (line.trim_end().to_owned(), reader)
}

/// Sends a signal to a process of this test.
pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Runs a cell with nobody watching.
pub(crate) async fn cell(sandbox: &mut Sandbox, code: &str, limits: &Limits) -> Report {
    let (_keep, mut interrupts) = mpsc::channel::<Control>(1);
    let mut watcher = Unwatched;
    let run = sandbox.run(code, limits, &mut watcher, &mut interrupts);
    tokio::time::timeout(PATIENCE, run).await.expect("the cell hangs").unwrap()
}

/// What a cell of an honest sandbox printed.
pub(crate) async fn print(sandbox: &mut Sandbox, code: &str) -> String {
    let report = cell(sandbox, code, &Limits::default()).await;
    let (stdout, stderr) = (text(&report.stdout), text(&report.stderr));
    assert_eq!(report.outcome, silica_domain::Outcome::Ok, "{code}: {:?} {stderr}", report.error);
    stdout.trim_end().to_owned()
}

pub(crate) fn text(stream: &silica_engine::HeadTail) -> String {
    String::from_utf8_lossy(&stream.clone().into_bytes()).into_owned()
}

/// That the engine still does what it is for.
pub(crate) async fn assert_works(engine: &Engine, options: &CreateOptions) {
    let mut sandbox = engine.create(options).await.unwrap();
    sandbox.ready().await.unwrap();
    assert_eq!(print(&mut sandbox, "print(2 + 2)").await, "4");
    sandbox.destroy().await.unwrap();
}

/// A process of this host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) name: String,
}

/// Every process of this host that is alive.
pub(crate) fn processes() -> Vec<Process> {
    table().into_iter().filter(|(_, state)| state != "Z").map(|(process, _)| process).collect()
}

/// Processes that have ended below one and were not collected.
pub(crate) fn uncollected(pid: u32) -> Vec<Process> {
    let living: Vec<u32> = below(pid).into_iter().map(|process| process.pid).collect();
    let ours = |process: &Process| process.parent == pid || living.contains(&process.parent);
    let dead = table().into_iter().filter(|(process, state)| state == "Z" && ours(process));
    dead.map(|(process, _)| process).collect()
}

/// Every process of this host and its state.
fn table() -> Vec<(Process, String)> {
    let parse = |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (start, end) = (line.find('(')?, line.rfind(')')?);
        let mut rest = line[end + 2..].split(' ');
        let (letter, parent) = (rest.next()?, rest.next()?.parse().ok()?);
        let name = line[start + 1..end].to_owned();
        Some((Process { pid, parent, name }, letter.to_owned()))
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(parse).collect()
}

/// Processes whose name, arguments or environment hold a mark. The test itself is none.
pub(crate) fn marked(mark: &str) -> Vec<Process> {
    let holds = |process: &Process| {
        let file = |name: &str| fs::read(format!("/proc/{}/{name}", process.pid));
        let contains =
            |bytes: Vec<u8>| bytes.windows(mark.len()).any(|part| part == mark.as_bytes());
        process.pid != std::process::id()
            && (process.name.contains(mark)
                || ["cmdline", "environ"].iter().any(|name| file(name).is_ok_and(contains)))
    };
    processes().into_iter().filter(holds).collect()
}

/// All processes below one, nearest first.
pub(crate) fn below(pid: u32) -> Vec<Process> {
    let all = processes();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            parents.insert(0, process.pid);
            found.push(process.clone());
        }
    }
    found
}

/// How many descriptors a process has open; `None` when it has gone.
pub(crate) fn descriptors(pid: u32) -> Option<usize> {
    fs::read_dir(format!("/proc/{pid}/fd")).ok().map(Iterator::count)
}

/// A line of /proc/PID/status.
pub(crate) fn status_of(pid: u32, key: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap().trim().to_owned()
}

/// How many pid namespaces deep a process is, the host's included; `None` when it has gone.
pub(crate) fn depth(pid: u32) -> Option<usize> {
    namespace_ids(pid).map(|ids| ids.len())
}

/// The ids of a process from the host's namespace down to its own; `None` when it has gone.
pub(crate) fn namespace_ids(pid: u32) -> Option<Vec<u32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().map(|id| id.parse().ok()).collect()
}
