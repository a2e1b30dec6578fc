//! Making directories, moving, removing.

use std::ffi::OsStr;
use std::os::unix::fs::symlink;

use super::*;

#[test]
fn directories_are_made_once() {
    let ground = Ground::new();
    let make = |path: &str, parents| ground.files.make_directory(&guest(path), parents);
    assert_eq!(make("a", Parents::Require).unwrap(), Made::Created);
    assert_eq!(make("a", Parents::Require).unwrap(), Made::Existed);
    assert_eq!(word(make("b/c", Parents::Require)), "Missing");
    assert_eq!(make("b/c/d", Parents::Create).unwrap(), Made::Created);
    assert_eq!(make("b/c", Parents::Create).unwrap(), Made::Existed);
    assert_eq!(make("/home/user", Parents::Create).unwrap(), Made::Existed);
    fs::write(ground.at("file"), "").unwrap();
    assert_eq!(word(make("file", Parents::Create)), "NotDirectory");
    assert_eq!(word(make("file/x", Parents::Create)), "NotDirectory");
}

#[test]
fn names_are_moved() {
    let ground = Ground::new();
    let rename = |from: &str, to: &str, overwrite| {
        word(ground.files.rename(&guest(from), &guest(to), overwrite))
    };
    fs::create_dir_all(ground.at("d/e")).unwrap();
    fs::write(ground.at("d/f"), "f").unwrap();
    fs::write(ground.at("g"), "g").unwrap();
    assert_eq!(rename("g", "/tmp/g", Overwrite::Refuse), "ok");
    assert_eq!(rename("/tmp/g", "d/f", Overwrite::Refuse), "Exists");
    assert_eq!(rename("/tmp/g", "d/f", Overwrite::Replace), "ok");
    assert_eq!(ground.get("d/f").unwrap(), b"g");
    assert_eq!(rename("d/f", "d/e", Overwrite::Replace), "IsDirectory");
    assert_eq!(rename("d/e", "d/f", Overwrite::Replace), "NotDirectory");
    assert_eq!(rename("d", "d/e/d", Overwrite::Replace), "IntoItself");
    assert_eq!(rename("missing", "x", Overwrite::Refuse), "Missing");
    assert_eq!(rename("d/f", "missing/x", Overwrite::Refuse), "Missing");
    assert_eq!(rename("/workspace", "/tmp/w", Overwrite::Replace), "Place");
    assert_eq!(rename("d", "/home/user", Overwrite::Replace), "Place");
    assert_eq!(rename("d", "/home/user/d", Overwrite::Refuse), "ok");
    assert_eq!(ground.names("/home/user"), ["/home/user/d/", "/home/user/d/e/", "/home/user/d/f"]);
    fs::create_dir(ground.at("/home/user/x")).unwrap();
    assert_eq!(rename("/home/user/x", "/home/user/d", Overwrite::Replace), "NotEmpty");
}

#[test]
fn files_and_trees_are_removed() {
    let ground = Ground::new();
    let remove = |path: &str, removal| ground.files.remove(&guest(path), removal);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "").unwrap();
    fs::create_dir_all(ground.at("d/e/f")).unwrap();
    fs::write(ground.at("d/e/x"), "").unwrap();
    symlink(outside.path(), ground.at("d/e/link")).unwrap();
    make_fifo(&ground.at("d/fifo"));
    let raw = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff\xfe");
    fs::create_dir(ground.at("d").join::<&std::ffi::OsStr>(raw)).unwrap();
    assert_eq!(word(remove("d", Removal::Single)), "NotEmpty");
    assert_eq!(remove("d/e/f", Removal::Single).unwrap(), 1);
    assert_eq!(remove("d", Removal::Tree).unwrap(), 6);
    assert_eq!(ground.names("/workspace"), [""; 0]);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    for removal in [Removal::Single, Removal::Tree] {
        assert_eq!(word(remove("d", removal)), "Missing");
        assert_eq!(word(remove("/workspace", removal)), "Place");
    }
}

#[test]
fn a_tree_that_is_too_deep_is_not_copied() {
    let ground = Ground::new();
    let deep = format!("d{}", "/d".repeat(DEPTH_MAX));
    fs::create_dir_all(ground.at(&deep)).unwrap();
    assert_eq!(word(ground.files.archive(&guest("/workspace"), &mut Vec::new())), "TooMuch");
    let out = tempfile::tempdir().unwrap();
    let copied = ground.files.copy_out(&guest("/workspace"), &out.path().join("x"));
    assert_eq!(word(copied), "TooMuch");
    let listing = ground.files.list(&guest("/workspace"), usize::MAX).unwrap();
    assert_eq!((listing.entries.len(), listing.truncated), (DEPTH_MAX, true));
    assert_eq!(ground.files.remove(&guest("d"), Removal::Tree).unwrap(), DEPTH_MAX + 1);
}

#[test]
fn trees_of_any_depth_are_removed() {
    const LEVELS: usize = 1000;
    let ground = Ground::new();
    // Longer than any path, so it is made in pieces, as a guest can.
    let name = "n".repeat(255);
    let mut piece = ground.at("top");
    fs::create_dir(&piece).unwrap();
    for _ in 0..LEVELS / 10 {
        // The deepest ten levels first, then what is there already is moved to below them.
        let ten = ground.at("ten");
        fs::create_dir_all(ten.join([name.as_str(); 10].join("/"))).unwrap();
        fs::write(ten.join("file"), "").unwrap();
        let deepest = ten.join([name.as_str(); 10].join("/"));
        fs::rename(&piece, deepest.join("top")).unwrap();
        fs::rename(&ten, &piece).unwrap();
        piece = ground.at("top");
    }
    let mut archive = Vec::new();
    assert_eq!(word(ground.files.archive(&guest("/workspace"), &mut archive)), "TooMuch");
    assert!(archive.is_empty(), "refused before the first byte");
    let removed = ground.files.remove(&guest("top"), Removal::Tree).unwrap();
    assert_eq!(removed, 1 + LEVELS / 10 * (10 + 1 + 1));
    assert_eq!(ground.names("/workspace"), [""; 0]);
}

#[test]
fn names_of_any_bytes_are_listed_read_written_and_removed() {
    let ground = Ground::new();
    // Not UTF-8, and UTF-8 of a character that stands for another byte.
    let raw = [&b"\xff\xfe.txt"[..], "\u{efff}".as_bytes(), b"plain"];
    for name in raw {
        fs::write(ground.at("/workspace").join(OsStr::from_bytes(name)), name).unwrap();
    }
    let listing = ground.files.list(&guest("/workspace"), 1).unwrap();
    let paths: Vec<String> = listing.entries.iter().map(|listed| listed.path.clone()).collect();
    assert_eq!(paths.len(), raw.len());
    assert!(paths.contains(&"/workspace/\u{efff}\u{effe}.txt".to_owned()), "{paths:?}");
    let mut archive = Vec::new();
    assert_eq!(ground.files.archive(&guest("/workspace"), &mut archive).unwrap().left_out, 0);
    for path in &paths {
        let content = ground.get(path).unwrap();
        assert!(raw.contains(&&*content), "{path:?}");
        assert!(ground.at(path).ends_with(OsStr::from_bytes(&content)));
        ground.put(path, b"new").unwrap();
        assert_eq!(ground.get(path).unwrap(), b"new");
        assert_eq!(ground.files.remove(&guest(path), Removal::Single).unwrap(), 1);
    }
    assert_eq!(ground.names("/workspace"), [""; 0]);
    let unpacked = ground.files.extract(&guest("/workspace"), &mut &*archive, 1 << 20).unwrap();
    assert_eq!(unpacked.files, raw.len());
    for name in raw {
        assert_eq!(fs::read(ground.at("/workspace").join(OsStr::from_bytes(name))).unwrap(), name);
    }
}
