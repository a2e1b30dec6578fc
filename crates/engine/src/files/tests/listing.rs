//! Saying what is there.

use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use expect_test::expect;

use super::*;

fn show(listing: &Listing) -> String {
    let mut table = String::new();
    for Listed { path, usable, stat } in &listing.entries {
        let FileStat { kind, size, mode, owner, target, .. } = stat;
        let size = if *kind == FileKind::Directory { 0 } else { *size };
        let (owner, usable) = (owner.name(), if *usable { "" } else { " (not usable)" });
        write!(table, "{kind:?} {mode:o} {owner} {size} {path:?}{usable}").unwrap();
        writeln!(table, "{}", target.as_ref().map_or(String::new(), |to| format!(" -> {to}")))
            .unwrap();
    }
    table
}

#[test]
fn entries_are_listed_in_order() {
    let ground = Ground::new();
    for directory in ["b", "b/c", "a-b"] {
        fs::create_dir(ground.at(directory)).unwrap();
    }
    for file in ["z", "b/x", "b/c/y", "a", "new\nline"] {
        fs::write(ground.at(file), file).unwrap();
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o640);
        fs::set_permissions(ground.at(file), permissions).unwrap();
    }
    symlink("../../etc", ground.at("link")).unwrap();
    make_fifo(&ground.at("fifo"));
    let raw: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"b\xff");
    fs::create_dir_all(ground.at("b").join(raw).join("unseen")).unwrap();
    let list = |depth| ground.files.list(&guest("/workspace"), depth).unwrap();
    expect![[r#"
        File 640 user 1 "/workspace/a"
        Directory 755 user 0 "/workspace/a-b"
        Directory 755 user 0 "/workspace/b"
        Other 600 user 0 "/workspace/fifo"
        Symlink 777 user 9 "/workspace/link" -> ../../etc
        File 640 user 8 "/workspace/new\nline"
        File 640 user 1 "/workspace/z"
    "#]]
    .assert_eq(&show(&list(1)));
    assert_eq!(list(0), list(1));
    expect![[r#"
        File 640 user 1 "/workspace/a"
        Directory 755 user 0 "/workspace/a-b"
        Directory 755 user 0 "/workspace/b"
        Directory 755 user 0 "/workspace/b/b\u{efff}"
        Directory 755 user 0 "/workspace/b/c"
        File 640 user 3 "/workspace/b/x"
        Other 600 user 0 "/workspace/fifo"
        Symlink 777 user 9 "/workspace/link" -> ../../etc
        File 640 user 8 "/workspace/new\nline"
        File 640 user 1 "/workspace/z"
    "#]]
    .assert_eq(&show(&list(2)));
    assert_eq!(list(3).entries.len(), list(2).entries.len() + 2);
    assert!(!list(2).truncated && !list(9).truncated);
    assert_eq!(word(ground.files.list(&guest("a"), 1)), "NotDirectory");
    assert_eq!(word(ground.files.list(&guest("missing"), 1)), "Missing");
    assert_eq!(list(1).entries[1].name(), "a-b");
}

#[test]
fn something_is_looked_at_alone() {
    let ground = Ground::new();
    fs::write(ground.at("a"), "12345").unwrap();
    let long = "x".repeat(4000);
    symlink(&long, ground.at("link")).unwrap();
    let stat = ground.files.stat(&guest("a")).unwrap();
    assert_eq!((stat.kind, stat.size, stat.target), (FileKind::File, 5, None));
    let link = ground.files.stat(&guest("link")).unwrap();
    assert_eq!((link.kind, link.size, link.target), (FileKind::Symlink, 4000, Some(long)));
    let listing = ground.files.list(&guest("/workspace"), 1).unwrap();
    assert_eq!(listing.entries[1].stat.target.as_ref().unwrap().len(), 256);
    assert_eq!(ground.files.stat(&guest("/workspace")).unwrap().kind, FileKind::Directory);
    assert_eq!(word(ground.files.stat(&guest("b"))), "Missing");
    assert!(!ground.files.exists(&guest("b")).unwrap());
    assert!(ground.files.exists(&guest("/tmp")).unwrap());
}

#[test]
fn any_time_a_guest_sets_can_be_shown() {
    use super::super::stat::time;
    let epoch = SystemTime::UNIX_EPOCH;
    assert_eq!(time(1, 500_000_000), epoch + Duration::from_millis(1500));
    assert_eq!(time(-2, 500_000_000), epoch - Duration::from_millis(1500));
    for seconds in [i64::MIN, i64::MIN + 1, i64::MAX] {
        // Whatever comes, nothing panics.
        let _ = time(seconds, 999_999_999);
    }
}

#[test]
fn a_hundred_thousand_files_are_bounded() {
    if !is_root() {
        return;
    }
    let ground = Ground::with("64m", "110k");
    fs::create_dir(ground.at("many")).unwrap();
    let many = ground.at("many");
    let directory = fs::File::open(&many).unwrap();
    let (kind, mode) = (rustix::fs::FileType::RegularFile, Mode::from_raw_mode(0o644));
    for number in 0..=ENTRIES_MAX {
        rustix::fs::mknodat(&directory, number.to_string(), kind, mode, 0).unwrap();
    }
    fs::write(ground.at("near"), "the top").unwrap();
    let listing = ground.files.list(&guest("/workspace"), 9).unwrap();
    assert_eq!((listing.entries.len(), listing.truncated), (ENTRIES_MAX, true));
    assert!(listing.entries.iter().any(|listed| listed.path == "/workspace/near"));
    for path in ["many", "/workspace"] {
        assert_eq!(word(ground.files.archive(&guest(path), &mut Vec::new())), "TooMuch");
    }
    let mut snapshot = ground.files.snapshot().unwrap();
    fs::write(ground.at("near"), "the top, changed").unwrap();
    fs::write(ground.at("new"), "").unwrap();
    let changes = ground.changes(&mut snapshot);
    let near = ChangedFile { path: "/workspace/near".to_owned(), size: 16 };
    assert_eq!(changes, Changes { changed: vec![near], truncated: true, ..Changes::default() });
    assert_eq!(word(ground.files.remove(&guest("many"), Removal::Tree)), "TooMuch");
    fs::remove_file(many.join("0")).unwrap();
    assert_eq!(ground.files.remove(&guest("many"), Removal::Tree).unwrap(), ENTRIES_MAX + 1);
}
