//! `silica audit`: read beside an open store, exported, and checked.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use expect_test::expect;
use serde_json::Value;
use silica_store::audit::{Activity, Begin, Finish, Note, RecordedUsage};
use silica_store::{Access, DATABASE_NAME, ExecutionId, SandboxId, Store, StoreOptions, Tenant};
use tempfile::TempDir;

use crate::harness::{CommandOutput, SILICA, finish, first_line, start};

/// A data directory whose store is open the way a server has it open.
struct AuditFixture {
    home: TempDir,
    store: Store,
}

impl AuditFixture {
    /// A note and executions `exe1` to `exe3`, the last without an end: six records.
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let options = StoreOptions::new(Access::Server);
        let store = Store::open(&home.path().join(DATABASE_NAME), options).unwrap();
        let fixture = Self { home, store };
        fixture
            .store
            .audit()
            .note(Note::new("server_started").with("version", "1"))
            .wait()
            .unwrap();
        fixture.execute("exe1", "alice", "print('one')", Some("ok"));
        fixture.execute("exe2", "bob", "raise ValueError('two')", Some("raised"));
        fixture.execute("exe3", "alice", "while True:\n    pass  # \u{1b}[31m\u{202e}", None);
        fixture
    }

    fn execute(&self, name: &str, who: &str, code: &str, outcome: Option<&str>) {
        let execution = ExecutionId::parse(name).unwrap();
        let mut begin = Begin::new(execution, Tenant::parse(who).unwrap(), Activity::Cell);
        begin.sandbox = Some(SandboxId::parse("sbx_00000000000000000001").unwrap());
        begin.code = Some(code.to_owned());
        let ticket = self.store.audit().begin(&begin).wait().unwrap();
        if let Some(outcome) = outcome {
            let mut finish = Finish::new(outcome);
            finish.usage = Some(RecordedUsage { wall_ms: 12, ..RecordedUsage::default() });
            self.store.audit().finish(ticket, &finish).wait().unwrap();
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(SILICA);
        command.arg("audit").args(arguments).env("SILICA_HOME", self.home.path());
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        finish(&mut self.command(arguments))
    }

    fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        let ran = self.run(arguments);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{ran:?}");
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Changes the database without the key of the log.
    fn tamper(&self, statement: &str) {
        let program = "import sqlite3, sys\n\
                       database = sqlite3.connect(sys.argv[1])\n\
                       database.execute(sys.argv[2])\n\
                       database.commit()";
        let path = self.file(DATABASE_NAME);
        let mut command = Command::new("python3");
        let ran = finish(command.args(["-c", program]).arg(path).arg(statement));
        assert_eq!(ran.status, 0, "{ran:?}");
    }
}

/// A table with its times and the spaces between columns made equal.
fn words(table: &str) -> String {
    let line = |line: &str| {
        let words = line.split_whitespace();
        let is_time = |word: &str| word.len() == 20 && word.ends_with('Z');
        let words = words.map(|word| if is_time(word) { "TIME" } else { word });
        words.collect::<Vec<_>>().join(" ") + "\n"
    };
    table.lines().map(line).collect()
}

#[test]
fn tail_shows_records_in_order_and_nothing_a_terminal_obeys() {
    let fixture = AuditFixture::new();
    expect![[r"
        SEQ TIME KIND TENANT SANDBOX WHAT
        1 TIME note - - server_started version=1
        2 TIME begin alice sbx_00000000000000000001 cell print('one')
        3 TIME finish alice sbx_00000000000000000001 ok
        4 TIME begin bob sbx_00000000000000000001 cell raise ValueError('two')
        5 TIME finish bob sbx_00000000000000000001 raised
        6 TIME begin alice sbx_00000000000000000001 cell while True:⏎ pass # \u{1b}[31m\u{202e}
    "]]
    .assert_eq(&words(&fixture.run(&["tail"]).stdout));
    let last = fixture.lines(&["tail", "-n", "2", "--json"]);
    let numbers: Vec<&Value> = last.iter().map(|record| &record["seq"]).collect();
    assert_eq!(numbers, [5, 6]);
    assert_eq!(fixture.run(&["tail", "-n", "1001"]).status, 2);
    assert_eq!(last[0]["body"]["outcome"], "raised");
    assert_eq!(last[1]["hash"].as_str().unwrap().len(), 64);
}

#[test]
fn follow_shows_new_records_as_they_come() {
    let fixture = AuditFixture::new();
    let mut child = start(&mut fixture.command(&["tail", "-n", "1", "--follow", "--json"]));
    let (old, mut reader) = first_line(&mut child);
    assert!(old.contains("\"seq\":6"), "{old}");
    fixture.store.audit().note(Note::new("server_stopped")).wait().unwrap();
    let mut new = String::new();
    std::io::BufRead::read_line(&mut reader, &mut new).unwrap();
    assert!(new.contains("\"seq\":7") && new.contains("server_stopped"), "{new}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn search_joins_beginnings_and_ends() {
    let fixture = AuditFixture::new();
    expect![[r"
        BEGUN EXECUTION TENANT OUTCOME MS CODE
        TIME exe3 alice unfinished - cell while True:⏎ pass # \u{1b}[31m\u{202e}
        TIME exe2 bob raised 12 cell raise ValueError('two')
        TIME exe1 alice ok 12 cell print('one')
    "]]
    .assert_eq(&words(&fixture.run(&["search"]).stdout));
    let found = |arguments: &[&str]| -> Vec<String> {
        let lines = fixture.lines(&[&["search", "--json"], arguments].concat());
        lines.iter().map(|one| one["execution"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found(&["--tenant", "alice"]), ["exe3", "exe1"]);
    assert_eq!(found(&["--outcome", "unfinished"]), ["exe3"]);
    assert_eq!(found(&["--text", "ValueError"]), ["exe2"]);
    assert_eq!(found(&["--sandbox", "sbx_00000000000000000001", "-n", "1"]), ["exe3"]);
    assert_eq!(found(&["--since", "1h"]), ["exe3", "exe2", "exe1"]);
    assert_eq!(found(&["--until", "2020-01-01"]), [""; 0]);
    let ran = fixture.run(&["search", "--text", "nowhere"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, ""));
    assert!(ran.stderr.contains("no execution matches"));
    let ran = fixture.run(&["search", "--since", "yesterday"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("2h for two hours ago"), "{}", ran.stderr);
}

#[test]
fn log_that_is_whole_verifies_and_tells_its_head() {
    let fixture = AuditFixture::new();
    let ran = fixture.run(&["verify"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let head = fixture.store.audit().head().wait().unwrap().to_string();
    let expected = format!(
        "The log is whole: 6 records, 1 to 6.\n\
         Executions without an end: 1: exe3\n\
         The head of the log; note it elsewhere for --head:\n{head}\n"
    );
    assert_eq!(ran.stdout, expected);
    fixture.execute("exe4", "bob", "4", Some("ok"));
    let json = fixture.run(&["verify", "--json", "--head", &head]).json();
    assert_eq!(
        (&json["whole"], &json["records"], &json["noted"]),
        (&true.into(), &8.into(), &"found".into())
    );
    assert_eq!(json["unfinished_ids"][0], "exe3");
}

#[test]
fn tampering_is_reported_by_the_exit_code_and_in_words() {
    let table = [
        (
            "UPDATE audit SET body = replace(body, 'one', 'won') WHERE seq = 2",
            "record 2 was changed",
        ),
        ("UPDATE audit SET tenant = 'bob' WHERE execution = 'exe1'", "record 2 was changed"),
        ("DELETE FROM audit WHERE seq = 3", "record 3 is missing"),
        ("DELETE FROM audit WHERE seq > 4", "records 5 to 6 were cut off at the end"),
    ];
    for (statement, words) in table {
        let fixture = AuditFixture::new();
        fixture.tamper(statement);
        let ran = fixture.run(&["verify"]);
        assert_eq!((ran.status, ran.stdout.as_str()), (1, ""), "{statement}");
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
        let json = fixture.run(&["verify", "--json"]).json();
        assert_eq!((&json["whole"], &json["message"]), (&false.into(), &words.into()));
    }
}

#[test]
fn head_noted_elsewhere_shows_a_log_put_back() {
    let fixture = AuditFixture::new();
    let head = fixture.store.audit().head().wait().unwrap();
    let later = format!("{}:{}", head.seq + 3, head.hash);
    let ran = fixture.run(&["verify", "--head", &later]);
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("replaced by an older copy"), "{}", ran.stderr);
    let other = format!("{}:{}", head.seq, "0".repeat(64));
    let ran = fixture.run(&["verify", "--head", &other]);
    assert!(ran.stderr.contains("is not the given head"), "{}", ran.stderr);
    let ran = fixture.run(&["verify", "--head", "6"]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("SEQ:HASH"), "{}", ran.stderr);
}

#[test]
fn exported_log_can_be_checked() {
    let fixture = AuditFixture::new();
    let path = fixture.file("log.jsonl");
    let name = path.to_str().unwrap();
    let ran = fixture.run(&["export", "--output", name]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, ""), "{ran:?}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let head = fixture.store.audit().head().wait().unwrap().to_string();
    assert!(ran.stderr.contains(&head), "{}", ran.stderr);
    assert_eq!(fixture.run(&["export"]).stdout, std::fs::read_to_string(&path).unwrap());
    let ran = fixture.run(&["verify", "--file", name, "--head", &head]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.stdout.starts_with("The log is whole: 6 records"), "{}", ran.stdout);
    let text = std::fs::read_to_string(&path).unwrap().replace("'one'", "'won'");
    std::fs::write(&path, text).unwrap();
    let ran = fixture.run(&["verify", "--file", name]);
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("record 2 was changed"), "{}", ran.stderr);
    let ran = fixture.run(&["export", "--output", name]);
    assert_eq!(ran.status, 125);
    assert!(ran.stderr.contains("cannot write") && ran.stderr.contains("exists"), "{}", ran.stderr);
}

#[test]
fn reader_that_has_seen_enough_is_no_error() {
    let fixture = AuditFixture::new();
    for number in 0..200 {
        fixture.execute(&format!("more{number}"), "bob", &"x".repeat(2000), Some("ok"));
    }
    let line = format!("{SILICA} audit export | head -n 1; echo ${{PIPESTATUS[0]}}");
    let mut command = Command::new("bash");
    let ran = finish(command.args(["-c", &line]).env("SILICA_HOME", fixture.home.path()));
    assert_eq!((ran.stdout.lines().nth(1), ran.stderr.as_str()), (Some("0"), ""), "{ran:?}");
}

#[test]
fn mistakes_are_explained() {
    let home = TempDir::new().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(SILICA);
        finish(command.arg("audit").args(arguments).env("SILICA_HOME", home.path()))
    };
    for arguments in [&["tail"][..], &["search"]] {
        let ran = run(arguments);
        assert_eq!((ran.status, ran.stdout.as_str()), (0, ""), "{ran:?}");
        assert!(ran.stderr.contains("there is no audit log yet"), "{}", ran.stderr);
    }
    for arguments in [&["verify"][..], &["export"]] {
        let ran = run(arguments);
        assert_eq!(ran.status, 125, "{ran:?}");
        assert!(ran.stderr.contains("there is no store"), "{}", ran.stderr);
        assert!(ran.stderr.contains("what to do"), "{}", ran.stderr);
    }
    let ran = run(&["verify", "--file", "/nowhere"]);
    assert!(ran.stderr.contains("cannot check /nowhere"), "{}", ran.stderr);
    let fixture = AuditFixture::new();
    std::fs::remove_file(fixture.file("audit.key")).unwrap();
    let ran = fixture.run(&["verify"]);
    assert_eq!(ran.status, 125);
    assert!(ran.stderr.contains("audit.key is missing"), "{}", ran.stderr);
    assert!(ran.stderr.contains("restore"), "{}", ran.stderr);
    assert_eq!(fixture.run(&["tail"]).status, 0);
}
