//! Raw x86-64 system calls, one small wrapper each. No errno, no libc, no cancellation points.

use core::arch::asm;

/// An error number as the kernel returned it, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

pub(crate) const EINTR: Errno = Errno(4);
pub(crate) const EAGAIN: Errno = Errno(11);
pub(crate) const EIO: Errno = Errno(5);
pub(crate) const EPERM: Errno = Errno(1);
pub(crate) const EINVAL: Errno = Errno(22);
pub(crate) const EPIPE: Errno = Errno(32);

const SYS_READ: usize = 0;
const SYS_WRITE: usize = 1;
const SYS_CLOSE: usize = 3;
const SYS_POLL: usize = 7;
const SYS_MMAP: usize = 9;
const SYS_MPROTECT: usize = 10;
const SYS_MUNMAP: usize = 11;
const SYS_RT_SIGPROCMASK: usize = 14;
const SYS_PWRITE64: usize = 18;
const SYS_MREMAP: usize = 25;
const SYS_MADVISE: usize = 28;
const SYS_SENDTO: usize = 44;
const SYS_RECVMSG: usize = 47;
const SYS_WAIT4: usize = 61;
const SYS_FCNTL: usize = 72;
const SYS_FTRUNCATE: usize = 77;
const SYS_CHDIR: usize = 80;
const SYS_UMASK: usize = 95;
const SYS_SETSID: usize = 112;
const SYS_SETRESUID: usize = 117;
const SYS_SETRESGID: usize = 119;
const SYS_CAPSET: usize = 126;
const SYS_STATFS: usize = 137;
const SYS_PRCTL: usize = 157;
const SYS_GETDENTS64: usize = 217;
const SYS_EXIT_GROUP: usize = 231;
const SYS_OPENAT: usize = 257;
const SYS_NEWFSTATAT: usize = 262;
const SYS_DUP3: usize = 292;
const SYS_SIGNALFD4: usize = 289;
const SYS_PRLIMIT64: usize = 302;
const SYS_SETNS: usize = 308;
const SYS_SECCOMP: usize = 317;
const SYS_GETRANDOM: usize = 318;
const SYS_MEMFD_CREATE: usize = 319;
const SYS_CLOSE_RANGE: usize = 436;
const SYS_LANDLOCK_CREATE_RULESET: usize = 444;
const SYS_LANDLOCK_ADD_RULE: usize = 445;
const SYS_LANDLOCK_RESTRICT_SELF: usize = 446;

pub(crate) const AT_FDCWD: i32 = -100;
pub(crate) const O_RDONLY: i32 = 0;
pub(crate) const O_WRONLY: i32 = 1;
pub(crate) const O_DIRECTORY: i32 = 0o200_000;
const O_PATH: i32 = 0o10_000_000;
pub(crate) const O_CLOEXEC: i32 = 0o2_000_000;

/// Makes one system call.
///
/// # Safety
/// The arguments must be what the call with this number expects; pointers among them must be valid
/// for what the kernel reads or writes through them.
unsafe fn call(number: usize, args: [usize; 6]) -> Result<usize, Errno> {
    let result: isize;
    // SAFETY: the x86-64 Linux convention: number in rax, arguments in rdi rsi rdx r10 r8 r9, result
    // in rax, rcx and r11 clobbered. The caller vouches for the arguments.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number.cast_signed() => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    if result < 0 { Err(Errno((-result) as i32)) } else { Ok(result.cast_unsigned()) }
}

/// Makes a call whose arguments are plain numbers, so that it cannot touch this process's memory.
fn numbers(number: usize, args: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: every use below passes numbers only, never an address.
    unsafe { call(number, args) }
}

fn fd(value: i32) -> usize {
    value.cast_unsigned() as usize
}

pub(crate) fn exit_group(status: i32) -> ! {
    loop {
        let _ = numbers(SYS_EXIT_GROUP, [fd(status), 0, 0, 0, 0, 0]);
    }
}

const PROT_NONE: usize = 0;
const PROT_READ_WRITE: usize = 3;

/// Maps memory of this process alone, wherever the kernel likes.
fn map_with(size: usize, protection: usize, flags: usize) -> Result<usize, Errno> {
    const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
    let flags = MAP_PRIVATE_ANONYMOUS | flags;
    // Without an address to put it at, this touches nothing that is mapped already.
    numbers(SYS_MMAP, [0, size, protection, flags, usize::MAX, 0])
}

/// Zeros.
pub(crate) fn map(size: usize) -> Result<usize, Errno> {
    map_with(size, PROT_READ_WRITE, 0)
}

/// Addresses that nothing else is put at, and no memory.
pub(crate) fn reserve(size: usize) -> Result<usize, Errno> {
    const MAP_NORESERVE: usize = 0x4000;
    map_with(size, PROT_NONE, MAP_NORESERVE)
}

/// Turns reserved addresses into memory. That takes nothing away from anybody.
pub(crate) fn make_writable(address: usize, size: usize) -> Result<(), Errno> {
    numbers(SYS_MPROTECT, [address, size, PROT_READ_WRITE, 0, 0, 0]).map(drop)
}

/// Gives memory back and keeps the addresses.
///
/// # Safety
/// Nothing may expect to find there what it wrote.
pub(crate) unsafe fn discard(address: usize, size: usize) -> Result<(), Errno> {
    const MADV_DONTNEED: usize = 4;
    // SAFETY: the caller vouches for it.
    unsafe { call(SYS_MADVISE, [address, size, MADV_DONTNEED, 0, 0, 0]) }.map(drop)
}

/// Gives memory and addresses back.
///
/// # Safety
/// Nothing may use them any more.
pub(crate) unsafe fn unmap(address: usize, size: usize) -> Result<(), Errno> {
    // SAFETY: the caller vouches for it.
    unsafe { call(SYS_MUNMAP, [address, size, 0, 0, 0, 0]) }.map(drop)
}

/// A new file that exists in memory only.
pub(crate) fn memory_file(name: &core::ffi::CStr) -> Result<i32, Errno> {
    const MFD_CLOEXEC_ALLOW_SEALING: usize = 3;
    let name = name.as_ptr().expose_provenance();
    // SAFETY: `name` is a live NUL-terminated string.
    let opened = unsafe { call(SYS_MEMFD_CREATE, [name, MFD_CLOEXEC_ALLOW_SEALING, 0, 0, 0, 0]) };
    opened.map(|number| number as i32)
}

pub(crate) fn set_length(file: i32, length: usize) -> Result<(), Errno> {
    numbers(SYS_FTRUNCATE, [fd(file), length, 0, 0, 0, 0]).map(drop)
}

/// Puts an end to all changes of a file in memory.
pub(crate) fn seal(file: i32) -> Result<(), Errno> {
    const F_ADD_SEALS: usize = 1033;
    const SEAL_SHRINK_GROW_WRITE: usize = 1 | 2 | 4 | 8;
    numbers(SYS_FCNTL, [fd(file), F_ADD_SEALS, SEAL_SHRINK_GROW_WRITE, 0, 0, 0]).map(drop)
}

/// Maps a part of a file for this process alone, wherever the kernel likes: to write, or to execute.
pub(crate) fn map_file(
    file: i32,
    offset: usize,
    length: usize,
    writable: bool,
) -> Result<usize, Errno> {
    const MAP_PRIVATE: usize = 2;
    const PROT_READ_EXECUTE: usize = 5;
    let protection = if writable { PROT_READ_WRITE } else { PROT_READ_EXECUTE };
    // Without an address to put it at, this touches nothing that is mapped already.
    numbers(SYS_MMAP, [0, length, protection, MAP_PRIVATE, fd(file), offset])
}

/// Moves a mapping to an address, in place of what is there, in one step.
///
/// # Safety
/// Whoever uses what is there must find the same in what comes.
pub(crate) unsafe fn move_mapping(from: usize, length: usize, to: usize) -> Result<(), Errno> {
    const MREMAP_MAYMOVE_FIXED: usize = 3;
    // SAFETY: the caller vouches for it.
    unsafe { call(SYS_MREMAP, [from, length, length, MREMAP_MAYMOVE_FIXED, to, 0]) }.map(drop)
}

/// Writes memory into a file; returns how much of it.
///
/// # Safety
/// Nobody may write to that memory meanwhile.
pub(crate) unsafe fn write_at(
    file: i32,
    address: usize,
    length: usize,
    offset: usize,
) -> Result<usize, Errno> {
    // SAFETY: the kernel only reads there, and refuses what is not mapped.
    unsafe { call(SYS_PWRITE64, [fd(file), address, length, offset, 0, 0]) }
}

pub(crate) fn read(from: i32, into: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most `into.len()` bytes at a buffer we hold exclusively.
    unsafe {
        call(SYS_READ, [fd(from), into.as_mut_ptr().expose_provenance(), into.len(), 0, 0, 0])
    }
}

/// Writes up to `length` random bytes at `address`.
///
/// # Safety
/// The bytes there must be nobody else's, and any bytes must do.
pub(crate) unsafe fn random(address: usize, length: usize) -> Result<usize, Errno> {
    // SAFETY: the caller vouches for the bytes; the kernel refuses what is not mapped.
    unsafe { call(SYS_GETRANDOM, [address, length, 0, 0, 0, 0]) }
}

pub(crate) fn write(to: i32, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel reads `bytes.len()` bytes of a live slice.
    unsafe { call(SYS_WRITE, [fd(to), bytes.as_ptr().expose_provenance(), bytes.len(), 0, 0, 0]) }
}

/// Sends without raising SIGPIPE when the other side has gone.
pub(crate) fn send(to: i32, bytes: &[u8]) -> Result<usize, Errno> {
    const MSG_NOSIGNAL: usize = 0x4000;
    // SAFETY: the kernel reads `bytes.len()` bytes of a live slice; no address is given.
    unsafe {
        call(
            SYS_SENDTO,
            [fd(to), bytes.as_ptr().expose_provenance(), bytes.len(), MSG_NOSIGNAL, 0, 0],
        )
    }
}

pub(crate) fn close(which: i32) {
    let _ = numbers(SYS_CLOSE, [fd(which), 0, 0, 0, 0, 0]);
}

pub(crate) fn open(path: &core::ffi::CStr, flags: i32) -> Result<i32, Errno> {
    // SAFETY: `path` is a live NUL-terminated string.
    let opened = unsafe {
        call(
            SYS_OPENAT,
            [fd(AT_FDCWD), path.as_ptr().expose_provenance(), fd(flags | O_CLOEXEC), 0, 0, 0],
        )
    };
    opened.map(|number| number as i32)
}

pub(crate) fn inode(path: &core::ffi::CStr) -> Result<u64, Errno> {
    let mut stat = [0_u64; 18];
    // SAFETY: `path` is NUL-terminated; `struct stat` is 144 bytes on x86-64, the size of `stat`.
    unsafe {
        call(
            SYS_NEWFSTATAT,
            [
                fd(AT_FDCWD),
                path.as_ptr().expose_provenance(),
                stat.as_mut_ptr().expose_provenance(),
                0,
                0,
                0,
            ],
        )?;
    }
    Ok(stat[1])
}

/// The filesystem type and mount flags of a path.
pub(crate) fn statfs(path: &core::ffi::CStr) -> Result<(u64, u64), Errno> {
    let mut statfs = [0_u64; 15];
    // SAFETY: `path` is NUL-terminated; `struct statfs` is 120 bytes on x86-64, the size of `statfs`.
    unsafe {
        call(
            SYS_STATFS,
            [
                path.as_ptr().expose_provenance(),
                statfs.as_mut_ptr().expose_provenance(),
                0,
                0,
                0,
                0,
            ],
        )?
    };
    Ok((statfs[0], statfs[10]))
}

pub(crate) fn getdents(directory: i32, into: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most `into.len()` bytes at a buffer we hold exclusively.
    unsafe {
        call(
            SYS_GETDENTS64,
            [fd(directory), into.as_mut_ptr().expose_provenance(), into.len(), 0, 0, 0],
        )
    }
}

pub(crate) fn dup3(from: i32, to: i32) -> Result<(), Errno> {
    numbers(SYS_DUP3, [fd(from), fd(to), 0, 0, 0, 0]).map(drop)
}

pub(crate) fn close_from(first: u32) -> Result<(), Errno> {
    numbers(SYS_CLOSE_RANGE, [first as usize, u32::MAX as usize, 0, 0, 0, 0]).map(drop)
}

pub(crate) fn setns(namespace: i32, kinds: usize) -> Result<(), Errno> {
    numbers(SYS_SETNS, [fd(namespace), kinds, 0, 0, 0, 0]).map(drop)
}

pub(crate) fn set_ids(uid: u32, gid: u32) -> Result<(), Errno> {
    let (uid, gid) = (uid as usize, gid as usize);
    numbers(SYS_SETRESGID, [gid, gid, gid, 0, 0, 0])?;
    numbers(SYS_SETRESUID, [uid, uid, uid, 0, 0, 0]).map(drop)
}

pub(crate) fn setsid() -> Result<(), Errno> {
    numbers(SYS_SETSID, [0; 6]).map(drop)
}

pub(crate) fn umask(mask: usize) {
    let _ = numbers(SYS_UMASK, [mask, 0, 0, 0, 0, 0]);
}

pub(crate) fn chdir(path: &core::ffi::CStr) -> Result<(), Errno> {
    // SAFETY: `path` is a live NUL-terminated string.
    unsafe { call(SYS_CHDIR, [path.as_ptr().expose_provenance(), 0, 0, 0, 0, 0]) }.map(drop)
}

pub(crate) fn prctl(option: usize, argument: usize) -> Result<usize, Errno> {
    numbers(SYS_PRCTL, [option, argument, 0, 0, 0, 0])
}

pub(crate) fn prctl3(option: usize, second: usize, third: usize) -> Result<usize, Errno> {
    numbers(SYS_PRCTL, [option, second, third, 0, 0, 0])
}

pub(crate) fn set_rlimit(resource: u32, soft: u64, hard: u64) -> Result<(), Errno> {
    let limit = [soft, hard];
    // SAFETY: `limit` has the layout of `struct rlimit64`; the old-limit pointer is null.
    unsafe {
        call(SYS_PRLIMIT64, [0, resource as usize, limit.as_ptr().expose_provenance(), 0, 0, 0])
    }
    .map(drop)
}

/// The soft and hard limit now in force.
pub(crate) fn rlimit(resource: u32) -> Result<(u64, u64), Errno> {
    let mut limit = [0_u64; 2];
    // SAFETY: `limit` has the layout of `struct rlimit64`; the new-limit pointer is null.
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
    let (low, high) = (mask as u32, (mask >> 32) as u32);
    let data = [low, low, 0, high, high, 0];
    // SAFETY: `header` and `data` have the layouts of version 3 of capset(2), for this thread.
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

pub(crate) fn load_filter(program: &[Instruction]) -> Result<(), Errno> {
    #[repr(C)]
    struct Program {
        length: u16,
        instructions: *const Instruction,
    }
    const SET_MODE_FILTER: usize = 1;
    let length = u16::try_from(program.len()).map_err(|_| EINVAL)?;
    let header = Program { length, instructions: program.as_ptr() };
    // SAFETY: `header` describes exactly the live slice `program`.
    unsafe {
        call(
            SYS_SECCOMP,
            [SET_MODE_FILTER, 0, core::ptr::from_ref(&header).expose_provenance(), 0, 0, 0],
        )
    }
    .map(drop)
}

/// Denies device nodes and, as Landlock does for every restricted task, all changes of mounts and
/// tracing of anything outside the domain. `version` is the kernel's. Holds for the root that the
/// process has when it calls this.
pub(crate) fn landlock(version: u32) -> Result<(), Errno> {
    const MAKE_CHAR: u64 = 1 << 6;
    const MAKE_BLOCK: u64 = 1 << 11;
    const REFER: u64 = 1 << 13;
    const REFER_VERSION: u32 = 2;
    let moving = if version >= REFER_VERSION { REFER } else { 0 };
    let attributes = [MAKE_CHAR | MAKE_BLOCK | moving];
    // SAFETY: the first field of `struct landlock_ruleset_attr` is `handled_access_fs`; the size
    // tells the kernel that only this field is given.
    let ruleset = unsafe {
        call(SYS_LANDLOCK_CREATE_RULESET, [attributes.as_ptr().expose_provenance(), 8, 0, 0, 0, 0])
    }? as i32;
    let restricted = allow_below_root(ruleset, moving)
        .and_then(|()| numbers(SYS_LANDLOCK_RESTRICT_SELF, [fd(ruleset), 0, 0, 0, 0, 0]));
    close(ruleset);
    restricted.map(drop)
}

/// Allows something everywhere. Of moving and linking files from one directory to another this must
/// be said: a domain about files denies it with EXDEV even if it does not speak of it.
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
        unsafe { call(SYS_LANDLOCK_ADD_RULE, [fd(ruleset), PATH_BENEATH, address, 0, 0, 0]) };
    close(root);
    added.map(drop)
}

/// Blocks exactly the signals in `mask`.
pub(crate) fn set_signal_mask(mask: u64) -> Result<(), Errno> {
    const SIG_SETMASK: usize = 2;
    let mask = [mask];
    // SAFETY: `mask` is the 8 bytes of a kernel signal set; the old-set pointer is null.
    unsafe {
        call(SYS_RT_SIGPROCMASK, [SIG_SETMASK, mask.as_ptr().expose_provenance(), 0, 8, 0, 0])
    }
    .map(drop)
}

pub(crate) fn signalfd(mask: u64) -> Result<i32, Errno> {
    const SFD_NONBLOCK_CLOEXEC: usize = 0o2_004_000;
    let mask = [mask];
    // SAFETY: `mask` is the 8 bytes of a kernel signal set.
    let opened = unsafe {
        call(
            SYS_SIGNALFD4,
            [usize::MAX, mask.as_ptr().expose_provenance(), 8, SFD_NONBLOCK_CLOEXEC, 0, 0],
        )
    };
    opened.map(|number| number as i32)
}

/// Waits until one of two descriptors can be read.
pub(crate) fn wait_readable(first: i32, second: i32) -> Result<(bool, bool), Errno> {
    const POLLIN: u32 = 1;
    let entry = |which: i32| u64::from(which.cast_unsigned()) | (u64::from(POLLIN) << 32);
    let mut entries = [entry(first), entry(second)];
    // SAFETY: `entries` has the layout of two `struct pollfd` (little endian) held exclusively.
    unsafe { call(SYS_POLL, [entries.as_mut_ptr().expose_provenance(), 2, usize::MAX, 0, 0, 0])? };
    Ok((entries[0] >> 48 != 0, entries[1] >> 48 != 0))
}

/// Reaps one ended child, if there is one: its pid and wait status.
pub(crate) fn reap() -> Option<(i32, i32)> {
    const WNOHANG: usize = 1;
    let mut status = [0_i32];
    // SAFETY: `status` is one int held exclusively; no rusage is asked for.
    let pid = unsafe {
        call(SYS_WAIT4, [usize::MAX, status.as_mut_ptr().expose_provenance(), WNOHANG, 0, 0, 0])
    };
    match pid {
        Ok(0) | Err(_) => None,
        Ok(pid) => Some((pid as i32, status[0])),
    }
}

/// Receives one packet and the descriptors that came with it; returns both counts.
pub(crate) fn receive(
    socket: i32,
    packet: &mut [u8],
    descriptors: &mut [i32],
) -> Result<(usize, usize), Errno> {
    #[repr(C)]
    struct Header {
        name: usize,
        name_length: usize,
        vectors: *const [usize; 2],
        vector_count: usize,
        control: *mut u64,
        control_length: usize,
        flags: u64,
    }
    const CMSG_CLOEXEC: usize = 0x4000_0000;
    const MSG_CTRUNC: u64 = 8;
    const HEADER_BYTES: usize = 16;
    let mut control = [0_u64; 2 + crate::zygote::ENTRY_FDS_MAX / 2 + 1];
    let vector = [packet.as_mut_ptr().expose_provenance(), packet.len()];
    let mut header = Header {
        name: 0,
        name_length: 0,
        vectors: &raw const vector,
        vector_count: 1,
        control: control.as_mut_ptr(),
        control_length: core::mem::size_of_val(&control),
        flags: 0,
    };
    let at = core::ptr::from_mut(&mut header).expose_provenance();
    // SAFETY: `header` is a `struct msghdr` whose buffers are live and held exclusively.
    let length = unsafe { call(SYS_RECVMSG, [fd(socket), at, CMSG_CLOEXEC, 0, 0, 0]) }?;
    if header.flags & MSG_CTRUNC != 0 {
        return Err(EINVAL);
    }
    if header.control_length < HEADER_BYTES {
        return Ok((length, 0));
    }
    let count = (control[0] as usize).saturating_sub(HEADER_BYTES) / 4;
    if count > descriptors.len() {
        return Err(EINVAL);
    }
    for (index, slot) in descriptors.iter_mut().take(count).enumerate() {
        let word = control[2 + index / 2];
        *slot = (if index % 2 == 0 { word } else { word >> 32 }) as i32;
    }
    Ok((length, count))
}
