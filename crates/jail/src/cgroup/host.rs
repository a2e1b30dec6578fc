//! Control groups on the host: finding the hierarchies, making the zone's own group in each,
//! removing those of dead zones.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::{CPU_WEIGHT_MAX, Controller, Hierarchy, Version};

/// Where the zone's group in one hierarchy is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupParent {
    /// The interface of the hierarchy.
    pub version: Version,
    /// The controllers that Silica uses in it.
    pub controllers: Vec<Controller>,
    /// The directory under which the zone's group is made.
    pub parent: PathBuf,
}

/// The usable hierarchies of the host, and why a controller is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Usable hierarchies.
    pub places: Vec<CgroupParent>,
    /// A reason for each controller that cannot be used.
    pub missing: Vec<(Controller, String)>,
}

/// A cgroup mount of this host.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    root: PathBuf,
    point: PathBuf,
    version: Version,
    options: String,
}

/// Finds the usable hierarchies, by the mounts and by this process's own groups.
pub fn survey() -> Survey {
    let mounts = mounts(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
    let own = own_groups(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default());
    let mut places: BTreeMap<PathBuf, CgroupParent> = BTreeMap::new();
    let mut missing = Vec::new();
    let mut unified = Vec::new();
    for controller in Controller::ALL {
        match find_v1(controller, &mounts, &own) {
            Some(Ok(parent)) => places
                .entry(parent.clone())
                .or_insert(CgroupParent { version: Version::V1, controllers: Vec::new(), parent })
                .controllers
                .push(controller),
            Some(Err(reason)) => missing.push((controller, reason)),
            None => unified.push(controller),
        }
    }
    let mut places: Vec<CgroupParent> = places.into_values().collect();
    match mounts.iter().find(|mount| mount.version == Version::V2) {
        _ if unified.is_empty() => {}
        Some(mount) => {
            let (place, more) = find_v2(&unified, &mount.point, &own_directory(mount, own.get("")));
            places.extend(place);
            missing.extend(more);
        }
        None => {
            let reason = || "no cgroup file system is mounted".to_owned();
            missing.extend(unified.into_iter().map(|controller| (controller, reason())));
        }
    }
    Survey { places, missing }
}

fn mounts(mountinfo: &str) -> Vec<Mount> {
    let parse = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<&str> = before.split(' ').collect();
        let after: Vec<&str> = after.split(' ').collect();
        let version = match *after.first()? {
            "cgroup" => Version::V1,
            "cgroup2" => Version::V2,
            _ => return None,
        };
        Some(Mount {
            root: PathBuf::from(before.get(3)?),
            point: PathBuf::from(before.get(4)?),
            version,
            options: (*after.get(2)?).to_owned(),
        })
    };
    mountinfo.lines().filter_map(parse).collect()
}

/// Returns this process's groups by controller; the unified hierarchy has the empty name.
fn own_groups(text: &str) -> BTreeMap<String, PathBuf> {
    let mut groups = BTreeMap::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(names), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        for name in names.split(',') {
            groups.insert(name.to_owned(), PathBuf::from(path));
        }
    }
    groups
}

/// Finds a controller in v1: this process's own group, or why it cannot be used. `None` if no v1
/// hierarchy has the controller.
fn find_v1(
    controller: Controller,
    mounts: &[Mount],
    own: &BTreeMap<String, PathBuf>,
) -> Option<Result<PathBuf, String>> {
    let name = controller.name();
    let offers = |mount: &&Mount| {
        mount.version == Version::V1 && mount.options.split(',').any(|option| option == name)
    };
    let parent = own_directory(mounts.iter().find(offers)?, own.get(name));
    if writable(&parent) && writable(&parent.join("cgroup.procs")) {
        return Some(Ok(parent));
    }
    Some(Err(format!("{} is not writable by this user", parent.display())))
}

/// Finds the v2 group below which the zone's group is made: this process's own group or one above
/// it.
///
/// A process is in one v2 group only, so one group must have all the controllers. The nearest group
/// with most of them is taken.
pub(super) fn find_v2(
    wanted: &[Controller],
    top: &Path,
    start: &Path,
) -> (Option<CgroupParent>, Vec<(Controller, String)>) {
    let mut best: Option<CgroupParent> = None;
    let mut first_reason = None;
    for directory in start.ancestors().take_while(|ancestor| ancestor.starts_with(top)) {
        // The engine was moved into this group to make room above it; see `enable_for_children`.
        if directory.file_name().is_some_and(|name| name == ASIDE_GROUP) {
            continue;
        }
        if let Err(reason) = may_have_children(directory) {
            first_reason.get_or_insert(reason);
            continue;
        }
        let controllers = offered(directory, wanted);
        if best.as_ref().is_none_or(|best| controllers.len() > best.controllers.len()) {
            best = Some(CgroupParent {
                version: Version::V2,
                controllers,
                parent: directory.to_owned(),
            });
        }
    }
    let has = |controller| best.as_ref().is_some_and(|best| best.controllers.contains(controller));
    let reason = |controller: Controller| match (&best, &first_reason) {
        (Some(best), _) => {
            format!(
                "the {} controller is not passed to {}",
                controller.name(),
                best.parent.display()
            )
        }
        (None, Some(reason)) => reason.clone(),
        (None, None) => format!("{} has no control groups", top.display()),
    };
    let missing = wanted.iter().filter(|controller| !has(controller));
    let missing = missing.map(|&controller| (controller, reason(controller))).collect();
    (best, missing)
}

/// Returns those of the wanted controllers that children of a group can have.
fn offered(directory: &Path, wanted: &[Controller]) -> Vec<Controller> {
    let offered = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
    let has = |controller: &Controller| match controller {
        // Processor time is measured in every group, with or without the `cpu` controller.
        Controller::Cpuacct => true,
        other => offered.split_whitespace().any(|one| one == other.name()),
    };
    wanted.iter().copied().filter(has).collect()
}

/// Whether this user may make children with controllers below a group, or why not. The kernel lets
/// no group but the root have both processes and children with controllers, so it must hold no
/// process, or only the engine and its descendants, which can be moved aside; cgroups(7).
fn may_have_children(directory: &Path) -> Result<(), String> {
    let path = directory.display();
    let needed = ["", "cgroup.procs", "cgroup.subtree_control"];
    if !needed.iter().all(|name| writable(&directory.join(name))) {
        return Err(format!("{path} is not delegated to this user"));
    }
    match fs::read_to_string(directory.join("cgroup.type")) {
        // Only the root has no type.
        Err(_) => Ok(()),
        Ok(kind) if kind.trim() != "domain" => Err(format!("{path} is for threads only")),
        Ok(_) if holds_only(&directory.join("cgroup.procs"), std::process::id()) => Ok(()),
        Ok(_) => Err(format!("{path} holds other processes too")),
    }
}

/// Whether a group holds no processes but `process` and its descendants.
fn holds_only(procs: &Path, process: u32) -> bool {
    let own = |line: &str| line.parse().is_ok_and(|pid| descends(pid, process));
    fs::read_to_string(procs).is_ok_and(|text| text.lines().all(own))
}

/// How many generations of parents are followed.
const GENERATIONS_MAX: u32 = 64;

/// Whether a process is `ancestor` or a descendant of it. True for a process that has ended
/// meanwhile, since it does not have to be moved.
fn descends(mut pid: u32, ancestor: u32) -> bool {
    for _ in 0..GENERATIONS_MAX {
        if pid == ancestor {
            return true;
        }
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            return has_ended(pid);
        };
        // The name in brackets may hold anything, brackets included; proc_pid_stat(5).
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        match parent.and_then(|parent| parent.parse().ok()) {
            Some(parent) => pid = parent,
            None => return false,
        }
    }
    false
}

fn has_ended(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

/// Returns the directory of this process's own group below a mount, or the mount point if the group
/// is not visible there.
fn own_directory(mount: &Mount, own: Option<&PathBuf>) -> PathBuf {
    own.and_then(|path| path.strip_prefix(&mount.root).ok())
        .map(|path| mount.point.join(path))
        .filter(|path| path.is_dir())
        .unwrap_or_else(|| mount.point.clone())
}

fn writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// The child group of the zone's own processes.
pub(super) const ZONE_GROUP: &str = "zone";

/// The child group into which the engine is moved if its own v2 group is to have the zone's group
/// as a child with controllers.
pub(super) const ASIDE_GROUP: &str = "silica-host";

/// Makes the zone's group in each hierarchy and gives it to `owner`. Returns the groups opened.
pub(crate) fn prepare(
    places: &[CgroupParent],
    name: &str,
    owner: Option<u32>,
) -> io::Result<Vec<Hierarchy>> {
    places.iter().map(|place| prepare_one(place, name, owner)).collect()
}

fn prepare_one(place: &CgroupParent, name: &str, owner: Option<u32>) -> io::Result<Hierarchy> {
    let directory = place.parent.join(name);
    let zone = directory.join(ZONE_GROUP);
    match place.version {
        Version::V1 => fs::create_dir_all(&directory)?,
        Version::V2 => enable(place, &directory)?,
    }
    fs::create_dir_all(&zone)?;
    if let Some(owner) = owner {
        for path in [&directory, &zone] {
            hand_over(path, owner)?;
        }
    }
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let directory = rustix::fs::open(&directory, flags, Mode::empty())?;
    let hierarchy =
        Hierarchy { version: place.version, controllers: place.controllers.clone(), directory };
    if hierarchy.has(Controller::Cpu) {
        // Every sandbox depends on the zone's own processes.
        super::weigh(&hierarchy, ZONE_GROUP, CPU_WEIGHT_MAX)?;
    }
    Ok(hierarchy)
}

/// Returns the words for `cgroup.subtree_control` that turn the controllers on. Processor time is
/// measured without a controller.
fn switches(place: &CgroupParent) -> Vec<String> {
    let limiting = |controller: &&Controller| **controller != Controller::Cpuacct;
    place.controllers.iter().filter(limiting).map(|one| format!("+{}", one.name())).collect()
}

/// How often turning controllers on is tried. Other zones of the same engine that start or end at
/// the same time may turn them off again, or put processes into the way.
const ENABLE_ATTEMPTS: u32 = 16;

/// Makes a v2 group and turns the controllers on for its children.
fn enable(place: &CgroupParent, directory: &Path) -> io::Result<()> {
    let switches = switches(place).join(" ");
    let control = directory.join("cgroup.subtree_control");
    let mut result = Ok(());
    for _ in 0..ENABLE_ATTEMPTS {
        result = enable_for_children(place, &switches).and_then(|()| {
            fs::create_dir_all(directory)?;
            fs::write(&control, &switches)
        });
        match &result {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::ENOENT)) => {}
            _ => break,
        }
    }
    result
}

/// Turns the controllers on for the children of `place`. If the kernel answers `EBUSY` because the
/// engine and its descendants are in that group, moves them into a child group first.
fn enable_for_children(place: &CgroupParent, switches: &str) -> io::Result<()> {
    // This runs in the launcher, whose parent is the engine that surveyed the group.
    let engine = std::os::unix::process::parent_id();
    let control = place.parent.join("cgroup.subtree_control");
    let Err(error) = fs::write(&control, switches) else {
        return Ok(());
    };
    if error.raw_os_error() != Some(libc::EBUSY)
        || !holds_only(&place.parent.join("cgroup.procs"), engine)
    {
        return Err(error);
    }
    let aside = place.parent.join(ASIDE_GROUP);
    fs::create_dir_all(&aside)?;
    move_all(&place.parent, &aside)?;
    fs::write(&control, switches)
}

fn move_all(from: &Path, to: &Path) -> io::Result<()> {
    for pid in fs::read_to_string(from.join("cgroup.procs"))?.lines() {
        match fs::write(to.join("cgroup.procs"), pid) {
            // The process has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            other => other?,
        }
    }
    Ok(())
}

/// Undoes what `enable_for_children` did, once the zone's groups are removed. A group whose
/// children have controllers admits no process, so without this another engine could not be started
/// in it.
pub(crate) fn move_back(place: &CgroupParent) -> io::Result<()> {
    let aside = place.parent.join(ASIDE_GROUP);
    let engine = std::os::unix::process::parent_id();
    if place.version != Version::V2 || !holds_only(&aside.join("cgroup.procs"), engine) {
        return Ok(());
    }
    // The kernel refuses this while another zone below uses the controllers.
    let unwanted = switches(place).join(" ").replace('+', "-");
    fs::write(place.parent.join("cgroup.subtree_control"), unwanted)?;
    move_all(&aside, &place.parent)?;
    fs::remove_dir(&aside)
}

/// Gives a group, and the files of it that its new owner has to write, to another user; cgroups(7),
/// "Delegation".
fn hand_over(directory: &Path, owner: u32) -> io::Result<()> {
    std::os::unix::fs::chown(directory, Some(owner), Some(owner))?;
    for file in ["cgroup.procs", "tasks", "cgroup.threads", "cgroup.subtree_control"] {
        match std::os::unix::fs::chown(directory.join(file), Some(owner), Some(owner)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Moves a process of the zone into the zone's own child group.
pub(crate) fn place_zone(places: &[CgroupParent], name: &str, pid: i32) -> io::Result<()> {
    for place in places {
        let procs = place.parent.join(name).join(ZONE_GROUP).join("cgroup.procs");
        fs::write(procs, pid.to_string())?;
    }
    Ok(())
}

/// How often removing a group is tried while its last processes exit.
const REMOVE_ATTEMPTS: u32 = 200;

/// The pause between two attempts.
const REMOVE_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

/// Removes a zone's group and all groups below it. All their processes must be exiting or have
/// exited.
pub(crate) fn clear(directory: &Path) -> io::Result<()> {
    let Ok(children) = fs::read_dir(directory) else {
        return Ok(());
    };
    for child in children.flatten() {
        if child.file_type().is_ok_and(|kind| kind.is_dir()) {
            clear(&child.path())?;
        }
    }
    for _ in 0..REMOVE_ATTEMPTS {
        match fs::remove_dir(directory) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(REMOVE_PAUSE);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EBUSY))
}

/// Keeps moves between v1 groups cheap for as long as the result is held.
///
/// Every move takes a global lock; after a pause, taking it waits for an RCU grace period of some
/// 10 ms. The mount option `favordynmods` (Linux 6.0) removes that wait for all hierarchies. A
/// named hierarchy of our own carries the option; it is mounted nowhere.
pub(crate) fn favour_moves() -> io::Result<std::os::fd::OwnedFd> {
    use rustix::mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag,
        fsconfig_set_string, fsmount, fsopen,
    };
    let context = fsopen("cgroup", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_flag(&context, "none")?;
    fsconfig_set_string(&context, "name", "silica")?;
    fsconfig_set_flag(&context, "favordynmods")?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}
