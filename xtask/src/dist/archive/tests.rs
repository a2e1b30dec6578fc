//! Equal files make equal archives, whatever their times, the order in which they were made,
//! and the mask of the shell.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, SystemTime};

use super::tar_gz;

#[test]
fn archives_depend_on_the_files_alone() {
    let pack = |names: [&str; 3], age: u64, mask: u32| {
        let directory = tempfile::tempdir().unwrap();
        let bin = directory.path().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::set_permissions(&bin, fs::Permissions::from_mode(0o777 & !mask)).unwrap();
        for name in names {
            let path = directory.path().join("bin").join(name);
            fs::write(&path, name).unwrap();
            let mode = if name == "a" { 0o777 } else { 0o666 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode & !mask)).unwrap();
            let time = SystemTime::now() - Duration::from_secs(age);
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        }
        symlink("a", directory.path().join("bin/link")).unwrap();
        tar_gz(directory.path(), "top/").unwrap()
    };
    let first = pack(["a", "b", "c"], 0, 0o022);
    assert_eq!(first, pack(["c", "a", "b"], 5000, 0o077));
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
