//! The empty root of a guest: mount points, links and a made-up `/etc`. Of the host's files only
//! those that `etc` names come in.

use std::fs;
use std::path::{Path, PathBuf};

use super::{StepError, etc, tree};

/// Folders every guest has, most of them only to be mounted over.
const FOLDERS: &[&str] = &[
    "data/input",
    "dev",
    "etc",
    "home/user",
    "opt/silica",
    "proc",
    "run",
    "tmp",
    "usr",
    "var",
    "workspace",
];
/// Folders that are links into `/usr` on most hosts and real ones on the others.
const SYSTEM: &[&str] = &["bin", "lib", "lib32", "lib64", "libx32", "sbin"];

/// Makes the skeleton below `root` after the host whose root is `host`.
pub(super) fn create(root: &Path, host: &Path) -> Result<(), StepError> {
    tree::folder(root)?;
    for name in FOLDERS {
        // Each level by itself, so that every one of them gets its mode.
        for level in Path::new(name).ancestors().collect::<Vec<_>>().iter().rev() {
            tree::folder(&root.join(level))?;
        }
    }
    tree::link(Path::new("/tmp"), &root.join("var/tmp"))?;
    for name in SYSTEM {
        match fs::read_link(host.join(name)) {
            Ok(target) => tree::link(&target, &root.join(name))?,
            Err(_) if host.join(name).is_dir() => tree::folder(&root.join(name))?,
            Err(_) => {}
        }
    }
    etc::create(&root.join("etc"), host)
}

/// Returns the host's folders that the guest must see at the same path.
pub(super) fn system_dirs(host: &Path) -> Vec<PathBuf> {
    std::iter::once("usr")
        .chain(SYSTEM.iter().copied())
        .filter(|name| {
            let metadata = fs::symlink_metadata(host.join(name));
            metadata.is_ok_and(|metadata| metadata.is_dir())
        })
        .map(|name| Path::new("/").join(name))
        .collect()
}
