//! An enclosure: the isolated place, made by its own first process from inside.
//!
//! The zone master forks the init into new namespaces and writes its id map. There it waits, blank,
//! until it is told for which template it is. It then builds its world step by step out of what the
//! zone's root holds (`layers`), turns it into its root, and waits again. Up to here nothing is known of
//! its customer, so all of it can be done ahead (`zone::stock`). The order brings the rest: inputs, and
//! how much may be written. It then gives up everything and from then on only reaps.
//! Tests: `tests/it/jail/failing.rs`, `tests/it/jail/containment.rs`.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};

use serde::{Deserialize, Serialize};
use silica_gate::Instruction;

use crate::protocol::{InputMount, ZoneFailure};
use crate::zone::layout::{self, Template};
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
    /// Joining the cgroups and closing the view on them.
    Cgroup = 3,
    /// Writing the id maps (by the zone master) and taking the id.
    Ids = 4,
    /// Mounting the root.
    Root = 5,
    /// Mounting the host's system directories over it.
    System = 6,
    /// Mounting the bounded writable places.
    Writable = 7,
    /// Mounting /dev.
    Devices = 8,
    /// Mounting /proc.
    Proc = 9,
    /// Setting the kernel's per-user limits.
    UserLimits = 10,
    /// Making it the root and forgetting the old one.
    Pivot = 11,
    /// Setting the host name.
    Name = 12,
    /// Mounting the inputs.
    Inputs = 13,
    /// Giving up every right.
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

/// The namespaces the init is forked into. The network namespace comes from the zone's stock, and
/// the cgroup namespace later, from inside, once the init sits in its group.
pub(crate) const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS) as u64;

/// What an init builds whoever its customer will be. The doors of its groups lie beside the packet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Preparation {
    pub(crate) template: Template,
    /// How much may be written, unless the order says something else.
    pub(crate) disk_bytes: u64,
    pub(crate) fail_at: u32,
}

/// What its customer wants of it. If there are inputs, they follow beside a second packet.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) disk_bytes: u64,
    pub(crate) inputs: Vec<InputMount>,
    pub(crate) fail_at: u32,
}

impl Preparation {
    /// Sends it to a blank init.
    pub(crate) fn send(&self, init: &OwnedFd, doors: &[OwnedFd]) -> io::Result<()> {
        protocol::send(init, self, &borrowed(doors))
    }
}

impl Order {
    /// Sends it to an init that has been told what to prepare.
    pub(crate) fn send(&self, init: &OwnedFd, inputs: &[OwnedFd]) -> io::Result<()> {
        protocol::send(init, self, &[])?;
        if inputs.is_empty() { Ok(()) } else { protocol::send(init, &(), &borrowed(inputs)) }
    }
}

fn borrowed(fds: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    fds.iter().map(AsFd::as_fd).collect()
}

/// The init's whole life: wait, build, wait, finish, report, reap. Never returns to the zone master's
/// code. `filter` leaves it the calls of reaping; it was made once for all, from `INIT_RULES`.
pub(crate) fn init(master: &OwnedFd, filter: &[Instruction]) -> ! {
    // Nothing of the zone master's stays open while this waits, for minutes perhaps. In a group of its own,
    // since at the end of a process the kernel looks at all others of its group.
    if sys::close_all_but(master.as_fd()).is_err()
        || rustix::process::setsid().is_err()
        || silica_gate::empty_bounding_set().is_err()
    {
        sys::exit_now(1)
    }
    let Some((preparation, doors)) = await_preparation(master) else { sys::exit_now(1) };
    let prepared = prepare(&preparation, doors);
    let Some((order, inputs)) = await_order(master) else { sys::exit_now(1) };
    let finished = prepared.and_then(|place| {
        finish(&order, &inputs, preparation.disk_bytes)?;
        Ok(place)
    });
    match finished {
        Ok(place) => {
            let sent = protocol::send(master, &Ok::<(), ZoneFailure>(()), &borrowed(&place));
            if sent.is_ok() && shut_in(filter).is_ok() {
                reap_forever();
            }
            sys::exit_now(1)
        }
        Err(failure) => {
            // The zone master sees the end of the process if this cannot be sent.
            let _ = protocol::send(master, &Err::<(), ZoneFailure>(failure), &[]);
            sys::exit_now(1)
        }
    }
}

/// Builds what needs no customer; returns the directory of the writable files and the namespaces, in
/// the order the gate wants them.
fn prepare(preparation: &Preparation, doors: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, ZoneFailure> {
    let Preparation { template, disk_bytes, fail_at } = preparation;
    let step = |step: Step, action: &dyn Fn() -> io::Result<()>| run_step(*fail_at, step, action);
    // Under the zone's id still: v1 lets a process be moved only by its own user or root.
    step(Step::Cgroup, &|| join_groups(&doors))?;
    drop(doors);
    step(Step::Ids, &|| sys::set_ids(GUEST_ID, GUEST_ID))?;
    step(Step::Root, &|| mount_root(template))?;
    step(Step::System, &|| mount_system(template))?;
    step(Step::Writable, &|| mount_writable(*disk_bytes))?;
    step(Step::Devices, &mount_devices)?;
    step(Step::Proc, &mount_proc)?;
    let place = open_place().map_err(|error| ZoneFailure::new(Step::Writable.name(), &error))?;
    // Before the pivot, since the new /proc has no such files.
    step(Step::UserLimits, &set_user_limits)?;
    step(Step::Pivot, &pivot)?;
    step(Step::Name, &|| Ok(rustix::system::sethostname(b"sandbox")?))?;
    Ok(place)
}

/// Does what the order asks beyond that, and gives up every right.
fn finish(order: &Order, inputs: &[OwnedFd], disk_bytes: u64) -> Result<(), ZoneFailure> {
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

/// Waits to be told what to build; `None` when the zone master has no use for it.
fn await_preparation(master: &OwnedFd) -> Option<(Preparation, Vec<OwnedFd>)> {
    let (packet, doors) = protocol::receive_one(master).ok()??;
    Some((protocol::parse(&packet).ok()?, doors))
}

/// Waits for its customer; `None` if there will be none.
fn await_order(master: &OwnedFd) -> Option<(Order, Vec<OwnedFd>)> {
    let (packet, _) = protocol::receive_one(master).ok()??;
    let order: Order = protocol::parse(&packet).ok()?;
    let inputs = match order.inputs.len() {
        0 => Vec::new(),
        _ => protocol::receive_one(master).ok()??.1,
    };
    (inputs.len() == order.inputs.len()).then_some((order, inputs))
}

fn join_groups(doors: &[OwnedFd]) -> io::Result<()> {
    for door in doors {
        rustix::io::write(door, b"0")?;
    }
    sys::unshare(libc::CLONE_NEWCGROUP)
}

/// The one limit that the kernel counts per user namespace and that matters here: without user
/// namespaces no other kind can be made inside either. The calls behind the others are refused.
fn set_user_limits() -> io::Result<()> {
    match std::fs::write("/proc/sys/user/max_user_namespaces", "0") {
        // A kernel built without the feature has nothing to limit.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn mount_root(template: &Template) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY;
    overlay(&[&template.guest, &template.root], layout::ENCLOSURE_ROOT, flags)
}

/// An overlay of its own for each sandbox: the pages stay shared, but locks and watches on the
/// files do not cross from one sandbox to the next.
fn overlay(layers: &[&str], target: &str, flags: MountFlags) -> io::Result<()> {
    let options = CString::new(format!("lowerdir={},userxattr", layers.join(":")))?;
    Ok(rustix::mount::mount("overlay", target, "overlay", flags, Some(options.as_c_str()))?)
}

fn mount_system(template: &Template) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY;
    for (path, layer) in &template.system {
        let target = format!("{}{path}", layout::ENCLOSURE_ROOT);
        overlay(&[layer, layout::EMPTY], &target, flags)?;
    }
    Ok(())
}

/// The writable places: the directory of the bounded file system, and where it is seen.
pub(crate) const WRITABLE: [(&str, &str); 4] =
    [("workspace", "/workspace"), ("home", "/home/user"), ("tmp", "/tmp"), ("shm", "/dev/shm")];

/// What the file system behind the writable places holds before anybody has made anything: its own directory
/// and one for each place. No guest can remove one of them, since it sees them as mounts alone.
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
    let umask = rustix::process::umask(Mode::empty());
    for (name, _) in WRITABLE {
        let mode = if matches!(name, "tmp" | "shm") { 0o1777 } else { 0o755 };
        rustix::fs::mkdir(format!("{}/{name}", layout::WRITABLE), Mode::from_raw_mode(mode))?;
    }
    rustix::process::umask(umask);
    for (name, target) in WRITABLE {
        if name != "shm" {
            bind(&format!("{}/{name}", layout::WRITABLE), target, OpenTreeFlags::empty())?;
        }
    }
    Ok(())
}

/// Gives the writable places another bound; any of them stands for the file system behind all.
fn resize_writable(disk_bytes: u64) -> io::Result<()> {
    let [(_, place), ..] = WRITABLE;
    Ok(rustix::mount::mount_remount(place, WRITABLE_FLAGS, writable_options(disk_bytes)?)?)
}

/// Shows a tree of the zone's root below the enclosure's.
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
    // The mount points need a place that can be written to: a small file system of their own,
    // closed again before anybody else sees it.
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

/// Opens what others need of this enclosure. The namespaces are opened by the init itself, because it is
/// closed to everybody else: its memory is a copy of the zone master's, so no guest may look into it,
/// and the kernel would not let the zone master join them through a process it cannot trace.
fn open_place() -> io::Result<Vec<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut place = vec![rustix::fs::open(layout::WRITABLE, flags, Mode::empty())?];
    for (name, _) in silica_gate::NAMESPACES {
        place.push(std::fs::File::open(format!("/proc/self/ns/{name}"))?.into());
    }
    Ok(place)
}

fn pivot() -> io::Result<()> {
    rustix::process::chdir(layout::ENCLOSURE_ROOT)?;
    // Both on one place: the old root ends up over the new one and is taken off; pivot_root(2).
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

/// Closes everything, the socket to the master included (a dead init is seen by its pidfd), and
/// keeps only the calls of reaping.
fn shut_in(filter: &[Instruction]) -> io::Result<()> {
    sys::close_all()?;
    silica_gate::load_init_filter(filter).map_err(|errno| io::Error::from_raw_os_error(errno.0))
}

/// Collects every orphan of the sandbox, for as long as the sandbox lives.
fn reap_forever() -> ! {
    loop {
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
        sys::wait_for_child_signal();
    }
}

/// Gives a zygote the same view of files that its children will have, but nothing to write to.
pub(crate) fn build_zygote_root(template: &Template) -> io::Result<()> {
    mount_root(template)?;
    mount_system(template)?;
    bind(layout::DEVICES, "/dev", OpenTreeFlags::AT_RECURSIVE)?;
    bind("/proc", "/proc", OpenTreeFlags::empty())?;
    // Modules look for a place for temporary files when they are imported.
    let target = format!("{}/tmp", layout::ENCLOSURE_ROOT);
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("tmpfs", target, "tmpfs", flags, Some(c"size=16m,mode=1777"))?;
    pivot()
}
