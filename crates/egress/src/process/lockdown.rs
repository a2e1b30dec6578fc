//! Takes from the process what it does not need: core dumps, tracing, writing files, programs.

use std::io;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    path_beneath_rules,
};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{DumpableBehavior, Resource, Rlimit};

/// What the host's resolver reads: its settings, its libraries, the answers of local services.
const READABLE: [&str; 9] = [
    "/etc",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/var/run/nscd",
    "/proc/self/net",
];

/// Applies all of it. It must be called before the process has a second thread.
pub(super) fn apply() -> io::Result<()> {
    // Neither another process of this user nor a core file shows secrets.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    rustix::thread::set_no_new_privs(true)?;
    keep_out_of_swap();
    raise_open_files();
    restrict_files().map_err(io::Error::other)?;
    drop_capabilities()
}

/// Keeps secrets out of swap, if this user may lock any amount of memory. With a limit, a later
/// allocation would fail.
fn keep_out_of_swap() {
    let unlimited = Rlimit { current: None, maximum: None };
    if rustix::process::setrlimit(Resource::Memlock, unlimited).is_ok() {
        let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
        // Without it the operator's choice of swap holds.
        let _ = mlockall(flags);
    }
}

/// Sandboxes have a dozen descriptors each; the soft limit is often 1024.
fn raise_open_files() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // If it fails, fewer sandboxes fit, and each refusal says so.
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
}

/// Leaves only reading of `READABLE`. On a kernel without Landlock nothing is restricted, as the
/// file rights of the user still hold.
fn restrict_files() -> Result<(), landlock::RulesetError> {
    let all = AccessFs::from_all(ABI::V5);
    let read = AccessFs::from_read(ABI::V5);
    let readable = READABLE.into_iter().filter(|path| std::path::Path::new(path).exists());
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .create()?
        .add_rules(path_beneath_rules(readable, read & !AccessFs::Execute))?
        .restrict_self()
        .map(drop)
}

/// Gives up every capability for good. An open socket needs none.
fn drop_capabilities() -> io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets};
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, none)?)
}
