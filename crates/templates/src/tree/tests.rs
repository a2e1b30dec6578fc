//! Copies and modes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use expect_test::expect;

use super::{copy, open_to_readers, walk};

fn listing(root: &Path) -> String {
    let mut lines = Vec::new();
    walk(root, &mut |path, metadata| {
        let below = path.strip_prefix(root).expect("below").display();
        lines.push(if metadata.is_symlink() {
            format!("{below} -> {}", fs::read_link(path).expect("link").display())
        } else {
            format!("{below} {:o}", metadata.permissions().mode() & 0o7777)
        });
        Ok(super::Descend::Yes)
    })
    .expect("walk");
    lines.sort();
    lines.join("\n")
}

#[test]
fn copies_what_is_wanted_and_opens_it() {
    let folder = tempfile::tempdir().expect("folder");
    let source = folder.path().join("source");
    fs::create_dir_all(source.join("a/__pycache__")).expect("make");
    for (name, mode) in [("a/x.py", 0o600), ("a/tool", 0o4710), ("a/__pycache__/x.pyc", 0o600)] {
        fs::write(source.join(name), name).expect("write");
        fs::set_permissions(source.join(name), Permissions::from_mode(mode)).expect("mode");
    }
    fs::set_permissions(source.join("a"), Permissions::from_mode(0o700)).expect("mode");
    symlink("tool", source.join("a/link")).expect("link");

    let target = folder.path().join("target");
    copy(&source, &target, &|below| !below.ends_with("__pycache__")).expect("copied");
    expect![[r"
        a 755
        a/link -> tool
        a/tool 755
        a/x.py 644"]]
    .assert_eq(&listing(&target));
    let changed = |root: &Path| fs::metadata(root.join("a/x.py")).and_then(|data| data.modified());
    assert_eq!(changed(&source).expect("time"), changed(&target).expect("time"));

    open_to_readers(&source).expect("opened");
    expect![[r"
        a 755
        a/__pycache__ 755
        a/__pycache__/x.pyc 644
        a/link -> tool
        a/tool 755
        a/x.py 644"]]
    .assert_eq(&listing(&source));
}
