//! Every way of tampering that the chain must show, each done to a real database.

use proptest::prelude::*;

use super::{Fault, Noted, NotedHead, Verdict};
use crate::audit::{Finish, Head};
use crate::testing::{TestData, begin, execute, executions};
use crate::{Digest, Store};

/// Ten records of five executions by two tenants.
fn written() -> (TestData, Store) {
    let data = TestData::new();
    let store = data.open();
    for (number, who) in [(1, "alice"), (2, "bob"), (3, "alice"), (4, "bob"), (5, "alice")] {
        let begin = begin(&format!("x{number}"), who, &format!("print({number})"));
        let ticket = store.audit().begin(&begin).wait().unwrap();
        store.audit().finish(ticket, &Finish::new("ok")).wait().unwrap();
    }
    (data, store)
}

fn verdict(store: &Store) -> Verdict {
    store.audit().verify(None).wait().unwrap()
}

/// Does each thing to a log of its own.
fn check(table: &[(&str, &str, Fault)]) {
    for (what, statements, expected) in table {
        let (data, store) = written();
        data.tamper(statements);
        assert_eq!(verdict(&store), Verdict::Broken(expected.clone()), "{what}");
    }
}

#[test]
fn changed_records_are_found() {
    let set = |what: &str, seq: u64| format!("UPDATE audit SET {what} WHERE seq = {seq}");
    let table = [
        ("code", set("body = replace(body, 'print(3)', 'print(9)')", 5), 5),
        ("outcome", set("body = replace(body, 'ok', 'raised')", 6), 6),
        ("time", set("time = time + 1", 4), 4),
        ("kind", set("kind = 'note'", 10), 10),
        ("kind that is none", set("kind = 'x'", 3), 3),
        ("execution", set("execution = 'x9'", 2), 2),
        ("tenant removed", set("tenant = NULL", 1), 1),
        ("sandbox added", set("sandbox = ''", 1), 1),
        ("code of its own", set("hash = randomblob(32)", 7), 7),
        ("code of no length", set("hash = x'00'", 7), 7),
        ("link of its own", set("previous = randomblob(32)", 7), 7),
        (
            "swapped tenants",
            "UPDATE audit SET tenant = CASE tenant WHEN 'alice' THEN 'bob' ELSE 'alice' END
             WHERE execution IN ('x2', 'x3')"
                .to_owned(),
            3,
        ),
    ];
    for (what, statements, seq) in table {
        check(&[(what, &statements, Fault::Changed { seq })]);
    }
}

#[test]
fn records_out_of_their_place_are_found() {
    check(&[
        ("first missing", "DELETE FROM audit WHERE seq = 1", Fault::Missing { seq: 1 }),
        ("one missing", "DELETE FROM audit WHERE seq = 6", Fault::Missing { seq: 6 }),
        (
            "one missing and the others moved up",
            "DELETE FROM audit WHERE seq = 6; UPDATE audit SET seq = seq - 1 WHERE seq > 6",
            Fault::Moved { seq: 6, written_as: 7 },
        ),
        (
            "two swapped",
            "UPDATE audit SET seq = 99 WHERE seq = 4;
             UPDATE audit SET seq = 4 WHERE seq = 5;
             UPDATE audit SET seq = 5 WHERE seq = 99",
            Fault::Moved { seq: 4, written_as: 5 },
        ),
        (
            "one put in at the end",
            "INSERT INTO audit
             SELECT 11, time, kind, 'x9', tenant, sandbox, body, hash, randomblob(32), code, code_at
             FROM audit WHERE seq = 10",
            Fault::Changed { seq: 11 },
        ),
    ]);
}

#[test]
fn cut_ends_are_found() {
    let tail = |first| Fault::TailCut { first, last: 10 };
    check(&[
        ("tail", "DELETE FROM audit WHERE seq > 7", tail(8)),
        ("everything", "DELETE FROM audit", tail(1)),
        (
            "tail with the head put back",
            "DELETE FROM audit WHERE seq > 7;
             UPDATE audit_head SET seq = 7, hash = (SELECT hash FROM audit WHERE seq = 7)",
            Fault::HeadChanged,
        ),
        ("head changed", "UPDATE audit_head SET hash = randomblob(32)", Fault::HeadChanged),
        ("head removed", "DELETE FROM audit_head", Fault::HeadMissing),
        (
            "beginning with an anchor made up",
            "DELETE FROM audit WHERE seq <= 4;
             INSERT INTO audit_anchor SELECT 1, 4, previous, 0, 4, randomblob(32)
             FROM audit WHERE seq = 5",
            Fault::AnchorChanged,
        ),
    ]);
}

#[test]
fn log_that_is_whole_is_summed_up() {
    let (_ground, store) = written();
    store.audit().begin(&begin("open", "bob", "while True: pass")).wait().unwrap();
    let Verdict::Whole(summary) = verdict(&store) else {
        panic!("it was left alone");
    };
    assert_eq!((summary.records, summary.first, summary.head.seq), (11, Some(1), 11));
    assert_eq!(
        (summary.unfinished, summary.unfinished_ids.as_slice()),
        (1, &["open".to_owned()][..])
    );
    assert_eq!((summary.anchor, summary.noted), (None, None));
    assert_eq!(summary.head, store.audit().head().wait().unwrap());
}

#[test]
fn empty_log_is_whole() {
    let data = TestData::new();
    let store = data.open();
    let Verdict::Whole(summary) = verdict(&store) else {
        panic!("it was left alone");
    };
    assert_eq!((summary.records, summary.first, summary.head.seq), (0, None, 0));
}

#[test]
fn record_beyond_the_head_is_found() {
    let (data, store) = written();
    // An older head with its valid code, of which an attacker kept a copy.
    let kept = data.raw_connection();
    kept.execute_batch("CREATE TABLE kept AS SELECT * FROM audit_head").unwrap();
    execute(&store, "x6", "ok");
    kept.execute_batch(
        "UPDATE audit_head SET (seq, hash, mac) = (SELECT seq, hash, mac FROM kept)",
    )
    .unwrap();
    assert_eq!(verdict(&store), Verdict::Broken(Fault::BeyondHead { head: 10, seq: 12 }));
}

#[test]
fn record_of_another_copy_does_not_follow() {
    let (data, store) = written();
    store.close_wait();
    let copy = TestData::new();
    for name in ["silica.db", "audit.key"] {
        std::fs::copy(data.beside(name), copy.beside(name)).unwrap();
    }
    let (one, two) = (data.open(), copy.open());
    execute(&one, "here", "ok");
    execute(&two, "there", "ok");
    two.close_wait();
    data.tamper(&format!(
        "ATTACH '{}' AS other;
         DELETE FROM audit WHERE seq = 12;
         INSERT INTO audit SELECT * FROM other.audit WHERE seq = 12",
        copy.path().display()
    ));
    assert_eq!(verdict(&one), Verdict::Broken(Fault::Unlinked { seq: 12 }));
}

#[test]
fn state_that_was_put_back_is_found_by_a_noted_head() {
    let (data, store) = written();
    let verify = |store: &Store, noted: &str| {
        store.audit().verify(Some(noted.parse().unwrap())).wait().unwrap()
    };
    store.close_wait();
    let old = std::fs::read(data.path()).unwrap();
    let store = data.open();
    execute(&store, "after", "ok");
    let noted = store.audit().head().wait().unwrap().to_string();
    let Verdict::Whole(summary) = verify(&store, &noted) else {
        panic!("it was left alone");
    };
    assert_eq!(summary.noted, Some(Noted::Found));
    store.close_wait();
    drop(store);
    std::fs::write(data.path(), old).unwrap();
    let store = data.open();
    assert!(matches!(verdict(&store), Verdict::Whole(_)));
    let expected = Fault::RolledBack { last: 10, noted: 12 };
    assert_eq!(verify(&store, &noted), Verdict::Broken(expected));
    execute(&store, "other", "ok");
    execute(&store, "history", "ok");
    assert_eq!(verify(&store, &noted), Verdict::Broken(Fault::Replaced { seq: 12 }));
}

#[test]
fn noted_heads_are_read() {
    let head = Head { seq: 12, hash: Digest::of("x") };
    assert_eq!(head.to_string().parse(), Ok(NotedHead(head)));
    for wrong in ["", "12", "x:12", &format!("-1:{}", head.hash), &format!("{head}0")] {
        assert!(wrong.parse::<NotedHead>().is_err(), "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn changing_any_byte_of_any_text_is_found(
        seq in 1_u64..=10,
        column in prop::sample::select(vec!["body", "tenant", "execution", "previous", "hash"]),
        paths in any::<prop::sample::Index>(),
        change in 1_u8..=0x7f,
    ) {
        let data = TestData::new();
        let store = data.open();
        executions(&store, 5);
        let other = data.raw_connection();
        // It would keep two executions from having one name.
        other.execute_batch("DROP INDEX audit_by_execution").unwrap();
        let read = format!("SELECT CAST({column} AS BLOB) FROM audit WHERE seq = {seq}");
        let mut bytes: Vec<u8> = other.query_row(&read, [], |row| row.get(0)).unwrap();
        let paths = paths.index(bytes.len());
        bytes[paths] ^= change;
        let kind = if ["previous", "hash"].contains(&column) { "BLOB" } else { "TEXT" };
        let write = format!("UPDATE audit SET {column} = CAST(?1 AS {kind}) WHERE seq = {seq}");
        other.execute(&write, [bytes]).unwrap();
        prop_assert_eq!(verdict(&store), Verdict::Broken(Fault::Changed { seq }));
    }
}
