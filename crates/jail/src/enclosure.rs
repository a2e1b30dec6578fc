//! An enclosure: the namespaces, file tree and limits of one sandbox, made from inside by its init.
//!
//! The zone master forks the init into new namespaces and writes its id map. The init waits for its
//! [`Preparation`], which names a template. It then mounts its file tree step by step from the
//! layers in the zone's root, makes that its root, and waits again. None of this depends on the
//! sandbox, so all of it can be done ahead of time (`zone::init_pool`). The [`InitOrder`] brings
//! the rest: the inputs, and how much may be written. Then the init drops all privileges, and from
//! then on it only reaps.
//!
//! Tests: `tests/it/jail/failing.rs`, `tests/it/jail/containment.rs`.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};

use serde::{Deserialize, Serialize};
use silica_gate::Instruction;

use crate::protocol::{InputMount, ZoneFailure};
use crate::zone::layout::{self, MountedTemplate};
use crate::{protocol, sys};

/// The id every guest has inside.
pub const GUEST_ID: u32 = 1000;

/// The steps of making an enclosure, in order; a failure names the one that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// Making the sandbox's cgroups (by the zone master).
    Groups = 1,
    /// Forking the init into its namespaces (by the zone master).
    Fork = 2,
    /// Joining the cgroups and making a cgroup namespace, in which no other group is visible.
    Cgroup = 3,
    /// Writing the id maps (by the zone master) and taking the id.
    Ids = 4,
    /// Mounting the root.
    Root = 5,
    /// Mounting the host's system directories over it.
    System = 6,
    /// Mounting the writable directories, which are limited in size.
    Writable = 7,
    /// Mounting /dev.
    Devices = 8,
    /// Mounting /proc.
    Proc = 9,
    /// Setting the kernel's per-user limits.
    UserLimits = 10,
    /// Making the new file tree the root and unmounting the old one.
    Pivot = 11,
    /// Setting the host name.
    Name = 12,
    /// Mounting the inputs.
    Inputs = 13,
    /// Dropping all privileges.
    Lock = 14,
}

impl Step {
    /// Every step, in order.
    pub const ALL: [Self; 14] = [
        Self::Groups,
        Self::Fork,
        Self::Cgroup,
        Self::Ids,
        Self::Root,
        Self::System,
        Self::Writable,
        Self::Devices,
        Self::Proc,
        Self::UserLimits,
        Self::Pivot,
        Self::Name,
        Self::Inputs,
        Self::Lock,
    ];

    /// The name used in errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Groups => "enclosure-groups",
            Self::Fork => "enclosure-fork",
            Self::Ids => "enclosure-ids",
            Self::Cgroup => "enclosure-cgroup",
            Self::UserLimits => "enclosure-user-limits",
            Self::Root => "enclosure-root",
            Self::System => "enclosure-system",
            Self::Writable => "enclosure-writable",
            Self::Devices => "enclosure-devices",
            Self::Proc => "enclosure-proc",
            Self::Inputs => "enclosure-inputs",
            Self::Pivot => "enclosure-pivot",
            Self::Name => "enclosure-name",
            Self::Lock => "enclosure-lock",
        }
    }
}

/// The namespaces that are made when the init is forked. The network namespace is not one of them,
/// since it may be used again (`zone::network`), nor is the cgroup namespace: its root is the group
/// that the process is in when it is made, so the init makes it after it has joined its group.
pub(crate) const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS) as u64;

/// What an init builds before it knows its sandbox. The `cgroup.procs` files of its group come with
/// the packet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Preparation {
    pub(crate) template: MountedTemplate,
    /// The size of the writable file system, unless the order changes it.
    pub(crate) disk_bytes: u64,
    pub(crate) fail_at: u32,
}

/// What an init builds for its sandbox. If there are inputs, their mounts come with a second
/// packet.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InitOrder {
    pub(crate) disk_bytes: u64,
    pub(crate) inputs: Vec<InputMount>,
    pub(crate) fail_at: u32,
}

impl Preparation {
    /// Sends it to an init that has none.
    pub(crate) fn send(&self, init: &OwnedFd, procs_fds: &[OwnedFd]) -> io::Result<()> {
        protocol::send(init, self, &borrowed(procs_fds))
    }
}

impl InitOrder {
    /// Sends it to an init that has been sent its preparation.
    pub(crate) fn send(&self, init: &OwnedFd, inputs: &[OwnedFd]) -> io::Result<()> {
        protocol::send(init, self, &[])?;
        if inputs.is_empty() { Ok(()) } else { protocol::send(init, &(), &borrowed(inputs)) }
    }
}

fn borrowed(fds: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    fds.iter().map(AsFd::as_fd).collect()
}

/// The main function of an init: wait, prepare, wait, finish, report, reap. Never returns to the
/// zone master's code. `filter` was compiled from `INIT_RULES`, once for all inits.
pub(crate) fn init(master: &OwnedFd, filter: &[Instruction]) -> ! {
    // The init may wait for minutes, and must not keep the zone master's descriptors open: other
    // processes wait for their closing. It gets a process group of its own, because when a process
    // ends the kernel walks all processes of its group.
    if sys::close_all_but(master.as_fd()).is_err()
        || rustix::process::setsid().is_err()
        || silica_gate::empty_bounding_set().is_err()
    {
        sys::exit_now(1)
    }
    let Some((preparation, procs_fds)) = await_preparation(master) else { sys::exit_now(1) };
    let prepared = prepare(&preparation, procs_fds);
    let Some((order, inputs)) = await_order(master) else { sys::exit_now(1) };
    let finished = prepared.and_then(|fds| {
        finish(&order, &inputs, preparation.disk_bytes)?;
        Ok(fds)
    });
    match finished {
        Ok(fds) => {
            // Reported before the last lock, which closes the socket. The init has dropped its
            // privileges by now.
            let sent = protocol::send(master, &Ok::<(), ZoneFailure>(()), &borrowed(&fds));
            if sent.is_ok() && restrict_to_reaping(filter).is_ok() {
                reap_forever();
            }
            sys::exit_now(1)
        }
        Err(failure) => {
            // If this cannot be sent, the zone master sees that the init has ended.
            let _ = protocol::send(master, &Err::<(), ZoneFailure>(failure), &[]);
            sys::exit_now(1)
        }
    }
}

/// Builds what does not depend on the sandbox. Returns the directory of the writable file system,
/// then the namespaces in the order of the gate.
fn prepare(
    preparation: &Preparation,
    procs_fds: Vec<OwnedFd>,
) -> Result<Vec<OwnedFd>, ZoneFailure> {
    let Preparation { template, disk_bytes, fail_at } = preparation;
    let step = |step: Step, action: &dyn Fn() -> io::Result<()>| run_step(*fail_at, step, action);
    // Before the change of ids: v1 lets a process be moved only by its own user or root.
    step(Step::Cgroup, &|| join_groups(&procs_fds))?;
    drop(procs_fds);
    step(Step::Ids, &|| sys::set_ids(GUEST_ID, GUEST_ID))?;
    step(Step::Root, &|| mount_root(template))?;
    step(Step::System, &|| mount_system(template))?;
    step(Step::Writable, &|| mount_writable(*disk_bytes))?;
    step(Step::Devices, &mount_devices)?;
    step(Step::Proc, &mount_proc)?;
    let fds = open_fds().map_err(|error| ZoneFailure::new(Step::Writable.name(), &error))?;
    // Before the pivot, since the new /proc, mounted with `subset=pid`, has no /proc/sys.
    step(Step::UserLimits, &set_user_limits)?;
    step(Step::Pivot, &pivot)?;
    step(Step::Name, &|| Ok(rustix::system::sethostname(b"sandbox")?))?;
    Ok(fds)
}

/// Mounts the inputs, adapts the size of the writable file system, and drops all privileges.
fn finish(order: &InitOrder, inputs: &[OwnedFd], disk_bytes: u64) -> Result<(), ZoneFailure> {
    let step =
        |step: Step, action: &dyn Fn() -> io::Result<()>| run_step(order.fail_at, step, action);
    if order.disk_bytes != disk_bytes {
        resize_writable(order.disk_bytes)
            .map_err(|error| ZoneFailure::new(Step::Writable.name(), &error))?;
    }
    step(Step::Inputs, &|| mount_inputs(&order.inputs, inputs))?;
    step(Step::Lock, &|| {
        silica_gate::drop_privileges().map_err(|errno| io::Error::from_raw_os_error(errno.0))
    })
}

/// Runs a step, or fails it on purpose when a test asked for that.
pub(crate) fn run_step(
    fail_at: u32,
    step: Step,
    action: &dyn Fn() -> io::Result<()>,
) -> Result<(), ZoneFailure> {
    if fail_at == step as u32 {
        return Err(ZoneFailure::new(step.name(), &io::Error::from_raw_os_error(libc::EIO)));
    }
    action().map_err(|error| ZoneFailure::new(step.name(), &error))
}

/// Waits for the preparation; `None` if the zone master closes the socket.
fn await_preparation(master: &OwnedFd) -> Option<(Preparation, Vec<OwnedFd>)> {
    let (packet, procs_fds) = protocol::receive_one(master).ok()??;
    Some((protocol::parse(&packet).ok()?, procs_fds))
}

/// Waits for the order; `None` if the zone master closes the socket.
fn await_order(master: &OwnedFd) -> Option<(InitOrder, Vec<OwnedFd>)> {
    let (packet, _) = protocol::receive_one(master).ok()??;
    let order: InitOrder = protocol::parse(&packet).ok()?;
    let inputs = match order.inputs.len() {
        0 => Vec::new(),
        _ => protocol::receive_one(master).ok()??.1,
    };
    (inputs.len() == order.inputs.len()).then_some((order, inputs))
}

fn join_groups(procs_fds: &[OwnedFd]) -> io::Result<()> {
    for procs_fd in procs_fds {
        // 0 is the writing process itself; cgroups(7).
        rustix::io::write(procs_fd, b"0")?;
    }
    sys::unshare(libc::CLONE_NEWCGROUP)
}

/// Forbids new user namespaces inside. Without one no process inside could make any other
/// namespace, since it has no capabilities. The filter denies the calls to make one as well.
fn set_user_limits() -> io::Result<()> {
    match std::fs::write("/proc/sys/user/max_user_namespaces", "0") {
        // The kernel was built without user namespaces.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn mount_root(template: &MountedTemplate) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY;
    overlay(&[&template.guest, &template.root], layout::ENCLOSURE_ROOT, flags)
}

/// Mounts an overlay. Each sandbox has overlays of its own: the page cache stays shared, but locks
/// and watches on files do not cross from one sandbox to another.
fn overlay(layers: &[&str], target: &str, flags: MountFlags) -> io::Result<()> {
    let options = CString::new(format!("lowerdir={},userxattr", layers.join(":")))?;
    Ok(rustix::mount::mount("overlay", target, "overlay", flags, Some(options.as_c_str()))?)
}

fn mount_system(template: &MountedTemplate) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY;
    for (path, layer) in &template.system {
        let target = format!("{}{path}", layout::ENCLOSURE_ROOT);
        overlay(&[layer, layout::EMPTY], &target, flags)?;
    }
    Ok(())
}

/// The writable directories: their names in the writable file system, and their paths inside.
pub(crate) const WRITABLE: [(&str, &str); 4] =
    [("workspace", "/workspace"), ("home", "/home/user"), ("tmp", "/tmp"), ("shm", "/dev/shm")];

/// How many inodes the writable file system has when it is new: its root and one for each
/// directory. No guest can remove one of them, since inside each is a mount point.
pub const WRITABLE_INODES: u64 = 1 + WRITABLE.len() as u64;

/// One inode per this many bytes of writable space.
const BYTES_PER_INODE: u64 = 4096;

fn writable_options(disk_bytes: u64) -> io::Result<CString> {
    let inodes = (disk_bytes / BYTES_PER_INODE).max(1024);
    Ok(CString::new(format!("size={disk_bytes},nr_inodes={inodes},mode=755"))?)
}

const WRITABLE_FLAGS: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

fn mount_writable(disk_bytes: u64) -> io::Result<()> {
    let options = writable_options(disk_bytes)?;
    let options = Some(options.as_c_str());
    rustix::mount::mount("tmpfs", layout::WRITABLE, "tmpfs", WRITABLE_FLAGS, options)?;
    // The modes below must not be masked.
    let umask = rustix::process::umask(Mode::empty());
    for (name, _) in WRITABLE {
        let mode = if matches!(name, "tmp" | "shm") { 0o1777 } else { 0o755 };
        rustix::fs::mkdir(format!("{}/{name}", layout::WRITABLE), Mode::from_raw_mode(mode))?;
    }
    rustix::process::umask(umask);
    for (name, target) in WRITABLE {
        // /dev/shm is below /dev, which is mounted later.
        if name != "shm" {
            bind(&format!("{}/{name}", layout::WRITABLE), target, OpenTreeFlags::empty())?;
        }
    }
    Ok(())
}

/// Changes the size of the writable file system, by a remount of any directory of it.
fn resize_writable(disk_bytes: u64) -> io::Result<()> {
    let [(_, directory), ..] = WRITABLE;
    Ok(rustix::mount::mount_remount(directory, WRITABLE_FLAGS, writable_options(disk_bytes)?)?)
}

/// Mounts a tree of the zone's root below the enclosure's.
fn bind(source: &str, target: &str, more: OpenTreeFlags) -> io::Result<()> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | more;
    let tree = rustix::mount::open_tree(CWD, source, flags)?;
    attach(tree.as_fd(), &format!("{}{target}", layout::ENCLOSURE_ROOT))
}

fn attach(tree: BorrowedFd<'_>, target: &str) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree, "", CWD, target, flags)?)
}

fn mount_devices() -> io::Result<()> {
    bind(layout::DEVICES, "/dev", OpenTreeFlags::AT_RECURSIVE)?;
    bind(&format!("{}/shm", layout::WRITABLE), "/dev/shm", OpenTreeFlags::empty())?;
    let target = format!("{}/dev/pts", layout::ENCLOSURE_ROOT);
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = c"newinstance,ptmxmode=0666,mode=0600,max=64";
    Ok(rustix::mount::mount("devpts", target, "devpts", flags, Some(options))?)
}

fn mount_proc() -> io::Result<()> {
    let target = format!("{}/proc", layout::ENCLOSURE_ROOT);
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(rustix::mount::mount("proc", target, "proc", flags, Some(c"subset=pid"))?)
}

fn mount_inputs(inputs: &[InputMount], trees: &[OwnedFd]) -> io::Result<()> {
    if inputs.is_empty() {
        return Ok(());
    }
    // The root is read-only, so the mount points are made in a small file system of their own. It
    // is made read-only before any guest runs.
    let directory = "/data/input";
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("tmpfs", directory, "tmpfs", flags, Some(c"size=64k,mode=755"))?;
    for (input, tree) in inputs.iter().zip(trees) {
        let target = format!("{directory}/{}", input.name);
        if input.directory {
            rustix::fs::mkdir(&target, Mode::from_raw_mode(0o755))?;
        } else {
            let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            drop(rustix::fs::open(&target, create, Mode::from_raw_mode(0o444))?);
        }
        attach(tree.as_fd(), &target)?;
    }
    let flags = MountFlags::BIND | MountFlags::RDONLY | flags;
    Ok(rustix::mount::mount_remount(directory, flags, c"")?)
}

/// Opens the writable file system for the engine and the namespaces for processes that enter. The
/// init opens its namespaces itself, since no other process may: its memory is a copy of the zone
/// master's, so it is not dumpable, and the kernel lets a process join the namespaces of another
/// through /proc only if it may trace it.
fn open_fds() -> io::Result<Vec<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut fds = vec![rustix::fs::open(layout::WRITABLE, flags, Mode::empty())?];
    for (name, _) in silica_gate::NAMESPACES {
        fds.push(std::fs::File::open(format!("/proc/self/ns/{name}"))?.into());
    }
    Ok(fds)
}

fn pivot() -> io::Result<()> {
    rustix::process::chdir(layout::ENCLOSURE_ROOT)?;
    // With the same path twice the old root is mounted over the new one, and is unmounted next;
    // pivot_root(2).
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

/// Closes every descriptor, including the socket to the zone master, which learns of the init's
/// death by SIGCHLD, and allows only the system calls of reaping.
fn restrict_to_reaping(filter: &[Instruction]) -> io::Result<()> {
    sys::close_all()?;
    silica_gate::load_init_filter(filter).map_err(|errno| io::Error::from_raw_os_error(errno.0))
}

/// Reaps every orphan of the sandbox until the sandbox ends.
fn reap_forever() -> ! {
    loop {
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
        sys::wait_for_child_signal();
    }
}

/// Builds the file tree of a zygote: the same paths that its children will have, read-only but for
/// an empty /tmp.
pub(crate) fn build_zygote_root(template: &MountedTemplate) -> io::Result<()> {
    mount_root(template)?;
    mount_system(template)?;
    bind(layout::DEVICES, "/dev", OpenTreeFlags::AT_RECURSIVE)?;
    bind("/proc", "/proc", OpenTreeFlags::empty())?;
    // Some modules look for a directory for temporary files when they are imported.
    let target = format!("{}/tmp", layout::ENCLOSURE_ROOT);
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("tmpfs", target, "tmpfs", flags, Some(c"size=16m,mode=1777"))?;
    pivot()
}
