//! Results are read back as they were written, and the best is found either way.

use super::{Better, Results, Table, newest};
use crate::report::example;

#[test]
fn written_results_read_back_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("2026-01-02.json");
    let results = example();
    results.save(&path).unwrap();
    assert_eq!(Results::load(&path).unwrap(), results);
    assert_eq!(newest(directory.path()).unwrap(), path);
}

#[test]
fn newest_leaves_out_what_is_of_another_form() {
    let directory = tempfile::tempdir().unwrap();
    let old = directory.path().join("2026-01-01.json");
    example().save(&old).unwrap();
    std::fs::write(directory.path().join("2026-01-02.json"), r#"{"rows": []}"#).unwrap();
    assert_eq!(newest(directory.path()).unwrap(), old);
    let error = Results::load(&directory.path().join("2026-01-02.json")).unwrap_err();
    assert!(error.to_string().ends_with("is not of form 2; measure again"), "{error}");
}

#[test]
fn best_is_the_least_or_the_most() {
    let mut table = Table::new("t", "ms", Better::Less);
    table.add("a", true, 2.0);
    table.add("b", false, 1.0);
    assert_eq!(table.best(|_| true).unwrap().who, "b");
    assert!((table.times_better(1.0, 2.0) - 2.0).abs() < 1e-9);
    table.better = Better::More;
    assert_eq!(table.best(|_| true).unwrap().who, "a");
    assert!((table.times_better(2.0, 1.0) - 2.0).abs() < 1e-9);
    assert!(table.best(|row| row.who == "c").is_none());
}
