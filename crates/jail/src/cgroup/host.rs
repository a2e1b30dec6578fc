//! The host's side of control groups: finding them, making the zone's own, clearing old ones away.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::{Controller, Hierarchy, Version};

/// Where the zone's group in one hierarchy is or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupParent {
    /// The interface spoken there.
    pub version: Version,
    /// The controllers Silica uses there.
    pub controllers: Vec<Controller>,
    /// The directory under which the zone's group is made.
    pub parent: PathBuf,
}

/// What the host offers, and why something is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Usable hierarchies.
    pub places: Vec<CgroupParent>,
    /// A sentence for each controller that cannot be used.
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

/// Looks at the mounts and at this process's own groups.
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

/// This process's path by controller name; the unified hierarchy under the empty name.
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

/// Where a controller is in v1: its directory, or why it cannot be used; `None` where v1 has it not.
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

/// Climbs from this process's own group to one that may have children with controllers.
///
/// A process is in one v2 group only, so all controllers must be had from one: the nearest that
/// offers all of them, or else the nearest of those that offer most.
pub(super) fn find_v2(
    wanted: &[Controller],
    top: &Path,
    start: &Path,
) -> (Option<CgroupParent>, Vec<(Controller, String)>) {
    let mut best: Option<CgroupParent> = None;
    let mut refusal = None;
    for directory in start.ancestors().take_while(|ancestor| ancestor.starts_with(top)) {
        // Made by us, and only to be out of the way.
        if directory.file_name().is_some_and(|name| name == ASIDE_GROUP) {
            continue;
        }
        if let Err(reason) = may_have_children(directory) {
            refusal.get_or_insert(reason);
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
    let reason = |controller: Controller| match (&best, &refusal) {
        (Some(best), _) => {
            format!(
                "the {} controller is not passed to {}",
                controller.name(),
                best.parent.display()
            )
        }
        (None, Some(refusal)) => refusal.clone(),
        (None, None) => format!("{} has no control groups", top.display()),
    };
    let missing = wanted.iter().filter(|controller| !has(controller));
    let missing = missing.map(|&controller| (controller, reason(controller))).collect();
    (best, missing)
}

/// Those of the wanted controllers that the children of a group can have.
fn offered(directory: &Path, wanted: &[Controller]) -> Vec<Controller> {
    let offered = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
    let has = |controller: &Controller| match controller {
        // Processor time is measured in every group, with or without the `cpu` controller.
        Controller::Cpuacct => true,
        other => offered.split_whitespace().any(|one| one == other.name()),
    };
    wanted.iter().copied().filter(has).collect()
}

/// Whether this user may give a group children with controllers, or why not. A group other than the
/// root must be without processes for that, or with none but ours, which can be moved aside.
fn may_have_children(directory: &Path) -> Result<(), String> {
    let place = directory.display();
    let needed = ["", "cgroup.procs", "cgroup.subtree_control"];
    if !needed.iter().all(|name| writable(&directory.join(name))) {
        return Err(format!("{place} is not delegated to this user"));
    }
    match fs::read_to_string(directory.join("cgroup.type")) {
        // Only the root has no type.
        Err(_) => Ok(()),
        Ok(kind) if kind.trim() != "domain" => Err(format!("{place} is for threads only")),
        Ok(_) if holds_only(&directory.join("cgroup.procs"), std::process::id()) => Ok(()),
        Ok(_) => Err(format!("{place} holds other processes too")),
    }
}

/// Whether a group holds nobody but `process` and its descendants, which can be moved aside.
fn holds_only(procs: &Path, process: u32) -> bool {
    let own = |line: &str| line.parse().is_ok_and(|pid| descends(pid, process));
    fs::read_to_string(procs).is_ok_and(|text| text.lines().all(own))
}

/// How many generations are followed; nobody starts programs deeper.
const GENERATIONS_MAX: u32 = 64;

/// Whether a process is `ancestor` or was started by it or by one that it started. One that has ended
/// meanwhile is in nobody's way.
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

/// The directory of this process's own group below a mount, or the mount itself if it is not seen.
fn own_directory(mount: &Mount, own: Option<&PathBuf>) -> PathBuf {
    own.and_then(|path| path.strip_prefix(&mount.root).ok())
        .map(|path| mount.point.join(path))
        .filter(|path| path.is_dir())
        .unwrap_or_else(|| mount.point.clone())
}

fn writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// The child group in which the zone's own processes sit.
pub(super) const ZONE_GROUP: &str = "zone";

/// The child group of the engine's own v2 group into which the engine moves, where it was alone, to
/// make room for the zone's.
pub(super) const ASIDE_GROUP: &str = "silica-host";

/// Makes the zone's group at each place and gives it to `owner`. Returns the hierarchies opened.
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
    Ok(Hierarchy { version: place.version, controllers: place.controllers.clone(), directory })
}

fn switches(place: &CgroupParent) -> Vec<String> {
    let limiting = |controller: &&Controller| **controller != Controller::Cpuacct;
    place.controllers.iter().filter(limiting).map(|one| format!("+{}", one.name())).collect()
}

/// How often controllers are turned on that others turn off meanwhile, or for whom others are in the
/// way. Others are zones of the same engine that start or end at the same time.
const ENABLE_ATTEMPTS: u32 = 16;

/// Makes a v2 group and turns the controllers on for its children.
fn enable(place: &CgroupParent, directory: &Path) -> io::Result<()> {
    let switches = switches(place).join(" ");
    let control = directory.join("cgroup.subtree_control");
    let mut result = Ok(());
    for _ in 0..ENABLE_ATTEMPTS {
        result = open_up(place, &switches).and_then(|()| {
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

/// Turns the controllers on for the children of `place`; moves the engine and what it started aside
/// if they are in the way.
fn open_up(place: &CgroupParent, switches: &str) -> io::Result<()> {
    // The launcher does this, whose parent is the engine that surveyed the group.
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
            // It has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            other => other?,
        }
    }
    Ok(())
}

/// Undoes what `open_up` did to make room, once the zone's groups are gone. A group whose children
/// have controllers lets nobody in, so without this it could be used for one engine only.
pub(crate) fn move_back(place: &CgroupParent) -> io::Result<()> {
    let aside = place.parent.join(ASIDE_GROUP);
    let engine = std::os::unix::process::parent_id();
    if place.version != Version::V2 || !holds_only(&aside.join("cgroup.procs"), engine) {
        return Ok(());
    }
    // Refused while another zone is there, which needs them.
    let unwanted = switches(place).join(" ").replace('+', "-");
    fs::write(place.parent.join("cgroup.subtree_control"), unwanted)?;
    move_all(&aside, &place.parent)?;
    fs::remove_dir(&aside)
}

/// Gives a group and the files a delegate needs to another user; cgroup-v2(7), "Delegation".
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

/// How often removing a group that is still emptying is tried, and how long between.
const REMOVE_ATTEMPTS: u32 = 200;
const REMOVE_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

/// Removes a zone's group with everything below it. All its processes must be dying or dead.
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
/// 10 ms. The mount option `favordynmods` (Linux 6.0) removes that wait for all hierarchies; a named
/// hierarchy of our own carries the option, detached, seen by nobody.
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
