//! The first minutes of an operator: init, serve, status, logs, version, help.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::server::TestServer;
use crate::harness::{CommandOutput, PYTHON, SILICA, TestHome, finish};

fn silica(home: &TestHome, arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new(SILICA);
    command.args(arguments).env("SILICA_HOME", home.path());
    for name in ["SILICA_URL", "SILICA_KEY", "SILICA_CA"] {
        command.env_remove(name);
    }
    finish(command.current_dir(home.working_directory()))
}

#[test]
fn init_writes_everything_once() {
    let home = TestHome::new(PYTHON);
    let made = silica(&home, &["init", "--no-template"]);
    assert_eq!(made.status, 0, "{}", made.stderr);
    let value = |name: &str| {
        let line =
            made.stdout.lines().find_map(|line| line.strip_prefix(&format!("export {name}=")));
        line.unwrap_or_else(|| panic!("{name}: {}", made.stdout)).to_owned()
    };
    let (key, e2b) = (value("SILICA_KEY"), value("E2B_API_KEY"));
    assert_eq!(key.strip_prefix("silica_"), e2b.strip_prefix("e2b_"));
    for name in ["SILICA_URL", "E2B_API_URL", "E2B_SANDBOX_URL"] {
        assert_eq!(value(name), "http://127.0.0.1:8585");
    }
    let config = home.path().join("silica.toml");
    let written = fs::read_to_string(&config).unwrap();
    assert_eq!(silica(&home, &["config", "--check", config.to_str().unwrap()]).status, 0);
    // A second one changes nothing, and makes no key.
    let again = silica(&home, &["init", "--no-template"]);
    assert_eq!((again.status, again.stdout.as_str()), (125, ""));
    assert!(again.stderr.contains("is there already"), "{}", again.stderr);
    assert_eq!(fs::read_to_string(&config).unwrap(), written);
    assert_eq!(silica(&home, &["key", "list", "--json"]).stdout.lines().count(), 1);
    // A server over it takes the key.
    let server = TestServer::over(home, Vec::new(), Some(key));
    server.assert_works();
}

/// A step that fails leaves no configuration, so that `init` can be tried again.
#[test]
fn init_that_fails_can_be_repeated() {
    let home = TestHome::new(PYTHON);
    let mut command = Command::new(SILICA);
    command.arg("init").env("SILICA_HOME", home.path()).env("SILICA_SANDBOXES_TEMPLATE", "absent");
    let failed = finish(&mut command);
    assert_eq!((failed.status, failed.stdout.as_str()), (125, ""), "{}", failed.stderr);
    assert!(!home.path().join("silica.toml").exists());
    assert_eq!(silica(&home, &["key", "list", "--json"]).stdout, "");
    let repeated = silica(&home, &["init", "--no-template"]);
    assert_eq!(repeated.status, 0, "{}", repeated.stderr);
    let mode = fs::metadata(home.path().join("silica.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let names = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.as_encoded_bytes().starts_with(b".")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn status_and_logs_tell_about_a_server() {
    let server = TestServer::new();
    server.admin.post("/v1/run?secret=hidden", &json!({"code": "1"})).expect(200);
    server.admin.get("/v1/links/token-that-is-secret");
    server.admin.get("/healthz").expect(200);
    let mut command = Command::new(SILICA);
    command.args(["status", "--json"]).env("SILICA_URL", server.url());
    command.env("SILICA_KEY", server.admin.key.as_deref().unwrap());
    let status = finish(&mut command);
    let found: Value = status.json();
    assert_eq!((status.status, &found["ready"], &found["up"]), (0, &json!(true), &json!(true)));
    assert_eq!(found["version"], env!("CARGO_PKG_VERSION"));
    assert!(found["pool"].is_u64() && found["stats"]["sandboxes"].is_u64(), "{found}");
    let text = finish(
        Command::new(SILICA).arg("status").env("SILICA_URL", server.url()).env_remove("SILICA_KEY"),
    );
    assert!(text.stdout.contains("ready          yes"), "{text:?}");

    let logs = silica(server.home(), &["logs", "-n", "50"]);
    let line = |route: &str| {
        let found = logs.stdout.lines().find(|line| line.contains(&format!("route=\"{route}\"")));
        found.unwrap_or_else(|| panic!("{route}: {}", logs.stdout)).to_owned()
    };
    let run = line("/v1/run");
    for part in [" INFO ", "method=POST", "status=200", "ms=", "key=\"first\""] {
        assert!(run.contains(part), "{part}: {run}");
    }
    line("/v1/links/{token}");
    for secret in
        ["hidden", "token-that-is-secret", "/healthz", server.admin.key.as_deref().unwrap()]
    {
        assert!(!logs.stdout.contains(secret), "{secret}: {}", logs.stdout);
    }
    assert!(server.log().contains("route=\"/v1/run\""), "{}", server.log());
    assert_eq!(silica(server.home(), &["logs", "-n", "1"]).stdout.lines().count(), 1);
}

#[test]
fn without_a_server_they_say_what_to_do() {
    let home = TestHome::new(PYTHON);
    let logs = silica(&home, &["logs"]);
    assert_eq!(logs.status, 0);
    assert!(logs.stderr.contains("there is no log yet"), "{}", logs.stderr);
    let status = silica(&home, &["status", "--url", "http://127.0.0.1:1"]);
    assert_eq!(status.status, 125);
    assert!(status.stderr.contains("start it with: silica serve"), "{}", status.stderr);
    let audit = silica(&home, &["audit", "tail"]);
    assert_eq!(audit.status, 0, "{}", audit.stderr);
    assert!(audit.stderr.contains("there is no audit log yet"), "{}", audit.stderr);
}

#[test]
fn help_and_version_are_commands() {
    let home = TestHome::new(PYTHON);
    let version = silica(&home, &["version"]);
    assert_eq!(version.stdout, format!("silica {}\n", env!("CARGO_PKG_VERSION")));
    assert!(silica(&home, &["help"]).stdout.contains("Usage: silica <COMMAND>"));
    assert!(silica(&home, &["help", "run"]).stdout.contains("--save-notebook"));
}

#[test]
fn code_is_checked_from_the_command_line() {
    let home = TestHome::new(PYTHON);
    let checked = silica(&home, &["check", "-c", "import socket"]);
    assert_eq!(checked.status, 1, "{}", checked.stderr);
    assert!(checked.stdout.contains("-c:1:8"), "{}", checked.stdout);
    assert_eq!(silica(&home, &["check", "-c", "1 + 1"]).status, 0);
}

/// What is missing is said before what could be confirmed.
#[test]
fn ask_without_a_model_says_so_first() {
    let home = TestHome::new(PYTHON);
    let mut command = Command::new(SILICA);
    command
        .args(["ask", "how many?"])
        .env("SILICA_HOME", home.path())
        .stdin(std::process::Stdio::null());
    for name in ["SILICA_MODEL_PROVIDER", "SILICA_MODEL_NAME", "SILICA_MODEL_KEY"] {
        command.env_remove(name);
    }
    let asked = finish(&mut command);
    assert_eq!(asked.status, 125);
    assert!(asked.stderr.starts_with("silica: a model is needed"), "{}", asked.stderr);
}

#[test]
fn the_script_of_a_model_may_be_beside_the_configuration() {
    let home = TestHome::new(PYTHON);
    let config = home.path().join("silica.toml");
    fs::write(&config, "[model]\nprovider = \"scripted\"\nscript = \"turns.toml\"\n").unwrap();
    let shown = silica(&home, &["config", "--json"]).json();
    let script =
        shown["settings"].as_array().unwrap().iter().find(|one| one["key"] == "model.script");
    let expected = home.path().join("turns.toml");
    assert_eq!(script.unwrap()["value"], json!(expected), "{shown}");
}
