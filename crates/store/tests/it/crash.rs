//! Processes killed while they write: whatever was answered is there, and the chain verifies.
//!
//! The test starts its own program again, as a writer that never stops by itself.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use silica_store::audit::{Activity, Begin, Finish, Search, Summary, UNFINISHED, Verdict};
use silica_store::{Access, DATABASE_NAME, ExecutionId, Store, StoreOptions, Tenant};
use tempfile::TempDir;

/// Names the data directory in which the program started again is to write.
const DIRECTORY: &str = "SILICA_STORE_TEST_DIRECTORY";
const ROUNDS: usize = 24;
/// Threads that write at once, so that transactions are shared. Every other one is answered after
/// the commit, the rest when their writes are in the journal.
const WRITERS: usize = 4;
/// How long an execution takes.
const PACE: Duration = Duration::from_millis(1);
/// What the writer does when it is run as an ordinary test.
const ORDINARY_EXECUTIONS: usize = 20;

fn open(directory: &Path, access: Access) -> Store {
    Store::open(&directory.join(DATABASE_NAME), StoreOptions::new(access)).unwrap()
}

fn begin(name: &str) -> Begin {
    let execution = ExecutionId::parse(name).unwrap();
    Begin::new(execution, Tenant::parse("someone").unwrap(), Activity::Cell)
}

/// Says on stderr what was answered: a line in one piece, so that it is said whole or not at all.
fn say(word: &str, name: &str) {
    std::io::stderr().write_all(format!("{word} {name}\n").as_bytes()).unwrap();
}

fn write(store: &Store, name: &str, executions: usize) {
    for number in 0..executions {
        let name = format!("{name}-{number}");
        let ticket = store.audit().begin(&begin(&name)).wait().unwrap();
        say("begun", &name);
        store.audit().finish(ticket, &Finish::new("ok")).wait().unwrap();
        say("finished", &name);
    }
}

/// The same as a server's tasks do it.
async fn write_as_a_task(store: Store, name: String, executions: usize) {
    for number in 0..executions {
        let name = format!("{name}-{number}");
        let ticket = store.audit().begin(&begin(&name)).await.unwrap();
        say("begun", &name);
        store.audit().finish(ticket, &Finish::new("ok")).await.unwrap();
        say("finished", &name);
        // Real code takes some time; without this pause almost all writes would be pending.
        tokio::time::sleep(PACE).await;
    }
}

fn write_all(directory: &Path, executions: usize) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = open(directory, Access::Server);
    let process = std::process::id();
    let stays = format!("stays-{process}");
    store.audit().begin(&begin(&stays)).wait().unwrap();
    say("begun", &stays);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, runtime) = (&store, &runtime);
            let name = format!("x-{process}-{writer}");
            scope.spawn(move || {
                if writer % 2 == 0 {
                    write(store, &name, executions);
                } else {
                    runtime.block_on(write_as_a_task(store.clone(), name, executions));
                }
            });
        }
    });
    store.close_wait();
}

fn summary(directory: &Path) -> Summary {
    match open(directory, Access::ReadOnly).audit().verify(None).wait().unwrap() {
        Verdict::Whole(summary) => summary,
        Verdict::Broken(fault) => panic!("{fault}"),
    }
}

#[test]
fn writer() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        write_all(Path::new(&directory), usize::MAX);
    } else {
        let directory = TempDir::new().unwrap();
        write_all(directory.path(), ORDINARY_EXECUTIONS);
        let summary = summary(directory.path());
        let expected = 1 + 2 * WRITERS * ORDINARY_EXECUTIONS;
        assert_eq!((summary.records, summary.unfinished), (expected as u64, 1));
    }
}

fn start(directory: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::writer", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills a writer after it has said so many lines, and returns all that it had said.
fn kill_after(directory: &Path, lines: usize) -> Vec<String> {
    let mut child = start(directory);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut heard: Vec<String> = said.by_ref().take(lines).map(Result::unwrap).collect();
    child.kill().unwrap();
    heard.extend(said.map_while(Result::ok));
    assert!(!child.wait().unwrap().success());
    heard
}

#[test]
fn killed_writer_leaves_a_chain_that_verifies() {
    let directory = TempDir::new().unwrap();
    for round in 0..ROUNDS {
        // From the very first record to some way into the log, in no order.
        let heard = kill_after(directory.path(), 1 + round * 37 % 101);
        let named = |word: &str| -> HashSet<String> {
            let lines = heard.iter().filter_map(|line| line.strip_prefix(word));
            lines.map(|name| name.trim().to_owned()).collect()
        };
        let (begun, finished) = (named("begun "), named("finished "));
        assert!(!begun.is_empty(), "{heard:?}");
        let summary = summary(directory.path());
        assert!(summary.unfinished > round as u64, "{summary:?}");
        let reader = open(directory.path(), Access::ReadOnly);
        let found = reader.audit().search(&Search::default()).wait().unwrap();
        let outcome = |name: &String| {
            let execution = found.iter().find(|execution| execution.execution == *name);
            execution.unwrap_or_else(|| panic!("{name} was answered and is lost")).outcome.clone()
        };
        for name in &begun {
            let outcome = outcome(name);
            if finished.contains(name) {
                assert_eq!(outcome, "ok", "{name} was finished");
            } else if name.starts_with("stays") {
                assert_eq!(outcome, UNFINISHED, "{name}");
            }
        }
    }
    // The next server goes on where the dead ones were.
    let store = open(directory.path(), Access::Server);
    write(&store, "after", 1);
    store.close_wait();
    assert_eq!(
        summary(directory.path()).unfinished_ids.len() as u64,
        summary(directory.path()).unfinished
    );
}

#[test]
fn killed_server_leaves_no_lock() {
    let directory = TempDir::new().unwrap();
    kill_after(directory.path(), 1);
    open(directory.path(), Access::Server).close_wait();
}

#[test]
fn second_server_process_is_refused() {
    let directory = TempDir::new().unwrap();
    let mut child = start(directory.path());
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    said.by_ref().take(1).for_each(drop);
    // What the writer goes on saying has to be read, or it would wait.
    let rest = std::thread::spawn(move || said.map_while(Result::ok).for_each(drop));
    let options = StoreOptions::new(Access::Server);
    let refused = Store::open(&directory.path().join(DATABASE_NAME), options);
    let process = child.id().to_string();
    let text = refused.map(drop).map_err(|error| error.to_string());
    // A short visit beside it is fine, and adds to the same chain.
    let tool = open(directory.path(), Access::Tool);
    write(&tool, "tool", 5);
    tool.close_wait();
    child.kill().unwrap();
    child.wait().unwrap();
    rest.join().unwrap();
    assert!(text.clone().is_err_and(|text| text.contains(&process)), "{text:?}");
    summary(directory.path());
}
