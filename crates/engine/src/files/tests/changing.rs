//! What a cell did to the files.

use std::os::unix::fs::symlink;

use super::*;

fn file(path: &str, size: u64) -> ChangedFile {
    ChangedFile { path: path.to_owned(), size }
}

#[test]
fn created_changed_and_removed_files_are_told() {
    let ground = Ground::new();
    fs::create_dir_all(ground.at("d/e")).unwrap();
    for name in ["same", "changed", "removed", "d/e/touched", "replaced"] {
        fs::write(ground.at(name), "12345").unwrap();
    }
    let mut snapshot = ground.files.snapshot().unwrap();
    assert_eq!(ground.changes(&mut snapshot), Changes::default());
    fs::write(ground.at("changed"), "123456").unwrap();
    fs::remove_file(ground.at("removed")).unwrap();
    fs::write(ground.at("other"), "54321").unwrap();
    fs::rename(ground.at("other"), ground.at("replaced")).unwrap();
    let touched = fs::File::options().write(true).open(ground.at("d/e/touched")).unwrap();
    touched.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    fs::write(ground.at("d/e/created"), "1").unwrap();
    fs::write(ground.at("/home/user/created"), "12").unwrap();
    fs::write(ground.at("/home/user/.profile"), "123").unwrap();
    let changes = ground.changes(&mut snapshot);
    let expected = Changes {
        created: vec![
            file("/home/user/.profile", 3),
            file("/home/user/created", 2),
            file("/workspace/d/e/created", 1),
        ],
        changed: vec![
            file("/workspace/changed", 6),
            file("/workspace/d/e/touched", 5),
            file("/workspace/replaced", 5),
        ],
        removed: vec![file("/workspace/removed", 5)],
        truncated: false,
    };
    assert_eq!(changes, expected);
    assert_eq!(ground.changes(&mut snapshot), Changes::default());
    fs::remove_dir_all(ground.at("d")).unwrap();
    let changes = ground.changes(&mut snapshot);
    let removed = vec![file("/workspace/d/e/created", 1), file("/workspace/d/e/touched", 5)];
    assert_eq!(changes, Changes { removed, ..Changes::default() });
}

#[test]
fn what_programs_keep_and_what_is_no_file_is_not_told() {
    let ground = Ground::new();
    let mut snapshot = ground.files.snapshot().unwrap();
    for directory in [
        "/home/user/.cache/pip",
        "/home/user/.ipython",
        "/home/user/project/__pycache__",
        "__pycache__",
        "empty",
        "/tmp/d",
    ] {
        fs::create_dir_all(ground.at(directory)).unwrap();
        if directory != "empty" {
            fs::write(ground.at(directory).join("file"), "x").unwrap();
        }
    }
    symlink("/etc/passwd", ground.at("link")).unwrap();
    symlink("/etc", ground.at("folder")).unwrap();
    make_fifo(&ground.at("fifo"));
    assert_eq!(ground.changes(&mut snapshot), Changes::default());
    // Hidden directories elsewhere may be part of the user's work.
    fs::create_dir_all(ground.at("/home/user/project/.hidden")).unwrap();
    fs::write(ground.at("/home/user/project/.hidden/file"), "x").unwrap();
    fs::create_dir_all(ground.at(".github")).unwrap();
    fs::write(ground.at(".github/file"), "x").unwrap();
    let created =
        vec![file("/home/user/project/.hidden/file", 1), file("/workspace/.github/file", 1)];
    let changes = ground.changes(&mut snapshot);
    assert_eq!(changes, Changes { created, ..Changes::default() });
}

#[test]
fn a_scan_that_did_not_see_all_guesses_nothing() {
    let ground = Ground::new();
    fs::write(ground.at("top"), "").unwrap();
    let mut snapshot = ground.files.snapshot().unwrap();
    fs::create_dir(ground.at("many")).unwrap();
    for number in 0..=SCAN_ENTRIES_MAX {
        fs::File::create(ground.at("many").join(number.to_string())).unwrap();
    }
    fs::remove_file(ground.at("top")).unwrap();
    fs::write(ground.at("new"), "").unwrap();
    let changes = ground.changes(&mut snapshot);
    assert!(changes.truncated && changes.removed.is_empty(), "{changes:?}");
    assert!(changes.created.contains(&file("/workspace/new", 0)));
    assert!(changes.created.len() < SCAN_ENTRIES_MAX);
    fs::remove_dir_all(ground.at("many")).unwrap();
    fs::write(ground.at("newer"), "").unwrap();
    let changes = ground.changes(&mut snapshot);
    assert!(changes.truncated && changes.created.is_empty());
    // Now all is seen again.
    fs::write(ground.at("newest"), "").unwrap();
    let changes = ground.changes(&mut snapshot);
    let created = vec![file("/workspace/newest", 0)];
    assert_eq!(changes, Changes { created, ..Changes::default() });
}

#[test]
fn a_place_that_cannot_be_read_is_reported() {
    if !is_root() {
        return;
    }
    let mut ground = Ground::new();
    ground.give_to(STRANGER);
    ground.put("a", b"x").unwrap();
    ground.files.make_directory(&guest("closed"), Parents::Require).unwrap();
    let close = |path: &str| {
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o0);
        fs::set_permissions(ground.at(path), closed).unwrap();
    };
    let mut snapshot = ground.files.snapshot().unwrap();
    // One directory that the guest closes does not hide the others.
    close("closed");
    ground.put("b", b"x").unwrap();
    let changes = ground.changes(&mut snapshot);
    let created = vec![file("/workspace/b", 1)];
    assert_eq!(changes, Changes { created, ..Changes::default() });
    let listing = ground.files.list(&guest("/workspace"), 9).unwrap();
    assert_eq!((listing.entries.len(), listing.truncated), (3, false));
    close("/workspace");
    let changes = ground.changes(&mut snapshot);
    assert_eq!(changes, Changes { truncated: true, ..Changes::default() });
}

#[test]
fn nothing_hides_behind_the_number_of_inodes() {
    let ground = Ground::new();
    let mut snapshot = ground.files.snapshot().unwrap();
    // Something elsewhere, which is not looked at, and nothing in its place.
    fs::write(ground.at("/tmp/x"), "").unwrap();
    assert_eq!(ground.changes(&mut snapshot), Changes::default());
    fs::remove_file(ground.at("/tmp/x")).unwrap();
    fs::write(ground.at("y"), "").unwrap();
    let created = vec![file("/workspace/y", 0)];
    assert_eq!(ground.changes(&mut snapshot), Changes { created, ..Changes::default() });
    fs::rename(ground.at("y"), ground.at("/tmp/y")).unwrap();
    let removed = vec![file("/workspace/y", 0)];
    assert_eq!(ground.changes(&mut snapshot), Changes { removed, ..Changes::default() });
    fs::remove_file(ground.at("/tmp/y")).unwrap();
    assert_eq!(ground.changes(&mut snapshot), Changes::default());
    // A file without a name keeps its inode.
    let open = fs::File::create(ground.at("z")).unwrap();
    fs::remove_file(ground.at("z")).unwrap();
    assert_eq!(ground.changes(&mut snapshot), Changes::default());
    drop(open);
}

#[test]
fn directory_that_stands_for_a_place_is_not_taken_for_one() {
    let ground = Ground::new();
    fs::remove_dir(ground.root.join("shm")).unwrap();
    // As many inodes as there are places, and one of them is a file.
    let files = files(&ground.root);
    let before = files.snapshot().unwrap();
    fs::write(ground.at("one"), "1").unwrap();
    let created = vec![file("/workspace/one", 1)];
    let after = files.snapshot().unwrap();
    assert_eq!(after.since(&before), Changes { created, ..Changes::default() });
}

#[test]
fn few_files_are_seen_in_passing_and_many_are_not() {
    let ground = Ground::new();
    let before = ground.files.glance().unwrap().unwrap();
    fs::write(ground.at("one"), "1").unwrap();
    let after = ground.files.glance().unwrap().unwrap();
    let created = vec![file("/workspace/one", 1)];
    assert_eq!(after.since(&before), Changes { created, ..Changes::default() });
    for number in 0..200 {
        fs::write(ground.at(&format!("f{number}")), "").unwrap();
    }
    assert!(ground.files.glance().unwrap().is_none());
    assert_eq!(ground.files.snapshot().unwrap().since(&after).created.len(), 200);
}
