//! Finding executions.

use super::{Execution, SEARCH_MAX, Search, UNFINISHED};
use crate::audit::{Finish, RecordedUsage};
use crate::testing::{TestData, begin, tenant};
use crate::{SandboxId, Store, StoreError, Timestamp};

fn sandbox() -> SandboxId {
    SandboxId::parse("sbx_00000000000000000001").unwrap()
}

fn written() -> (TestData, Store) {
    let data = TestData::new();
    let store = data.open();
    let table = [
        ("x1", "alice", "import os", Some("ok"), 100),
        ("x2", "bob", "print('100% sure')", Some("raised"), 200),
        ("x3", "alice", "while True: pass", None, 300),
        ("x4", "bob", "Import OS", Some("ok"), 400),
    ];
    for (name, who, code, outcome, time) in table {
        data.set_time(time);
        let mut begin = begin(name, who, code);
        begin.sandbox = (name == "x2").then(sandbox);
        let ticket = store.audit().begin(&begin).wait().unwrap();
        data.set_time(time + 7);
        if let Some(outcome) = outcome {
            store.audit().finish(ticket, &Finish::new(outcome)).wait().unwrap();
        }
    }
    (data, store)
}

fn names(found: &[Execution]) -> Vec<&str> {
    found.iter().map(|execution| execution.execution.as_str()).collect()
}

#[test]
fn filters_narrow_and_the_newest_come_first() {
    let (_ground, store) = written();
    let check = |search: Search, expected: &[&str]| {
        let found = store.audit().search(&search).wait().unwrap();
        assert_eq!(names(&found), expected, "{search:?}");
    };
    let time = |micros| Some(Timestamp::from_micros(micros));
    let all = Search::default();
    check(all.clone(), &["x4", "x3", "x2", "x1"]);
    check(Search { limit: Some(2), ..all.clone() }, &["x4", "x3"]);
    check(Search { limit: Some(SEARCH_MAX + 1), ..all.clone() }, &["x4", "x3", "x2", "x1"]);
    check(Search { tenant: Some(tenant("alice")), ..all.clone() }, &["x3", "x1"]);
    check(Search { sandbox: Some(sandbox()), ..all.clone() }, &["x2"]);
    check(Search { outcome: Some("ok".to_owned()), ..all.clone() }, &["x4", "x1"]);
    check(Search { outcome: Some(UNFINISHED.to_owned()), ..all.clone() }, &["x3"]);
    check(Search { text: Some("import os".to_owned()), ..all.clone() }, &["x1"]);
    check(Search { text: Some("100% s".to_owned()), ..all.clone() }, &["x2"]);
    check(Search { text: Some("' OR 1".to_owned()), ..all.clone() }, &[]);
    check(Search { since: time(200), until: time(400), ..all }, &["x3", "x2"]);
}

#[test]
fn beginning_and_end_are_one_execution() {
    let data = TestData::new();
    let store = data.open();
    let ticket = store.audit().begin(&begin("x1", "alice", "1")).wait().unwrap();
    data.set_time(2_000_000);
    let mut finish = Finish::new("ok");
    finish.usage = Some(RecordedUsage { wall_ms: 5, ..RecordedUsage::default() });
    store.audit().finish(ticket, &finish).wait().unwrap();
    let found = store.audit().search(&Search::default()).wait().unwrap();
    let [execution] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((execution.seq, execution.outcome.as_str()), (1, "ok"));
    assert_eq!(execution.begun_at, Timestamp::from_micros(1_000_000));
    assert_eq!(execution.finished_at, Some(Timestamp::from_micros(2_000_000)));
    assert_eq!(execution.begin.code.as_ref().unwrap().text.as_deref(), Some("1"));
    assert_eq!(execution.finish.as_ref().unwrap().usage.as_ref().unwrap().wall_ms, 5);
}

#[test]
fn record_that_cannot_be_read_is_named() {
    let (data, store) = written();
    data.tamper("UPDATE audit SET body = 'no JSON' WHERE seq = 3");
    let error = store.audit().search(&Search::default()).wait().unwrap_err();
    assert!(matches!(error, StoreError::AuditUnreadable { seq: 3 }), "{error}");
    let text = Search { text: Some("import".to_owned()), ..Search::default() };
    assert_eq!(names(&store.audit().search(&text).wait().unwrap()), ["x1"]);
}

/// A search of a server reads in steps and stops at a number of bytes; together the steps find what one read finds.
#[test]
fn a_search_within_bytes_says_that_it_was_cut() {
    let (_ground, store) = written();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let search = |search: Search, bytes_max: u64| {
        runtime.block_on(store.audit().search_within(&search, bytes_max)).unwrap()
    };
    let all = search(Search::default(), u64::MAX);
    assert_eq!((names(&all.executions), all.is_cut), (vec!["x4", "x3", "x2", "x1"], false));
    let few = search(Search::default(), 1000);
    assert_eq!((names(&few.executions), few.is_cut), (vec!["x4", "x3"], true));
    assert!(few.bytes >= 1000, "{}", few.bytes);
    let one = Search { limit: Some(1), ..Search::default() };
    let one = search(one, 1);
    assert_eq!((names(&one.executions), one.is_cut), (vec!["x4"], false));
    let none = Search { text: Some("nowhere".to_owned()), ..Search::default() };
    let none = search(none, 1);
    assert_eq!((names(&none.executions), none.is_cut), (vec![], false));
}
