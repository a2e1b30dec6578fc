//! Starting a zone: the last code that runs with whatever rights the user has.
//! Tests: `tests/it/jail/leftovers.rs`, `tests/it/jail/ordinary_user.rs`.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal};

use crate::cgroup::{Groups, host};
use crate::protocol::{self, Message, PACKET_BYTES_MAX, ZoneConfig, ZoneFacts, ZoneFailure};
use crate::sys::{self, Forked};
use crate::zone::{layout, master};

/// How many ids a privileged zone maps.
const ZONE_IDS: u32 = 65_536;

const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS) as u64;

/// The whole program `zone`: standard input is the engine's socket. Returns the exit status.
pub fn run() -> i32 {
    let Ok(engine) = sys::take_stdin() else {
        return 1;
    };
    match start(&engine) {
        Ok(status) => status,
        Err(failure) => {
            // If the engine has gone there is nobody to tell.
            let _ = protocol::send(&engine, &Message::Failed(failure), &[]);
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
        .ok_or_else(|| ZoneFailure::because("zone-config", "the engine has gone"))?;
    let config: ZoneConfig = protocol::parse(&packet[..length]).map_err(fail("zone-config"))?;
    // The engine's death must end this process even while it waits.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| fail("zone-start")(errno.into()))?;
    raise_file_limit();
    let hierarchies = host::prepare(&config.cgroups, &config.name, config.id_base)
        .inspect_err(|_| clear_groups(&config))
        .map_err(fail("zone-groups"))?;
    // A slower move between groups is no reason to fail.
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

/// Descriptors in flight count against this limit, and the engine may ask for many enclosures at once.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Only lowers how many enclosures can be made at once.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Writes the master's id maps, lets it go, and waits for its end.
fn supervise(pid: Pid, master: &OwnedFd, config: &ZoneConfig) -> Result<i32, ZoneFailure> {
    write_maps(pid, config.id_base).map_err(fail("zone-ids"))?;
    host::place_zone(&config.cgroups, &config.name, pid.as_raw_nonzero().get())
        .map_err(fail("zone-groups"))?;
    rustix::io::write(master, b"g").map_err(|errno| fail("zone-start")(errno.into()))?;
    loop {
        match rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status.exit_status().unwrap_or(1)),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(fail("zone-wait")(errno.into())),
        }
    }
}

/// Writes the id maps of a process: from 0 a whole range, or only the caller's own id as 0.
fn write_maps(pid: Pid, base: Option<u32>) -> io::Result<()> {
    let file = |name: &str| format!("/proc/{}/{name}", pid.as_raw_nonzero());
    let line = |own: u32| match base {
        Some(base) => format!("0 {base} {ZONE_IDS}"),
        None => format!("0 {own} 1"),
    };
    if base.is_none() {
        std::fs::write(file("setgroups"), "deny")?;
    }
    std::fs::write(file("uid_map"), line(rustix::process::geteuid().as_raw()))?;
    std::fs::write(file("gid_map"), line(rustix::process::getegid().as_raw()))
}

fn clear_groups(config: &ZoneConfig) {
    for place in &config.cgroups {
        // What stays behind is cleared by the next start.
        let _ = host::clear(&place.parent.join(&config.name));
        // The engine is where its starter put it, or one level below: no harm either way.
        let _ = host::move_back(place);
    }
}

/// The child's side: becomes the zone's root user in the zone's own root, then serves.
fn become_master(engine: &OwnedFd, launcher: &OwnedFd, config: &ZoneConfig, groups: Groups) -> i32 {
    match settle(launcher, config, groups.limits_swap()) {
        Ok(facts) => master::serve(engine, groups, facts),
        Err(failure) => {
            // If the engine has gone there is nobody to tell.
            let _ = protocol::send(engine, &Message::Failed(failure), &[]);
            1
        }
    }
}

fn settle(
    launcher: &OwnedFd,
    config: &ZoneConfig,
    swap_limited: bool,
) -> Result<ZoneFacts, ZoneFailure> {
    let io_fail = |step: &'static str| move |errno: rustix::io::Errno| fail(step)(errno.into());
    let mut go = [0; 1];
    if rustix::io::read(launcher, &mut go).map_err(io_fail("zone-ids"))? != 1 {
        return Err(ZoneFailure::because("zone-ids", "the launcher has gone"));
    }
    sys::set_ids(0, 0).map_err(fail("zone-ids"))?;
    if config.id_base.is_some() {
        sys::drop_groups().map_err(fail("zone-ids"))?;
    }
    // Enclosures' id maps are written through /proc, which must be this user's.
    sys::set_dumpable(true).map_err(fail("zone-ids"))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(io_fail("zone-start"))?;
    // A launcher that died before that line sends no signal any more.
    if hung_up(launcher).map_err(io_fail("zone-start"))? {
        return Err(ZoneFailure::because("zone-start", "the launcher has gone"));
    }
    layout::build(config.id_base.is_none()).map_err(fail("zone-root"))?;
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
