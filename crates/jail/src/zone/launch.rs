//! Starting a zone: the last code that runs with the rights of the user who starts Silica.
//!
//! Tests: `tests/it/jail/leftovers.rs`, `tests/it/jail/ordinary_user.rs`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal};

use crate::cgroup::{Groups, host};
use crate::protocol::{self, PACKET_BYTES_MAX, ZoneConfig, ZoneFacts, ZoneFailure, ZoneMessage};
use crate::sys::{self, Forked};
use crate::zone::layout::{self, HostTree};
use crate::zone::master;

/// How many user and group ids a privileged zone maps.
const ZONE_IDS: u32 = 65_536;

const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS) as u64;

/// The main function of the zone process, whose standard input is the engine's socket. Returns the
/// exit status.
pub fn run() -> i32 {
    let Ok(engine) = sys::take_stdin() else {
        return 1;
    };
    match start(&engine) {
        Ok(status) => status,
        Err(failure) => {
            // If this cannot be sent, the engine has gone.
            let _ = protocol::send(&engine, &ZoneMessage::Failed(failure), &[]);
            1
        }
    }
}

fn fail(step: &'static str) -> impl Fn(io::Error) -> ZoneFailure {
    move |error| ZoneFailure::new(step, &error)
}

fn start(engine: &OwnedFd) -> Result<i32, ZoneFailure> {
    let mut packet = vec![0; PACKET_BYTES_MAX];
    let (length, _) = protocol::receive(engine, &mut packet)
        .map_err(fail("zone-config"))?
        .ok_or_else(|| ZoneFailure::because("zone-config", "the engine closed its socket"))?;
    let config: ZoneConfig = protocol::parse(&packet[..length]).map_err(fail("zone-config"))?;
    // When the engine dies, this process must die too, although it only waits for the master.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| fail("zone-start")(errno.into()))?;
    raise_file_limit();
    let hierarchies = host::prepare(&config.cgroups, &config.name, config.id_base)
        .inspect_err(|_| clear_groups(&config))
        .map_err(fail("zone-groups"))?;
    // Without it a move between groups only takes longer.
    let _cheap_moves = host::favour_moves().ok();
    let (ours, theirs) = protocol::pair().map_err(fail("zone-start"))?;
    match sys::fork_into(NAMESPACES).map_err(fail("zone-fork"))? {
        Forked::Child => {
            drop(ours);
            let groups = Groups { hierarchies };
            sys::exit_now(become_master(engine, &theirs, &config, groups));
        }
        Forked::Parent { pid, .. } => {
            drop((theirs, hierarchies));
            let status = supervise(pid, &ours, &config);
            clear_groups(&config);
            status
        }
    }
}

/// Raises the limit of open files to its maximum. Descriptors that were sent and not yet received
/// count against it, and the engine may request many enclosures at once.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // On a failure fewer enclosures can be made at once.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Writes the master's id maps and moves it into its group, lets it start, and waits for its end.
fn supervise(pid: Pid, master: &OwnedFd, config: &ZoneConfig) -> Result<i32, ZoneFailure> {
    write_maps(pid, config.id_base).map_err(fail("zone-ids"))?;
    host::place_zone(&config.cgroups, &config.name, pid.as_raw_nonzero().get())
        .map_err(fail("zone-groups"))?;
    // The master waits for this byte: only now has it ids and a group.
    rustix::io::write(master, b"g").map_err(|errno| fail("zone-start")(errno.into()))?;
    loop {
        match rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status.exit_status().unwrap_or(1)),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(fail("zone-wait")(errno.into())),
        }
    }
}

/// Writes the id maps of a process: a range of host ids from `base`, or only the caller's own id,
/// as 0.
fn write_maps(pid: Pid, base: Option<u32>) -> io::Result<()> {
    let file = |name: &str| format!("/proc/{}/{name}", pid.as_raw_nonzero());
    let line = |own: u32| match base {
        Some(base) => format!("0 {base} {ZONE_IDS}"),
        None => format!("0 {own} 1"),
    };
    if base.is_none() {
        // An unprivileged process may write a group map only after this; user_namespaces(7).
        std::fs::write(file("setgroups"), "deny")?;
    }
    std::fs::write(file("uid_map"), line(rustix::process::geteuid().as_raw()))?;
    std::fs::write(file("gid_map"), line(rustix::process::getegid().as_raw()))
}

fn clear_groups(config: &ZoneConfig) {
    for place in &config.cgroups {
        // What cannot be removed is removed by the next start.
        let _ = host::clear(&place.parent.join(&config.name));
        // On a failure the engine stays one level below its own group, which does no harm.
        let _ = host::move_back(place);
    }
}

/// In the child: becomes the zone's root user in the zone's own file tree, then serves.
fn become_master(engine: &OwnedFd, launcher: &OwnedFd, config: &ZoneConfig, groups: Groups) -> i32 {
    match set_up(launcher, config, groups.limits_swap()) {
        Ok(facts) => master::serve(engine, groups, facts),
        Err(failure) => {
            // If this cannot be sent, the engine has gone.
            let _ = protocol::send(engine, &ZoneMessage::Failed(failure), &[]);
            1
        }
    }
}

fn set_up(
    launcher: &OwnedFd,
    config: &ZoneConfig,
    swap_limited: bool,
) -> Result<ZoneFacts, ZoneFailure> {
    let io_fail = |step: &'static str| move |errno: rustix::io::Errno| fail(step)(errno.into());
    let mut go = [0; 1];
    if rustix::io::read(launcher, &mut go).map_err(io_fail("zone-ids"))? != 1 {
        return Err(ZoneFailure::because("zone-ids", "the launcher process ended"));
    }
    sys::set_ids(0, 0).map_err(fail("zone-ids"))?;
    if config.id_base.is_some() {
        sys::drop_groups().map_err(fail("zone-ids"))?;
    }
    // A change of ids makes a process undumpable, and its children too. Their files in /proc, to
    // which the id maps of enclosures are written, would then belong to another user; proc(5).
    sys::make_dumpable().map_err(fail("zone-ids"))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(io_fail("zone-start"))?;
    // If the launcher died before that call, there is no signal.
    if hung_up(launcher).map_err(io_fail("zone-start"))? {
        return Err(ZoneFailure::because("zone-start", "the launcher process ended"));
    }
    let host_tree = if config.id_base.is_some() { HostTree::Drop } else { HostTree::Keep };
    layout::build(host_tree).map_err(fail("zone-root"))?;
    Ok(ZoneFacts {
        unique_ids: config.id_base.is_some(),
        cgroups: config.cgroups.clone(),
        swap_limited,
        landlock: sys::landlock_version(),
    })
}

/// Whether the other end of a socket is closed.
fn hung_up(socket: &OwnedFd) -> rustix::io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut watched = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(watched[0].revents().intersects(PollFlags::HUP))
}
