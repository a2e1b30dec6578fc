//! `silica config` as operators use it: what is in force, from where, and what is wrong.

use std::path::Path;
use std::process::Command;

use expect_test::{Expect, expect};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{CommandOutput, SILICA, finish};

/// A directory to stand in, which is the data directory too.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    /// `silica config` with nothing in its environment but the data directory and these.
    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
        let mut command = Command::new(SILICA);
        command.env_clear().env("SILICA_HOME", self.path()).envs(variables.iter().copied());
        finish(command.arg("config").args(arguments).current_dir(self.path()))
    }

    /// Output with the directory's own name left out.
    fn check(&self, text: &str, expected: &Expect) {
        let name = self.path().to_str().unwrap();
        expected.assert_eq(&text.replace(name, "HOME"));
    }
}

#[test]
fn values_are_shown_with_their_origin() {
    let place = Place::new();
    place.write("silica.toml", "[cells]\ntimeout_seconds = 20\nqueue_max = 10\n");
    let variables = [("SILICA_CELLS_QUEUE_MAX", "20"), ("SILICA_LIMITS_DEFAULT_MEMORY", "1G")];
    let flags = [
        "--set",
        "cells.timeout_seconds_max=60",
        "--warm",
        "python=1",
        "--tls-key",
        "/k",
        "--tls-certificate",
        "/c",
    ];
    let ran = place.run(&flags, &variables);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let interesting = |line: &&str| !line.ends_with(" default") || line.starts_with("listen");
    let lines: Vec<&str> = ran.stdout.lines().filter(interesting).collect();
    place.check(
        &format!("{}\n", lines.join("\n")),
        &expect![[r#"
            KEY                             VALUE               ORIGIN
            listen                          "127.0.0.1:8585"    default
            tls.certificate                 "/c"                --tls-certificate
            tls.key                         "/k"                --tls-key
            cells.timeout_seconds           20                  HOME/silica.toml:2
            cells.timeout_seconds_max       60                  --set
            cells.queue_max                 20                  SILICA_CELLS_QUEUE_MAX
            limits.default.memory           "1G"                SILICA_LIMITS_DEFAULT_MEMORY
            pool                            { python = 1 }      --warm
        "#]],
    );
}

#[test]
fn json_says_the_same() {
    let place = Place::new();
    place.write("other.toml", "limits.default.memory = \"1G\"\n");
    let variables = [("SILICA_CONFIG", "other.toml"), ("SILICA_LISTEM", "x")];
    let ran = place.run(&["--json"], &variables);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let json = ran.json();
    assert_eq!(json["file"], "other.toml");
    let rows = json["settings"].as_array().unwrap();
    let row = |key: &str| rows.iter().find(|row| row["key"] == key).unwrap().to_string();
    let shown = [row("limits.default.memory"), row("tls.key"), row("pool")].join("\n");
    place.check(&format!("{shown}\n{}\n", json["notices"]), &expect![[r#"
        {"key":"limits.default.memory","value":1073741824,"source":"file","origin":"other.toml:1","variable":"SILICA_LIMITS_DEFAULT_MEMORY"}
        {"key":"tls.key","value":null,"source":"default","origin":"default","variable":"SILICA_TLS_KEY"}
        {"key":"pool","value":{"code-interpreter":4,"python":2},"source":"default","origin":"default","variable":"SILICA_POOL"}
        ["the variable SILICA_LISTEM sets nothing; did you mean SILICA_LISTEN?"]
    "#]]);
}

#[test]
fn default_file_is_right_and_changes_nothing() {
    let place = Place::new();
    let ran = place.run(&["--default"], &[]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    place.write("default.toml", &ran.stdout);
    let checked = place.run(&["--check", "default.toml"], &[("SILICA_LISTEN", "not looked at")]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
    assert_eq!(
        (checked.stdout.as_str(), checked.stderr.as_str()),
        ("", "silica: default.toml is valid\n")
    );
    let values = |arguments: &[&str]| -> Vec<Value> {
        let json = place.run(arguments, &[]).json();
        json["settings"].as_array().unwrap().iter().map(|row| row["value"].clone()).collect()
    };
    assert_eq!(values(&["--json", "--config", "default.toml"]), values(&["--json"]));
}

#[test]
fn what_is_wrong_is_said_and_ends_it() {
    let place = Place::new();
    place.write("silica.toml", "lisen = 1\n[cells]\nqueue_max = \"many\"\n");
    let ran = place.run(&["--check", "silica.toml"], &[]);
    assert_eq!((ran.status, ran.stdout.as_str()), (1, ""));
    place.check(
        &ran.stderr,
        &expect![[r#"
        silica: the configuration is invalid:
          silica.toml:1: `lisen` is not a key; did you mean `listen`?
          silica.toml:3: `cells.queue_max` is "many"; allowed: a whole number from 1 to 1000000
    "#]],
    );
    let ran = place.run(&[], &[]);
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""));
    place.check(
        &ran.stderr,
        &expect![[r#"
        silica: the configuration is invalid:
          HOME/silica.toml:1: `lisen` is not a key; did you mean `listen`?
          HOME/silica.toml:3: `cells.queue_max` is "many"; allowed: a whole number from 1 to 1000000
    "#]],
    );
    let ran = place.run(&["--config", "missing.toml"], &[]);
    assert_eq!((ran.status, ran.stdout.as_str()), (125, ""));
    place.check(
        &ran.stderr,
        &expect![[r"
            silica: cannot read the configuration file missing.toml
              because: No such file or directory
        "]],
    );
}

#[test]
fn arguments_that_make_no_sense_together_are_refused() {
    let place = Place::new();
    for arguments in [
        &["--default", "--json"][..],
        &["--default", "--listen", "a:1"],
        &["--check", "x", "--default"],
        &["--check", "x", "--set", "listen=a:1"],
        &["--set", "listen"],
        &["--warm", "python"],
    ] {
        assert_eq!(place.run(arguments, &[]).status, 2, "{arguments:?}");
    }
}

#[test]
fn variable_that_is_not_text_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let mut command = Command::new(SILICA);
    command.env_clear().env("SILICA_HOME", place.path());
    command.env("SILICA_TLS_KEY", std::ffi::OsStr::from_bytes(b"/\xff"));
    let ran = finish(command.arg("config"));
    assert_eq!(
        (ran.status, ran.stderr.as_str()),
        (125, "silica: SILICA_TLS_KEY must be UTF-8 text\n")
    );
}

#[test]
fn paths_in_flags_begin_where_the_command_was_given() {
    let place = Place::new();
    let flags = ["--json", "--tls-key", "k.pem", "--tls-certificate", "../c.pem"];
    let json = place.run(&flags, &[]).json();
    let rows = json["settings"].as_array().unwrap();
    let value = |key: &str| rows.iter().find(|row| row["key"] == key).unwrap()["value"].clone();
    let here = place.path().to_str().unwrap();
    assert_eq!(value("tls.key"), format!("{here}/k.pem"));
    assert_eq!(value("tls.certificate"), format!("{here}/../c.pem"));
}

#[test]
fn help_names_every_flag() {
    let ran = Place::new().run(&["--help"], &[("COLUMNS", "100")]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    expect![[r"
        Show the configuration of the server, and where each value comes from

        Usage: silica config [OPTIONS]

        Options:
              --json          Print JSON
              --default       Print a configuration file with every key, its meaning and its default
              --check <FILE>  Check a configuration file, without the environment and other flags
          -h, --help          Print help

        Settings:
              --config <FILE>           The configuration file [default: silica.toml in the data directory,
                                        else the one in /etc/silica or ~/.config/silica]
              --listen <ADDRESS:PORT>   The address to listen on, for example 127.0.0.1:8585 or [::]:8585
              --public-url <URL>        The URL at which clients reach the server, for links to it
              --tls-certificate <FILE>  The certificate, PEM
              --tls-key <FILE>          The certificate's private key, PEM
              --log-format <FORMAT>     The format of the log: text or json
              --warm <TEMPLATE=SIZE>    The number of sandboxes of a template to keep ready; can be given
                                        again, and replaces the pool of the configuration
              --set <KEY=VALUE>         Set any key of the configuration, for example
                                        cells.timeout_seconds=60; can be given again
    "]].assert_eq(&ran.stdout);
}
