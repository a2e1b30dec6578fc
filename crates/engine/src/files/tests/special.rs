//! Links, FIFOs, sockets, devices and another file system, at every operation: none is followed,
//! none is waited for, and nothing outside is touched.

use std::fmt::Write as _;
use std::os::unix::fs::symlink;

use expect_test::expect;
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};

use super::*;

const NAMES: [&str; 10] = [
    "fifo",
    "socket",
    "null",
    "link",
    "dangling",
    "loop",
    "folder",
    "folder/secret",
    "magic/secret",
    "fifo/x",
];

/// A ground with one of each, around a directory outside with a secret in it.
fn planted() -> (Ground, tempfile::TempDir) {
    let (ground, outside) = (Ground::new(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("secret"), "secret").unwrap();
    make_fifo(&ground.at("fifo"));
    drop(std::os::unix::net::UnixListener::bind(ground.at("socket")).unwrap());
    if is_root() {
        let (kind, mode) = (rustix::fs::FileType::CharacterDevice, Mode::from_raw_mode(0o666));
        let device = rustix::fs::makedev(1, 3);
        rustix::fs::mknodat(CWD, ground.at("null"), kind, mode, device).unwrap();
    } else {
        make_fifo(&ground.at("null"));
    }
    symlink(outside.path().join("secret"), ground.at("link")).unwrap();
    symlink(outside.path().join("new"), ground.at("dangling")).unwrap();
    symlink("loop", ground.at("loop")).unwrap();
    symlink(outside.path(), ground.at("folder")).unwrap();
    symlink("/proc/self/cwd", ground.at("magic")).unwrap();
    (ground, outside)
}

/// What an operation does to each of the names, a fresh ground for each.
fn each(operation: impl Fn(&Ground, &GuestPath) -> String) -> String {
    let mut table = String::new();
    for name in NAMES {
        let (ground, outside) = planted();
        let came_to = operation(&ground, &guest(name));
        writeln!(table, "{name}: {came_to}").unwrap();
        let content: Vec<_> = fs::read_dir(outside.path()).unwrap().flatten().collect();
        assert_eq!(content.len(), 1, "{name}: {content:?}");
        assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret", "{name}");
    }
    table
}

const REFUSED: &str = "\
fifo: Special
socket: Special
null: Special
link: Linked
dangling: Linked
loop: Linked
folder: Linked
folder/secret: Linked
magic/secret: Linked
fifo/x: NotDirectory
";

#[test]
fn reading_is_refused() {
    assert_eq!(each(|ground, path| word(ground.files.open(path))), REFUSED);
    assert_eq!(each(|ground, path| word(ground.files.read(path))), REFUSED);
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("out");
    assert_eq!(each(|ground, path| word(ground.files.copy_out(path, &target))), REFUSED);
    assert!(!target.exists());
    let archive = |ground: &Ground, path: &GuestPath| {
        let mut bytes = Vec::new();
        let word = word(ground.files.archive(path, &mut bytes));
        assert_eq!(bytes, b"");
        word
    };
    assert_eq!(each(archive), REFUSED);
}

#[test]
fn listing_is_refused() {
    expect![[r"
        fifo: NotDirectory
        socket: NotDirectory
        null: NotDirectory
        link: Linked
        dangling: Linked
        loop: Linked
        folder: Linked
        folder/secret: Linked
        magic/secret: Linked
        fifo/x: NotDirectory
    "]]
    .assert_eq(&each(|ground, path| word(ground.files.list(path, 3))));
}

#[test]
fn looking_says_what_it_is() {
    let stat = |ground: &Ground, path: &GuestPath| match ground.files.stat(path) {
        Ok(stat) => {
            let goes_out = stat.target.as_ref().map(|target| target.starts_with('/'));
            format!("{:?}, goes out {goes_out:?}", stat.kind)
        }
        Err(error) => word::<()>(Err(error)),
    };
    expect![[r"
        fifo: Other, goes out None
        socket: Other, goes out None
        null: Other, goes out None
        link: Symlink, goes out Some(true)
        dangling: Symlink, goes out Some(true)
        loop: Symlink, goes out Some(false)
        folder: Symlink, goes out Some(true)
        folder/secret: Linked
        magic/secret: Linked
        fifo/x: NotDirectory
    "]]
    .assert_eq(&each(stat));
    let exists = |ground: &Ground, path: &GuestPath| match ground.files.exists(path) {
        Ok(exists) => exists.to_string(),
        Err(error) => word::<()>(Err(error)),
    };
    expect![[r"
        fifo: true
        socket: true
        null: true
        link: true
        dangling: true
        loop: true
        folder: true
        folder/secret: Linked
        magic/secret: Linked
        fifo/x: false
    "]]
    .assert_eq(&each(exists));
}

#[test]
fn writing_replaces_a_link_and_follows_none() {
    let write = |ground: &Ground, path: &GuestPath| {
        let word = word(ground.put(path.shown(), b"new"));
        if word == "ok" {
            assert_eq!(ground.get(path.shown()).unwrap(), b"new");
            assert!(fs::symlink_metadata(ground.at(path.shown())).unwrap().is_file());
        }
        word
    };
    expect![[r"
        fifo: Special
        socket: Special
        null: Special
        link: ok
        dangling: ok
        loop: ok
        folder: ok
        folder/secret: Linked
        magic/secret: Linked
        fifo/x: NotDirectory
    "]]
    .assert_eq(&each(write));
    let append = WriteOptions { existing: Existing::Append, parents: Parents::Create, ..OPTIONS };
    assert_eq!(each(|ground, path| word(ground.put_with(path.shown(), b"new", &append))), REFUSED);
}

#[test]
fn a_fifo_with_a_reader_gets_nothing() {
    use std::io::Read;
    let (ground, _outside) = planted();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let reader = rustix::fs::open(ground.at("fifo"), flags, Mode::empty()).unwrap();
    let append = WriteOptions { existing: Existing::Append, ..OPTIONS };
    assert_eq!(word(ground.put_with("fifo", b"new", &append)), "Special");
    assert_eq!(word(ground.put("fifo", b"new")), "Special");
    assert_eq!(fs::File::from(reader).read(&mut [0; 9]).unwrap(), 0);
}

#[test]
fn directories_are_not_made_through_links() {
    expect![[r"
        fifo: NotDirectory
        socket: NotDirectory
        null: NotDirectory
        link: Linked
        dangling: Linked
        loop: Linked
        folder: Linked
        folder/secret: Linked
        magic/secret: Linked
        fifo/x: NotDirectory
    "]]
    .assert_eq(&each(|ground, path| {
        let once = word(ground.files.make_directory(path, Parents::Require));
        let below = path.join("a/b").unwrap();
        assert_ne!(word(ground.files.make_directory(&below, Parents::Create)), "ok");
        assert_eq!(word(ground.files.make_directory(path, Parents::Create)), once);
        once
    }));
    let below = WriteOptions { parents: Parents::Create, ..OPTIONS };
    expect![[r"
        fifo: NotDirectory
        socket: NotDirectory
        null: NotDirectory
        link: Linked
        dangling: Linked
        loop: Linked
        folder: Linked
        folder/secret: Linked
        magic/secret: Linked
        fifo/x: NotDirectory
    "]]
    .assert_eq(&each(|ground, path| word(ground.put_with(&format!("{path}/a/b"), b"new", &below))));
}

#[test]
fn moving_and_removing_act_on_the_name_itself() {
    const BY_NAME: &str = "\
fifo: ok
socket: ok
null: ok
link: ok
dangling: ok
loop: ok
folder: ok
folder/secret: Linked
magic/secret: Linked
fifo/x: NotDirectory
";
    for removal in [Removal::Single, Removal::Tree] {
        let remove = |ground: &Ground, path: &GuestPath| word(ground.files.remove(path, removal));
        assert_eq!(each(remove), BY_NAME);
    }
    let away = |ground: &Ground, path: &GuestPath| {
        word(ground.files.rename(path, &guest("/tmp/x"), Overwrite::Refuse))
    };
    assert_eq!(each(away), BY_NAME);
    let over = |ground: &Ground, path: &GuestPath| {
        fs::write(ground.at("/tmp/x"), "x").unwrap();
        word(ground.files.rename(&guest("/tmp/x"), path, Overwrite::Replace))
    };
    assert_eq!(each(over), BY_NAME);
}

#[test]
fn another_file_system_is_not_entered() {
    if !is_root() {
        return;
    }
    // What no guest can do: mount something in its files.
    let ground = Ground::new();
    fs::create_dir(ground.at("other")).unwrap();
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = rustix::mount::open_tree(CWD, "/proc", flags).unwrap();
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    let moved = rustix::mount::move_mount(&tree, "", CWD, ground.at("other"), flags);
    // Kernels before 6.15 do not mount onto what is itself mounted nowhere.
    if moved != Err(rustix::io::Errno::INVAL) {
        moved.unwrap();
        assert!(ground.at("other/version").exists());
        assert_eq!(word(ground.get("other/version")), "Linked");
        assert_eq!(word(ground.files.list(&guest("other"), 1)), "Linked");
        assert_eq!(word(ground.put("other/x", b"")), "Linked");
        assert_eq!(word(ground.files.remove(&guest("other"), Removal::Tree)), "Linked");
    }
}
