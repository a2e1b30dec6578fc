//! Faults of the file system around the store, and the errors that callers get.

use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use silica_store::audit::{Activity, Begin, Finish, Verdict};
use silica_store::{Access, DATABASE_NAME, ExecutionId, Store, StoreError, StoreOptions, Tenant};
use tempfile::TempDir;

use crate::mount::Mount;

fn open(directory: &Path, access: Access) -> Result<Store, StoreError> {
    open_with(directory, StoreOptions::new(access))
}

fn open_with(directory: &Path, options: StoreOptions) -> Result<Store, StoreError> {
    Store::open(&directory.join(DATABASE_NAME), options)
}

fn execute(store: &Store, code: &str) -> Result<(), StoreError> {
    let tenant = Tenant::parse("someone").unwrap();
    let mut begin = Begin::new(ExecutionId::random()?, tenant, Activity::Cell);
    begin.code = Some(code.to_owned());
    let ticket = store.audit().begin(&begin).wait()?;
    store.audit().finish(ticket, &Finish::new("ok")).wait()?;
    Ok(())
}

/// Returns code that takes as much room as it is long: it cannot be compressed, and no two are equal.
fn code_of_bytes(length: usize) -> String {
    let mut code = String::from("# ");
    while code.len() < length {
        let state = std::collections::hash_map::RandomState::new();
        let mut number = std::hash::BuildHasher::hash_one(&state, code.len());
        for _ in 0..10 {
            // Of 64 characters, so that a character is 6 bits; a third is lost to compression.
            code.push(char::from(b'0' + (number & 63) as u8));
            number >>= 6;
        }
    }
    code
}

fn records(store: &Store) -> u64 {
    match store.audit().verify(None).wait().unwrap() {
        Verdict::Whole(summary) => summary.records,
        Verdict::Broken(fault) => panic!("{fault}"),
    }
}

/// A closed store with some records.
fn written(directory: &Path) -> PathBuf {
    let store = open(directory, Access::Server).unwrap();
    for _ in 0..50 {
        execute(&store, "print(1)").unwrap();
    }
    store.close_wait();
    directory.join(DATABASE_NAME)
}

#[test]
fn lock_of_another_is_waited_for_and_then_told() {
    let directory = TempDir::new().unwrap();
    let patience = Duration::from_millis(50);
    let options = StoreOptions { patience, ..StoreOptions::new(Access::Server) };
    let store = open_with(directory.path(), options.clone()).unwrap();
    execute(&store, "1").unwrap();
    let other = Connection::open(directory.path().join(DATABASE_NAME)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = execute(&store, "2").unwrap_err();
    assert!(matches!(&error, StoreError::Locked { patience: waited, .. } if *waited == patience));
    assert!(error.to_string().contains("locked by another process"), "{error}");
    assert_eq!(records(&store), 2);
    let reader = open(directory.path(), Access::ReadOnly).unwrap();
    assert_eq!(records(&reader), 2);
    other.execute_batch("ROLLBACK").unwrap();
    execute(&store, "3").unwrap();
    assert_eq!(records(&store), 4);
}

#[test]
fn full_disk_is_reported_and_the_store_goes_on_when_there_is_room() {
    let Some(mount) = Mount::of_bytes(2 << 20) else {
        return;
    };
    let ballast = mount.path().join("ballast");
    std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let store = open(mount.path(), Access::Server).unwrap();
    let mut done = 0;
    let error = loop {
        match execute(&store, &code_of_bytes(40_000)) {
            Ok(()) => done += 1,
            Err(error) => break error,
        }
        assert!(done < 1000, "it never fills up");
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(error.advice().unwrap().contains("make room"));
    let before = records(&store);
    assert!(before >= 2 * done, "what was answered is there");
    std::fs::remove_file(ballast).unwrap();
    execute(&store, &code_of_bytes(40_000)).unwrap();
    assert_eq!(records(&store), before + 2);
    store.close_wait();
    assert_eq!(records(&open(mount.path(), Access::ReadOnly).unwrap()), before + 2);
}

/// A server with a journal: no write fails after its caller was answered.
#[tokio::test]
async fn full_disk_is_reported_before_anything_is_promised_that_cannot_be_kept() {
    let Some(mount) = Mount::of_bytes(2 << 20) else {
        return;
    };
    let ballast = mount.path().join("ballast");
    std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let store = open(mount.path(), Access::Server).unwrap();
    let tenant = Tenant::parse("someone").unwrap();
    let begin = || {
        let execution = ExecutionId::random().unwrap();
        let code = Some(code_of_bytes(30_000));
        Begin { code, ..Begin::new(execution, tenant.clone(), Activity::Cell) }
    };
    let mut done = 0;
    let error = loop {
        match store.audit().begin(&begin()).await {
            Ok(_) => done += 1,
            Err(error) => break error,
        }
        assert!(done < 1000, "it never fills up");
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    std::fs::remove_file(ballast).unwrap();
    store.audit().begin(&begin()).await.unwrap();
    store.close().await;
    assert_eq!(records(&open(mount.path(), Access::ReadOnly).unwrap()), done + 1);
}

#[test]
fn nothing_can_be_opened_on_a_disk_that_is_full() {
    let Some(mount) = Mount::of_bytes(64 << 10) else {
        return;
    };
    // It ends in an error, which is what fills the last byte.
    let _ = std::fs::write(mount.path().join("ballast"), vec![1; 128 << 10]);
    let error = open(mount.path(), Access::Server).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
}

#[test]
fn read_only_file_system_can_be_read_and_not_written() {
    let Some(mount) = Mount::of_bytes(8 << 20) else {
        return;
    };
    written(mount.path());
    mount.make_read_only();
    for access in [Access::Server, Access::Tool] {
        let error = open(mount.path(), access).unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    }
    let reader = open(mount.path(), Access::ReadOnly).unwrap();
    assert_eq!(records(&reader), 100);
}

#[test]
fn store_that_was_not_closed_is_not_misread_where_nothing_can_be_written() {
    let Some(mount) = Mount::of_bytes(8 << 20) else {
        return;
    };
    let directory = TempDir::new().unwrap();
    let store = open(directory.path(), Access::Server).unwrap();
    execute(&store, "1").unwrap();
    // What a machine that lost power leaves: the log, without its index.
    for name in ["silica.db", "silica.db-wal", "audit.key"] {
        let copied = std::process::Command::new("cp")
            .arg("-p")
            .args([directory.path().join(name), mount.path().join(name)])
            .status();
        assert!(copied.unwrap().success());
    }
    mount.make_read_only();
    let error = open(mount.path(), Access::ReadOnly).unwrap_err();
    assert!(matches!(error, StoreError::Unclosed { .. }), "{error:?}");
    assert!(error.advice().unwrap().contains("silica.db-wal"));
}

#[tokio::test]
async fn promises_that_were_left_are_not_overlooked_where_nothing_can_be_written() {
    let Some(mount) = Mount::of_bytes(8 << 20) else {
        return;
    };
    let store = open(mount.path(), Access::Server).unwrap();
    let tenant = Tenant::parse("someone").unwrap();
    let begin = Begin::new(ExecutionId::random().unwrap(), tenant, Activity::Cell);
    store.audit().begin(&begin).await.unwrap();
    let pending = std::fs::read(mount.path().join("silica.pending")).unwrap();
    store.close().await;
    std::fs::write(mount.path().join("silica.pending"), pending).unwrap();
    mount.make_read_only();
    let error = open(mount.path(), Access::ReadOnly).unwrap_err();
    assert!(matches!(error, StoreError::Unclosed { .. }), "{error:?}");
    assert!(error.advice().unwrap().contains("silica.pending"));
}

#[test]
fn file_that_is_no_database_is_reported_with_what_to_do() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join(DATABASE_NAME);
    std::fs::write(&path, "this is not a database, but it is long enough to look at").unwrap();
    for access in [Access::Server, Access::Tool, Access::ReadOnly] {
        let error = open(directory.path(), access).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        let advice = error.advice().unwrap();
        assert!(advice.contains("backup") && advice.contains("silica.db-wal"), "{advice}");
    }
}

#[test]
fn file_that_is_damaged_inside_is_reported_and_never_believed() {
    let directory = TempDir::new().unwrap();
    let path = written(directory.path());
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    for page in 1..pages {
        file.seek(SeekFrom::Start(page * 4096)).unwrap();
        file.write_all(&[0xff; 64]).unwrap();
    }
    drop(file);
    for access in [Access::Server, Access::Tool] {
        let error = open(directory.path(), access).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    }
    let reader = open(directory.path(), Access::ReadOnly).unwrap();
    let error = reader.audit().verify(None).wait().unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
}

#[test]
fn file_that_was_cut_short_is_reported() {
    let directory = TempDir::new().unwrap();
    let path = written(directory.path());
    let length = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
    let verified = open(directory.path(), Access::ReadOnly)
        .and_then(|reader| reader.audit().verify(None).wait());
    assert!(matches!(verified, Err(StoreError::Damaged { .. })), "{verified:?}");
}
