//! The zone's own root: a small file tree out of which enclosures and zygotes are built.
//!
//! It holds nothing of the host but the layers that templates name and six devices. An unprivileged
//! zone also keeps the host's tree, at a path that no enclosure has, to mount layers and inputs
//! from: its engine cannot make detached mounts to send. It runs as the user who may read those
//! files anyway.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};

use serde::{Deserialize, Serialize};

use crate::protocol::{Source, TemplateLayers};
use crate::sys;

/// The mount point of an enclosure's root, in the mount namespace of its init.
pub(crate) const ENCLOSURE_ROOT: &str = "/enclosure";
/// The mount point of an enclosure's writable file system, which is limited in size.
pub(crate) const WRITABLE: &str = "/writable";
/// The device files, which every enclosure has as /dev.
pub(crate) const DEVICES: &str = "/devices";
/// An empty directory: an overlay without an upper layer needs two lower ones.
pub(crate) const EMPTY: &str = "/empty";
/// The mounted layers.
const LAYERS: &str = "/layers";
/// The host's tree, in an unprivileged zone only.
const HOST: &str = "/host";

/// The mount points of a template's layers in the zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountedTemplate {
    pub(crate) guest: String,
    pub(crate) root: String,
    /// For each system directory its path inside and its layer.
    pub(crate) system: Vec<(String, String)>,
}

const MOUNT_ATTR_RDONLY: u64 = 1;
const MOUNT_ATTR_NOSUID: u64 = 2;
const MOUNT_ATTR_NODEV: u64 = 4;
const MOUNT_ATTR_NOEXEC: u64 = 8;

/// Whether a zone keeps the host's file tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostTree {
    Keep,
    Drop,
}

/// Which mounts a detached copy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mounts {
    /// The one at the path.
    One,
    /// Those below it, too.
    Recursive,
}

/// Whether programs on a mount may be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Programs {
    Executable,
    NotExecutable,
}

/// Devices every program expects.
const DEVICE_FILES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Makes a new file system the root of this process and unmounts the old one.
pub(crate) fn build(host_tree: HostTree) -> io::Result<()> {
    // Otherwise the mounts below would also appear in the host's mount namespace.
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    let host = match host_tree {
        HostTree::Keep => Some(clone_tree(Path::new("/"), Mounts::Recursive)?),
        HostTree::Drop => None,
    };
    let base = mount_base()?;
    for directory in [ENCLOSURE_ROOT, WRITABLE, DEVICES, EMPTY, LAYERS, HOST, "/proc"] {
        std::fs::create_dir(base.join(&directory[1..]))?;
    }
    build_devices(&base.join(&DEVICES[1..]))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", base.join("proc"), "proc", flags, None)?;
    if let Some(host) = host {
        attach(&host, &base.join(&HOST[1..]))?;
    }
    std::env::set_current_dir(&base)?;
    // With the same path twice the old root is mounted over the new one, and is unmounted next;
    // pivot_root(2).
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}

/// Mounts the file system of the new root over the first of some directories that hosts have.
fn mount_base() -> io::Result<std::path::PathBuf> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let mut last = io::Error::from_raw_os_error(libc::ENOENT);
    for candidate in ["/tmp", "/mnt", "/run", "/home"] {
        match rustix::mount::mount("tmpfs", candidate, "tmpfs", flags, Some(c"size=1m,mode=755")) {
            Ok(()) => return Ok(candidate.into()),
            Err(errno) => last = errno.into(),
        }
    }
    Err(last)
}

fn build_devices(directory: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    rustix::mount::mount("tmpfs", directory, "tmpfs", flags, Some(c"size=64k,mode=755"))?;
    for name in DEVICE_FILES {
        // The host's device, mounted on a file: a user namespace has no right to make devices.
        let point = directory.join(name);
        std::fs::write(&point, "")?;
        attach(&clone_tree(&Path::new("/dev").join(name), Mounts::One)?, &point)?;
    }
    for (name, target) in DEVICE_LINKS {
        std::os::unix::fs::symlink(target, directory.join(name))?;
    }
    for name in ["shm", "pts"] {
        std::fs::create_dir(directory.join(name))?;
    }
    rustix::mount::mount_remount(directory, MountFlags::BIND | MountFlags::RDONLY | flags, c"")?;
    Ok(())
}

/// Returns a detached mount of a directory or file, which can be sent to another process. Follows
/// no symbolic link.
pub(crate) fn clone_tree(path: &Path, mounts: Mounts) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    if mounts == Mounts::Recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    Ok(rustix::mount::open_tree(CWD, path, flags)?)
}

/// Makes a detached mount read-only, without set-user-id programs and without devices.
pub(crate) fn freeze(tree: &OwnedFd, programs: Programs) -> io::Result<()> {
    use std::os::fd::AsFd;
    let flags = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    let flags = match programs {
        Programs::Executable => flags,
        Programs::NotExecutable => flags | MOUNT_ATTR_NOEXEC,
    };
    sys::mount_attributes(tree.as_fd(), flags)
}

fn attach(tree: &OwnedFd, target: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree, "", CWD, target, flags)?)
}

/// Returns the mount of a source: the next descriptor of the packet, or one made by its path in the
/// host's tree.
pub(crate) fn obtain(
    source: &Source,
    fds: &mut impl Iterator<Item = OwnedFd>,
    programs: Programs,
) -> io::Result<OwnedFd> {
    match source {
        Source::Mount => fds.next().ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF)),
        Source::Path(path) => {
            let relative = path.strip_prefix("/").unwrap_or(path);
            let tree = open_host(relative)?;
            freeze(&tree, programs)?;
            Ok(tree)
        }
    }
}

/// Returns a detached mount of a path in the host's tree. No part of the path may be a symbolic
/// link.
fn open_host(relative: &Path) -> io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    let host = rustix::fs::open(HOST, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat2(&host, relative, flags, Mode::empty(), resolve)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(rustix::mount::open_tree(&found, "", flags)?)
}

/// Mounts the layers of a template; `next` is the number of the next mount point.
pub(crate) fn add_template(
    layers: &TemplateLayers,
    fds: Vec<OwnedFd>,
    next: &mut u64,
) -> io::Result<MountedTemplate> {
    let mut fds = fds.into_iter();
    let mut mount = |source: &Source| -> io::Result<String> {
        let tree = obtain(source, &mut fds, Programs::Executable)?;
        let point = format!("{LAYERS}/{next}");
        *next += 1;
        std::fs::create_dir(&point)?;
        attach(&tree, Path::new(&point))?;
        Ok(point)
    };
    let guest = mount(&layers.guest)?;
    let root = mount(&layers.root)?;
    let mut system = Vec::new();
    for directory in &layers.system {
        system.push((directory.path.clone(), mount(&directory.source)?));
    }
    Ok(MountedTemplate { guest, root, system })
}
