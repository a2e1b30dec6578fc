//! Events of a watched directory, and the metadata of files.

use std::sync::Arc;

use super::*;

async fn next(watch: &mut Watch) -> (String, Happening) {
    let notice = watch.next().await.unwrap();
    (notice.name, notice.happening)
}

fn write(files: &Files, path: &str, content: &[u8]) {
    let options = WriteOptions {
        mode: FILE_MODE_DEFAULT,
        parents: Parents::Create,
        existing: Existing::Replace,
        bytes_max: 1 << 20,
    };
    let mut writer = files.write(&GuestPath::parse(path).unwrap(), &options).unwrap();
    writer.write(content).unwrap();
    writer.finish().unwrap();
}

#[tokio::test]
async fn what_happens_in_a_directory_is_reported_in_order() {
    let ground = Ground::new();
    let (home, files) = (ground.root.join("home"), Arc::new(files(&ground.root)));
    fs::write(home.join("before"), "x").unwrap();
    fs::create_dir(home.join("inner")).unwrap();
    let place = GuestPath::parse("/home/user").unwrap();
    let mut watch = files.watch(&place, Reach::Directory).unwrap();
    fs::write(home.join("inner/unseen"), "x").unwrap();
    write(&files, "/home/user/new", b"whole");
    assert_eq!(next(&mut watch).await, ("new".to_owned(), Happening::Created));
    assert_eq!(next(&mut watch).await, ("new".to_owned(), Happening::Changed));
    assert_eq!(next(&mut watch).await, ("new".to_owned(), Happening::Written));
    write(&files, "/home/user/new", b"again");
    assert_eq!(next(&mut watch).await, ("new".to_owned(), Happening::Written));
    fs::rename(home.join("new"), home.join("other")).unwrap();
    assert_eq!(next(&mut watch).await, ("new".to_owned(), Happening::Renamed));
    assert_eq!(next(&mut watch).await, ("other".to_owned(), Happening::Created));
    fs::set_permissions(home.join("other"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(next(&mut watch).await, ("other".to_owned(), Happening::Changed));
    fs::remove_file(home.join("other")).unwrap();
    assert_eq!(next(&mut watch).await, ("other".to_owned(), Happening::Removed));
}

#[tokio::test]
async fn a_tree_is_followed_into_directories_that_come_later() {
    let ground = Ground::new();
    let (home, files) = (ground.root.join("home"), Arc::new(files(&ground.root)));
    fs::create_dir(home.join("old")).unwrap();
    let place = GuestPath::parse("/home/user").unwrap();
    let mut watch = files.watch(&place, Reach::Tree).unwrap();
    fs::write(home.join("old/a"), "x").unwrap();
    assert_eq!(next(&mut watch).await, ("old/a".to_owned(), Happening::Created));
    fs::create_dir_all(home.join("made/deep")).unwrap();
    let mut seen = Vec::new();
    while !seen.contains(&("made/deep".to_owned(), Happening::Created)) {
        seen.push(next(&mut watch).await);
    }
    assert!(seen.contains(&("made".to_owned(), Happening::Created)), "{seen:?}");
    fs::write(home.join("made/deep/b"), "x").unwrap();
    while next(&mut watch).await != ("made/deep/b".to_owned(), Happening::Created) {}
}

#[tokio::test]
async fn only_directories_are_watched_and_not_through_links() {
    let ground = Ground::new();
    let (home, files) = (ground.root.join("home"), Arc::new(files(&ground.root)));
    fs::write(home.join("file"), "x").unwrap();
    std::os::unix::fs::symlink("/etc", home.join("link")).unwrap();
    let watch = |path: &str| {
        files.watch(&GuestPath::parse(path).unwrap(), Reach::Directory).map(drop).unwrap_err()
    };
    assert!(matches!(watch("/home/user/file"), FileError::NotDirectory(_)));
    assert!(matches!(watch("/home/user/none"), FileError::Missing(_)));
    assert!(matches!(watch("/home/user/link"), FileError::Linked(_) | FileError::NotDirectory(_)));
}

#[test]
fn what_is_said_about_a_file_stays_with_it() {
    let ground = Ground::new();
    let options = WriteOptions {
        mode: FILE_MODE_DEFAULT,
        parents: Parents::Create,
        existing: Existing::Replace,
        bytes_max: 1 << 20,
    };
    let (one, two) =
        (GuestPath::parse("/home/user/one").unwrap(), GuestPath::parse("/home/user/two").unwrap());
    let said =
        Metadata::from([("a".to_owned(), "b ä".to_owned()), ("c".to_owned(), String::new())]);
    let writer = ground.files.write(&one, &options).unwrap();
    match writer.describe(&said) {
        Ok(()) => {}
        // Linux before 6.6, or another file system than tmpfs.
        Err(FileError::Metadata { .. }) => return,
        Err(error) => panic!("{error}"),
    }
    writer.finish().unwrap();
    ground.files.rename(&one, &two, Overwrite::Refuse).unwrap();
    assert_eq!(ground.files.metadata(&two).unwrap(), said);
    assert_eq!(
        ground.files.metadata(&GuestPath::parse("/home/user").unwrap()).unwrap(),
        Metadata::new()
    );
    let writer = ground.files.write(&one, &options).unwrap();
    let long = Metadata::from([("a".to_owned(), "x".repeat(5000))]);
    assert!(matches!(writer.describe(&long), Err(FileError::Metadata { .. })));
    let unnamed = Metadata::from([(String::new(), "x".to_owned())]);
    assert!(matches!(writer.describe(&unnamed), Err(FileError::Metadata { .. })));
}
