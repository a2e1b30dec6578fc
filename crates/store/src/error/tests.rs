//! The texts of errors, and the advice that goes with them.

use std::path::Path;
use std::time::Duration;

use rusqlite::ffi;

use super::{Failure, StoreError};

#[test]
fn failures_of_sqlite_become_what_a_caller_can_act_on() {
    let explain = |code| {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        Failure::from(error).explain(Path::new("/nowhere/silica.db"), Duration::from_secs(1))
    };
    assert!(matches!(explain(ffi::SQLITE_BUSY), StoreError::Locked { .. }));
    assert!(matches!(explain(ffi::SQLITE_LOCKED), StoreError::Locked { .. }));
    assert!(matches!(explain(ffi::SQLITE_READONLY), StoreError::ReadOnly { .. }));
    assert!(matches!(explain(ffi::SQLITE_PERM), StoreError::ReadOnly { .. }));
    assert!(matches!(explain(ffi::SQLITE_CORRUPT), StoreError::Damaged { .. }));
    assert!(matches!(explain(ffi::SQLITE_NOTADB), StoreError::Damaged { .. }));
    assert!(matches!(explain(ffi::SQLITE_FULL), StoreError::Full { .. }));
    assert!(matches!(explain(ffi::SQLITE_IOERR), StoreError::Sql { .. }));
}

#[test]
fn advice_names_the_files() {
    let error = StoreError::Foreign { path: "/data/silica.db".into() };
    let advice = error.advice().unwrap();
    for name in ["/data/silica.db", "silica.db-wal", "silica.db-shm"] {
        assert!(advice.contains(name), "{advice}");
    }
    let error = StoreError::KeyFileExposed { path: "/data/audit.key".into(), mode: 0o644 };
    assert_eq!(error.advice().unwrap(), "chmod 600 /data/audit.key");
    assert!(error.to_string().contains("mode 644"));
}

#[test]
fn holder_of_a_lock_is_named_if_it_is_known() {
    let text = |holder: &str| {
        StoreError::InUse { path: "/d/silica.db".into(), holder: holder.to_owned() }.to_string()
    };
    assert_eq!(text("42"), "another server is using /d/silica.db (process 42)");
    assert_eq!(text(""), "another server is using /d/silica.db");
}
