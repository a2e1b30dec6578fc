//! `silica check`: what it prints, and with what status it ends.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use expect_test::expect;
use tempfile::TempDir;

use crate::harness::{CommandOutput, SILICA, finish};

const CODE: &str = "import math\nimport socket\n\nprint(math.pi, eval('1'))\n";

fn check(directory: &Path, arguments: &[&str]) -> CommandOutput {
    let stdin = directory.join("stdin");
    let stdin = File::open(stdin).map_or_else(|_| Stdio::null(), Stdio::from);
    let mut command = Command::new(SILICA);
    finish(command.arg("check").args(arguments).current_dir(directory).stdin(stdin))
}

fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

#[test]
fn findings_are_printed_as_a_compiler_does() {
    let place = directory(&[("a.py", CODE)]);
    let ran = check(place.path(), &["a.py"]);
    assert_eq!(ran.status, 1, "{ran:?}");
    expect![[r"
        block[network]: socket uses the network, and there is none
         --> a.py:2:8 (high severity)
          |
        2 | import socket
          |        ^^^^^^
          = instead: Read a file that was uploaded, or put the data in the code

        block[dynamic-code]: eval runs code that this check cannot read
         --> a.py:4:16 (high severity)
          |
        4 | print(math.pi, eval('1'))
          |                ^^^^
          = instead: Write the code itself; for a value from a text use ast.literal_eval or json.loads, for columns DataFrame.eval
    "]].assert_eq(&ran.stdout);
    assert_eq!(ran.stderr, "silica: 2 findings under the policy data: it may not run\n");
}

#[test]
fn what_only_warns_may_run() {
    let place = directory(&[("stdin", CODE)]);
    let ran = check(place.path(), &["-", "--policy", "open"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.stdout.starts_with("warn[dynamic-code]"), "{ran:?}");
    assert!(ran.stdout.contains("--> <stdin>:4:16"), "{ran:?}");
    let ran = check(place.path(), &["-", "--policy", "strict", "--json"]);
    assert_eq!(ran.status, 1, "{ran:?}");
    let told = ran.json();
    assert_eq!((&told["policy"], &told["verdict"]), (&"strict".into(), &"block".into()));
    assert_eq!(told["findings"][0]["name"], "socket");
    assert_eq!(told["findings"][0]["line"], 2);
}

#[test]
fn a_policy_of_ones_own_is_read_from_a_file() {
    let policy = "name = 'mine'\nextends = 'open'\n[[rule]]\nid = 'dynamic-code'\naction = 'ask'\n";
    let place = directory(&[("a.py", CODE), ("mine.toml", policy), ("bad.toml", "name = 1")]);
    let ran = check(place.path(), &["a.py", "--policy", "mine.toml"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.stderr.ends_with("under the policy mine: a person has to approve it\n"), "{ran:?}");
    let ran = check(place.path(), &["a.py", "--policy", "bad.toml"]);
    assert_eq!(ran.status, 2, "{ran:?}");
    assert!(ran.stderr.contains("silica: cannot use the policy bad.toml\n  because: "), "{ran:?}");
}

#[test]
fn misuse_has_a_status_of_its_own() {
    let place = directory(&[("a.py", "print(1)"), ("long.py", &"x".repeat((1 << 20) + 1))]);
    std::fs::write(place.path().join("latin.py"), b"x = '\xe9'").unwrap();
    for (arguments, said) in [
        (&["nowhere.py"][..], "silica: cannot read nowhere.py\n  because: No such file"),
        (&["long.py"], "it has more than 1048576 bytes"),
        (&["latin.py"], "it is not UTF-8"),
        (&["a.py", "--policy", "lax"], "there is no preset or file lax"),
        (
            &["a.py", "--policy", "lax.toml"],
            "silica: cannot read lax.toml\n  because: No such file",
        ),
        (&["a.py", "--colour"], "unexpected argument"),
        (&[], "required arguments were not provided"),
    ] {
        let ran = check(place.path(), arguments);
        assert_eq!((ran.status, &*ran.stdout), (2, ""), "{ran:?}");
        assert!(ran.stderr.contains(said), "{ran:?}");
    }
}
