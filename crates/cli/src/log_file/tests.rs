//! What is kept of a log.

use super::{FULL_FILES_MAX, LogFile, full_path, path};

#[test]
fn a_full_file_makes_room_and_the_oldest_goes() {
    let home = tempfile::tempdir().unwrap();
    let mut log = LogFile::with_size(home.path(), 10).unwrap();
    for number in 0..20 {
        log.append(format!("line {number:02}\n").as_bytes()).unwrap();
    }
    let read = |path| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(path(home.path())), "line 19\n");
    assert_eq!(read(full_path(home.path(), 1)), "line 18\n");
    assert_eq!(read(full_path(home.path(), FULL_FILES_MAX)), "line 15\n");
    assert!(!full_path(home.path(), FULL_FILES_MAX + 1).exists());
    drop(log);
    let mut again = LogFile::with_size(home.path(), 100).unwrap();
    again.append(b"more\n").unwrap();
    assert_eq!(read(path(home.path())), "line 19\nmore\n");
}

/// Files that an administrator or a tool takes away do not end the log.
#[test]
fn a_log_that_is_removed_or_moved_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let read = |path| std::fs::read_to_string(path).unwrap();
    let mut log = LogFile::with_size(home.path(), 10).unwrap();
    log.append(b"first\n").unwrap();
    std::fs::remove_dir_all(home.path().join("logs")).unwrap();
    log.append(b"second\n").unwrap();
    assert_eq!(read(path(home.path())), "second\n");
    // Moved away, and full.
    std::fs::rename(path(home.path()), home.path().join("moved")).unwrap();
    log.append(b"third line\n").unwrap();
    assert_eq!(read(path(home.path())), "third line\n");
}
