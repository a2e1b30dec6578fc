//! Data directories of earlier versions, kept as files: this version opens each, brings it up to
//! date and finds everything in it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use silica_store::keys::KeyMatch;
use silica_store::{Access, DATABASE_NAME, Store, StoreOptions};
use tempfile::TempDir;

use crate::harness::{CommandOutput, SILICA, finish};

/// The directories that `upgrade/make` made, one for each version of the schema.
const KEPT: [&str; 1] = ["schema-2"];

/// A copy of a kept directory, as its server left it, and what its maker wrote down about it.
fn copy(kept: &str) -> (TempDir, Value) {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/it/cli/upgrade").join(kept);
    let home = TempDir::new().unwrap();
    for name in [DATABASE_NAME, "audit.key"] {
        let target = home.path().join(name);
        fs::copy(source.join(name), &target).unwrap();
        // Git does not keep the mode, and a key that others may read is refused.
        fs::set_permissions(&target, Permissions::from_mode(0o600)).unwrap();
    }
    let facts = fs::read(source.join("facts.json")).unwrap();
    (home, serde_json::from_slice(&facts).unwrap())
}

fn silica(home: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new(SILICA);
    finish(command.args(arguments).env("SILICA_HOME", home).stdin(Stdio::null()))
}

fn open(home: &Path) -> Store {
    let path: PathBuf = home.join(DATABASE_NAME);
    Store::open(&path, StoreOptions::new(Access::Server)).unwrap()
}

#[test]
fn data_of_earlier_versions_is_brought_up_to_date() {
    for kept in KEPT {
        let (home, facts) = copy(kept);
        let store = open(home.path());
        let find = |name: &str| {
            store.keys().find_by_secret(facts[name].as_str().unwrap(), Instant::now()).unwrap()
        };
        assert!(matches!(find("key"), KeyMatch::Active(record) if record.admin), "{kept}");
        assert!(matches!(find("revoked"), KeyMatch::Revoked(_)), "{kept}");
        let approvals = store.approvals().list(None, None).wait().unwrap();
        assert_eq!(approvals.len(), 1, "{kept}");
        store.close_wait();
        let listed = silica(home.path(), &["key", "list"]);
        assert!(listed.stdout.contains("admin") && listed.stdout.contains("second"), "{listed:?}");
        // The head that was noted before the upgrade is still in the chain, so no record changed.
        let head = facts["head"].as_str().unwrap();
        let verified = silica(home.path(), &["audit", "verify", "--head", head]);
        assert_eq!(verified.status, 0, "{kept}: {verified:?}");
        let found = silica(home.path(), &["audit", "search", "--json"]);
        assert!(found.stdout.contains(facts["sandbox"].as_str().unwrap()), "{kept}: {found:?}");
    }
}

#[test]
fn changed_record_of_an_earlier_version_is_found_after_the_upgrade() {
    for kept in KEPT {
        let (home, facts) = copy(kept);
        let database = home.path().join(DATABASE_NAME);
        let mut bytes = fs::read(&database).unwrap();
        let code = b"print(6 * 7)";
        let at = bytes.windows(code.len()).position(|window| window == code).unwrap();
        bytes[at + 6] = b'9';
        fs::write(&database, bytes).unwrap();
        open(home.path()).close_wait();
        let head = facts["head"].as_str().unwrap();
        let verified = silica(home.path(), &["audit", "verify", "--head", head]);
        assert_ne!(verified.status, 0, "{kept}: {verified:?}");
    }
}
