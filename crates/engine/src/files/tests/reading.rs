//! Reading files, and copying them out to the host.

use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use super::*;

#[test]
fn a_file_is_read_in_pieces() {
    let ground = Ground::new();
    let content: Vec<u8> = (0..10_000u32).map(|number| number as u8).collect();
    fs::write(ground.at("a"), &content).unwrap();
    let modified = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234_567);
    fs::File::options().write(true).open(ground.at("a")).unwrap().set_modified(modified).unwrap();
    let reader = ground.files.read(&guest("a")).unwrap();
    assert_eq!((reader.size(), reader.left(), reader.modified()), (10_000, 10_000, modified));
    assert_eq!(drain(reader).unwrap(), content);
    assert_eq!(word(ground.files.read(&guest("/workspace"))), "IsDirectory");
    assert_eq!(word(ground.get("missing")), "Missing");
    assert_eq!(word(ground.get("a/b")), "NotDirectory");
}

#[test]
fn parts_of_a_file_are_read() {
    let ground = Ground::new();
    fs::write(ground.at("a"), "0123456789").unwrap();
    fs::write(ground.at("empty"), "").unwrap();
    let part = |path: &str, start: u64, end: Option<u64>| {
        let mut reader = ground.files.read(&guest(path)).unwrap();
        let selected = reader.select(Range { start, end });
        selected.map(|()| String::from_utf8(drain(reader).unwrap()).unwrap())
    };
    for (start, end, expected) in [
        (0, None, "0123456789"),
        (3, None, "3456789"),
        (3, Some(5), "34"),
        (9, Some(10), "9"),
        (0, Some(u64::MAX), "0123456789"),
    ] {
        assert_eq!(part("a", start, end).unwrap(), expected, "{start}..{end:?}");
    }
    let outside =
        [(10, None), (10, Some(20)), (5, Some(5)), (5, Some(4)), (u64::MAX, None), (0, Some(0))];
    for (start, end) in outside {
        let error = part("a", start, end).unwrap_err();
        assert!(matches!(error, FileError::Range { size: 10, .. }), "{start}..{end:?}: {error:?}");
    }
    assert_eq!(part("empty", 0, None).unwrap(), "");
    assert_eq!(word(part("empty", 0, Some(1))), "Range");
}

#[test]
fn a_file_that_grows_ends_where_it_ended() {
    let ground = Ground::new();
    fs::write(ground.at("a"), "old").unwrap();
    let reader = ground.files.read(&guest("a")).unwrap();
    fs::write(ground.at("a"), "old and more").unwrap();
    assert_eq!(drain(reader).unwrap(), b"old");
}

#[test]
fn a_file_that_shrinks_is_an_error() {
    let ground = Ground::new();
    fs::write(ground.at("a"), [1; 1000]).unwrap();
    let mut reader = ground.files.read(&guest("a")).unwrap();
    assert_eq!(reader.read(&mut [0; 400]).unwrap(), 400);
    fs::write(ground.at("a"), [1; 500]).unwrap();
    assert_eq!(word(drain(reader)), "Shrunk");
}

#[test]
fn a_sparse_file_takes_no_memory_and_no_room() {
    let ground = Ground::new();
    let size = 1 << 40;
    fs::File::create(ground.at("a")).unwrap().set_len(size).unwrap();
    let mut reader = ground.files.read(&guest("a")).unwrap();
    assert_eq!(reader.size(), size);
    reader.select(Range { start: size - 10, end: None }).unwrap();
    assert_eq!(drain(reader).unwrap(), [0; 10]);
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("a");
    assert_eq!(word(ground.files.copy_out(&guest("a"), &target)), "TooLarge");
    assert_eq!(word(ground.files.copy_out(&guest("/workspace"), &target)), "TooLarge");
    assert_eq!(fs::read_dir(target).unwrap().count(), 0);
}

#[test]
fn hard_links_do_not_multiply_what_a_copy_takes() {
    let ground = Ground::new();
    fs::write(ground.at("a"), vec![1; 300 << 10]).unwrap();
    for number in 0..8 {
        fs::hard_link(ground.at("a"), ground.at(&format!("a{number}"))).unwrap();
    }
    let out = tempfile::tempdir().unwrap();
    let copied = ground.files.copy_out(&guest("/workspace"), &out.path().join("copy"));
    assert_eq!(word(copied), "TooLarge");
    let sizes = fs::read_dir(out.path().join("copy")).unwrap();
    let taken: u64 = sizes.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(taken <= COPY_BYTES_MAX, "{taken}");
}

#[test]
fn a_directory_comes_out_without_its_links() {
    let ground = Ground::new();
    let results = ground.at("results");
    fs::create_dir_all(results.join("deep")).unwrap();
    fs::write(results.join("a.txt"), "a").unwrap();
    fs::write(results.join("deep/b.txt"), "bb").unwrap();
    symlink("/etc/passwd", results.join("evil")).unwrap();
    symlink("/etc", results.join("deep/evil")).unwrap();
    make_fifo(&results.join("fifo"));
    let out = tempfile::tempdir().unwrap();
    let copied = ground.files.copy_out(&guest("results"), &out.path().join("got")).unwrap();
    assert_eq!(copied, 3);
    assert_eq!(fs::read_to_string(out.path().join("got/deep/b.txt")).unwrap(), "bb");
    assert_eq!(fs::read_dir(out.path().join("got")).unwrap().count(), 2);
    assert_eq!(fs::read_dir(out.path().join("got/deep")).unwrap().count(), 1);
}

#[test]
fn a_link_on_the_host_is_replaced_and_not_followed() {
    let ground = Ground::new();
    fs::write(ground.at("x"), "new").unwrap();
    let out = tempfile::tempdir().unwrap();
    let precious = out.path().join("precious");
    fs::write(&precious, "old").unwrap();
    symlink(&precious, out.path().join("x")).unwrap();
    ground.files.copy_out(&guest("x"), &out.path().join("x")).unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "old");
    assert_eq!(fs::read_to_string(out.path().join("x")).unwrap(), "new");
}

#[test]
fn a_copy_for_another_user_is_still_ours_on_the_host() {
    if !is_root() {
        return;
    }
    let mut ground = Ground::new();
    ground.give_to(STRANGER);
    ground.put("x", b"theirs").unwrap();
    let out = tempfile::tempdir().unwrap();
    ground.files.copy_out(&guest("/workspace"), &out.path().join("got")).unwrap();
    let metadata = fs::metadata(out.path().join("got/x")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&metadata), 0);
}
