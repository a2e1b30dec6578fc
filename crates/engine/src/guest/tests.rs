//! Holding layers, and sweeping those that no process holds.

use super::{Layer, TRUST_BUNDLE, ensure_layer, link_tree, sweep, write_file};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

fn make(all: &Path, name: &str) {
    std::fs::create_dir_all(all.join(name).join("opt")).unwrap();
}

fn names(all: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(all).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn layers_of_other_versions_go_unless_they_are_held() {
    let all = tempfile::tempdir().unwrap();
    for name in ["aaaa-py3.11.7", "bbbb-py3.11.7", "cccc-py3.11.7", "cccc-py3.12.1"] {
        make(all.path(), name);
    }
    let held = Layer::hold(&all.path().join("aaaa-py3.11.7")).unwrap().unwrap();
    sweep(all.path(), "cccc");
    assert_eq!(names(all.path()), ["aaaa-py3.11.7", "cccc-py3.11.7", "cccc-py3.12.1"]);
    drop(held);
    sweep(all.path(), "cccc");
    assert_eq!(names(all.path()), ["cccc-py3.11.7", "cccc-py3.12.1"]);
}

#[test]
fn half_a_layer_is_left_to_its_writer_for_an_hour() {
    let all = tempfile::tempdir().unwrap();
    make(all.path(), ".partial-1");
    make(all.path(), ".partial-2");
    let long_ago = SystemTime::now() - Duration::from_hours(2);
    let old = std::fs::File::open(all.path().join(".partial-1")).unwrap();
    old.set_modified(long_ago).unwrap();
    sweep(all.path(), "cccc");
    assert_eq!(names(all.path()), [".partial-2"]);
}

#[test]
fn layer_that_is_being_removed_is_not_held() {
    let all = tempfile::tempdir().unwrap();
    make(all.path(), "aaaa-py3.11.7");
    let path = all.path().join("aaaa-py3.11.7");
    let removing = std::fs::File::open(&path).unwrap();
    removing.lock().unwrap();
    assert!(Layer::hold(&path).unwrap().is_none());
    drop(removing);
    assert!(Layer::hold(&path).unwrap().is_some());
    assert!(Layer::hold(&all.path().join("bbbb-py3.11.7")).unwrap().is_none());
}

#[test]
fn layers_of_engines_that_have_ended_go() {
    let all = tempfile::tempdir().unwrap();
    for name in ["cccc-py3.11.7", "cccc-py3.11.7-0123456789ab", "cccc-py3.11.7-ba9876543210"] {
        make(all.path(), name);
    }
    let held = Layer::hold(&all.path().join("cccc-py3.11.7-0123456789ab")).unwrap().unwrap();
    sweep(all.path(), "cccc");
    assert_eq!(names(all.path()), ["cccc-py3.11.7", "cccc-py3.11.7-0123456789ab"]);
    drop(held);
    sweep(all.path(), "cccc");
    assert_eq!(names(all.path()), ["cccc-py3.11.7"]);
}

#[test]
fn layer_is_held_from_the_moment_it_has_its_name() {
    let all = tempfile::tempdir().unwrap();
    let name = "cccc-py3.11.7-0123456789ab";
    // The sweep at the end of this call would remove a layer that is not held.
    let layer = ensure_layer(all.path(), name, "cccc", |partial| {
        write_file(&partial.join(&TRUST_BUNDLE[1..]), b"certificates")
    });
    let layer = layer.unwrap();
    assert_eq!(layer.path, all.path().join(name));
    assert_eq!(std::fs::read(layer.path.join(&TRUST_BUNDLE[1..])).unwrap(), b"certificates");
    sweep(all.path(), "cccc");
    assert_eq!(names(all.path()), [name]);
}

#[test]
fn linked_tree_shares_its_files() {
    let all = tempfile::tempdir().unwrap();
    let from = all.path().join("from");
    write_file(&from.join("opt/deep/file"), b"content").unwrap();
    let to = all.path().join("to");
    link_tree(&from, &to).unwrap();
    let inode = |root: &Path| std::fs::metadata(root.join("opt/deep/file")).unwrap().ino();
    assert_eq!(inode(&from), inode(&to));
}
