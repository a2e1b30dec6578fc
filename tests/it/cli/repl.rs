//! `silica repl` on a terminal: cells, history, completion, interrupts, its end.

use std::fs;
use std::process::{Command, Stdio};

use crate::harness::server::TestServer;
use crate::harness::{PYTHON, SCIENCE, SILICA, TestHome, finish, on_terminal_raw};

fn repl(home: &TestHome) -> Command {
    repl_of(home, PYTHON)
}

fn repl_of(home: &TestHome, template: &str) -> Command {
    // A session of its own with the terminal, which sends it SIGINT for Ctrl-C.
    let mut command = Command::new("setsid");
    command
        .args(["--ctty", "--wait", SILICA, "repl", "--template", template])
        .env("SILICA_HOME", home.path())
        .env("TERM", "xterm")
        .current_dir(home.working_directory());
    command
}

/// A line of code that does not let itself be interrupted.
const STUBBORN: &str = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); \
                        print('stubborn', 0 + 1, flush=True); time.sleep(60)\r";

/// Code in IPython's own language works where the template has IPython.
#[test]
fn magics_work() {
    let home = TestHome::new(SCIENCE);
    on_terminal_raw(
        repl_of(&home, SCIENCE),
        &[
            ("In [1]: ", "%timeit -n 1 -r 1 None\r"),
            ("1 loop each", ""),
            ("In [2]: ", "!echo shell $((40 + 2))\r"),
            ("shell 42", ""),
            ("In [3]: ", "%%capture caught\rprint('unseen', 6 * 7)\r\r"),
            ("In [4]: ", "caught.stdout\r"),
            ("'unseen 42\\n'", ""),
            ("In [5]: ", "\x04"),
        ],
    );
}

#[test]
fn cells_share_variables_and_blocks_take_several_lines() {
    let home = TestHome::new(PYTHON);
    let shown = on_terminal_raw(
        repl(&home),
        &[
            ("In [1]: ", "x = 20\r"),
            ("In [2]: ", "for i in range(2):\r    print('at', x + i)\r\r"),
            ("at 21", ""),
            ("In [3]: ", "print('no end', end='')\r"),
            ("In [4]: ", "1 / 0\r"),
            ("ZeroDivisionError", ""),
            ("In [5]: ", "x * 2 + 2\r"),
            ("42", ""),
            ("In [6]: ", "\x04"),
        ],
    );
    assert!(shown.contains("at 20\r\nat 21"), "{shown}");
    assert!(shown.contains("no end\r\n"), "{shown}");
    let history = fs::read_to_string(home.path().join("repl_history")).unwrap();
    assert!(history.contains("x * 2 + 2"), "{history}");
    // The next session has it.
    let again = on_terminal_raw(
        repl(&home),
        &[
            ("In [1]: ", "x = 4\r"),
            ("In [2]: ", "\x1b[A\x1b[A\r"),
            ("10", ""),
            ("In [3]: ", "\x04"),
        ],
    );
    assert!(again.contains("x * 2 + 2"), "{again}");
}

#[test]
fn names_are_completed_from_the_live_interpreter() {
    let home = TestHome::new(PYTHON);
    let shown = on_terminal_raw(
        repl(&home),
        &[
            ("In [1]: ", "unusual_name = 'abc'\r"),
            ("In [2]: ", "unusu\t.upp\t()\r"),
            ("'ABC'", ""),
            // An attribute that takes for ever is interrupted, and the session goes on.
            ("In [3]: ", "import time\r"),
            ("In [4]: ", "class S:\r    def __dir__(self): time.sleep(60)\r\r"),
            ("In [5]: ", "slow = S()\r"),
            ("In [6]: ", "slow.x\t = 6 * 7\r"),
            ("In [7]: ", "slow.x\r"),
            ("42", ""),
            ("In [8]: ", "exit()\r"),
        ],
    );
    assert!(shown.contains("'ABC'"), "{shown}");
}

#[test]
fn control_c_interrupts_the_cell_and_nothing_else() {
    let home = TestHome::new(PYTHON);
    let shown = on_terminal_raw(
        repl(&home),
        &[
            ("In [1]: ", "x = 5\r"),
            ("In [2]: ", "import time; print('go', flush=True); time.sleep(60)\r"),
            ("go\r\n", "\x03"),
            ("interrupted", ""),
            ("In [3]: ", "abc\x03"),
            ("In [3]: ", "x + 1\r"),
            ("6\r\n", ""),
            ("In [4]: ", "import os; os.abort()\r"),
            ("started another interpreter", ""),
            ("In [5]: ", "'x' in dir()\r"),
            ("False", ""),
            ("In [6]: ", "\x04"),
        ],
    );
    assert!(shown.contains("started another interpreter"), "{shown}");
}

#[test]
fn a_server_can_be_used() {
    let server = TestServer::new();
    let mut command = repl(server.home());
    command.args(["--url", &server.url()]).env("SILICA_KEY", server.admin.key.as_deref().unwrap());
    let shown = on_terminal_raw(
        command,
        &[
            ("In [1]: ", "x = 41\r"),
            ("In [2]: ", "x + 1\r"),
            ("42", ""),
            ("In [3]: ", "import time; print('go', flush=True); time.sleep(60)\r"),
            ("go\r\n", "\x03"),
            ("In [4]: ", "open('kept', 'w').write('abc')\r"),
            // A second Ctrl-C ends the interpreter, and the files stay as it says.
            ("In [5]: ", STUBBORN),
            ("stubborn 1\r\n", "\x03"),
            ("again to end it", "\x03"),
            ("its files are not", ""),
            ("In [6]: ", "'x' in dir(), open('kept').read()\r"),
            ("(False, 'abc')", ""),
            ("In [7]: ", "\x04"),
        ],
    );
    assert!(shown.contains("42"), "{shown}");
    let listed = server.admin.get("/v1/sandboxes?state=running").expect(200).json();
    assert_eq!(listed["sandboxes"], serde_json::json!([]), "{listed}");
}

#[test]
fn without_a_terminal_it_says_what_to_use() {
    let home = TestHome::new(PYTHON);
    let mut command = Command::new(SILICA);
    command.arg("repl").env("SILICA_HOME", home.path()).stdin(Stdio::null());
    let ran = finish(&mut command);
    assert_eq!(ran.status, 125);
    assert!(ran.stderr.contains("pipe code into silica run"), "{}", ran.stderr);
}
