//! `silica run` as people use it: where code comes from, what is shown, how it ends.

use std::io::{BufRead, Read};
use std::process::{Command, Stdio};

use expect_test::{Expect, expect};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::server::TestServer;
use crate::harness::{
    PYTHON, SILICA, TestHome, collect, finish, first_line, on_terminal, signal, start,
};

#[test]
fn code_comes_from_a_file_an_argument_or_stdin() {
    let home = TestHome::new(PYTHON);
    let code = "import sys\nprint(2 + 2, sys.argv)\n";
    std::fs::write(home.working_directory().join("four.py"), code).unwrap();
    let runs = [
        (home.run(&["four.py"]), "4 ['four.py']\n"),
        (home.run(&["-c", code]), "4 ['-c']\n"),
        (home.run_with_stdin(&[], code.as_bytes()), "4 ['-']\n"),
        (home.run_with_stdin(&["-"], code.as_bytes()), "4 ['-']\n"),
    ];
    for (ran, expected) in runs {
        assert_eq!((ran.status, ran.stdout.as_str(), ran.stderr.as_str()), (0, expected, ""));
    }
}

#[test]
fn code_can_be_typed() {
    let home = TestHome::new(PYTHON);
    let mut command = home.command();
    command.arg("-");
    let shown = on_terminal(command, &[("end it with Ctrl-D", "print(6 * 7)\n\x04")]);
    assert!(shown.ends_with("print(6 * 7)\n42\n"), "{shown:?}");
}

#[test]
fn exit_status_tells_how_the_code_ended() {
    let home = TestHome::new(PYTHON);
    let table = [
        ("pass", 0, "ok"),
        ("raise ValueError('no')", 1, "raised"),
        ("import sys; sys.exit(3)", 3, "exited"),
        ("import sys; sys.exit('words')", 1, "exited"),
        ("import sys; sys.exit()", 0, "exited"),
        ("import os; os._exit(4)", 4, "vanished"),
        ("import os; os.abort()", 134, "crashed"),
        ("import ctypes; ctypes.string_at(0)", 139, "crashed"),
        ("import os; os.kill(os.getpid(), 9)", 137, "crashed"),
    ];
    for (code, status, outcome) in table {
        let ran = home.run(&["--json", "-c", code]);
        let json = ran.json();
        assert_eq!((ran.status, json["outcome"].as_str()), (status, Some(outcome)), "{code}");
        assert_eq!(json["exit_code"], status, "{code}");
    }
}

#[test]
fn traceback_goes_to_stderr_and_names_the_line() {
    let home = TestHome::new(PYTHON);
    let ran = home.run(&["-c", "print('before')\n1 / 0"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (1, "before\n"));
    assert!(ran.stderr.contains("ZeroDivisionError: division by zero"), "{}", ran.stderr);
    assert!(ran.stderr.contains("1 / 0"), "{}", ran.stderr);
}

/// The reader of stderr may have gone; the status is still that of the code.
#[test]
fn broken_stderr_changes_nothing() {
    let home = TestHome::new(PYTHON);
    for (arguments, status, stdout) in [
        (&["-c", "import sys; print('out'); sys.exit(3)"][..], 3, "out\n"),
        (&["-c", "1 / 0"], 1, ""),
        (&["-c", "print('out')", "--in", "missing"], 125, ""),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = home.command().args(arguments).stderr(writer).output().unwrap();
        let shown = String::from_utf8(ran.stdout).unwrap();
        assert_eq!((ran.status.code(), shown.as_str()), (Some(status), stdout), "{arguments:?}");
    }
}

#[test]
fn json_has_exactly_the_documented_keys() {
    let home = TestHome::new(PYTHON);
    let json = home.json("print('out'); print(1 / 0)", &[]);
    let keys = |value: &serde_json::Value| {
        let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        keys.join(" ")
    };
    let shape = format!(
        "{}\nerror: {}\nusage: {}\ntruncated: {}\ncontainment: {}\nmeasures: {}\n",
        keys(&json),
        keys(&json["error"]),
        keys(&json["usage"]),
        keys(&json["truncated"]),
        keys(&json["containment"]),
        keys(&json["containment"]["measures"]),
    );
    expect![[r"
        containment created_at duration_ms error exit_code files id kernel kernel_state limits_hit lost message outcome outputs results state stderr stdout text truncated usage
        error: name traceback value
        usage: cpu_ms memory_peak_bytes
        truncated: by_budget results stderr stdout
        containment: measures tier
        measures: capabilities cpu_share cpu_time disk landlock memory namespaces nested_namespaces network processes root seccomp user_id
    "]].assert_eq(&shape);
    assert_eq!(json["stdout"], "out\n");
    assert_eq!(json["error"]["name"], "ZeroDivisionError");
    assert_eq!(json["error"]["value"], "division by zero");
    assert!(json["duration_ms"].as_f64().unwrap() > 0.0);
    let traceback = json["error"]["traceback"].as_array().unwrap();
    assert!(traceback.iter().any(|line| line.as_str().unwrap().contains("ZeroDivisionError")));
}

/// `silica run --json` and `POST /v1/run` print one object: the same keys and values, what was measured
/// apart.
#[test]
fn json_is_the_object_of_the_api() {
    let server = TestServer::new();
    let home = TestHome::new(PYTHON);
    let shown = "from IPython.display import JSON, display\ndisplay(JSON({'a': [1, 2]}))\n";
    let written = "open('new', 'w').write('123')\nprint('out')\n6 * 7";
    for code in [written, shown, "print('before')\n1 / 0", "import sys; sys.exit(3)"] {
        let mut command = home.json(code, &[]);
        let mut api = server.admin.post("/v1/run", &json!({"code": code})).expect(200).json();
        assert!(command["containment"]["measures"].is_object(), "{command}");
        command.as_object_mut().unwrap().shift_remove("containment");
        for ran in [&mut command, &mut api] {
            for measured in ["created_at", "duration_ms", "usage"] {
                assert!(!ran[measured].is_null(), "{measured} in {ran}");
                ran[measured] = Value::Null;
            }
        }
        assert_eq!(command.to_string(), api.to_string(), "{code}");
    }
    let ran = home.json("open('new', 'w').write('123')", &["--out", "new"]);
    assert_eq!(ran["outputs"], json!([{"path": "/workspace/new", "size": 3}]));
    assert_eq!(ran["files"]["created"], json!([{"path": "/workspace/new", "size": 3}]));
}

#[test]
fn json_prints_one_object_and_nothing_else() {
    let home = TestHome::new(PYTHON);
    let ran = home.run(&["--json", "-c", "import sys; print(1); print(2, file=sys.stderr); 3"]);
    assert_eq!((ran.stdout.lines().count(), ran.stderr.as_str()), (1, ""));
    let json = ran.json();
    assert_eq!((&json["stdout"], &json["stderr"]), (&"1\n".into(), &"2\n".into()));
    assert_eq!(json["results"][0]["data"]["text/plain"], "3");
    assert_eq!(json["results"][0]["main"], true);
}

#[test]
fn variables_are_set_for_code_and_its_children() {
    let home = TestHome::new(PYTHON);
    let code = "import os, subprocess\n\
                print(os.environ['COLOUR'], os.environ['EMPTY'] == '')\n\
                print(subprocess.run('echo $COLOUR', shell=True, capture_output=True).stdout)";
    let ran = home.run(&["--env", "COLOUR=a=b", "--env", "EMPTY=", "-c", code]);
    assert_eq!(ran.stdout, "a=b True\nb'a=b\\n'\n", "{}", ran.stderr);
    for wrong in ["COLOUR", "=value"] {
        let ran = home.run(&["--env", wrong, "-c", ""]);
        assert_eq!(ran.status, 2, "{wrong}");
        assert!(ran.stderr.contains("NAME=VALUE"), "{}", ran.stderr);
    }
}

#[test]
fn value_of_the_last_expression_is_shown_in_order() {
    let home = TestHome::new(PYTHON);
    for (code, shown) in [
        ("2 + 2", "4\n"),
        ("print('a')\n[1, 'b']", "a\n[1, 'b']\n"),
        ("x = 5", ""),
        ("7;", ""),
        ("None", ""),
        ("display('d'); print('p'); 'v'", "'d'\np\n'v'\n"),
    ] {
        let ran = home.run(&["-c", code]);
        assert_eq!((ran.status, ran.stdout.as_str()), (0, shown), "{code}: {}", ran.stderr);
    }
}

#[test]
fn output_arrives_while_the_code_runs() {
    let home = TestHome::new(PYTHON);
    let mut command = home.command();
    let code = "print('first')\nimport time\ntime.sleep(50)";
    let mut child = start(command.args(["-c", code]));
    let (line, _reader) = first_line(&mut child);
    assert_eq!(line, "first");
    assert!(child.try_wait().unwrap().is_none(), "the line came only with the end");
    signal(child.id(), Signal::INT);
    assert_eq!(collect(child).status, 130);
}

#[test]
fn ctrl_c_interrupts() {
    let home = TestHome::new(PYTHON);
    let code = "import time\ntry:\n  print('up')\n  time.sleep(50)\nfinally:\n  print('tidied')";
    let mut command = home.command();
    let mut child = start(command.args(["-c", code]));
    let (line, mut reader) = first_line(&mut child);
    assert_eq!(line, "up");
    signal(child.id(), Signal::INT);
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    let ran = collect(child);
    assert_eq!((ran.status, rest.as_str()), (130, "tidied\n"));
    assert!(ran.stderr.contains("silica: interrupted"), "{}", ran.stderr);
}

#[test]
fn second_ctrl_c_ends_code_that_ignores_the_first() {
    let home = TestHome::new(PYTHON);
    // Not `print`, which must not be entered again from a handler.
    let code = "import os, signal, time\n\
                signal.signal(signal.SIGINT, lambda *_: os.write(1, b'ignored\\n'))\n\
                print('up')\n\
                while True: time.sleep(1)";
    let mut command = home.command();
    let mut child = start(command.args(["-c", code]));
    let (line, mut reader) = first_line(&mut child);
    assert_eq!(line, "up");
    signal(child.id(), Signal::INT);
    let mut answer = String::new();
    reader.read_line(&mut answer).unwrap();
    assert_eq!(answer, "ignored\n");
    assert!(child.try_wait().unwrap().is_none());
    signal(child.id(), Signal::INT);
    let ran = collect(child);
    let said = "silica: interrupted; press Ctrl-C again to end it\n";
    assert!(ran.status == 130 && ran.stderr.starts_with(said), "{ran:?}");
}

#[test]
fn reader_that_leaves_early_is_no_failure() {
    let home = TestHome::new(PYTHON);
    let line =
        format!("{SILICA} run --template python -c 'for i in range(300000): print(i)' | head -1");
    let mut command = Command::new("bash");
    command.args(["-c", &format!("set -o pipefail; {line}")]);
    let ran = finish(command.env("SILICA_HOME", home.path()));
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "0\n"), "{}", ran.stderr);
}

#[test]
fn commands_whose_reader_has_gone_end_quietly() {
    let home = TestHome::new(PYTHON);
    for arguments in [
        &["run", "--template", "python", "--json", "-c", "1"][..],
        &["config"],
        &["config", "--json"],
        &["config", "--default"],
        &["template", "list"],
        &["template", "show", "python"],
        &["doctor"],
        &["doctor", "--json"],
        &["doctor", "--calls"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(SILICA);
        command.args(arguments).env("SILICA_HOME", home.path());
        let ran = collect(command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap());
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{arguments:?}");
    }
}

#[test]
fn templates_that_are_not_there_or_not_right_are_told_by_their_names() {
    let home = TestHome::new(PYTHON);
    std::fs::write(home.working_directory().join("bad.toml"), "name = 'mine'\nnumber = 1\n")
        .unwrap();
    for (arguments, said) in [
        (["show", "nope"], "silica: there is no template `nope`; built in are: "),
        (
            ["build", "./bad.toml"],
            "silica: ./bad.toml is not a valid template\n  because: TOML parse error at line 2",
        ),
    ] {
        let mut command = Command::new(SILICA);
        command.arg("template").args(arguments).current_dir(home.working_directory());
        let ran = finish(command.env("SILICA_HOME", home.path()));
        assert!(ran.status == 125 && ran.stderr.starts_with(said), "{ran:?}");
    }
}

#[test]
fn result_that_is_an_image_is_saved_under_a_free_name() {
    let home = TestHome::new(PYTHON);
    let code = "class Picture:\n  def _repr_png_(self): return b'\\x89PNG'\nPicture()";
    std::fs::write(home.working_directory().join("silica-1.png"), "mine").unwrap();
    let ran = home.run(&["-c", code]);
    assert!(ran.stderr.contains("silica: saved silica-2.png"), "{}", ran.stderr);
    assert_eq!(std::fs::read(home.working_directory().join("silica-1.png")).unwrap(), b"mine");
    assert_eq!(std::fs::read(home.working_directory().join("silica-2.png")).unwrap(), b"\x89PNG");
}

fn check_help(arguments: &[&str], expected: &Expect) {
    let ran = finish(Command::new(SILICA).args(arguments).env("COLUMNS", "100"));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    expected.assert_eq(&ran.stdout);
}

#[test]
fn help_of_the_binary() {
    check_help(
        &["--help"],
        &expect![[r"
            A code interpreter you own: untrusted Python, contained, in milliseconds

            Usage: silica <COMMAND>

            Commands:
              run          Run code in a sandbox of its own and show what comes out
              repl         Work in a live sandbox, line by line
              check        Read code and tell what a policy makes of it, without running it
              ask          Ask in plain words: a model writes code, the code runs, the answer comes back
              chat         Ask again and again: variables and files stay
              mcp          Run code for a client of the Model Context Protocol, on standard input and output
              serve        Serve sandboxes over HTTP, with keys, quotas and an audit log
              init         Write a configuration, a key and a template, and print the lines to copy
              status       Tell whether a server is up, ready and busy
              logs         Show the log of the server on this machine
              top          Watch the sandboxes of a running server
              template     Build, list, show and remove templates
              approvals    See what waits for a person on a running server, and decide
              key          Make, list and revoke keys
              secret       Store, list and delete secrets on a running server
              audit        Look at the audit log, export it, and check that nobody changed it
              doctor       Tell what this host offers and enforces, and what is missing
              config       Show the configuration of the server, and where each value comes from
              install      Install this program with its manual pages and completions
              uninstall    Remove what `silica install` installed, and the data if asked to
              completions  Print a file that completes commands in a shell
              man          Print the manual page of silica or of one of its commands
              version      Print the version
              help         Print this message or the help of the given subcommand(s)

            Options:
              -h, --help     Print help
              -V, --version  Print version
        "]],
    );
}

#[test]
fn help_of_top() {
    check_help(
        &["top", "--help"],
        &expect![[r"
            Watch the sandboxes of a running server

            Usage: silica top [OPTIONS]

            Options:
                  --url <URL>      The server [default: SILICA_URL, else http://127.0.0.1:8585]
                  --ca <FILE>      A certificate to trust besides those of the system, PEM [default: SILICA_CA]
                  --key <KEY>      An admin key [default: SILICA_KEY]
              -n <COUNT>           Print this many reports, then stop
                  --once           Print one report, as with -n 1; the default if the output is a file or pipe
                  --json           Print each report as one line of JSON
                  --sort <COLUMN>  The column to sort by [default: cpu] [possible values: cpu, memory, cells,
                                   age, expires, owner, id]
              -h, --help           Print help
        "]],
    );
}

#[test]
fn help_of_run() {
    check_help(
        &["run", "--help"],
        &expect![[r"
            Run code in a sandbox of its own and show what comes out

            Usage: silica run [OPTIONS] [FILE [ARGUMENT]...]
                   silica run [OPTIONS] -c CODE [ARGUMENT]...

            Arguments:
              [FILE [ARGUMENT]]...  A Python file or a notebook (.ipynb), and its arguments; `-` or nothing for
                                    standard input. What follows the file belongs to the program, so options of
                                    silica come before it

            Options:
              -c <CODE>                   The code itself
                  --template <TEMPLATE>   What the sandbox starts from [default: code-interpreter]
                  --tier <TIER>           What isolates the sandbox: jail [default: jail]
                  --env <NAME=VALUE>      Set a variable for the code; can be given again
                  --in <HOST[:GUEST]>     Show a file or directory read-only in the working directory, and as
                                          /data/input/GUEST; can be given again
                  --out <GUEST[:HOST]>    Copy a file or directory out afterwards; can be given again
                  --save-notebook <FILE>  Save the code with all it printed and showed as a notebook
                  --allow-errors          Go on with a notebook after a cell that failed
                  --pictures <WHEN>       Show pictures in the terminal: auto, if it is known to show them, or
                                          never [default: auto]
                  --json                  Print one JSON object at the end and nothing before
                  --fresh                 Never use an interpreter forked from a warm one. A single run always
                                          starts its own; the flag is for scripts that must not depend on that
              -h, --help                  Print help

            Network:
                  --net <RULE>                      Let the code reach a host: HOST, HOST:PORT or
                                                    HOST:PORT/PROTOCOL (tls, http, tcp), or `open` for every
                                                    public host on ports 80 and 443; can be given again
                  --net-private <CIDR>              Let the code reach a range of addresses that are not public,
                                                    if a rule names the host; can be given again
                  --net-host <NAME=ADDRESS>         Use an address for a name instead of looking it up; can be
                                                    given again
                  --net-roots <FILE>                Trust the authorities of a PEM file beside the public ones
                  --secret <NAME=FILE@HOST[,HOST]>  Let the code use a secret at some hosts and never see it:
                                                    the variable NAME holds a placeholder, which headers of
                                                    requests to these hosts may carry. The value is in FILE, or
                                                    in a variable of this machine as env:VARIABLE; can be given
                                                    again
                  --url <URL>                       Use a server instead of this machine; the key is taken from
                                                    SILICA_KEY
                  --server                          Use the server of SILICA_URL
                  --ca <FILE>                       A certificate to trust besides those of the system, PEM
                                                    [default: SILICA_CA]

            Limits:
                  --memory <SIZE>        Memory for all processes and files together [default: 512M]
                  --cpus <NUMBER>        Processors, for example 0.5 or 2 [default: 1]
                  --timeout <TIME>       Wall-clock time of the code, or of each cell [default: 60s]
                  --cpu-seconds <TIME>   Processor time [default: 30s]
                  --disk <SIZE>          Writable files, all together [default: 100M]
                  --file-size <SIZE>     The largest single file [default: 100M]
                  --processes <NUMBER>   Processes and threads [default: 128]
                  --open-files <NUMBER>  Open files of one process [default: 1024]
                  --output <SIZE>        Bytes kept of stdout and of stderr, half at each end [default: 64K]
                  --results <NUMBER>     Results shown [default: 64]
                  --result-bytes <SIZE>  Bytes of all results [default: 16M]
        "]],
    );
}

#[test]
fn help_of_template() {
    check_help(
        &["template", "--help"],
        &expect![[r"
            Build, list, show and remove templates

            Usage: silica template <COMMAND>

            Commands:
              build   Build a template: a built-in one by name, or your own by the path of its template.toml
              list    List the templates that are built, and the built-in ones
              show    Show the contents of a built template
              remove  Remove a built template
              help    Print this message or the help of the given subcommand(s)

            Options:
              -h, --help  Print help
        "]],
    );
}

#[test]
fn template_is_listed_and_shown() {
    let home = TestHome::new(PYTHON);
    let template = |arguments: &[&str]| {
        let mut command = Command::new(SILICA);
        finish(command.arg("template").args(arguments).env("SILICA_HOME", home.path()))
    };
    let list = template(&["list"]);
    assert!(list.stdout.lines().any(|line| line.starts_with("python ")), "{}", list.stdout);
    let show = template(&["show", "python"]);
    assert!(show.stdout.contains("name         python"), "{}", show.stdout);
    let missing = template(&["show", "code-interpreter"]);
    assert_eq!(missing.status, 125);
    let said = "build it with: silica template build code-interpreter";
    assert!(missing.stderr.contains(said), "{}", missing.stderr);
}
