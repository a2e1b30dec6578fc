//! What is promised is kept, whoever dies in between, and what was not promised is not believed.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::audit::{Begin, Finish, Kind, Record, UNFINISHED, Verdict};
use crate::sandboxes::{Metadata, NewSandbox, State};
use crate::testing::{Ground, begin, tenant};
use crate::{Access, Durability, SandboxId, Store, StoreError, StoreOptions};

const PENDING: &str = "silica.pending";

fn serve(ground: &Ground) -> Store {
    Store::open(&ground.path(), ground.options(Access::Server)).unwrap()
}

fn look(ground: &Ground) -> Store {
    Store::open(&ground.path(), ground.options(Access::ReadOnly)).unwrap()
}

fn records(store: &Store) -> Vec<Record> {
    let verdict = store.audit().verify(None).wait().unwrap();
    assert!(matches!(verdict, Verdict::Whole(_)), "{verdict:?}");
    store.audit().tail(100).wait().unwrap()
}

fn named(records: &[Record]) -> Vec<(&str, Kind)> {
    records.iter().map(|record| (record.execution.as_deref().unwrap_or(""), record.kind)).collect()
}

/// Files as a process that is killed now would leave them.
fn killed_now(ground: &Ground) -> Ground {
    let left = Ground::new();
    for name in ["silica.db", "silica.db-wal", "audit.key", PENDING] {
        let copied = fs::copy(ground.beside(name), left.beside(name));
        assert!(copied.is_ok() || name == "silica.db-wal", "{name}: {copied:?}");
    }
    left
}

/// What is left by a process that was killed after it had promised executions of these names.
async fn left_with(names: &[&str]) -> Ground {
    let ground = Ground::new();
    let store = serve(&ground);
    let held = hold(&ground);
    for name in names {
        store.audit().begin(&begin(name, "a", "print(1)")).await.unwrap();
    }
    let left = killed_now(&ground);
    drop(held);
    store.close().await;
    left
}

/// Keeps promises from being kept: a server commits now and then by itself.
fn hold(ground: &Ground) -> rusqlite::Connection {
    let hands = ground.hands();
    hands.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    hands.execute_batch("BEGIN IMMEDIATE").unwrap();
    hands
}

fn lines(ground: &Ground) -> Vec<String> {
    let text = fs::read_to_string(ground.beside(PENDING)).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn is_empty(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.len() == 0)
}

#[tokio::test]
async fn what_is_promised_is_seen_by_all_who_read() {
    let ground = Ground::new();
    let store = serve(&ground);
    let held = hold(&ground);
    let ticket = store.audit().begin(&begin("x1", "a", "1")).await.unwrap();
    assert_eq!(lines(&ground).len(), 1, "it is promised and not written");
    drop(held);
    let reader = store.clone();
    let seen = tokio::task::spawn_blocking(move || records(&reader)).await.unwrap();
    assert_eq!(named(&seen), [("x1", Kind::Begin)]);
    assert!(is_empty(&ground.beside(PENDING)), "what is kept need not be promised");
    store.audit().finish(ticket, &Finish::new("ok")).await.unwrap();
    // Another process waits for the server that is there.
    let seen = records(&look(&ground));
    // The server's own task that writes it runs on this thread, which was held.
    assert!(named(&seen).starts_with(&[("x1", Kind::Begin)]));
    store.close().await;
    let seen = records(&look(&ground));
    assert_eq!(named(&seen), [("x1", Kind::Begin), ("x1", Kind::Finish)]);
    assert!(is_empty(&ground.beside(PENDING)));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_sees_what_a_running_server_has_promised() {
    let ground = Ground::new();
    let store = serve(&ground);
    for name in ["x1", "x2"] {
        store.audit().begin(&begin(name, "a", "1")).await.unwrap();
    }
    let seen = tokio::task::spawn_blocking(move || records(&look(&ground))).await.unwrap();
    assert_eq!(named(&seen), [("x1", Kind::Begin), ("x2", Kind::Begin)]);
    store.close().await;
}

#[tokio::test]
async fn killed_server_has_promised_nothing_in_vain() {
    for access in [Access::ReadOnly, Access::Tool, Access::Server] {
        let left = left_with(&["x1", "x2"]).await;
        let store = Store::open(&left.path(), left.options(access)).unwrap();
        let seen = records(&store);
        assert_eq!(named(&seen), [("x1", Kind::Begin), ("x2", Kind::Begin)], "{access:?}");
        let found = store.audit().search(&crate::audit::Search::default()).wait().unwrap();
        assert!(found.iter().all(|execution| execution.outcome == UNFINISHED), "{found:?}");
        assert!(is_empty(&left.beside(PENDING)), "{access:?}");
    }
}

#[tokio::test]
async fn sandbox_that_was_promised_is_known_to_the_next_server() {
    let ground = Ground::new();
    let store = serve(&ground);
    let new = NewSandbox {
        id: SandboxId::random().unwrap(),
        tenant: tenant("a"),
        template: "python".to_owned(),
        metadata: Metadata::from([("job".to_owned(), "7".to_owned())]),
        limits: serde_json::json!({"memory": 1}),
        expires_at: None,
    };
    let held = hold(&ground);
    let record = store.sandboxes().insert(new.clone()).await.unwrap();
    let left = killed_now(&ground);
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
    let ground = Ground::new();
    let store = serve(&ground);
    let id = SandboxId::random().unwrap();
    let new = NewSandbox {
        id: id.clone(),
        tenant: tenant("a"),
        template: "python".to_owned(),
        metadata: Metadata::new(),
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
    let promised = fs::read(left.beside(PENDING)).unwrap();
    for _ in 0..3 {
        fs::write(left.beside(PENDING), &promised).unwrap();
        assert_eq!(records(&look(&left)).len(), 2);
    }
}

#[tokio::test]
async fn piece_of_a_line_was_promised_to_nobody() {
    let left = left_with(&["x1", "x2"]).await;
    let whole = fs::read(left.beside(PENDING)).unwrap();
    let end_of_first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for length in [end_of_first, end_of_first + 1, end_of_first + 70, whole.len() - 1] {
        let left = left_with(&["x1", "x2"]).await;
        let file = fs::OpenOptions::new().write(true).open(left.beside(PENDING)).unwrap();
        file.set_len(length as u64).unwrap();
        let seen = records(&look(&left));
        assert_eq!(named(&seen), [("x1", Kind::Begin)], "{length} bytes");
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

fn assert_rejected(seen: &[Record], kept: &[(&str, Kind)]) {
    let (note, before) = seen.split_last().unwrap();
    assert_eq!(named(before), kept);
    assert!(note.kind == Kind::Note && note.body.contains("pending_rejected"), "{note:?}");
}

#[tokio::test]
async fn lines_that_others_have_touched_are_not_believed_and_the_log_says_so() {
    let first = [("x1", Kind::Begin)];
    let seen = changed(|lines| lines[1] = lines[1].replace("x2", "y2")).await;
    assert_rejected(&seen, &first);
    assert_rejected(&changed(|lines| lines.swap(1, 2)).await, &first);
    assert_rejected(&changed(|lines| drop(lines.remove(0))).await, &[]);
    assert_rejected(&changed(|lines| lines.insert(1, "nonsense".to_owned())).await, &first);
    let seen = changed(|lines| lines.push(lines[2].clone())).await;
    assert_rejected(&seen, &[("x1", Kind::Begin), ("x2", Kind::Begin), ("x3", Kind::Begin)]);
}

#[tokio::test]
async fn what_cannot_be_written_is_promised_no_further() {
    let ground = Ground::new();
    let patience = std::time::Duration::from_millis(20);
    let options = StoreOptions { patience, ..ground.options(Access::Server) };
    let store = Store::open(&ground.path(), options).unwrap();
    let other = hold(&ground);
    store.audit().begin(&begin("x1", "a", "1")).await.unwrap();
    let refused = loop {
        // The writer finds out when it comes to it; what was promised until then is kept.
        match store.audit().begin(&Begin { ..begin(&random_name(), "a", "1") }).await {
            Ok(_) => tokio::time::sleep(patience).await,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused:?}");
    let promised = lines(&ground).len();
    other.execute_batch("ROLLBACK").unwrap();
    store.audit().begin(&begin("last", "a", "1")).await.unwrap();
    assert!(is_empty(&ground.beside(PENDING)), "everything was written, and can be promised again");
    let other = hold(&ground);
    store.audit().begin(&begin("again", "a", "1")).await.unwrap();
    assert_eq!(lines(&ground).len(), 1);
    drop(other);
    store.close().await;
    assert_eq!(records(&look(&ground)).len(), promised + 2);
}

fn random_name() -> String {
    crate::ExecutionId::random().unwrap().to_string()
}

#[tokio::test]
async fn place_that_somebody_else_has_taken_in_the_log_loses_no_promise() {
    let ground = Ground::new();
    let store = serve(&ground);
    let held = hold(&ground);
    store.audit().begin(&begin("x1", "a", "1")).await.unwrap();
    // Where the next record belongs stands one of somebody else's.
    held.execute_batch(
        "INSERT INTO audit VALUES (1, 0, 'note', NULL, NULL, NULL, '{}', zeroblob(32), zeroblob(32)); COMMIT",
    )
    .unwrap();
    let refused = loop {
        match store.audit().begin(&begin(&random_name(), "a", "1")).await {
            Ok(_) => tokio::time::sleep(crate::writer::LINGER).await,
            Err(refused) => break refused,
        }
    };
    assert!(!matches!(refused, StoreError::Duplicate { .. }), "{refused:?}");
    assert!(!lines(&ground).is_empty(), "it is still promised");
    ground.tamper("DELETE FROM audit");
    store.audit().begin(&begin("x2", "a", "1")).await.unwrap();
    store.close().await;
    let seen = records(&look(&ground));
    assert_eq!(named(&seen).first(), Some(&("x1", Kind::Begin)));
    assert_eq!(named(&seen).last(), Some(&("x2", Kind::Begin)));
}

#[tokio::test]
async fn nothing_overtakes_a_promise_that_cannot_be_kept() {
    let ground = Ground::new();
    let store = serve(&ground);
    let held = hold(&ground);
    let new = NewSandbox {
        id: SandboxId::random().unwrap(),
        tenant: tenant("a"),
        template: "python".to_owned(),
        metadata: Metadata::new(),
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
    ground.tamper("UPDATE audit_head SET seq = 0");
    assert!(store.sandboxes().set_expiry(&new.id, Some(later)).await.unwrap());
    store.close().await;
    assert_eq!(named(&records(&look(&ground))), [("x1", Kind::Begin)]);
}

#[test]
fn link_in_the_place_of_the_file_is_not_followed() {
    for hard in [false, true] {
        let ground = Ground::new();
        ground.open().close_wait();
        let victim = ground.beside("victim");
        fs::write(&victim, "precious\n").unwrap();
        if hard {
            fs::hard_link(&victim, ground.beside(PENDING)).unwrap();
        } else {
            std::os::unix::fs::symlink(&victim, ground.beside(PENDING)).unwrap();
        }
        for access in [Access::ReadOnly, Access::Tool, Access::Server] {
            let opened = Store::open(&ground.path(), ground.options(access));
            assert!(opened.is_err(), "{access:?}, {hard}");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious\n");
    }
}

#[tokio::test]
async fn long_code_and_a_machine_without_power_go_the_long_way() {
    let ground = Ground::new();
    let store = serve(&ground);
    let code = "x".repeat(super::LINE_BYTES_MAX);
    store.audit().begin(&begin("x1", "a", &code)).await.unwrap();
    assert!(is_empty(&ground.beside(PENDING)));
    store.close().await;
    let durability = Durability::Machine;
    let options = StoreOptions { durability, ..ground.options(Access::Server) };
    let store = Store::open(&ground.path(), options).unwrap();
    store.audit().begin(&begin("x2", "a", "1")).await.unwrap();
    assert!(is_empty(&ground.beside(PENDING)));
    store.close().await;
    assert_eq!(records(&look(&ground)).len(), 2);
}

#[tokio::test]
async fn log_that_is_broken_can_be_looked_at_though_promises_were_left() {
    let left = left_with(&["x1"]).await;
    left.tamper("UPDATE audit_head SET seq = seq + 1");
    let verdict = look(&left).audit().verify(None).wait().unwrap();
    assert!(matches!(verdict, Verdict::Broken(_)), "{verdict:?}");
    assert_eq!(lines(&left).len(), 1, "it is still promised");
    let refused = Store::open(&left.path(), left.options(Access::Server)).map(drop);
    assert!(matches!(refused, Err(StoreError::AuditBroken)), "{refused:?}");
}

proptest! {
    #[test]
    fn no_bytes_make_it_fail_or_believe_them(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let ground = Ground::new();
        ground.open().close_wait();
        fs::write(ground.beside(PENDING), &bytes).unwrap();
        let seen = records(&look(&ground));
        prop_assert!(seen.iter().all(|record| record.kind == Kind::Note));
        prop_assert_eq!(seen.len(), usize::from(bytes.contains(&b'\n')));
    }
}
