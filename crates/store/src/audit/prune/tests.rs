//! What goes, what stays, and that the chain still shows tampering.

use std::time::Duration;

use crate::audit::{AuditSettings, Fault, Finish, Noted, NotedHead, Verdict};
use crate::testing::{TestData, begin, eventually, execute, executions};
use crate::{Access, Store, StoreError, StoreOptions};

const SECOND: i64 = 1_000_000;

fn open(data: &TestData, audit: AuditSettings) -> Store {
    let options = StoreOptions { audit, ..data.options(Access::Tool) };
    Store::open(&data.path(), options).unwrap()
}

fn for_seconds(seconds: u64) -> AuditSettings {
    let retention = Some(Duration::from_secs(seconds));
    AuditSettings { retention, ..AuditSettings::default() }
}

fn at_most(records: u64) -> AuditSettings {
    AuditSettings { records_max: Some(records), ..AuditSettings::default() }
}

fn prune(store: &Store) -> Option<(u64, u64)> {
    let pruned = store.audit().prune().wait().unwrap();
    pruned.map(|pruned| (pruned.records, pruned.up_to))
}

fn first(store: &Store) -> Option<u64> {
    match store.audit().verify(None).wait().unwrap() {
        Verdict::Whole(summary) => summary.first,
        Verdict::Broken(fault) => panic!("{fault}"),
    }
}

#[test]
fn old_records_go_and_the_chain_goes_on_from_an_anchor() {
    let data = TestData::new();
    let store = open(&data, for_seconds(10));
    data.set_time(SECOND);
    executions(&store, 3);
    let noted = NotedHead(store.audit().head().wait().unwrap());
    data.set_time(15 * SECOND);
    execute(&store, "young", "ok");
    assert_eq!(prune(&store), Some((6, 6)));
    assert_eq!(prune(&store), None);
    let Verdict::Whole(summary) = store.audit().verify(Some(noted)).wait().unwrap() else {
        panic!("it was left alone");
    };
    assert_eq!((summary.records, summary.first, summary.head.seq), (2, Some(7), 8));
    let anchor = summary.anchor.unwrap();
    assert_eq!((anchor.seq, anchor.pruned, anchor.pruned_at.as_micros()), (6, 6, 15 * SECOND));
    assert_eq!(summary.noted, Some(Noted::Found));
    data.set_time(30 * SECOND);
    assert_eq!(prune(&store), Some((2, 8)));
    execute(&store, "later", "ok");
    let Verdict::Whole(summary) = store.audit().verify(Some(noted)).wait().unwrap() else {
        panic!("it was left alone");
    };
    assert_eq!((summary.first, summary.anchor.unwrap().pruned), (Some(9), 8));
    assert_eq!(summary.noted, Some(Noted::Pruned));
}

#[test]
fn nothing_is_removed_unless_asked_for() {
    let data = TestData::new();
    let store = open(&data, AuditSettings::default());
    executions(&store, 3);
    data.set_time(i64::MAX);
    assert_eq!(prune(&store), None);
    assert_eq!(first(&store), Some(1));
}

#[test]
fn execution_that_ended_lately_keeps_its_beginning() {
    let data = TestData::new();
    let store = open(&data, for_seconds(10));
    data.set_time(SECOND);
    execute(&store, "old", "ok");
    let ticket = store.audit().begin(&begin("long", "a", "1")).wait().unwrap();
    execute(&store, "meanwhile", "ok");
    data.set_time(15 * SECOND);
    store.audit().finish(ticket, &Finish::new("ok")).wait().unwrap();
    assert_eq!(prune(&store), Some((2, 2)));
    assert_eq!(first(&store), Some(3));
    data.set_time(30 * SECOND);
    assert_eq!(prune(&store), Some((4, 6)));
}

#[test]
fn execution_that_never_ended_goes_when_it_is_old_and_may_still_end() {
    let data = TestData::new();
    let store = open(&data, for_seconds(10));
    data.set_time(SECOND);
    let ticket = store.audit().begin(&begin("stuck", "a", "1")).wait().unwrap();
    data.set_time(5 * SECOND);
    assert_eq!(prune(&store), None);
    data.set_time(15 * SECOND);
    assert_eq!(prune(&store), Some((1, 1)));
    store.audit().finish(ticket, &Finish::new("ok")).wait().unwrap();
    assert_eq!(first(&store), Some(2));
}

#[test]
fn number_of_records_is_bounded() {
    let data = TestData::new();
    let store = open(&data, at_most(4));
    executions(&store, 2);
    assert_eq!(prune(&store), None);
    execute(&store, "third", "ok");
    assert_eq!(prune(&store), Some((2, 2)));
    assert_eq!(first(&store), Some(3));
    store.close_wait();
    let store = open(&data, at_most(0));
    assert_eq!(prune(&store), Some((4, 6)));
    assert_eq!((prune(&store), first(&store)), (None, None));
    execute(&store, "fourth", "ok");
    assert_eq!(store.audit().tail(9).wait().unwrap()[0].seq, 7);
}

#[test]
fn many_go_in_bounded_steps_though_executions_overlap() {
    let data = TestData::new();
    let store = open(&data, at_most(0));
    let mut running = None;
    for number in 0..1100 {
        let next = store.audit().begin(&begin(&format!("x{number}"), "a", "1")).wait().unwrap();
        if let Some(ticket) = running.replace(next) {
            store.audit().finish(ticket, &Finish::new("ok")).wait().unwrap();
        }
    }
    assert_eq!(prune(&store), Some((1000, 1000)));
    assert_eq!(prune(&store), Some((1000, 2000)));
    assert_eq!(prune(&store), Some((199, 2199)));
    assert_eq!((prune(&store), first(&store)), (None, None));
}

#[test]
fn what_was_tampered_with_is_evidence_and_stays() {
    let data = TestData::new();
    let store = open(&data, at_most(0));
    executions(&store, 2);
    data.tamper("UPDATE audit SET time = time + 1 WHERE seq = 2");
    let error = store.audit().prune().wait().unwrap_err();
    assert!(matches!(error, StoreError::AuditBroken), "{error}");
    let verdict = store.audit().verify(None).wait().unwrap();
    assert_eq!(verdict, Verdict::Broken(Fault::Changed { seq: 2 }));
}

#[test]
fn anchor_cannot_be_moved() {
    let data = TestData::new();
    let store = open(&data, at_most(4));
    executions(&store, 4);
    prune(&store).unwrap();
    let table = [
        ("UPDATE audit_anchor SET pruned = 3", Fault::AnchorChanged),
        ("UPDATE audit_anchor SET pruned = 4, pruned_at = 0", Fault::AnchorChanged),
        ("DELETE FROM audit_anchor", Fault::Missing { seq: 1 }),
    ];
    for (statement, expected) in table {
        data.tamper(statement);
        let verdict = store.audit().verify(None).wait().unwrap();
        assert_eq!(verdict, Verdict::Broken(expected), "{statement}");
    }
}

#[test]
fn server_prunes_by_itself() {
    let data = TestData::new();
    let store = data.open();
    data.set_time(SECOND);
    executions(&store, 2);
    store.close_wait();
    data.set_time(30 * SECOND);
    let options = StoreOptions {
        audit: for_seconds(10),
        ended_kept: Some(Duration::from_secs(10)),
        ..data.options(Access::Server)
    };
    let server = Store::open(&data.path(), options).unwrap();
    assert!(eventually(|| server.audit().tail(10).wait().unwrap().is_empty()));
    assert_eq!(first(&server), None);
}
