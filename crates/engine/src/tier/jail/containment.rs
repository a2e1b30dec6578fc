//! The containment report of a zone, from what the zone probed and enforces. It must never claim
//! more than that.
//!
//! Tests: `tests/it/jail/containment.rs`, `tests/it/jail/ordinary_user.rs`.

use silica_domain::{Containment, Enforcement, Measure, Tier};
use silica_jail::cgroup::{Controller, Version};
use silica_jail::protocol::ZoneFacts;
use silica_jail::seccomp::{CallAction, CallRule, RULES};

/// Returns the report for every sandbox of a zone.
pub(crate) fn report(facts: &ZoneFacts) -> Containment {
    let measures = [
        ("namespaces", full("user, mount, pid, net, ipc, uts, cgroup")),
        ("user_id", user_id(facts)),
        ("root", full("read-only overlay of its own")),
        ("network", full("loopback only")),
        ("capabilities", full("none, and none can be gained")),
        ("seccomp", seccomp()),
        ("landlock", landlock(facts)),
        ("nested_namespaces", full("off")),
        ("memory", memory(facts)),
        ("processes", by_group(facts, Controller::Pids, own_process_count)),
        ("cpu_share", by_group(facts, Controller::Cpu, no_group)),
        ("cpu_time", by_group(facts, Controller::Cpuacct, || per_process("RLIMIT_CPU"))),
        ("disk", full("tmpfs of bounded size and inodes")),
    ];
    let measure = |(name, enforcement)| Measure { name, enforcement };
    Containment { tier: Tier::Jail, measures: measures.into_iter().map(measure).collect() }
}

fn full(text: &str) -> Enforcement {
    Enforcement::Full(text.to_owned())
}

fn user_id(facts: &ZoneFacts) -> Enforcement {
    if facts.unique_ids {
        return full("a host user id of its own");
    }
    Enforcement::Partial("shares the host user id of Silica itself".to_owned())
}

fn seccomp() -> Enforcement {
    // Calls that answer ENOSYS are on the list only to be refused in that way.
    let allowed = |rule: &&CallRule| rule.action != CallAction::NoSuchCall;
    let calls: usize = RULES.iter().filter(allowed).map(|rule| rule.calls.len()).sum();
    Enforcement::Full(format!("allow-list of {calls} calls, everything else refused"))
}

fn landlock(facts: &ZoneFacts) -> Enforcement {
    match facts.landlock {
        0 => Enforcement::Missing("the kernel has no Landlock".to_owned()),
        version => Enforcement::Full(format!("version {version}")),
    }
}

fn memory(facts: &ZoneFacts) -> Enforcement {
    match by_group(facts, Controller::Memory, || per_process("RLIMIT_DATA")) {
        // Pages in swap are outside the limit then, so a guest may hold more than it was given.
        Enforcement::Full(by) if !facts.swap_limited => {
            Enforcement::Partial(format!("{by}, but the kernel does not account for swap"))
        }
        other => other,
    }
}

/// Returns the enforcement by a cgroup where one has the controller, else `otherwise`.
fn by_group(
    facts: &ZoneFacts,
    controller: Controller,
    otherwise: impl FnOnce() -> Enforcement,
) -> Enforcement {
    let has =
        |place: &&silica_jail::cgroup::host::CgroupParent| place.controllers.contains(&controller);
    match facts.cgroups.iter().find(has).map(|place| place.version) {
        Some(Version::V1) => full("cgroup v1"),
        Some(Version::V2) => full("cgroup v2"),
        None => otherwise(),
    }
}

fn per_process(limit: &str) -> Enforcement {
    Enforcement::Partial(format!("per process, by {limit}: no cgroup to use"))
}

fn own_process_count() -> Enforcement {
    full("RLIMIT_NPROC in its own user namespace")
}

fn no_group() -> Enforcement {
    Enforcement::Missing("no cgroup to use: neither limited nor shared by key".to_owned())
}
