//! Long code: stored once, put together again exactly, and still under the chain.

use proptest::prelude::*;

use super::{CODE_BYTES_MIN, SplitBody, code_of, find_code, pack, unpack};
use crate::audit::body::text;
use crate::audit::{
    AuditSettings, BeginBody, Fault, Finish, Search, Summary, Verdict, verify_export,
};
use crate::testing::{TestData, begin, execute};
use crate::{Access, Store, StoreOptions};

/// Code that is stored apart, different for each seed.
fn long_code(seed: u32) -> String {
    let lines = (0..200).map(|line| format!("print(\"{seed}\", '{line}')  # \\ \u{e4}\t"));
    lines.collect::<Vec<_>>().join("\n")
}

fn run(store: &Store, execution: &str, code: &str) {
    let ticket = store.audit().begin(&begin(execution, "someone", code)).wait().unwrap();
    store.audit().finish(ticket, &Finish::new("ok")).wait().unwrap();
}

fn whole(store: &Store) -> Summary {
    match store.audit().verify(None).wait().unwrap() {
        Verdict::Whole(summary) => summary,
        Verdict::Broken(fault) => panic!("{fault}"),
    }
}

fn count(data: &TestData, query: &str) -> i64 {
    data.raw_connection().query_row(query, [], |row| row.get(0)).unwrap()
}

#[test]
fn long_code_is_stored_once_and_shown_in_full() {
    let data = TestData::new();
    let store = data.open();
    let code = long_code(1);
    for number in 0..50 {
        run(&store, &format!("same{number}"), &code);
    }
    run(&store, "other", &long_code(2));
    run(&store, "short", "print(1)");
    assert_eq!(whole(&store).records, 104);
    assert_eq!(count(&data, "SELECT count(*) FROM audit_code"), 2);
    let stored =
        "SELECT sum(length(packed)) + (SELECT sum(length(body)) FROM audit) FROM audit_code";
    let stored = count(&data, stored);
    assert!(stored < 2 * code.len() as i64, "{stored} bytes for 51 times {}", code.len());
    let records = store.audit().tail(1000).wait().unwrap();
    let body: BeginBody = serde_json::from_str(&records[0].body).unwrap();
    assert_eq!(body.code.unwrap().text.as_deref(), Some(code.as_str()));
    let mut exported = Vec::new();
    store.audit().export(&mut exported).unwrap();
    let line = String::from_utf8(exported.clone()).unwrap().lines().nth(1).unwrap().to_owned();
    assert!(line.contains("'199'"), "the code is missing: {line}");
    let verdict = verify_export(&data.path(), &mut exported.as_slice(), None).unwrap();
    assert!(matches!(verdict, Verdict::Whole(_)), "{verdict:?}");
}

#[test]
fn search_finds_text_in_code_wherever_it_is_stored() {
    let data = TestData::new();
    let store = data.open();
    run(&store, "long", &format!("{}# needle \"ä\"\n", long_code(1)));
    run(&store, "without", &long_code(2));
    run(&store, "short", "# needle \"ä\"");
    let found = |limit: usize| {
        let text = Some("needle \"ä\"".to_owned());
        let search = Search { text, limit: Some(limit), ..Search::default() };
        let found = store.audit().search(&search).wait().unwrap();
        found.into_iter().map(|execution| execution.execution).collect::<Vec<_>>()
    };
    assert_eq!(found(10), ["short", "long"]);
    assert_eq!(found(1), ["short"]);
    let all = store.audit().search(&Search::default()).wait().unwrap();
    assert!(all[2].begin.code.as_ref().unwrap().text.as_ref().unwrap().ends_with("\"ä\"\n"));
}

#[test]
fn code_that_another_program_changed_is_found() {
    let changes = [
        "UPDATE audit_code SET packed = x'00'",
        "UPDATE audit_code SET packed = (SELECT packed FROM audit_code ORDER BY rowid DESC LIMIT 1)",
        "DELETE FROM audit_code",
        "UPDATE audit SET code_at = code_at - 1 WHERE seq = 1",
        "UPDATE audit SET code_at = -1 WHERE seq = 1",
        "UPDATE audit SET code_at = 100000 WHERE seq = 1",
        "UPDATE audit SET code = NULL, code_at = NULL WHERE seq = 1",
        "UPDATE audit SET code = (SELECT digest FROM audit_code ORDER BY rowid DESC LIMIT 1)",
    ];
    for change in changes {
        let data = TestData::new();
        let store = data.open();
        run(&store, "one", &long_code(1));
        run(&store, "two", &long_code(2));
        data.tamper(change);
        let verdict = store.audit().verify(None).wait().unwrap();
        assert_eq!(verdict, Verdict::Broken(Fault::Changed { seq: 1 }), "{change}");
    }
}

#[test]
fn compressed_bytes_that_become_too_many_are_refused() {
    let bomb = pack(&"x".repeat(64 * 1024 * 1024));
    assert!(bomb.len() < 1024 * 1024);
    assert!(unpack(&bomb).is_err());
    assert_eq!(code_of(&bomb), None);
}

#[test]
fn code_goes_with_the_last_record_that_has_it() {
    let data = TestData::new();
    let audit = AuditSettings { records_max: Some(4), ..AuditSettings::default() };
    let options = StoreOptions { audit, ..data.options(Access::Tool) };
    let store = Store::open(&data.path(), options).unwrap();
    run(&store, "one", &long_code(1));
    run(&store, "two", &long_code(1));
    run(&store, "three", &long_code(3));
    store.audit().prune().wait().unwrap();
    assert_eq!(count(&data, "SELECT sum(uses) FROM audit_code"), 2);
    run(&store, "four", "print(1)");
    store.audit().prune().wait().unwrap();
    assert_eq!(count(&data, "SELECT sum(uses) FROM audit_code"), 1);
    run(&store, "five", "print(1)");
    store.audit().prune().wait().unwrap();
    assert_eq!(count(&data, "SELECT count(*) FROM audit_code"), 0);
    assert_eq!(whole(&store).records, 4);
    let counted = count(&data, "SELECT bytes FROM audit_head");
    let real = count(&data, "SELECT sum(length(body) + 256) FROM audit");
    assert_eq!(counted, real);
}

#[test]
fn log_is_kept_below_its_largest_size() {
    let data = TestData::new();
    let audit = AuditSettings { bytes_max: Some(100_000), ..AuditSettings::default() };
    let options = StoreOptions { audit, ..data.options(Access::Tool) };
    let store = Store::open(&data.path(), options).unwrap();
    // An execution that ends last does not keep the log from being cut.
    let early = store.audit().begin(&begin("early", "someone", "print(1)")).wait().unwrap();
    for number in 0..500 {
        execute(&store, &format!("x{number}"), "ok");
    }
    store.audit().finish(early, &Finish::new("ok")).wait().unwrap();
    assert!(count(&data, "SELECT bytes FROM audit_head") > 300_000);
    while store.audit().prune().wait().unwrap().is_some() {}
    let left = count(&data, "SELECT bytes FROM audit_head");
    assert!((90_000..=100_000).contains(&left), "{left} bytes are left");
    let summary = whole(&store);
    let anchor = summary.anchor.unwrap();
    assert_eq!(anchor.pruned + summary.records, 1002, "what was removed is counted");
    assert_eq!(summary.head.seq, 1002);
}

#[test]
fn no_text_is_mistaken_for_the_code() {
    for body in [
        r#"{"activity":"cell","check":"a \"text\":\"b\" c"}"#,
        r#"{"event":"x","details":{"text":"short"}}"#,
        r#"{"text":"#,
        r#"{"text":"never ends \""#,
        "",
    ] {
        assert!(SplitBody::new(body).columns().0.is_none(), "{body}");
    }
    let body = format!(r#"{{"a":"\"text\":\"no","text":"{}\\"}}"#, "x".repeat(CODE_BYTES_MIN));
    let range = find_code(&body).unwrap();
    assert!(body[range.clone()].starts_with('x') && body[range].ends_with(r"\\"));
}

proptest! {
    #[test]
    fn every_body_is_put_together_as_it_was(code in "\\PC{0,2000}[\\x00-\\x1f\"\\\\]{0,500}") {
        let settings = AuditSettings::default();
        let body = text(&BeginBody::new(&begin("x", "someone", &code), &settings));
        let split = SplitBody::new(&body);
        let mut whole = split.rest.to_string();
        if let Some(code) = &split.code {
            whole.insert_str(code.at, &unpack(&pack(code.text)).unwrap());
        }
        prop_assert_eq!(whole, body);
    }
}
