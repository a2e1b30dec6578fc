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
pub struct Place {
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
    pub places: Vec<Place>,
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
    let mut places: BTreeMap<PathBuf, Place> = BTreeMap::new();
    let mut missing = Vec::new();
    for controller in Controller::ALL {
        match find(controller, &mounts, &own) {
            Ok((version, parent)) => places
                .entry(parent.clone())
                .or_insert(Place { version, controllers: Vec::new(), parent })
                .controllers
                .push(controller),
            Err(reason) => missing.push((controller, reason)),
        }
    }
    Survey { places: places.into_values().collect(), missing }
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

fn find(
    controller: Controller,
    mounts: &[Mount],
    own: &BTreeMap<String, PathBuf>,
) -> Result<(Version, PathBuf), String> {
    let name = controller.name();
    let offers_v1 = |mount: &&Mount| {
        mount.version == Version::V1 && mount.options.split(',').any(|option| option == name)
    };
    if let Some(mount) = mounts.iter().find(offers_v1) {
        let parent = own_directory(mount, own.get(name));
        return if writable(&parent) {
            Ok((Version::V1, parent))
        } else {
            Err(format!("{} is not writable by this user", parent.display()))
        };
    }
    let Some(mount) = mounts.iter().find(|mount| mount.version == Version::V2) else {
        return Err("no cgroup file system is mounted".to_owned());
    };
    let start = own_directory(mount, own.get(""));
    find_v2(controller, mount, &start).map(|parent| (Version::V2, parent))
}

/// Climbs from this process's own group to one that may have children with controllers: writable,
/// offering the controller, and without processes of its own (or the root, which may have both).
fn find_v2(controller: Controller, mount: &Mount, start: &Path) -> Result<PathBuf, String> {
    // Processor time is measured in every v2 group, with or without the `cpu` controller.
    let name = if controller == Controller::Cpuacct { "" } else { controller.name() };
    let offered = |directory: &Path| {
        let offered = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
        name.is_empty() || offered.split_whitespace().any(|one| one == name)
    };
    let mut reason = format!("the {} controller is not enabled", controller.name());
    for directory in start.ancestors().take_while(|ancestor| ancestor.starts_with(&mount.point)) {
        if !writable(directory) {
            reason = format!("{} is not delegated to this user", directory.display());
            break;
        }
        let is_root = !directory.join("cgroup.type").exists();
        let lone = || holds_only(&directory.join("cgroup.procs"), &[std::process::id()]);
        if offered(directory) && (is_root || is_empty(&directory.join("cgroup.procs")) || lone()) {
            return Ok(directory.to_owned());
        }
    }
    Err(reason)
}

/// Whether a group holds nobody but these processes, which then can be moved aside.
fn holds_only(procs: &Path, own: &[u32]) -> bool {
    fs::read_to_string(procs)
        .is_ok_and(|text| text.lines().all(|pid| pid.parse().is_ok_and(|pid| own.contains(&pid))))
}

fn is_empty(procs: &Path) -> bool {
    fs::read_to_string(procs).is_ok_and(|text| text.trim().is_empty())
}

/// The directory of this process's own group below a mount, or the mount itself if it is not seen.
fn own_directory(mount: &Mount, own: Option<&PathBuf>) -> PathBuf {
    own.and_then(|path| path.strip_prefix(&mount.root).ok())
        .map(|path| mount.point.join(path))
        .filter(|path| path.is_dir())
        .unwrap_or_else(|| mount.point.clone())
}

fn writable(directory: &Path) -> bool {
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXISTS;
    rustix::fs::access(directory, access).is_ok()
        && rustix::fs::access(directory.join("cgroup.procs"), access).is_ok()
}

/// The child group in which the zone's own processes sit.
pub(super) const ZONE_GROUP: &str = "zone";

/// Makes the zone's group at each place and gives it to `owner`. Returns the hierarchies opened.
pub(crate) fn prepare(
    places: &[Place],
    name: &str,
    owner: Option<u32>,
) -> io::Result<Vec<Hierarchy>> {
    places.iter().map(|place| prepare_one(place, name, owner)).collect()
}

fn prepare_one(place: &Place, name: &str, owner: Option<u32>) -> io::Result<Hierarchy> {
    if place.version == Version::V2 {
        enable_v2(place)?;
    }
    let directory = place.parent.join(name);
    let zone = directory.join(ZONE_GROUP);
    fs::create_dir_all(&directory)?;
    if place.version == Version::V2 {
        let wanted: Vec<String> = switches(place);
        fs::write(directory.join("cgroup.subtree_control"), wanted.join(" "))?;
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

fn switches(place: &Place) -> Vec<String> {
    let limiting = |controller: &&Controller| **controller != Controller::Cpuacct;
    place.controllers.iter().filter(limiting).map(|one| format!("+{}", one.name())).collect()
}

/// Turns the controllers on for the children of `place`; moves ourselves aside if we are in the way.
fn enable_v2(place: &Place) -> io::Result<()> {
    // The launcher does this, whose parent is the engine that surveyed the group.
    let own = [std::process::id(), std::os::unix::process::parent_id()];
    let control = place.parent.join("cgroup.subtree_control");
    let wanted = switches(place).join(" ");
    let Err(error) = fs::write(&control, &wanted) else {
        return Ok(());
    };
    if error.raw_os_error() != Some(libc::EBUSY)
        || !holds_only(&place.parent.join("cgroup.procs"), &own)
    {
        return Err(error);
    }
    let aside = place.parent.join("silica-host");
    fs::create_dir_all(&aside)?;
    for pid in fs::read_to_string(place.parent.join("cgroup.procs"))?.lines() {
        fs::write(aside.join("cgroup.procs"), pid)?;
    }
    fs::write(&control, &wanted)
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
pub(crate) fn place_zone(places: &[Place], name: &str, pid: i32) -> io::Result<()> {
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
