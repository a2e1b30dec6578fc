//! Exported logs: checked like the table, whatever was done to the file.

use super::{ExportError, verify_export};
use crate::StoreError;
use crate::audit::{Fault, NotedHead, Verdict};
use crate::testing::{TestData, begin, executions};

fn exported(data: &TestData) -> Vec<String> {
    let store = data.open();
    let mut bytes = Vec::new();
    let head = store.audit().export(&mut bytes).unwrap();
    assert_eq!(head, store.audit().head().wait().unwrap());
    store.close_wait();
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

fn written() -> (TestData, Vec<String>) {
    let data = TestData::new();
    let store = data.open();
    executions(&store, 3);
    store.audit().begin(&begin("open", "a", "print('\u{0}\n\u{1F600}')")).wait().unwrap();
    store.close_wait();
    let lines = exported(&data);
    assert_eq!(lines.len(), 9);
    (data, lines)
}

fn verify(data: &TestData, lines: &[String]) -> Result<Verdict, ExportError> {
    verify_export(&data.path(), &mut (lines.join("\n") + "\n").as_bytes(), None)
}

#[test]
fn file_says_the_same_as_the_table() {
    let (data, lines) = written();
    let verdict = verify(&data, &lines).unwrap();
    assert_eq!(verdict, data.open().audit().verify(None).wait().unwrap());
    assert!(matches!(&verdict, Verdict::Whole(summary) if summary.unfinished == 1));
}

#[test]
fn every_tampering_with_the_file_is_found() {
    let (data, lines) = written();
    let check = |what: &str, edit: &dyn Fn(&mut Vec<String>), expected: Fault| {
        let mut lines = lines.clone();
        edit(&mut lines);
        assert_eq!(verify(&data, &lines).unwrap(), Verdict::Broken(expected), "{what}");
    };
    check(
        "changed",
        &|lines| lines[3] = lines[3].replace("print(1)", "print(2)"),
        Fault::Changed { seq: 3 },
    );
    check("missing", &|lines| drop(lines.remove(2)), Fault::Missing { seq: 2 });
    check(
        "twice",
        &|lines| lines.insert(3, lines[2].clone()),
        Fault::Moved { seq: 3, written_as: 2 },
    );
    check("reordered", &|lines| lines.swap(2, 3), Fault::Missing { seq: 2 });
    check("cut off", &|lines| lines.truncate(5), Fault::HeadMissing);
    check("tail taken out", &|lines| drop(lines.drain(5..8)), Fault::TailCut { first: 5, last: 7 });
    check(
        "head changed",
        &|lines| lines[8] = lines[8].replace("\"seq\":7", "\"seq\":6"),
        Fault::HeadChanged,
    );
}

#[test]
fn what_is_no_exported_log_is_refused_by_line() {
    let (data, lines) = written();
    let check = |edit: &dyn Fn(&mut Vec<String>), expected: u64| {
        let mut lines = lines.clone();
        edit(&mut lines);
        let error = verify(&data, &lines).unwrap_err();
        assert!(matches!(error, ExportError::Line { line } if line == expected), "{error}");
    };
    check(&Vec::clear, 1);
    check(&|lines| drop(lines.remove(0)), 1);
    check(&|lines| lines[0] = lines[0].replace("\"version\":1", "\"version\":2"), 1);
    check(&|lines| lines[4] = "hello".to_owned(), 5);
    check(&|lines| lines[3] = lines[3].replace("\"begin\"", "\"maybe\""), 4);
    check(&|lines| lines[4].truncate(20), 5);
    check(&|lines| lines[4] = format!("\"{}\"", "x".repeat(9 << 20)), 5);
    check(&|lines| lines[4] = lines[4].replacen('{', "{\"by\":\"nobody\",", 1), 5);
    check(&|lines| lines[4] = lines[4].replacen('{', "{\"seq\":4,", 1), 5);
    check(&|lines| lines[8] = lines[8].replacen('{', "{\"by\":\"nobody\",", 1), 9);
    check(&|lines| lines.insert(4, lines[0].clone()), 5);
    check(&|lines| lines.push(lines[8].clone()), 10);
}

#[test]
fn noted_head_is_compared() {
    let (data, lines) = written();
    let mut noted: NotedHead =
        data.open().audit().head().wait().unwrap().to_string().parse().unwrap();
    noted.0.seq += 1;
    let text = lines.join("\n");
    let verdict = verify_export(&data.path(), &mut text.as_bytes(), Some(noted)).unwrap();
    assert_eq!(verdict, Verdict::Broken(Fault::RolledBack { last: 7, noted: 8 }));
}

#[test]
fn key_is_needed_and_has_to_be_the_same() {
    let (data, lines) = written();
    let other = TestData::new();
    let error = verify(&other, &lines).unwrap_err();
    assert!(matches!(error, ExportError::Store(StoreError::AuditKeyMissing { .. })), "{error}");
    other.open().close_wait();
    assert_eq!(verify(&other, &lines).unwrap(), Verdict::Broken(Fault::WrongKey));
    assert!(matches!(verify(&data, &lines).unwrap(), Verdict::Whole(_)));
}

#[test]
fn failure_of_the_target_is_reported() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (data, _) = written();
    let error = data.open().audit().export(&mut Full).unwrap_err();
    assert!(
        matches!(&error, ExportError::File(cause) if cause.kind() == std::io::ErrorKind::StorageFull),
        "{error:?}"
    );
}
