//! The key: made once, kept private, never replaced under a log that needs it.

use std::os::unix::fs::PermissionsExt;

use super::{ChainEntry, ChainKey};
use crate::audit::{RecordKind, Verdict};
use crate::testing::{TestData, executions};
use crate::{Access, Digest, Store, StoreError, Timestamp};

fn open(data: &TestData) -> Result<Store, StoreError> {
    Store::open(&data.path(), data.options(Access::Tool))
}

fn used() -> TestData {
    let data = TestData::new();
    let store = data.open();
    executions(&store, 1);
    store.close_wait();
    data
}

#[test]
fn key_is_made_once_and_stays() {
    let data = used();
    let before = std::fs::read_to_string(data.beside("audit.key")).unwrap();
    assert_eq!(before.len(), 65);
    data.open().close_wait();
    assert_eq!(std::fs::read_to_string(data.beside("audit.key")).unwrap(), before);
    // A new database goes on with the key that is there.
    std::fs::remove_file(data.path()).unwrap();
    data.open().close_wait();
    assert_eq!(std::fs::read_to_string(data.beside("audit.key")).unwrap(), before);
}

#[test]
fn lost_key_is_not_replaced() {
    let data = used();
    std::fs::remove_file(data.beside("audit.key")).unwrap();
    let error = open(&data).unwrap_err();
    assert!(matches!(error, StoreError::AuditKeyMissing { .. }), "{error}");
    assert!(!data.beside("audit.key").exists());
    let reader = Store::open(&data.path(), data.options(Access::ReadOnly)).unwrap();
    assert_eq!(reader.audit().tail(10).wait().unwrap().len(), 2);
    let error = reader.audit().verify(None).wait().unwrap_err();
    assert!(matches!(error, StoreError::AuditKeyMissing { .. }), "{error}");
}

#[test]
fn another_key_is_distinguished_from_a_changed_log() {
    let data = used();
    std::fs::write(data.beside("audit.key"), "0".repeat(64)).unwrap();
    let error = open(&data).unwrap_err();
    assert!(matches!(error, StoreError::AuditKeyWrong { .. }), "{error}");
    let reader = Store::open(&data.path(), data.options(Access::ReadOnly)).unwrap();
    let verdict = reader.audit().verify(None).wait().unwrap();
    assert_eq!(verdict, Verdict::Broken(crate::audit::Fault::WrongKey));
}

#[test]
fn key_that_is_no_key_is_refused() {
    let data = used();
    for content in ["", "hello", &"0".repeat(63), &"G".repeat(64), &"0".repeat(10_000)] {
        std::fs::write(data.beside("audit.key"), content).unwrap();
        let error = open(&data).unwrap_err();
        assert!(matches!(error, StoreError::KeyFileMalformed { .. }), "{error}");
    }
}

#[test]
fn key_that_others_can_reach_is_refused() {
    let data = used();
    for (mode, fine) in
        [(0o644, false), (0o620, false), (0o601, false), (0o640, true), (0o400, true)]
    {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(data.beside("audit.key"), permissions).unwrap();
        match open(&data) {
            Err(StoreError::KeyFileExposed { mode: found, .. }) => {
                assert_eq!((found, fine), (mode, false));
            }
            other => assert!(other.is_ok() && fine, "{mode:o} {other:?}"),
        }
    }
}

#[test]
fn code_depends_on_every_field_and_on_its_place() {
    let key = ChainKey::new(&[7; 32]);
    let entry = || ChainEntry {
        time: Timestamp::from_micros(1),
        kind: RecordKind::Begin,
        execution: Some("x"),
        tenant: Some("a"),
        sandbox: None,
        body: "{}",
    };
    let (zero, one) = (Digest::ZERO, Digest::of("1"));
    let codes = [
        key.hash(1, &zero, &entry()),
        key.hash(2, &zero, &entry()),
        key.hash(1, &one, &entry()),
        key.hash(1, &zero, &ChainEntry { time: Timestamp::from_micros(2), ..entry() }),
        key.hash(1, &zero, &ChainEntry { kind: RecordKind::Finish, ..entry() }),
        key.hash(1, &zero, &ChainEntry { execution: Some("y"), ..entry() }),
        key.hash(1, &zero, &ChainEntry { execution: Some("xa"), tenant: Some(""), ..entry() }),
        key.hash(1, &zero, &ChainEntry { execution: Some(""), tenant: Some("xa"), ..entry() }),
        key.hash(1, &zero, &ChainEntry { tenant: None, sandbox: Some("a"), ..entry() }),
        key.hash(1, &zero, &ChainEntry { sandbox: Some(""), ..entry() }),
        key.hash(1, &zero, &ChainEntry { body: "{} ", ..entry() }),
        ChainKey::new(&[8; 32]).hash(1, &zero, &entry()),
    ];
    let different: std::collections::HashSet<Digest> = codes.into_iter().collect();
    assert_eq!(different.len(), codes.len());
    assert_eq!(format!("{key:?}"), "ChainKey(****)");
}
