//! Going from one version of the tables to the next.

use rusqlite::Connection;

use super::{STEPS, migrate, migrate_by};
use crate::audit::{Execution, Finish, Search, Verdict, verify_export};
use crate::error::Failure;
use crate::file::StorePaths;
use crate::testing::{TestData, begin};
use crate::{Access, Store, StoreError};

fn paths() -> StorePaths {
    StorePaths { database: "some.db".into(), patience: std::time::Duration::ZERO }
}

fn version(connection: &Connection) -> i64 {
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[test]
fn steps_are_taken_from_wherever_a_file_stands() {
    let connection = Connection::open_in_memory().unwrap();
    let steps = ["CREATE TABLE one (a)", "ALTER TABLE one ADD COLUMN b", "CREATE TABLE three (c)"];
    migrate_by(&connection, &paths(), &steps[..1]).unwrap();
    assert_eq!(version(&connection), 1);
    connection.execute("INSERT INTO one VALUES (7)", []).unwrap();
    migrate_by(&connection, &paths(), &steps).unwrap();
    assert_eq!(version(&connection), 3);
    let kept: (i64, Option<i64>) = connection
        .query_row("SELECT a, b FROM one, (SELECT count(*) FROM three)", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(kept, (7, None));
    migrate_by(&connection, &paths(), &steps).unwrap();
}

#[test]
fn step_that_fails_leaves_everything_as_it_was() {
    let connection = Connection::open_in_memory().unwrap();
    let steps = ["CREATE TABLE one (a)", "CREATE TABLE two (a); CREATE TABLE one (a)"];
    assert!(matches!(migrate_by(&connection, &paths(), &steps), Err(Failure::Sql(_))));
    assert_eq!(version(&connection), 0);
    migrate_by(&connection, &paths(), &steps[..1]).unwrap();
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!((version(&connection), tables), (1, 1));
}

#[test]
fn newer_file_is_refused_for_writing_and_for_reading() {
    let data = TestData::new();
    data.open().close_wait();
    data.tamper("PRAGMA user_version = 99");
    for access in [Access::Server, Access::Tool, Access::ReadOnly] {
        let error = Store::open(&data.path(), data.options(access)).unwrap_err();
        let known = STEPS.len() as i64;
        assert!(
            matches!(&error, StoreError::NewerSchema { found: 99, known: at, .. } if *at == known),
            "{error}"
        );
        assert!(error.advice().unwrap().contains("newer version"));
    }
}

#[test]
fn database_of_another_program_is_left_alone() {
    let data = TestData::new();
    data.tamper("CREATE TABLE recipes (name)");
    for access in [Access::Tool, Access::ReadOnly] {
        let error = Store::open(&data.path(), data.options(access)).unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    }
    let mode: String = data
        .raw_connection()
        .query_row("SELECT name FROM sqlite_schema", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "recipes");
}

#[test]
fn file_without_tables_is_not_ready_to_be_read() {
    let data = TestData::new();
    std::fs::write(data.path(), "").unwrap();
    let error = Store::open(&data.path(), data.options(Access::ReadOnly)).unwrap_err();
    assert!(matches!(error, StoreError::NotReady { found: 0, .. }), "{error}");
    let connection = data.raw_connection();
    migrate(&connection, &paths()).unwrap();
    assert_eq!(version(&connection), STEPS.len() as i64);
}

/// A database of schema 2, and the key of its chain.
const VERSION_2: &str = include_str!("tests/version-2.sql");
const KEY_OF_VERSION_2: &str = "bdaafbb08c331a8a04b1595e07ef1039db25d1692ca81bdc8474c4e7e131cb5b\n";

#[test]
fn database_of_an_earlier_version_opens_verifies_and_goes_on() {
    let data = TestData::new();
    data.tamper(VERSION_2);
    std::fs::write(data.beside("audit.key"), KEY_OF_VERSION_2).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(data.beside("audit.key"), private).unwrap();
    let store = data.open();
    let whole = || match store.audit().verify(None).wait().unwrap() {
        Verdict::Whole(summary) => summary,
        Verdict::Broken(fault) => panic!("{fault}"),
    };
    let before = whole();
    assert_eq!((before.records, before.first, before.unfinished), (9, Some(5), 1));
    assert_eq!(before.anchor.unwrap().pruned, 4);
    // Code in it is shown and found as it was.
    let text = Some("line 399".to_owned());
    let found = store.audit().search(&Search { text, ..Search::default() }).wait().unwrap();
    let of = |execution: &Execution| execution.execution.clone();
    assert_eq!(found.iter().map(of).collect::<Vec<_>>(), ["b", "a"]);
    let code = found[0].begin.code.as_ref().unwrap().text.clone().unwrap();
    assert_eq!(code.lines().count(), 400);
    // New records follow the old ones, and both are counted.
    let ticket = store.audit().begin(&begin("new", "someone", &code)).wait().unwrap();
    store.audit().finish(ticket, &Finish::new("ok")).wait().unwrap();
    assert_eq!((whole().records, whole().head.seq), (11, 15));
    let count = |query: &str| -> i64 {
        data.raw_connection().query_row(query, [], |row| row.get(0)).unwrap()
    };
    let real = "SELECT sum(length(CAST(body AS BLOB)) + 256) + \
                (SELECT sum(length(packed)) FROM audit_code) FROM audit";
    assert_eq!(count("SELECT bytes FROM audit_head"), count(real));
    let mut exported = Vec::new();
    store.audit().export(&mut exported).unwrap();
    let verdict = verify_export(&data.path(), &mut exported.as_slice(), None).unwrap();
    assert!(matches!(verdict, Verdict::Whole(_)), "{verdict:?}");
}
