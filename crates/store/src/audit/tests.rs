//! Beginning, finishing, noting; who may add to the chain, and in what order.

use proptest::prelude::*;

use super::{Activity, Begin, Finish, Note, Record, RecordKind, Verdict};
use crate::testing::{TestData, begin, execute, executions, tenant};
use crate::{ExecutionId, SandboxId, Store, StoreError};

fn kinds(records: &[Record]) -> Vec<(u64, RecordKind)> {
    records.iter().map(|record| (record.seq, record.kind)).collect()
}

fn assert_whole(store: &Store) {
    let verdict = store.audit().verify(None).wait().unwrap();
    assert!(matches!(verdict, Verdict::Whole(_)), "{verdict:?}");
}

#[test]
fn execution_has_a_beginning_and_one_end() {
    let data = TestData::new();
    let store = data.open();
    let sandbox = SandboxId::random().unwrap();
    let mut first = begin("x1", "a", "print(1)");
    first.sandbox = Some(sandbox.clone());
    let ticket = store.audit().begin(&first).wait().unwrap();
    let error = store.audit().begin(&first).wait().unwrap_err();
    assert!(matches!(&error, StoreError::Duplicate { id } if id == "x1"), "{error}");
    store.audit().finish(ticket.clone(), &Finish::new("ok")).wait().unwrap();
    let error = store.audit().finish(ticket, &Finish::new("ok")).wait().unwrap_err();
    assert!(matches!(error, StoreError::AlreadyFinished { .. }), "{error}");
    let records = store.audit().tail(10).wait().unwrap();
    assert_eq!(kinds(&records), [(1, RecordKind::Begin), (2, RecordKind::Finish)]);
    for record in records {
        assert_eq!(record.execution.as_deref(), Some("x1"));
        assert_eq!(record.tenant.as_deref(), Some("a"));
        assert_eq!(record.sandbox.as_deref(), Some(sandbox.as_str()));
    }
    assert_whole(&store);
}

#[test]
fn ticket_can_be_found_again() {
    let data = TestData::new();
    let store = data.open();
    let ticket = store.audit().begin(&begin("x1", "a", "1")).wait().unwrap();
    store.close_wait();
    let store = data.open();
    let find =
        |name: &str| store.audit().ticket(&ExecutionId::parse(name).unwrap()).wait().unwrap();
    assert_eq!((find("x1"), find("x2")), (Some(ticket.clone()), None));
    store.audit().finish(ticket, &Finish::new("ok")).wait().unwrap();
}

#[test]
fn note_belongs_to_no_execution() {
    let data = TestData::new();
    let store = data.open();
    let note = Note { tenant: Some(tenant("a")), ..Note::new("sandbox_created") };
    let head = store.audit().note(note.with("template", "python")).wait().unwrap();
    let records = store.audit().tail(1).wait().unwrap();
    assert_eq!((head.seq, head.hash), (1, records[0].hash));
    assert_eq!(records[0].execution, None);
    assert_eq!(records[0].body, r#"{"event":"sandbox_created","details":{"template":"python"}}"#);
}

#[test]
fn tail_and_follow_give_records_in_order_and_once() {
    let data = TestData::new();
    let store = data.open();
    executions(&store, 5);
    let last: Vec<u64> =
        store.audit().tail(3).wait().unwrap().iter().map(|record| record.seq).collect();
    assert_eq!(last, [8, 9, 10]);
    assert_eq!(store.audit().tail(0).wait().unwrap(), []);
    let mut follow = store.audit().follow(10);
    assert_eq!(follow.poll().unwrap(), []);
    execute(&store, "later", "ok");
    assert_eq!(kinds(&follow.poll().unwrap()), [(11, RecordKind::Begin), (12, RecordKind::Finish)]);
    assert_eq!(follow.poll().unwrap(), []);
}

#[test]
fn number_orders_and_not_the_clock() {
    let data = TestData::new();
    let store = data.open();
    for (name, time) in [("x1", 300), ("x2", 100), ("x3", 200), ("x4", -5)] {
        data.set_time(time);
        execute(&store, name, "ok");
    }
    let records = store.audit().tail(10).wait().unwrap();
    let numbers: Vec<u64> = records.iter().map(|record| record.seq).collect();
    let times: Vec<i64> = records.iter().map(|record| record.time.as_micros()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(times, [300, 300, 100, 100, 200, 200, -5, -5]);
    assert_whole(&store);
}

#[test]
fn handles_of_several_openers_make_one_chain() {
    let data = TestData::new();
    let stores: Vec<Store> = (0..3).map(|_| data.open()).collect();
    std::thread::scope(|scope| {
        for (who, store) in stores.iter().enumerate() {
            scope.spawn(move || {
                for number in 0..20 {
                    execute(store, &format!("x{who}-{number}"), "ok");
                }
            });
        }
    });
    let Verdict::Whole(summary) = stores[0].audit().verify(None).wait().unwrap() else {
        panic!("it was left alone");
    };
    assert_eq!((summary.records, summary.unfinished), (120, 0));
}

#[tokio::test]
async fn many_at_once_share_commits_and_stay_in_one_chain() {
    let data = TestData::new();
    let store = data.open();
    let tasks: Vec<_> = (0..200)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let begin = begin(&format!("x{number}"), "a", "1");
                let ticket = store.audit().begin(&begin).await.unwrap();
                store.audit().finish(ticket, &Finish::new("ok")).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let Verdict::Whole(summary) = store.audit().verify(None).await.unwrap() else {
        panic!("it was left alone");
    };
    assert_eq!((summary.records, summary.unfinished), (400, 0));
}

/// Otherwise the next record would hide that the end was cut off and the head set back.
#[test]
fn nothing_is_added_behind_a_head_that_was_changed() {
    let data = TestData::new();
    let store = data.open();
    executions(&store, 3);
    data.tamper(
        "DELETE FROM audit WHERE seq > 4;
         UPDATE audit_head SET seq = 4, hash = (SELECT hash FROM audit WHERE seq = 4)",
    );
    let error = store.audit().note(Note::new("x")).wait().unwrap_err();
    assert!(matches!(error, StoreError::AuditBroken), "{error}");
    data.tamper("DELETE FROM audit_head");
    let error = store.audit().note(Note::new("x")).wait().unwrap_err();
    assert!(matches!(error, StoreError::AuditBroken), "{error}");
    store.close_wait();
    let reopened = Store::open(&data.path(), data.options(crate::Access::Tool));
    assert!(matches!(reopened, Err(StoreError::AuditBroken)), "{reopened:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_texts_make_a_chain_that_verifies(
        codes in prop::collection::vec(any::<Option<String>>(), 0..8),
        words in any::<[String; 3]>(),
    ) {
        let data = TestData::new();
        let store = data.open();
        for (number, code) in codes.iter().enumerate() {
            let execution = ExecutionId::parse(&format!("x{number}")).unwrap();
            let mut begin = Begin::new(execution, tenant("a"), Activity::Run);
            begin.code.clone_from(code);
            begin.check = Some(words[0].clone());
            let ticket = store.audit().begin(&begin).wait().unwrap();
            let mut finish = Finish::new(&words[1]);
            finish.details.insert(words[2].clone(), words[0].clone());
            store.audit().finish(ticket, &finish).wait().unwrap();
        }
        assert_whole(&store);
        let found = store.audit().search(&super::Search::default()).wait().unwrap();
        prop_assert_eq!(found.len(), codes.len());
        for (execution, code) in found.iter().rev().zip(&codes) {
            let kept = execution.begin.code.as_ref().and_then(|code| code.text.clone());
            prop_assert_eq!(&kept, code);
        }
    }
}
