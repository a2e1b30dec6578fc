//! Raw x86-64 system calls, one small wrapper each. No errno, no libc, no cancellation points.
//!
//! A call whose arguments are all values goes through [`ValueCall`], which has no room for an
//! address, so it cannot touch the memory of this process. A call that takes an address has an
//! unsafe block of its own: those on memory are in `memory`, those on what an image carries in
//! `process`, those that restrict the process in `restrict`, the others here.

mod memory;
mod process;
mod restrict;

use core::arch::asm;
use core::ffi::CStr;

pub(crate) use memory::{
    PageRange, Pages, discard, make_executable, make_readable, make_writable, map, map_apart,
    map_at, map_file, map_to_write, memory_file, move_mapping, random, read_at, read_to, reserve,
    scan_pages, seal, set_length, unmap, write_at,
};
pub(crate) use process::{
    Sequences, SignalAction, SignalStack, block_signals, file_length, heap_end, robust_list,
    set_robust_list, set_sequences, set_signal_action, set_signal_stack, set_thread_id_address,
    signal_action, signal_stack, thread_block, thread_id, working_directory,
};
pub use restrict::Instruction;
pub(crate) use restrict::{
    clear_ambient_capabilities, drop_bounding_capability, landlock, load_filter, lock_securebits,
    rlimit, set_capabilities, set_dumpable, set_ids, set_no_new_privileges, set_rlimit,
};

/// An error number as the kernel returned it, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

pub(crate) const EPERM: Errno = Errno(1);
pub(crate) const EINTR: Errno = Errno(4);
pub(crate) const EIO: Errno = Errno(5);
pub(crate) const EAGAIN: Errno = Errno(11);
pub(crate) const EINVAL: Errno = Errno(22);
pub(crate) const EPIPE: Errno = Errno(32);

const SYS_READ: usize = 0;
const SYS_WRITE: usize = 1;
const SYS_CLOSE: usize = 3;
const SYS_POLL: usize = 7;
const SYS_RT_SIGPROCMASK: usize = 14;
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
const SYS_STATFS: usize = 137;
const SYS_PRCTL: usize = 157;
const SYS_GETDENTS64: usize = 217;
const SYS_EXIT_GROUP: usize = 231;
const SYS_OPENAT: usize = 257;
const SYS_NEWFSTATAT: usize = 262;
const SYS_SIGNALFD4: usize = 289;
const SYS_DUP3: usize = 292;
const SYS_SETNS: usize = 308;
const SYS_CLOSE_RANGE: usize = 436;
const SYS_LANDLOCK_RESTRICT_SELF: usize = 446;

const AT_FDCWD: i32 = -100;
pub(crate) const O_RDONLY: i32 = 0;
pub(crate) const O_WRONLY: i32 = 1;
pub(crate) const O_DIRECTORY: i32 = 0o200_000;
const O_PATH: i32 = 0o10_000_000;
const O_CLOEXEC: i32 = 0o2_000_000;

/// Makes one system call.
///
/// # Safety
/// The arguments must be what the call with this number expects; pointers among them must be valid
/// for what the kernel reads or writes through them.
unsafe fn call(number: usize, args: [usize; 6]) -> Result<usize, Errno> {
    let result: isize;
    // SAFETY: the x86-64 Linux convention: number in rax, arguments in rdi rsi rdx r10 r8 r9,
    // result in rax, rcx and r11 clobbered. The caller vouches for the arguments.
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

/// A system call that takes no address. Its fields are 32-bit values, which hold no pointer on this
/// machine, or a length of a file.
#[derive(Clone, Copy)]
enum ValueCall {
    AddSeals { file: i32, seals: u32 },
    Close { fd: i32 },
    CloseFrom { first: u32 },
    Dup3 { from: i32, to: i32 },
    ExitGroup { status: i32 },
    Ftruncate { file: i32, length: usize },
    LandlockRestrictSelf { ruleset: i32 },
    Prctl { option: PrctlOption, second: u32, third: u32 },
    Setns { namespace: i32, kinds: u32 },
    Setresgid { gid: u32 },
    Setresuid { uid: u32 },
    Setsid,
    Umask { mask: u32 },
}

/// The options of prctl(2) that the gate uses; the arguments of each are values.
#[derive(Clone, Copy)]
#[repr(u32)]
enum PrctlOption {
    SetDumpable = 4,
    CapbsetDrop = 24,
    SetSecurebits = 28,
    SetNoNewPrivs = 38,
    CapAmbient = 47,
}

impl ValueCall {
    fn number_and_arguments(self) -> (usize, [usize; 6]) {
        const F_ADD_SEALS: usize = 1033;
        match self {
            Self::AddSeals { file, seals } => {
                (SYS_FCNTL, [value(file), F_ADD_SEALS, seals as usize, 0, 0, 0])
            }
            Self::Close { fd } => (SYS_CLOSE, [value(fd), 0, 0, 0, 0, 0]),
            Self::CloseFrom { first } => {
                (SYS_CLOSE_RANGE, [first as usize, u32::MAX as usize, 0, 0, 0, 0])
            }
            Self::Dup3 { from, to } => (SYS_DUP3, [value(from), value(to), 0, 0, 0, 0]),
            Self::ExitGroup { status } => (SYS_EXIT_GROUP, [value(status), 0, 0, 0, 0, 0]),
            Self::Ftruncate { file, length } => (SYS_FTRUNCATE, [value(file), length, 0, 0, 0, 0]),
            Self::LandlockRestrictSelf { ruleset } => {
                (SYS_LANDLOCK_RESTRICT_SELF, [value(ruleset), 0, 0, 0, 0, 0])
            }
            Self::Prctl { option, second, third } => {
                (SYS_PRCTL, [option as usize, second as usize, third as usize, 0, 0, 0])
            }
            Self::Setns { namespace, kinds } => {
                (SYS_SETNS, [value(namespace), kinds as usize, 0, 0, 0, 0])
            }
            Self::Setresgid { gid } => {
                (SYS_SETRESGID, [gid as usize, gid as usize, gid as usize, 0, 0, 0])
            }
            Self::Setresuid { uid } => {
                (SYS_SETRESUID, [uid as usize, uid as usize, uid as usize, 0, 0, 0])
            }
            Self::Setsid => (SYS_SETSID, [0; 6]),
            Self::Umask { mask } => (SYS_UMASK, [mask as usize, 0, 0, 0, 0, 0]),
        }
    }

    fn make(self) -> Result<usize, Errno> {
        let (number, arguments) = self.number_and_arguments();
        // SAFETY: no call of this enum reads or writes memory of this process: the kernel takes
        // each of the arguments as a descriptor, an id, a set of bits or a length of a file.
        unsafe { call(number, arguments) }
    }
}

/// A descriptor, a status or a set of flags as the kernel takes it.
fn value(number: i32) -> usize {
    number.cast_unsigned() as usize
}

pub(crate) fn exit_group(status: i32) -> ! {
    loop {
        let _ = ValueCall::ExitGroup { status }.make();
    }
}

pub(crate) fn close(fd: i32) {
    // Whatever the kernel answers, the descriptor is gone; close(2).
    let _ = ValueCall::Close { fd }.make();
}

pub(crate) fn dup3(from: i32, to: i32) -> Result<(), Errno> {
    ValueCall::Dup3 { from, to }.make().map(drop)
}

pub(crate) fn close_from(first: u32) -> Result<(), Errno> {
    ValueCall::CloseFrom { first }.make().map(drop)
}

pub(crate) fn setns(namespace: i32, kinds: u32) -> Result<(), Errno> {
    ValueCall::Setns { namespace, kinds }.make().map(drop)
}

pub(crate) fn setsid() -> Result<(), Errno> {
    ValueCall::Setsid.make().map(drop)
}

/// Sets the mask of file modes; returns the one before.
pub(crate) fn umask(mask: u32) -> u32 {
    // It always succeeds.
    ValueCall::Umask { mask }.make().unwrap_or(0) as u32
}

pub(crate) fn read(from: i32, into: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most `into.len()` bytes at a buffer we hold exclusively.
    unsafe {
        call(SYS_READ, [value(from), into.as_mut_ptr().expose_provenance(), into.len(), 0, 0, 0])
    }
}

pub(crate) fn write(to: i32, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel reads `bytes.len()` bytes of a live slice.
    unsafe {
        call(SYS_WRITE, [value(to), bytes.as_ptr().expose_provenance(), bytes.len(), 0, 0, 0])
    }
}

/// Sends on a socket; a closed other end is `EPIPE` and raises no SIGPIPE.
pub(crate) fn send(to: i32, bytes: &[u8]) -> Result<usize, Errno> {
    const MSG_NOSIGNAL: usize = 0x4000;
    // SAFETY: the kernel reads `bytes.len()` bytes of a live slice; the pointer to a destination is
    // null.
    unsafe {
        call(
            SYS_SENDTO,
            [value(to), bytes.as_ptr().expose_provenance(), bytes.len(), MSG_NOSIGNAL, 0, 0],
        )
    }
}

pub(crate) fn open(path: &CStr, flags: i32) -> Result<i32, Errno> {
    // SAFETY: `path` is a live NUL-terminated string.
    let opened = unsafe {
        call(
            SYS_OPENAT,
            [value(AT_FDCWD), path.as_ptr().expose_provenance(), value(flags | O_CLOEXEC), 0, 0, 0],
        )
    };
    opened.map(|number| number as i32)
}

pub(crate) fn chdir(path: &CStr) -> Result<(), Errno> {
    // SAFETY: `path` is a live NUL-terminated string.
    unsafe { call(SYS_CHDIR, [path.as_ptr().expose_provenance(), 0, 0, 0, 0, 0]) }.map(drop)
}

/// Returns the inode number of a path.
pub(crate) fn inode(path: &CStr) -> Result<u64, Errno> {
    // `st_ino` is the second field of `struct stat`.
    let mut stat = [0_u64; 18];
    // SAFETY: `path` is a live NUL-terminated string; `struct stat` is 144 bytes on x86-64, the
    // size of `stat`, which is held exclusively.
    unsafe {
        call(
            SYS_NEWFSTATAT,
            [
                value(AT_FDCWD),
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

/// Returns the type and the mount flags of the file system a path is on.
pub(crate) fn statfs(path: &CStr) -> Result<(u64, u64), Errno> {
    let mut statfs = [0_u64; 15];
    // SAFETY: `path` is a live NUL-terminated string; `struct statfs` is 120 bytes on x86-64, the
    // size of `statfs`, which is held exclusively.
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
            [value(directory), into.as_mut_ptr().expose_provenance(), into.len(), 0, 0, 0],
        )
    }
}

/// Blocks exactly the signals in `mask`.
pub(crate) fn set_signal_mask(mask: u64) -> Result<(), Errno> {
    const SIG_SETMASK: usize = 2;
    let mask = [mask];
    // SAFETY: `mask` is a kernel signal set of 8 bytes, as the size says; the pointer to the old
    // set is null.
    unsafe {
        call(SYS_RT_SIGPROCMASK, [SIG_SETMASK, mask.as_ptr().expose_provenance(), 0, 8, 0, 0])
    }
    .map(drop)
}

pub(crate) fn signalfd(mask: u64) -> Result<i32, Errno> {
    const SFD_NONBLOCK_CLOEXEC: usize = 0o2_004_000;
    let mask = [mask];
    // SAFETY: `mask` is a kernel signal set of 8 bytes, as the size says; -1 asks for a new
    // descriptor.
    let opened = unsafe {
        call(
            SYS_SIGNALFD4,
            [usize::MAX, mask.as_ptr().expose_provenance(), 8, SFD_NONBLOCK_CLOEXEC, 0, 0],
        )
    };
    opened.map(|number| number as i32)
}

/// Waits until one of two descriptors is readable or has hung up; says which.
pub(crate) fn wait_readable(first: i32, second: i32) -> Result<(bool, bool), Errno> {
    const POLLIN: u32 = 1;
    let entry = |which: i32| u64::from(which.cast_unsigned()) | (u64::from(POLLIN) << 32);
    let mut entries = [entry(first), entry(second)];
    // SAFETY: `entries` has the layout of two `struct pollfd` (this machine is little endian) and
    // is held exclusively.
    unsafe { call(SYS_POLL, [entries.as_mut_ptr().expose_provenance(), 2, usize::MAX, 0, 0, 0])? };
    Ok((entries[0] >> 48 != 0, entries[1] >> 48 != 0))
}

/// Reaps one ended child, if there is one: its pid and wait status.
pub(crate) fn reap() -> Option<(i32, i32)> {
    const WNOHANG: usize = 1;
    let mut status = [0_i32];
    // SAFETY: `status` is one int held exclusively; the pointer to a rusage is null.
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
    // One control message: its header, then two descriptors to a word.
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
    // SAFETY: `header` has the layout of `struct msghdr`; it, the packet and the control buffer it
    // points to are live, held exclusively and as long as it says.
    let length = unsafe { call(SYS_RECVMSG, [value(socket), at, CMSG_CLOEXEC, 0, 0, 0]) }?;
    // Cut short: more descriptors came than any message of ours has.
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
