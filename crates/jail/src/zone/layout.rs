//! The zone's own root: a small file tree out of which enclosures and zygotes are built.
//!
//! Nothing of the host is in it but the layers that templates name and a handful of devices. Only an
//! unprivileged zone also keeps the host's tree, at a place no enclosure inherits, to mount inputs from;
//! it runs as the user who could read them anyway.

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

/// Where an enclosure's root is put together.
pub(crate) const ENCLOSURE_ROOT: &str = "/enclosure";
/// Where an enclosure's bounded file system is mounted.
pub(crate) const WRITABLE: &str = "/writable";
/// The device tree, shown to every enclosure.
pub(crate) const DEVICES: &str = "/devices";
/// An empty directory, the second layer of overlays that have only one.
pub(crate) const EMPTY: &str = "/empty";
/// The mounted layers.
const LAYERS: &str = "/layers";
/// The host's tree, in an unprivileged zone only.
const HOST: &str = "/host";

/// A template as mounted in the zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Template {
    pub(crate) guest: String,
    pub(crate) root: String,
    /// Path inside, and its layer.
    pub(crate) system: Vec<(String, String)>,
}

const MOUNT_ATTR_RDONLY: u64 = 1;
const MOUNT_ATTR_NOSUID: u64 = 2;
const MOUNT_ATTR_NODEV: u64 = 4;
const MOUNT_ATTR_NOEXEC: u64 = 8;

/// Devices every program expects.
const DEVICE_FILES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Turns a fresh file system into this process's root and forgets the old one.
pub(crate) fn build(keep_host: bool) -> io::Result<()> {
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    let host = if keep_host { Some(clone_tree(Path::new("/"), true)?) } else { None };
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
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}

/// Mounts the file system of the new root over some directory that every host has.
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
        let point = directory.join(name);
        std::fs::write(&point, "")?;
        attach(&clone_tree(&Path::new("/dev").join(name), false)?, &point)?;
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

/// A detached copy of a host directory or file, for handing to a zone. Follows no symbolic link.
pub(crate) fn clone_tree(path: &Path, recursive: bool) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    Ok(rustix::mount::open_tree(CWD, path, flags)?)
}

/// Makes a detached tree read-only for good.
pub(crate) fn freeze(tree: &OwnedFd, executable: bool) -> io::Result<()> {
    use std::os::fd::AsFd;
    let flags = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    let flags = if executable { flags } else { flags | MOUNT_ATTR_NOEXEC };
    sys::mount_attributes(tree.as_fd(), flags)
}

fn attach(tree: &OwnedFd, target: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree, "", CWD, target, flags)?)
}

/// Gets a tree: from the descriptors sent along, or from the host's tree by path.
pub(crate) fn obtain(
    source: &Source,
    fds: &mut impl Iterator<Item = OwnedFd>,
    executable: bool,
) -> io::Result<OwnedFd> {
    match source {
        Source::Mount => fds.next().ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF)),
        Source::Path(path) => {
            let relative = path.strip_prefix("/").unwrap_or(path);
            let tree = open_host(relative)?;
            freeze(&tree, executable)?;
            Ok(tree)
        }
    }
}

/// Clones a tree of the kept host by a path in which nothing may be a symbolic link.
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

/// Mounts the layers of a template; `next` numbers the mount points.
pub(crate) fn add_template(
    layers: &TemplateLayers,
    fds: Vec<OwnedFd>,
    next: &mut u64,
) -> io::Result<Template> {
    let mut fds = fds.into_iter();
    let mut mount = |source: &Source| -> io::Result<String> {
        let tree = obtain(source, &mut fds, true)?;
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
    Ok(Template { guest, root, system })
}
