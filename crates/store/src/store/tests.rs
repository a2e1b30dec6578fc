//! Opening: modes, locks, who may be there at the same time.

use std::os::unix::fs::PermissionsExt;

use crate::audit::Note;
use crate::testing::{TestData, execute, executions};
use crate::{Access, Durability, Store, StoreError, StoreOptions};

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn files_belong_to_their_owner_alone() {
    let data = TestData::new();
    let _store = Store::open(&data.path(), data.options(Access::Server)).unwrap();
    let files = [
        "silica.db",
        "silica.db-wal",
        "silica.db-shm",
        "silica.lock",
        "silica.pending",
        "audit.key",
    ];
    for name in files {
        assert_eq!(mode(&data.beside(name)), 0o600, "{name}");
    }
    let mut names: Vec<_> = std::fs::read_dir(data.path().parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut expected = files;
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn closing_leaves_everything_in_one_file() {
    let data = TestData::new();
    let store = Store::open(&data.path(), data.options(Access::Server)).unwrap();
    executions(&store, 3);
    assert_eq!(store.audit().tail(9).wait().unwrap().len(), 6);
    store.close_wait();
    assert!(!data.beside("silica.db-wal").exists());
    assert!(!data.beside("silica.db-shm").exists());
    let rows: i64 = data
        .raw_connection()
        .query_row("SELECT count(*) FROM audit", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 6);
}

#[test]
fn data_directory_is_made() {
    let data = TestData::new();
    let path = data.beside("a/b/silica.db");
    let store = Store::open(&path, data.options(Access::Tool)).unwrap();
    executions(&store, 1);
    assert!(path.is_file());
}

#[test]
fn second_server_is_refused_until_the_first_has_gone() {
    let data = TestData::new();
    let open = || Store::open(&data.path(), data.options(Access::Server));
    let first = open().unwrap();
    let error = open().unwrap_err();
    let process = std::process::id().to_string();
    assert!(matches!(&error, StoreError::InUse { holder, .. } if *holder == process), "{error}");
    first.close_wait();
    drop(open().unwrap());
    drop(first);
}

#[test]
fn tools_and_readers_work_beside_a_server() {
    let data = TestData::new();
    let server = Store::open(&data.path(), data.options(Access::Server)).unwrap();
    let tool = data.open();
    let reader = Store::open(&data.path(), data.options(Access::ReadOnly)).unwrap();
    for number in 0..10 {
        execute(&server, &format!("server{number}"), "ok");
        execute(&tool, &format!("tool{number}"), "ok");
    }
    assert_eq!(reader.audit().head().wait().unwrap().seq, 40);
}

#[test]
fn reader_cannot_write() {
    let data = TestData::new();
    data.open().close_wait();
    let reader = Store::open(&data.path(), data.options(Access::ReadOnly)).unwrap();
    let error = reader.audit().note(Note::new("x")).wait().unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
}

#[test]
fn reader_makes_nothing() {
    let data = TestData::new();
    let error = Store::open(&data.path(), data.options(Access::ReadOnly)).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    assert_eq!(std::fs::read_dir(data.path().parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn every_commit_can_wait_for_the_disk() {
    let data = TestData::new();
    let options = StoreOptions { durability: Durability::Machine, ..data.options(Access::Tool) };
    let store = Store::open(&data.path(), options).unwrap();
    let level: i64 = store
        .write(|connection| {
            Ok(connection.pragma_query_value(None, "synchronous", |row| row.get(0))?)
        })
        .wait()
        .unwrap();
    assert_eq!(level, 2);
}

#[tokio::test]
async fn everything_can_be_awaited() {
    let data = TestData::new();
    let store = data.open();
    let head = store.audit().note(Note::new("server_started")).await.unwrap();
    assert_eq!(store.audit().head().await.unwrap(), head);
    store.close().await;
    let error = store.audit().note(Note::new("late")).await.unwrap_err();
    assert!(matches!(error, StoreError::Closed), "{error}");
}
