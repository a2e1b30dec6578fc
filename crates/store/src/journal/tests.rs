//! What the journal holds is committed, whichever process dies in between; lines that no server
//! wrote are not.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::audit::{AuditSettings, Begin, Finish, Record, RecordKind, UNFINISHED, Verdict};
use crate::sandboxes::{NewSandbox, SandboxMetadata, State};
use crate::testing::{TestData, begin, tenant};
use crate::{Access, Durability, SandboxId, Store, StoreError, StoreOptions};

const PENDING: &str = "silica.pending";

fn serve(data: &TestData) -> Store {
    Store::open(&data.path(), data.options(Access::Server)).unwrap()
}

fn look(data: &TestData) -> Store {
    Store::open(&data.path(), data.options(Access::ReadOnly)).unwrap()
}

fn records(store: &Store) -> Vec<Record> {
    let verdict = store.audit().verify(None).wait().unwrap();
    assert!(matches!(verdict, Verdict::Whole(_)), "{verdict:?}");
    store.audit().tail(100).wait().unwrap()
}

fn named(records: &[Record]) -> Vec<(&str, RecordKind)> {
    records.iter().map(|record| (record.execution.as_deref().unwrap_or(""), record.kind)).collect()
}

/// Files as a process that is killed now would leave them.
fn killed_now(data: &TestData) -> TestData {
    let left = TestData::new();
    for name in ["silica.db", "silica.db-wal", "audit.key", PENDING] {
        let copied = fs::copy(data.beside(name), left.beside(name));
        assert!(copied.is_ok() || name == "silica.db-wal", "{name}: {copied:?}");
    }
    left
}

/// Returns the files of a process that was killed with executions of these names in its journal.
async fn left_with(names: &[&str]) -> TestData {
    let data = TestData::new();
    let store = serve(&data);
    let held = hold(&data);
    for name in names {
        store.audit().begin(&begin(name, "a", "print(1)")).await.unwrap();
    }
    let left = killed_now(&data);
    drop(held);
    store.close().await;
    left
}

/// Keeps the server from committing its pending writes, which it does by itself every few
/// milliseconds.
fn hold(data: &TestData) -> rusqlite::Connection {
    let other = data.raw_connection();
    other.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

fn lines(data: &TestData) -> Vec<String> {
    let text = fs::read_to_string(data.beside(PENDING)).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn is_empty(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.len() == 0)
}

#[tokio::test]
async fn what_is_promised_is_seen_by_all_who_read() {
    let data = TestData::new();
    let store = serve(&data);
    let held = hold(&data);
    let ticket = store.audit().begin(&begin("x1", "a", "1")).await.unwrap();
    assert_eq!(lines(&data).len(), 1, "it is pending and not committed");
    drop(held);
    let reader = store.clone();
    let seen = tokio::task::spawn_blocking(move || records(&reader)).await.unwrap();
    assert_eq!(named(&seen), [("x1", RecordKind::Begin)]);
    assert!(is_empty(&data.beside(PENDING)), "what is committed is not pending");
    store.audit().finish(ticket, &Finish::new("ok")).await.unwrap();
    // Another process waits for the server that is there.
    let seen = records(&look(&data));
    // The server's own task that writes it runs on this thread, which was held.
    assert!(named(&seen).starts_with(&[("x1", RecordKind::Begin)]));
    store.close().await;
    let seen = records(&look(&data));
    assert_eq!(named(&seen), [("x1", RecordKind::Begin), ("x1", RecordKind::Finish)]);
    assert!(is_empty(&data.beside(PENDING)));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_sees_what_a_running_server_has_promised() {
    let data = TestData::new();
    let store = serve(&data);
    for name in ["x1", "x2"] {
        store.audit().begin(&begin(name, "a", "1")).await.unwrap();
    }
    let seen = tokio::task::spawn_blocking(move || records(&look(&data))).await.unwrap();
    assert_eq!(named(&seen), [("x1", RecordKind::Begin), ("x2", RecordKind::Begin)]);
    store.close().await;
}

#[tokio::test]
async fn killed_server_has_promised_nothing_in_vain() {
    for access in [Access::ReadOnly, Access::Tool, Access::Server] {
        let left = left_with(&["x1", "x2"]).await;
        let store = Store::open(&left.path(), left.options(access)).unwrap();
        let seen = records(&store);
        assert_eq!(
            named(&seen),
            [("x1", RecordKind::Begin), ("x2", RecordKind::Begin)],
            "{access:?}"
        );
        let found = store.audit().search(&crate::audit::Search::default()).wait().unwrap();
        assert!(found.iter().all(|execution| execution.outcome == UNFINISHED), "{found:?}");
        assert!(is_empty(&left.beside(PENDING)), "{access:?}");
    }
}

#[tokio::test]
async fn sandbox_that_was_promised_is_known_to_the_next_server() {
    let data = TestData::new();
    let store = serve(&data);
    let new = NewSandbox {
        id: SandboxId::random().unwrap(),
        tenant: tenant("a"),
        template: "python".to_owned(),
        metadata: SandboxMetadata::from([("job".to_owned(), "7".to_owned())]),
        limits: serde_json::json!({"memory": 1}),
        expires_at: None,
    };
    let held = hold(&data);
    let record = store.sandboxes().insert(new.clone()).await.unwrap();
    let left = killed_now(&data);
    drop(held);
    store.close().await;
    let next = serve(&left);
    let found = next.sandboxes().get(&new.id).await.unwrap();
    assert_eq!(found, Some(record));
    assert_eq!(next.sandboxes().mark_lost("it died").await.unwrap(), 1);
    let found = next.sandboxes().get(&new.id).await.unwrap().unwrap();
    assert_eq!(found.state, State::Lost);
}

#[tokio::test]
async fn end_of_a_sandbox_finds_the_one_that_is_only_promised() {
    let data = TestData::new();
    let store = serve(&data);
    let id = SandboxId::random().unwrap();
    let new = NewSandbox {
        id: id.clone(),
        tenant: tenant("a"),
        template: "python".to_owned(),
        metadata: SandboxMetadata::new(),
        limits: serde_json::json!({}),
        expires_at: None,
    };
    store.sandboxes().insert(new).await.unwrap();
    store.sandboxes().finish(&id, "deleted", None).await.unwrap();
    assert_eq!(store.sandboxes().get(&id).await.unwrap().unwrap().state, State::Ended);
}

#[tokio::test]
async fn promise_is_kept_once_however_often_it_is_found() {
    let left = left_with(&["x1", "x2"]).await;
    let pending = fs::read(left.beside(PENDING)).unwrap();
    for _ in 0..3 {
        fs::write(left.beside(PENDING), &pending).unwrap();
        assert_eq!(records(&look(&left)).len(), 2);
    }
}

/// An old copy of the file that is put back adds nothing: its lines are genuine, and their records were pruned.
#[tokio::test]
async fn old_copy_of_the_file_brings_nothing_back_that_was_pruned() {
    let left = left_with(&["x1", "x2"]).await;
    let pending = fs::read(left.beside(PENDING)).unwrap();
    // Another server commits the lines, goes on for an hour and prunes them.
    left.set_time(3_600_000_000);
    let audit = AuditSettings { records_max: Some(2), ..AuditSettings::default() };
    let options = StoreOptions { audit, ..left.options(Access::Tool) };
    let store = Store::open(&left.path(), options).unwrap();
    let ticket = store.audit().begin(&begin("y1", "a", "print(1)")).await.unwrap();
    store.audit().finish(ticket, &Finish::new("ok")).await.unwrap();
    store.audit().prune().await.unwrap();
    assert_eq!(named(&records(&store)), [("y1", RecordKind::Begin), ("y1", RecordKind::Finish)]);
    store.close().await;
    fs::write(left.beside(PENDING), &pending).unwrap();
    let seen = records(&look(&left));
    assert_rejected(&seen, &[("y1", RecordKind::Begin), ("y1", RecordKind::Finish)]);
    assert_eq!(fs::read(left.beside("silica.pending-3600000000")).unwrap(), pending);
    assert!(is_empty(&left.beside(PENDING)));
}

/// An end that is put back after the beginning and the end were committed does not end it a second time.
#[tokio::test]
async fn old_copy_of_an_end_ends_nothing_twice() {
    let data = TestData::new();
    let store = serve(&data);
    let held = hold(&data);
    let ticket = store.audit().begin(&begin("x1", "a", "print(1)")).await.unwrap();
    store.audit().finish(ticket, &Finish::new("ok")).await.unwrap();
    let left = killed_now(&data);
    drop(held);
    store.close().await;
    let pending = fs::read(left.beside(PENDING)).unwrap();
    let before = records(&look(&left));
    assert_eq!(named(&before), [("x1", RecordKind::Begin), ("x1", RecordKind::Finish)]);
    fs::write(left.beside(PENDING), &pending).unwrap();
    assert_eq!(records(&look(&left)), before);
    // Without its first line nothing fits.
    let second = pending.splitn(2, |byte| *byte == b'\n').nth(1).unwrap().to_vec();
    fs::write(left.beside(PENDING), second).unwrap();
    assert_rejected(&records(&look(&left)), &named(&before));
}

#[tokio::test]
async fn piece_of_a_line_was_never_answered_for() {
    let left = left_with(&["x1", "x2"]).await;
    let whole = fs::read(left.beside(PENDING)).unwrap();
    let end_of_first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for length in [end_of_first, end_of_first + 1, end_of_first + 70, whole.len() - 1] {
        let left = left_with(&["x1", "x2"]).await;
        let file = fs::OpenOptions::new().write(true).open(left.beside(PENDING)).unwrap();
        file.set_len(length as u64).unwrap();
        let seen = records(&look(&left));
        assert_eq!(named(&seen), [("x1", RecordKind::Begin)], "{length} bytes");
    }
}

/// What is in the log if the lines that were left are changed so.
async fn changed(change: impl FnOnce(&mut Vec<String>)) -> Vec<Record> {
    let left = left_with(&["x1", "x2", "x3"]).await;
    let mut lines = lines(&left);
    change(&mut lines);
    fs::write(left.beside(PENDING), lines.join("\n") + "\n").unwrap();
    let seen = records(&look(&left));
    let aside = left.beside("silica.pending-1000000");
    let kept = fs::read_to_string(&aside).unwrap();
    assert_eq!(kept.lines().collect::<Vec<_>>(), lines, "what was found is evidence");
    assert_eq!(records(&look(&left)), seen, "it is said once");
    seen
}

fn assert_rejected(seen: &[Record], kept: &[(&str, RecordKind)]) {
    let (note, before) = seen.split_last().unwrap();
    assert_eq!(named(before), kept);
    assert!(note.kind == RecordKind::Note && note.body.contains("pending_rejected"), "{note:?}");
}

#[tokio::test]
async fn lines_that_others_have_touched_are_not_believed_and_the_log_says_so() {
    let first = [("x1", RecordKind::Begin)];
    let seen = changed(|lines| lines[1] = lines[1].replace("x2", "y2")).await;
    assert_rejected(&seen, &first);
    assert_rejected(&changed(|lines| lines.swap(1, 2)).await, &first);
    assert_rejected(&changed(|lines| drop(lines.remove(0))).await, &[]);
    assert_rejected(&changed(|lines| lines.insert(1, "nonsense".to_owned())).await, &first);
    let seen = changed(|lines| lines.push(lines[2].clone())).await;
    assert_rejected(
        &seen,
        &[("x1", RecordKind::Begin), ("x2", RecordKind::Begin), ("x3", RecordKind::Begin)],
    );
}

#[tokio::test]
async fn what_cannot_be_written_is_promised_no_further() {
    let data = TestData::new();
    let patience = std::time::Duration::from_millis(20);
    let options = StoreOptions { patience, ..data.options(Access::Server) };
    let store = Store::open(&data.path(), options).unwrap();
    let other = hold(&data);
    store.audit().begin(&begin("x1", "a", "1")).await.unwrap();
    let refused = loop {
        // The writer gets the error when it commits; what was pending until then stays in the
        // journal.
        match store.audit().begin(&Begin { ..begin(&random_name(), "a", "1") }).await {
            Ok(_) => tokio::time::sleep(patience).await,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused:?}");
    let pending = lines(&data).len();
    other.execute_batch("ROLLBACK").unwrap();
    store.audit().begin(&begin("last", "a", "1")).await.unwrap();
    assert!(
        is_empty(&data.beside(PENDING)),
        "everything was committed, and the journal takes more"
    );
    let other = hold(&data);
    store.audit().begin(&begin("again", "a", "1")).await.unwrap();
    assert_eq!(lines(&data).len(), 1);
    drop(other);
    store.close().await;
    assert_eq!(records(&look(&data)).len(), pending + 2);
}

fn random_name() -> String {
    crate::ExecutionId::random().unwrap().to_string()
}

#[tokio::test]
async fn place_that_another_process_took_in_the_log_loses_no_pending_record() {
    let data = TestData::new();
    let store = serve(&data);
    let held = hold(&data);
    store.audit().begin(&begin("x1", "a", "1")).await.unwrap();
    // Another program has inserted a record with the next number.
    held.execute_batch(
        "INSERT INTO audit VALUES (1, 0, 'note', NULL, NULL, NULL, '{}', zeroblob(32), zeroblob(32), NULL, NULL); COMMIT",
    )
    .unwrap();
    let refused = loop {
        match store.audit().begin(&begin(&random_name(), "a", "1")).await {
            Ok(_) => tokio::time::sleep(crate::writer::LINGER).await,
            Err(refused) => break refused,
        }
    };
    assert!(!matches!(refused, StoreError::Duplicate { .. }), "{refused:?}");
    assert!(!lines(&data).is_empty(), "it is still pending");
    data.tamper("DELETE FROM audit");
    store.audit().begin(&begin("x2", "a", "1")).await.unwrap();
    store.close().await;
    let seen = records(&look(&data));
    assert_eq!(named(&seen).first(), Some(&("x1", RecordKind::Begin)));
    assert_eq!(named(&seen).last(), Some(&("x2", RecordKind::Begin)));
}

#[tokio::test]
async fn nothing_overtakes_a_promise_that_cannot_be_kept() {
    let data = TestData::new();
    let store = serve(&data);
    let held = hold(&data);
    let new = NewSandbox {
        id: SandboxId::random().unwrap(),
        tenant: tenant("a"),
        template: "python".to_owned(),
        metadata: SandboxMetadata::new(),
        limits: serde_json::json!({}),
        expires_at: None,
    };
    store.sandboxes().insert(new.clone()).await.unwrap();
    store.audit().begin(&begin("x1", "a", "1")).await.unwrap();
    held.execute_batch("UPDATE audit_head SET seq = 7; COMMIT").unwrap();
    // By now the chain cannot go on; the end of the sandbox does not come before its beginning.
    let later = crate::Timestamp::from_micros(5);
    let refused = store.sandboxes().set_expiry(&new.id, Some(later)).await.unwrap_err();
    assert!(matches!(refused, StoreError::AuditBroken), "{refused:?}");
    data.tamper("UPDATE audit_head SET seq = 0");
    assert!(store.sandboxes().set_expiry(&new.id, Some(later)).await.unwrap());
    store.close().await;
    assert_eq!(named(&records(&look(&data))), [("x1", RecordKind::Begin)]);
}

#[test]
fn link_in_the_place_of_the_file_is_not_followed() {
    for hard in [false, true] {
        let data = TestData::new();
        data.open().close_wait();
        let victim = data.beside("victim");
        fs::write(&victim, "precious\n").unwrap();
        if hard {
            fs::hard_link(&victim, data.beside(PENDING)).unwrap();
        } else {
            std::os::unix::fs::symlink(&victim, data.beside(PENDING)).unwrap();
        }
        for access in [Access::ReadOnly, Access::Tool, Access::Server] {
            let opened = Store::open(&data.path(), data.options(access));
            assert!(opened.is_err(), "{access:?}, {hard}");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n");
    }
}

#[tokio::test]
async fn long_code_and_a_machine_without_power_go_the_long_way() {
    let data = TestData::new();
    let store = serve(&data);
    let code = "x".repeat(super::LINE_BYTES_MAX);
    store.audit().begin(&begin("x1", "a", &code)).await.unwrap();
    assert!(is_empty(&data.beside(PENDING)));
    store.close().await;
    let durability = Durability::Machine;
    let options = StoreOptions { durability, ..data.options(Access::Server) };
    let store = Store::open(&data.path(), options).unwrap();
    store.audit().begin(&begin("x2", "a", "1")).await.unwrap();
    assert!(is_empty(&data.beside(PENDING)));
    store.close().await;
    assert_eq!(records(&look(&data)).len(), 2);
}

#[tokio::test]
async fn log_that_is_broken_can_be_looked_at_though_promises_were_left() {
    let left = left_with(&["x1"]).await;
    left.tamper("UPDATE audit_head SET seq = seq + 1");
    let verdict = look(&left).audit().verify(None).wait().unwrap();
    assert!(matches!(verdict, Verdict::Broken(_)), "{verdict:?}");
    assert_eq!(lines(&left).len(), 1, "it is still pending");
    let refused = Store::open(&left.path(), left.options(Access::Server)).map(drop);
    assert!(matches!(refused, Err(StoreError::AuditBroken)), "{refused:?}");
}

proptest! {
    #[test]
    fn no_bytes_make_it_fail_or_believe_them(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let data = TestData::new();
        data.open().close_wait();
        fs::write(data.beside(PENDING), &bytes).unwrap();
        let seen = records(&look(&data));
        prop_assert!(seen.iter().all(|record| record.kind == RecordKind::Note));
        prop_assert_eq!(seen.len(), usize::from(bytes.contains(&b'\n')));
    }
}
