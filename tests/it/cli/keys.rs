//! `silica key`: made once and shown once, listed without secrets, revoked beside a server.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use expect_test::expect;
use silica_store::keys::KeyMatch;
use silica_store::{Access, DATABASE_NAME, Store, StoreOptions};
use tempfile::TempDir;

use crate::harness::{CommandOutput, SILICA, TIMEOUT, eventually, finish};

fn silica(home: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new(SILICA);
    finish(command.args(arguments).env("SILICA_HOME", home).stdin(Stdio::null()))
}

fn create(home: &Path, name: &str) -> serde_json::Value {
    let ran = silica(home, &["key", "create", "--json", name]);
    assert_eq!(ran.status, 0, "{ran:?}");
    ran.json()
}

fn find(store: &Store, secret: &str) -> KeyMatch {
    store.keys().find_by_secret(secret, Instant::now()).unwrap()
}

#[test]
fn key_is_shown_once_on_stdout_and_works() {
    let home = TempDir::new().unwrap();
    let ran = silica(home.path(), &["key", "create", "Zoë's laptop", "--admin"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let secret = ran.stdout.trim_end();
    assert_eq!((secret.len(), ran.stdout.lines().count()), ("silica_".len() + 40, 1));
    assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
    assert!(ran.stderr.contains("admin key for Zoë's laptop"), "{}", ran.stderr);
    assert!(ran.stderr.contains("never shown again"), "{}", ran.stderr);
    let path = home.path().join(DATABASE_NAME);
    let store = Store::open(&path, StoreOptions::new(Access::ReadOnly)).unwrap();
    assert!(matches!(find(&store, secret), KeyMatch::Active(record) if record.admin));
    let listed = silica(home.path(), &["key", "list"]);
    assert!(!listed.stdout.contains(secret), "{}", listed.stdout);
}

#[test]
fn list_shows_what_is_known_and_no_secret() {
    let home = TempDir::new().unwrap();
    let (first, second) = (create(home.path(), "first"), create(home.path(), "second"));
    let id = first["id"].as_str().unwrap();
    let revoked = silica(home.path(), &["key", "revoke", id]);
    assert_eq!((revoked.status, revoked.stdout.as_str()), (0, ""));
    assert!(revoked.stderr.contains(&format!("revoked key {id} (first)")), "{}", revoked.stderr);
    let listed = silica(home.path(), &["key", "list"]).stdout;
    let known = [(id, "key_1"), (second["id"].as_str().unwrap(), "key_2")];
    let mut shape = listed;
    for (id, name) in known {
        shape = shape.replace(id, &format!("{name:<16}"));
    }
    let words: Vec<&str> = shape
        .split_whitespace()
        .map(|word| if word.ends_with('Z') { "TIME" } else { word })
        .collect();
    expect![
        "ID ADMIN CREATED STATE NAME key_1 no TIME revoked TIME first key_2 no TIME active second"
    ]
    .assert_eq(&words.join(" "));
    let lines = silica(home.path(), &["key", "list", "--json"]).stdout;
    let keys: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&keys[0]["name"], &keys[1]["name"]), (&"first".into(), &"second".into()));
    assert!(keys[0]["revoked_at"].is_string() && keys[1]["revoked_at"].is_null());
    assert!(!lines.contains("digest") && !lines.contains("silica_"), "{lines}");
}

#[test]
fn running_server_notices_keys_made_and_revoked_beside_it() {
    let home = TempDir::new().unwrap();
    let path = home.path().join(DATABASE_NAME);
    let server = Store::open(&path, StoreOptions::new(Access::Server)).unwrap();
    let made = create(home.path(), "a");
    let secret = made["key"].as_str().unwrap();
    let is_active = || matches!(find(&server, secret), KeyMatch::Active(_));
    assert!(eventually(TIMEOUT, is_active));
    let ran = silica(home.path(), &["key", "revoke", "--json", made["id"].as_str().unwrap()]);
    assert!(ran.json()["revoked_at"].is_string());
    assert!(eventually(TIMEOUT, || matches!(find(&server, secret), KeyMatch::Revoked(_))));
    let again = silica(home.path(), &["key", "revoke", made["id"].as_str().unwrap()]);
    assert_eq!(again.status, 0);
    assert!(again.stderr.contains("revoked before"), "{}", again.stderr);
}

#[test]
fn mistakes_are_explained() {
    let home = TempDir::new().unwrap();
    let check = |arguments: &[&str], status: i32, words: &[&str]| {
        let ran = silica(home.path(), arguments);
        assert_eq!(ran.status, status, "{ran:?}");
        for word in words {
            assert!(ran.stderr.contains(word), "{word:?} in {}", ran.stderr);
        }
    };
    check(&["key", "list"], 125, &["there is no store at", "what to do", "silica key create"]);
    check(&["key", "create", ""], 2, &["1 to 100 characters"]);
    check(&["key", "create", "a\nb"], 2, &["one line"]);
    check(&["key", "revoke", "laptop"], 2, &["key_ and 12 hexadecimal digits"]);
    create(home.path(), "a");
    let unknown = ["key", "revoke", "key_000000000000"];
    check(&unknown, 125, &["there is no key key_000000000000", "silica key list"]);
    std::fs::write(home.path().join(DATABASE_NAME), "not a database at all, only some text")
        .unwrap();
    check(&["key", "list"], 125, &["is damaged", "what to do", "backup"]);
}

#[test]
fn store_of_another_user_is_not_readable() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can be two users");
        return;
    }
    let home = TempDir::new().unwrap();
    create(home.path(), "a");
    std::fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=12345", "--regid=12345", "--clear-groups", SILICA, "key", "list"]);
    let ran = finish(command.env("SILICA_HOME", home.path()).stdin(Stdio::null()));
    assert_eq!(ran.status, 125, "{ran:?}");
    assert!(
        ran.stderr.contains("cannot read") && ran.stderr.contains("Permission denied"),
        "{ran:?}"
    );
}

#[test]
fn what_root_makes_for_another_user_belongs_to_that_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can be two users");
        return;
    }
    let home = TempDir::new().unwrap();
    chown(home.path(), Some(12345), Some(12345)).unwrap();
    create(home.path(), "a");
    for name in [DATABASE_NAME, "audit.key"] {
        let found = std::fs::metadata(home.path().join(name)).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (12345, 0o600), "{name}");
    }
}
