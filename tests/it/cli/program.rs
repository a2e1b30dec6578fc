//! `silica run` as people try it: arguments, file names, notebooks, inputs, a server, pictures.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::server::TestServer;
use crate::harness::{PYTHON, SCIENCE, SILICA, TestHome, finish, on_terminal};

#[test]
fn arguments_are_those_of_python() {
    let home = TestHome::new(PYTHON);
    let script = home.working_directory().join("script.py");
    fs::write(&script, "import sys; print(sys.argv)").unwrap();
    let table: [(&[&str], &str); 6] = [
        (&["script.py"], "['script.py']\n"),
        (&["script.py", "a", "--b", "-c"], "['script.py', 'a', '--b', '-c']\n"),
        (&["script.py", "--", "a", "--", "b"], "['script.py', 'a', '--', 'b']\n"),
        (&["--memory", "300M", "script.py", "--memory", "1G"], "['script.py', '--memory', '1G']\n"),
        (&["-c", "import sys; print(sys.argv)", "a", "-b"], "['-c', 'a', '-b']\n"),
        (&["-c", "import sys; print(sys.argv)", "--", "-x"], "['-c', '-x']\n"),
    ];
    for (arguments, printed) in table {
        let ran = home.run(arguments);
        assert_eq!((ran.status, ran.stdout.as_str()), (0, printed), "{arguments:?} {}", ran.stderr);
    }
    let typed = home.run_with_stdin(&["-", "a"], b"import sys; print(sys.argv)");
    assert_eq!(typed.stdout, "['-', 'a']\n");
    let note = home.run(&["script.py", "--in", "x"]);
    assert!(note.stderr.contains("--in after the file is an argument"), "{}", note.stderr);
}

#[test]
fn an_option_that_is_not_there_is_refused() {
    let home = TestHome::new(PYTHON);
    let ran = home.run(&["--memroy", "1G", "script.py"]);
    assert_eq!(ran.status, 125);
    assert!(ran.stderr.contains("there is no option --memroy"), "{}", ran.stderr);
}

#[test]
fn tracebacks_name_the_file_and_its_lines() {
    let home = TestHome::new(PYTHON);
    let script =
        "import os\ndef half(x):\n    return x / 0\nprint(os.path.basename(__file__))\nhalf(1)\n";
    fs::write(home.working_directory().join("script.py"), script).unwrap();
    let ran = home.run(&["script.py"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (1, "script.py\n"));
    let expected = [
        "  File \"script.py\", line 5, in <module>\n    half(1)",
        "  File \"script.py\", line 3, in half\n    return x / 0",
        "ZeroDivisionError: division by zero",
    ];
    for text in expected {
        assert!(ran.stderr.contains(text), "{}", ran.stderr);
    }
    assert!(!ran.stderr.contains("Cell In") && !ran.stderr.contains('\x1b'), "{}", ran.stderr);
}

fn notebook(cells: &[&str]) -> String {
    let cell = |source: &&str| json!({"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": null, "source": source});
    let title = json!({"cell_type": "markdown", "metadata": {}, "source": ["# Title"]});
    let cells: Vec<Value> = std::iter::once(title).chain(cells.iter().map(cell)).collect();
    json!({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}).to_string()
}

#[test]
fn a_notebook_runs_in_one_interpreter_up_to_the_first_error() {
    let home = TestHome::new(PYTHON);
    let path = home.working_directory().join("n.ipynb");
    fs::write(&path, notebook(&["x = 1\nprint('one')", "x + 1", "1 / 0", "print('never')"]))
        .unwrap();
    let ran = home.run(&["--save-notebook", "out.ipynb", "n.ipynb"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (1, "one\n2\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("Cell In[3], line 1"), "{}", ran.stderr);
    let saved: Value =
        serde_json::from_slice(&fs::read(home.working_directory().join("out.ipynb")).unwrap())
            .unwrap();
    let kinds: Vec<_> =
        (1..5).map(|cell| saved["cells"][cell]["outputs"][0]["output_type"].clone()).collect();
    assert_eq!(kinds, [json!("stream"), json!("execute_result"), json!("error"), Value::Null]);
    assert_eq!(saved["cells"][0]["source"], json!(["# Title"]));
    let all = home.run(&["--allow-errors", "n.ipynb"]);
    assert_eq!((all.status, all.stdout.as_str()), (0, "one\n2\nnever\n"));
}

/// Jupyter's own library takes what is saved.
#[test]
fn a_saved_notebook_is_valid() {
    let home = TestHome::new(SCIENCE);
    let code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n{1: 2}";
    let ran = home.run(&["--save-notebook", "n.ipynb", "-c", code]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let saved: Value =
        serde_json::from_slice(&fs::read(home.working_directory().join("n.ipynb")).unwrap())
            .unwrap();
    assert_eq!((&saved["nbformat"], &saved["nbformat_minor"]), (&json!(4), &json!(5)));
    let cell = &saved["cells"][0];
    assert_eq!((&cell["source"], &cell["execution_count"]), (&json!(code), &json!(1)));
    let outputs = cell["outputs"].as_array().unwrap();
    assert_eq!(outputs.last().unwrap()["data"]["text/plain"], "{1: 2}");
    assert_eq!(outputs.iter().filter(|output| output["output_type"] == "stream").count(), 2);
}

#[test]
fn inputs_are_in_the_working_directory_too() {
    let home = TestHome::new(PYTHON);
    fs::write(home.working_directory().join("temps.csv"), "1,2\n").unwrap();
    fs::create_dir(home.working_directory().join("folder")).unwrap();
    fs::write(home.working_directory().join("folder/a"), "a").unwrap();
    let code = "print(open('temps.csv').read() == open('/data/input/temps.csv').read(), open('folder/a').read())\n\
                try:\n    open('temps.csv', 'w')\nexcept OSError as error:\n    print(error.strerror)";
    let ran = home.run(&["--in", "temps.csv", "--in", "folder", "-c", code]);
    assert_eq!(ran.stdout, "True a\nRead-only file system\n", "{}", ran.stderr);
    let json = home.json("print(open('temps.csv').read())", &["--in", "temps.csv"]);
    assert_eq!(json["files"]["created"], json!([]), "{json}");
}

/// What a server prints is what this machine prints.
#[test]
fn a_server_gives_the_same_output() {
    let server = TestServer::new();
    let home = server.home();
    let directory = home.working_directory();
    let script = "import sys, os\nprint(sys.argv, os.environ['A'], open('temps.csv').read())\n\
                  open('made', 'w').write('x' * 10)\nprint('err', file=sys.stderr)\n[1, 2]\n";
    fs::write(directory.join("script.py"), script).unwrap();
    fs::write(directory.join("bad.py"), "def f():\n    1 / 0\nf()\n").unwrap();
    fs::write(directory.join("temps.csv"), "1,2").unwrap();
    let run = |remote: bool, arguments: &[&str]| {
        let mut command = home.command();
        command.env("SILICA_KEY", server.admin.key.as_deref().unwrap());
        if remote {
            command.args(["--url", &server.url()]);
        }
        finish(command.args(arguments))
    };
    let options = ["--env", "A=b", "--in", "temps.csv", "--out", "made", "script.py", "x"];
    let (here, there) = (run(false, &options), run(true, &options));
    assert_eq!(here.stdout, "['script.py', 'x'] b 1,2\n[1, 2]\n", "{}", here.stderr);
    assert_eq!((here.status, here.stdout, here.stderr), (there.status, there.stdout, there.stderr));
    assert_eq!(fs::read(directory.join("made")).unwrap(), b"xxxxxxxxxx");
    let (here, there) = (run(false, &["bad.py"]), run(true, &["bad.py"]));
    assert!(here.stderr.contains("File \"bad.py\", line 2, in f"), "{}", here.stderr);
    assert_eq!((here.status, here.stderr), (there.status, there.stderr));
    let code = "import pathlib\nprint(pathlib.Path('/data/input/in.csv').read_text())\n\
                pathlib.Path('made').write_text('y' * 7)\n\
                try:\n    open('in.csv', 'w')\nexcept OSError as error:\n    print(error.strerror)";
    let options = ["--json", "--timeout", "10m", "--in", "temps.csv:in.csv", "--out", "made:kept"];
    let keys = ["stdout", "outcome", "exit_code", "outputs", "files", "state"];
    let mut shown = Vec::new();
    for remote in [false, true] {
        let ran = run(remote, &[&options[..], &["-c", code]].concat());
        let report = ran.json();
        assert_eq!(report["stdout"], "1,2\nRead-only file system\n", "{}", ran.stderr);
        assert!(report["containment"]["measures"].is_object(), "{report}");
        assert_eq!(fs::read(directory.join("kept")).unwrap(), b"yyyyyyy");
        fs::remove_file(directory.join("kept")).unwrap();
        shown.push((ran.status, keys.map(|key| report[key].clone())));
    }
    assert_eq!(shown[0], shown[1]);
    let missing = run(true, &["--json", "--out", "absent", "-c", "1"]);
    assert_eq!(missing.status, 125, "{}", missing.stderr);
    assert!(missing.json()["outputs"][0]["error"].is_string(), "{}", missing.stdout);
    // The sandboxes have gone, and only the key of the environment is used.
    let listed = server.admin.get("/v1/sandboxes?state=running").expect(200).json();
    assert_eq!(listed["sandboxes"], json!([]), "{listed}");
    let mut command = home.command();
    command.env("SILICA_KEY", "silica_wrong").args(["--url", &server.url(), "-c", "1"]);
    let refused = finish(&mut command);
    assert_eq!(refused.status, 125);
    assert!(refused.stderr.contains("does not accept the key"), "{}", refused.stderr);
}

/// A picture goes to a terminal that is known to show it, and never into a pipe.
#[test]
fn pictures_are_shown_where_they_can_be() {
    let home = TestHome::new(SCIENCE);
    let code =
        "class P:\n    def _repr_mimebundle_(self, **_): return {'image/png': b'\\x89PNG'}\nP()";
    let piped = finish(home.command().env("TERM_PROGRAM", "iTerm.app").args(["-c", code]));
    assert!(!piped.stdout.contains('\x1b'), "{piped:?}");
    let show = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = home.command();
        for name in ["TMUX", "STY", "KITTY_WINDOW_ID", "TERM_PROGRAM", "NO_COLOR"] {
            command.env_remove(name);
        }
        command.env("TERM", "xterm-256color").envs(variables.iter().copied());
        command.args(arguments).args(["-c", code]);
        on_terminal(command, &[])
    };
    let iterm = ("TERM_PROGRAM", "iTerm.app");
    assert!(show(&[], &[iterm]).contains("\x1b]1337;File=inline=1;size=4:iVBORw=="));
    assert!(show(&[], &[("KITTY_WINDOW_ID", "1")]).contains("\x1b_Ga=T,f=100,m=0;iVBORw=="));
    assert!(!show(&["--pictures", "never"], &[iterm]).contains("\x1b]1337"));
    assert!(!show(&[], &[iterm, ("TMUX", "1")]).contains("\x1b]1337"));
    assert!(!show(&[], &[]).contains('\x1b'));
}

#[test]
fn an_error_is_red_on_a_terminal_that_wants_it() {
    let home = TestHome::new(PYTHON);
    let shown = |variables: &[(&str, &str)]| {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{SILICA} run --template {PYTHON} -c 1/0; true")])
            .env("SILICA_HOME", home.path())
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied());
        crate::harness::on_terminal_raw(command, &[])
    };
    assert!(shown(&[]).contains("\x1b[31mZeroDivisionError: division by zero\x1b[0m"));
    assert!(!shown(&[("NO_COLOR", "1")]).contains('\x1b'));
}
