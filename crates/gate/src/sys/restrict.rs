//! Calls that restrict this process: ids, limits, capabilities, seccomp and Landlock.

use super::{EINVAL, Errno, O_DIRECTORY, O_PATH, PrctlOption, ValueCall, call, close, open, value};

const SYS_CAPSET: usize = 126;
const SYS_PRLIMIT64: usize = 302;
const SYS_SECCOMP: usize = 317;
const SYS_LANDLOCK_CREATE_RULESET: usize = 444;
const SYS_LANDLOCK_ADD_RULE: usize = 445;

/// Takes one user and group id, real, effective and saved. The group first: without the old user id
/// it could not be changed any more.
pub(crate) fn set_ids(uid: u32, gid: u32) -> Result<(), Errno> {
    ValueCall::Setresgid { gid }.make()?;
    ValueCall::Setresuid { uid }.make().map(drop)
}

fn prctl(option: PrctlOption, second: u32, third: u32) -> Result<(), Errno> {
    ValueCall::Prctl { option, second, third }.make().map(drop)
}

/// Sets whether other processes of the same user may look into this one, and own its files in
/// /proc.
pub(crate) fn set_dumpable(dumpable: bool) -> Result<(), Errno> {
    prctl(PrctlOption::SetDumpable, u32::from(dumpable), 0)
}

/// Drops one capability from the bounding set; `EINVAL` beyond the kernel's last one.
pub(crate) fn drop_bounding_capability(capability: u32) -> Result<(), Errno> {
    prctl(PrctlOption::CapbsetDrop, capability, 0)
}

pub(crate) fn clear_ambient_capabilities() -> Result<(), Errno> {
    const PR_CAP_AMBIENT_CLEAR_ALL: u32 = 4;
    prctl(PrctlOption::CapAmbient, PR_CAP_AMBIENT_CLEAR_ALL, 0)
}

/// Sets and locks the securebits that keep user id 0 and `exec` from giving capabilities.
pub(crate) fn lock_securebits() -> Result<(), Errno> {
    /// `NOROOT`, `NO_SETUID_FIXUP`, `NO_CAP_AMBIENT_RAISE` and the lock of each; capabilities(7).
    const SECUREBITS_LOCKED: u32 = 0b1100_1111;
    prctl(PrctlOption::SetSecurebits, SECUREBITS_LOCKED, 0)
}

/// Sets `no_new_privs`, without which an unprivileged process may load neither filter nor domain.
pub(crate) fn set_no_new_privileges() -> Result<(), Errno> {
    prctl(PrctlOption::SetNoNewPrivs, 1, 0)
}

/// Sets the soft and the hard limit of a resource.
pub(crate) fn set_rlimit(resource: u32, soft: u64, hard: u64) -> Result<(), Errno> {
    let limit = [soft, hard];
    // SAFETY: `limit` is live and has the layout of `struct rlimit64`; the pointer for the old
    // limit is null.
    unsafe {
        call(SYS_PRLIMIT64, [0, resource as usize, limit.as_ptr().expose_provenance(), 0, 0, 0])
    }
    .map(drop)
}

/// Returns the soft and the hard limit in force.
pub(crate) fn rlimit(resource: u32) -> Result<(u64, u64), Errno> {
    let mut limit = [0_u64; 2];
    // SAFETY: `limit` has the layout of `struct rlimit64` and is held exclusively; the pointer to a
    // new limit is null.
    unsafe {
        call(
            SYS_PRLIMIT64,
            [0, resource as usize, 0, limit.as_mut_ptr().expose_provenance(), 0, 0],
        )?
    };
    Ok((limit[0], limit[1]))
}

/// Sets effective and permitted capabilities to `mask`, inheritable to none.
pub(crate) fn set_capabilities(mask: u64) -> Result<(), Errno> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let low = mask as u32;
    let high = (mask >> 32) as u32;
    // Effective, permitted and inheritable: the low words of the three sets, then the high words.
    let data = [low, low, 0, high, high, 0];
    // SAFETY: `header` and `data` are live and have the layouts of version 3 of capset(2); pid 0 is
    // this thread.
    unsafe {
        call(
            SYS_CAPSET,
            [header.as_ptr().expose_provenance(), data.as_ptr().expose_provenance(), 0, 0, 0, 0],
        )
    }
    .map(drop)
}

/// One BPF instruction, `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Jump offset when the test holds.
    pub jump_true: u8,
    /// Jump offset when it does not.
    pub jump_false: u8,
    /// Operand.
    pub operand: u32,
}

/// Adds a seccomp filter. Filters cannot be removed, and the strictest answer of all wins.
pub(crate) fn load_filter(program: &[Instruction]) -> Result<(), Errno> {
    #[repr(C)]
    struct Program {
        length: u16,
        instructions: *const Instruction,
    }
    const SET_MODE_FILTER: usize = 1;
    let length = u16::try_from(program.len()).map_err(|_| EINVAL)?;
    let header = Program { length, instructions: program.as_ptr() };
    // SAFETY: `header` has the layout of `struct sock_fprog` and describes exactly the live slice
    // `program`, which the kernel copies.
    unsafe {
        call(
            SYS_SECCOMP,
            [SET_MODE_FILTER, 0, core::ptr::from_ref(&header).expose_provenance(), 0, 0, 0],
        )
    }
    .map(drop)
}

/// Puts the process into a Landlock domain that denies making device nodes. As for every restricted
/// process, Landlock also denies all changes of mounts and tracing of processes outside the domain.
/// `version` is the kernel's Landlock version. The domain holds for the root that the process has
/// when it calls this.
pub(crate) fn landlock(version: u32) -> Result<(), Errno> {
    const MAKE_CHAR: u64 = 1 << 6;
    const MAKE_BLOCK: u64 = 1 << 11;
    const REFER: u64 = 1 << 13;
    const REFER_VERSION: u32 = 2;
    let moving = if version >= REFER_VERSION { REFER } else { 0 };
    let attributes = [MAKE_CHAR | MAKE_BLOCK | moving];
    // SAFETY: `attributes` is live and is the first field of `struct landlock_ruleset_attr`,
    // `handled_access_fs`; the size says that only this field is given.
    let ruleset = unsafe {
        call(SYS_LANDLOCK_CREATE_RULESET, [attributes.as_ptr().expose_provenance(), 8, 0, 0, 0, 0])
    }? as i32;
    let restricted = allow_below_root(ruleset, moving)
        .and_then(|()| ValueCall::LandlockRestrictSelf { ruleset }.make());
    close(ruleset);
    restricted.map(drop)
}

/// Allows `access` everywhere below the root. Moving and linking files from one directory to
/// another needs this: a domain that handles any file access denies that one with EXDEV unless a
/// rule allows it; landlock(7), `LANDLOCK_ACCESS_FS_REFER`.
fn allow_below_root(ruleset: i32, access: u64) -> Result<(), Errno> {
    #[repr(C, packed)]
    struct PathBeneath {
        allowed_access: u64,
        parent: i32,
    }
    const PATH_BENEATH: usize = 1;
    if access == 0 {
        return Ok(());
    }
    let root = open(c"/", O_PATH | O_DIRECTORY)?;
    let rule = PathBeneath { allowed_access: access, parent: root };
    let address = core::ptr::from_ref(&rule).expose_provenance();
    // SAFETY: `rule` is live and has the layout of `struct landlock_path_beneath_attr`, packed.
    let added =
        unsafe { call(SYS_LANDLOCK_ADD_RULE, [value(ruleset), PATH_BENEATH, address, 0, 0, 0]) };
    close(root);
    added.map(drop)
}
