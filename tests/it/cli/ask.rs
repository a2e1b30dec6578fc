//! `silica ask` and `silica chat`, with a script in the model's place.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::harness::{CommandOutput, PYTHON, SILICA, TestHome, finish, on_terminal};

/// A place to ask from, and what the model says there.
struct Table {
    home: TestHome,
    script: PathBuf,
}

impl Table {
    fn new(script: &str) -> Self {
        let home = TestHome::new(PYTHON);
        let path = home.working_directory().join("turns.toml");
        std::fs::write(&path, script).unwrap();
        Self { home, script: path }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(SILICA);
        command
            .arg(arguments[0])
            .args(["--set", "sandboxes.template=python", "--set", "model.provider=scripted"])
            .arg("--set")
            .arg(format!("model.script={}", self.script.display()))
            .args(&arguments[1..])
            .env("SILICA_HOME", self.home.path())
            .current_dir(self.home.working_directory());
        command
    }

    fn ask(&self, arguments: &[&str]) -> CommandOutput {
        let all = [&["ask"], arguments].concat();
        finish(self.command(&all).stdin(std::process::Stdio::null()))
    }
}

const SUM: &str =
    "[[turn]]\nwhen = 'sum'\ntext = '''So:\n```python\nprint(sum(range(10)))\n```\n'''\n";

#[test]
fn an_answer_goes_to_stdout_and_code_only_where_it_is_wanted() {
    let table = Table::new(SUM);
    let ran = table.ask(&["--yes", "the sum"]);
    assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (0, "45\n", ""));
    let ran = table.ask(&["-y", "--show-code", "the sum"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "45\n"));
    assert!(
        ran.stderr.contains("print(sum(range(10)))") && !ran.stderr.contains('\x1b'),
        "{}",
        ran.stderr
    );
}

#[test]
fn json_is_what_the_server_says() {
    let table = Table::new(SUM);
    let ran = table.ask(&["--yes", "--json", "the sum"]);
    let answer = ran.json();
    assert_eq!((ran.stdout.lines().count(), ran.stderr.as_str()), (1, ""));
    assert_eq!((&answer["output"], &answer["success"]), (&json!("45"), &json!(true)));
    assert_eq!(answer["code"], "print(sum(range(10)))");
}

#[test]
fn nobody_to_ask_is_no_consent() {
    let table = Table::new(SUM);
    let ran = table.ask(&["the sum"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""));
    assert!(ran.stderr.contains("--yes"), "{}", ran.stderr);
}

#[test]
fn files_go_in_and_what_is_made_is_saved_beside() {
    let code = "text = open('data.csv').read()\nopen('out.txt', 'w').write(text.upper())\nNone";
    let table = Table::new(&format!("[[turn]]\ntext = '''```python\n{code}\n```'''\n"));
    let here = table.home.working_directory();
    std::fs::write(here.join("data.csv"), "a,b").unwrap();
    std::fs::write(here.join("out.txt"), "mine").unwrap();
    let ran = table.ask(&["--yes", "--file", "data.csv", "shout"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("saved ./out-1.txt"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(here.join("out-1.txt")).unwrap(), "A,B");
    assert_eq!(std::fs::read_to_string(here.join("out.txt")).unwrap(), "mine");
    assert_eq!(table.ask(&["--yes", "--file", "missing.csv", "shout"]).status, 125);
}

#[test]
fn failures_have_a_status_and_words() {
    let table = Table::new("[[turn]]\nwhen = 'zero'\ntext = '''```python\n1 / 0\n```'''\n");
    let ran = table.ask(&["--yes", "zero"]);
    assert_eq!(ran.status, 1);
    assert!(
        ran.stderr.contains("ZeroDivisionError") && ran.stderr.contains("the same code again"),
        "{}",
        ran.stderr
    );
    let ran = table.ask(&["--yes", "--set", "model.provider=none", "zero"]);
    assert_eq!(ran.status, 125);
    assert!(ran.stderr.contains("a model is needed"), "{}", ran.stderr);
    let ran = table.ask(&["--yes", "something else"]);
    assert!(ran.stderr.contains("has no turn for this"), "{}", ran.stderr);
}

#[test]
fn what_is_missing_is_said_before_anything_is_built() {
    let table = Table::new(SUM);
    let empty = tempfile::TempDir::new().unwrap();
    for (setting, said) in [
        (&["model.provider=none"][..], "a model is needed"),
        (
            &["model.provider=openai", "model.name=m", "model.base_url=http://127.0.0.1:1"],
            "SILICA_MODEL_KEY or model.key_file, or model.key_needed=no",
        ),
    ] {
        let mut command = table.command(&["ask", "--yes"]);
        for setting in setting {
            command.args(["--set", setting]);
        }
        let command = command.arg("the sum").env("SILICA_HOME", empty.path());
        let ran = finish(command.env_remove("SILICA_MODEL_KEY"));
        assert!(ran.status == 125 && ran.stderr.contains(said), "{ran:?}");
        assert!(!ran.stderr.contains("building"), "{ran:?}");
    }
}

#[test]
fn model_and_policy_of_the_command_line_count() {
    let table = Table::new(SUM);
    let ran = table.ask(&["--yes", "--json", "--model", "other", "the sum"]);
    assert_eq!((ran.status, &ran.json()["usage"]["model"]), (0, &json!("other")), "{ran:?}");
    let policy = "name = 'mine'\nextends = 'open'\n[[rule]]\nid = 'no-sum'\naction = 'block'\n\
                  severity = 'high'\nkind = 'call'\nnames = ['sum']\nwhy = 'no sums'\n";
    std::fs::write(table.home.working_directory().join("mine.toml"), policy).unwrap();
    let ran = table.ask(&["--yes", "--policy", "mine.toml", "the sum"]);
    assert!(ran.status != 0 && ran.stderr.contains("Blocked call: sum()"), "{ran:?}");
    let ran = table.ask(&["--yes", "--policy", "nope", "the sum"]);
    let said = "there is no preset or file nope; presets are strict, data and open";
    assert!(ran.status == 125 && ran.stderr.contains(said), "{ran:?}");
}

#[test]
fn a_chat_remembers_variables() {
    let turns = "[[turn]]\ncode = \"x = 20; open('a.txt', 'w').close()\"\n[[turn]]\ntext = 'Noted.'\n\
                 [[turn]]\ncode = 'print(x + 1)'\n[[turn]]\ntext = 'It is 21.'\n";
    let table = Table::new(turns);
    let mut command = table.command(&["chat", "--yes"]);
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let said = "note 20\n/files\nand one more\n/history\n/unknown\n/quit\n";
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), said.as_bytes()).unwrap();
    let ran = crate::harness::collect(child);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "Noted.\n21\nIt is 21.\n"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("/workspace/a.txt") && ran.stderr.contains("  and one more"),
        "{}",
        ran.stderr
    );
}

#[test]
fn nobody_is_asked_about_code_they_have_not_seen() {
    let table = Table::new(SUM);
    let question = ("[Y/n] ", "y\n");
    let shown = on_terminal(table.command(&["ask", "the sum"]), &[question]);
    let code = "So:\n```python\nprint(sum(range(10)))\n```\n";
    assert_eq!(shown, format!("{code}silica: run this? [Y/n] y\n45\n"));
    let shown = on_terminal(table.command(&["ask", "--json", "the sum"]), &[question]);
    let code = "  print(sum(range(10)))\nsilica: run this? [Y/n] y\n{";
    assert!(shown.starts_with(code), "{shown}");
}

#[test]
fn a_chat_says_everything_once() {
    let turns = "[[turn]]\ntext = \"As in:\\n```python\\nf(1)\\n```\"\ncode = 'print(6 * 7)'\n\
                 [[turn]]\ntext = \"So it is:\\n```python\\nx = 42\\n```\"\n";
    let table = Table::new(turns);
    let typed = [("> ", "go\n"), ("[Y/n] ", "y\n"), ("> ", "/quit\n")];
    let shown = on_terminal(table.command(&["chat"]), &typed);
    let (_, shown) = shown.split_once("> ").unwrap();
    assert_eq!(
        shown,
        "go\nAs in:\n```python\nf(1)\n```\n  print(6 * 7)\nsilica: run this? [Y/n] y\n42\n\
         So it is:\n```python\nx = 42\n```\n> /quit\n"
    );
}
