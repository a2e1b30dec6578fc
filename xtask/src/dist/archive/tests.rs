//! Equal files make equal archives, whatever their times and the order in which they were made.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use super::tar_gz;

#[test]
fn archives_depend_on_the_files_alone() {
    let pack = |names: [&str; 3], age: u64| {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("bin")).unwrap();
        for name in names {
            let path = directory.path().join("bin").join(name);
            fs::write(&path, name).unwrap();
            let time = SystemTime::now() - Duration::from_secs(age);
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        }
        symlink("a", directory.path().join("bin/link")).unwrap();
        tar_gz(directory.path(), "top/").unwrap()
    };
    let first = pack(["a", "b", "c"], 0);
    assert_eq!(first, pack(["c", "a", "b"], 5000));
    let unpacked = flate2::read::GzDecoder::new(first.as_slice());
    let mut archive = tar::Archive::new(unpacked);
    let names = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        assert_eq!((entry.header().uid().unwrap(), entry.header().gid().unwrap()), (0, 0));
        entry.path().unwrap().display().to_string()
    });
    let expected = ["top/bin/", "top/bin/a", "top/bin/b", "top/bin/c", "top/bin/link"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}
