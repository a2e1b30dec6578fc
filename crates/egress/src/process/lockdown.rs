//! Takes from the process what it does not need: core dumps, tracing, writing files, programs.

use std::io;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    path_beneath_rules,
};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

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
    drop_capabilities()?;
    refuse_calls().map_err(io::Error::other)
}

/// System calls by which a process that went wrong would become more than it is. A list of what is
/// refused, not of what is allowed: the host's resolver loads modules that make calls of their own.
const REFUSED_CALLS: [i64; 34] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_open_by_handle_at,
    libc::SYS_memfd_create,
    libc::SYS_reboot,
];

/// Refuses calls for good, with an error that a library copes with.
fn refuse_calls() -> Result<(), seccompiler::Error> {
    let rules = REFUSED_CALLS.into_iter().map(|call| (call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, TargetArch::x86_64)?;
    let program: BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&program)
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
