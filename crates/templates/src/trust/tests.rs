//! Lists that are there become links; nothing else is made.

use std::fs;
use std::path::Path;

#[test]
fn only_lists_that_are_there_are_replaced() {
    let site = tempfile::tempdir().expect("folder");
    fs::create_dir_all(site.path().join("certifi")).expect("made");
    fs::create_dir_all(site.path().join("pip/_vendor/certifi")).expect("made");
    let list = site.path().join("certifi/cacert.pem");
    fs::write(&list, "certificates").expect("written");
    super::replace_lists(site.path()).expect("replaced");
    // A second time, as a resumed build does.
    super::replace_lists(site.path()).expect("replaced again");
    assert_eq!(fs::read_link(&list).expect("a link"), Path::new(super::TRUST_BUNDLE));
    let other = site.path().join("pip/_vendor/certifi/cacert.pem");
    assert!(other.symlink_metadata().is_err());
}
