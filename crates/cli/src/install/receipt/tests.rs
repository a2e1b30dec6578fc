//! Receipts are read as they were written, and damaged ones are refused.

use super::{Entry, Receipt};
use silica_store::Digest;

#[test]
fn receipts_read_back_as_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("share/silica/installed");
    assert_eq!(Receipt::read(&path).unwrap(), None);
    let mut receipt = Receipt::default();
    receipt.add(Entry::file("/usr/local/bin/silica".into(), Digest::of("old")));
    receipt.add(Entry::file("/usr/local/bin/silica".into(), Digest::of("new")));
    receipt.write(&path).unwrap();
    assert_eq!(receipt.entries.len(), 3, "one file, and two directories made for the receipt");
    assert_eq!(Receipt::read(&path).unwrap(), Some(receipt));
}

#[test]
fn damaged_receipts_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("installed");
    let digest = Digest::of("x");
    let lines = [
        "directory relative/path".to_owned(),
        format!("{digest} /usr/../etc/passwd"),
        format!("{digest} /usr/.."),
        "nothing".to_owned(),
        "0123 /usr/bin/silica".to_owned(),
    ];
    for line in lines {
        std::fs::write(&path, format!("{line}\n")).unwrap();
        let error = Receipt::read(&path).unwrap_err();
        assert!(error.to_string().contains("is damaged"), "{line}: {error}");
    }
}
