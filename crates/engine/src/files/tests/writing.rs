//! Writing files: whole or not at all, theirs, and within bounds.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;

#[test]
fn a_file_is_made_replaced_and_made_longer() {
    let ground = Ground::new();
    let long = vec![7; 5000];
    assert_eq!(ground.put("a", &long).unwrap(), 5000);
    assert_eq!(ground.get("a").unwrap(), long);
    let before = fs::metadata(ground.at("a")).unwrap().ino();
    assert_eq!(ground.put("a", b"new").unwrap(), 3);
    assert_eq!(ground.get("a").unwrap(), b"new");
    assert_ne!(fs::metadata(ground.at("a")).unwrap().ino(), before);
    let append = WriteOptions { existing: Existing::Append, ..OPTIONS };
    assert_eq!(ground.put_with("a", b"er", &append).unwrap(), 2);
    assert_eq!(ground.put_with("b", b"made", &append).unwrap(), 4);
    assert_eq!(ground.get("a").unwrap(), b"newer");
    assert_eq!(ground.get("b").unwrap(), b"made");
    let refuse = WriteOptions { existing: Existing::Refuse, ..OPTIONS };
    assert_eq!(word(ground.put_with("a", b"", &refuse)), "Exists");
    assert_eq!(ground.put_with("c", b"", &refuse).unwrap(), 0);
    assert_eq!(ground.names("/workspace"), ["/workspace/a", "/workspace/b", "/workspace/c"]);
}

#[test]
fn nothing_is_seen_before_the_end_and_nothing_stays_of_what_was_given_up() {
    let ground = Ground::new();
    fs::write(ground.at("a"), "old").unwrap();
    for name in ["a", "b"] {
        let mut writer = ground.files.write(&guest(name), &OPTIONS).unwrap();
        writer.write(&[1; 5000]).unwrap();
        assert_eq!(writer.written(), 5000);
        assert_eq!(ground.names("/workspace"), ["/workspace/a"]);
        drop(writer);
    }
    assert_eq!(ground.names("/workspace"), ["/workspace/a"]);
    assert_eq!(ground.get("a").unwrap(), b"old");
}

#[test]
fn too_much_is_refused_and_cannot_be_finished() {
    let ground = Ground::new();
    let options = WriteOptions { bytes_max: 10, ..OPTIONS };
    assert_eq!(ground.put_with("a", &[1; 10], &options).unwrap(), 10);
    let mut writer = ground.files.write(&guest("a"), &options).unwrap();
    writer.write(&[2; 6]).unwrap();
    assert_eq!(word(writer.write(&[2; 5])), "TooLarge");
    assert_eq!(word(writer.write(&[2; 1])), "Unfinished");
    assert_eq!(word(writer.finish()), "Unfinished");
    assert_eq!(ground.get("a").unwrap(), [1; 10]);
}

#[test]
fn a_full_disk_is_said_and_leaves_all_as_it_was() {
    if !is_root() {
        return;
    }
    let ground = Ground::with("64k", "100");
    ground.put("a", b"old").unwrap();
    assert_eq!(word(ground.put("a", &vec![1; 100_000])), "DiskFull");
    assert_eq!(word(ground.put("b", &vec![1; 100_000])), "DiskFull");
    assert_eq!(ground.names("/workspace"), ["/workspace/a"]);
    assert_eq!(ground.get("a").unwrap(), b"old");
    // What was given up has been given back.
    ground.put("b", &vec![1; 50_000]).unwrap();
    let append = WriteOptions { existing: Existing::Append, ..OPTIONS };
    assert_eq!(word(ground.put_with("a", &vec![1; 50_000], &append)), "DiskFull");
}

#[test]
fn a_disk_without_inodes_is_full() {
    if !is_root() {
        return;
    }
    let ground = Ground::with("1m", "8");
    let mut made = 0;
    while ground.put(&format!("{made}"), b"").is_ok() {
        made += 1;
        assert!(made < 8);
    }
    assert_eq!(word(ground.put("more", b"")), "DiskFull");
    assert_eq!(word(ground.files.make_directory(&guest("d"), Parents::Require)), "DiskFull");
}

#[test]
fn only_permission_bits_are_given() {
    let ground = Ground::new();
    for (asked, given) in [(0o644, 0o644), (0o6777, 0o777), (0o600, 0o600), (0, 0)] {
        ground.put_with("a", b"x", &WriteOptions { mode: asked, ..OPTIONS }).unwrap();
        let mode = fs::metadata(ground.at("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, given, "{asked:o}");
    }
}

#[test]
fn directories_on_the_way_are_made_if_asked_for() {
    let ground = Ground::new();
    assert_eq!(word(ground.put("a/b/c", b"x")), "Missing");
    let options = WriteOptions { parents: Parents::Create, ..OPTIONS };
    ground.put_with("a/b/c", b"x", &options).unwrap();
    ground.put_with("a/b/d", b"x", &options).unwrap();
    ground.put_with("/tmp/e", b"x", &options).unwrap();
    assert_eq!(word(ground.put_with("a/b/c/d", b"x", &options)), "NotDirectory");
    assert_eq!(word(ground.put_with("a/b", b"x", &options)), "IsDirectory");
    assert_eq!(word(ground.put_with("/workspace", b"x", &options)), "Place");
    assert_eq!(
        ground.names("/workspace"),
        ["/workspace/a/", "/workspace/a/b/", "/workspace/a/b/c", "/workspace/a/b/d"]
    );
}

#[test]
fn hard_links_are_parted_by_replacing() {
    let ground = Ground::new();
    fs::write(ground.at("a"), "shared").unwrap();
    fs::hard_link(ground.at("a"), ground.at("b")).unwrap();
    ground.put("a", b"own").unwrap();
    assert_eq!(fs::read(ground.at("b")).unwrap(), b"shared");
}

#[test]
fn a_directory_that_appears_meanwhile_is_not_replaced() {
    let ground = Ground::new();
    let mut writer = ground.files.write(&guest("a"), &OPTIONS).unwrap();
    writer.write(b"x").unwrap();
    fs::create_dir(ground.at("a")).unwrap();
    assert_eq!(word(writer.finish()), "IsDirectory");
    assert_eq!(ground.names("/workspace"), ["/workspace/a/"]);
    fs::create_dir(ground.at("gone")).unwrap();
    let writer = ground.files.write(&guest("gone/a"), &OPTIONS).unwrap();
    fs::remove_dir(ground.at("gone")).unwrap();
    assert_eq!(word(writer.finish()), "Missing");
}

#[test]
fn what_is_made_belongs_to_the_guest_and_needs_its_rights() {
    if !is_root() {
        return;
    }
    let mut ground = Ground::new();
    ground.give_to(STRANGER);
    let options = WriteOptions { parents: Parents::Create, ..OPTIONS };
    ground.put_with("a/b", b"x", &options).unwrap();
    ground.put_with("a/b", b"y", &options).unwrap();
    for path in ["a", "a/b"] {
        let metadata = fs::metadata(ground.at(path)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (STRANGER, STRANGER), "{path}");
        assert_eq!(ground.files.stat(&guest(path)).unwrap().owner, Owner::User);
    }
    // A directory of root's, such as no sandbox has: the guest could not, so the host does not.
    fs::create_dir(ground.at("roots")).unwrap();
    fs::set_permissions(ground.at("roots"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(ground.at("roots/x"), "x").unwrap();
    let (roots, within) = (guest("roots"), guest("roots/x"));
    assert_eq!(ground.files.stat(&roots).unwrap().owner, Owner::Nobody);
    assert_eq!(word(ground.get("roots/x")), "Denied");
    assert_eq!(word(ground.put("roots/y", b"")), "Denied");
    assert_eq!(word(ground.files.list(&roots, 1)), "Denied");
    assert_eq!(word(ground.files.remove(&within, Removal::Tree)), "Denied");
    assert_eq!(word(ground.files.rename(&within, &guest("z"), Overwrite::Refuse)), "Denied");
    // Nor may a group of root's help, and the thread is all it was again.
    let opened = std::os::unix::fs::PermissionsExt::from_mode(0o770);
    fs::set_permissions(ground.at("roots"), opened).unwrap();
    let ours = rustix::process::getgroups().unwrap();
    rustix::thread::set_thread_groups(&[rustix::process::Gid::ROOT]).unwrap();
    assert_eq!(word(ground.get("roots/x")), "Denied");
    assert_eq!(rustix::process::getgroups().unwrap(), [rustix::process::Gid::ROOT]);
    rustix::thread::set_thread_groups(&ours).unwrap();
    assert!(is_root() && rustix::process::getegid().is_root());
    fs::write(ground.at("roots/y"), "y").unwrap();
}
