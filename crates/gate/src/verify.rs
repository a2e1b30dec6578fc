//! Reads back, natively and just before the first user instruction, what is really in force.
//!
//! Nothing here relies on the steps before: it asks the kernel.

use crate::sys::{self, EPERM, Errno};
use crate::zygote::Entry;

const OVERLAYFS_MAGIC: u64 = 0x794c_7630;
const ST_RDONLY: u64 = 1;

/// How much of a file in /proc is read; `status` is about 1.5 KiB.
const PROC_FILE_BYTES_MAX: usize = 4096;

/// The namespaces compared with the zone's, in the order of `EntryRequest::zone_namespaces`.
const NAMESPACES: [&core::ffi::CStr; 7] = [
    c"/proc/self/ns/user",
    c"/proc/self/ns/mnt",
    c"/proc/self/ns/net",
    c"/proc/self/ns/ipc",
    c"/proc/self/ns/uts",
    c"/proc/self/ns/pid",
    c"/proc/self/ns/cgroup",
];

/// Succeeds only if the process is locked in: ids, capabilities, filter, namespaces, root,
/// descriptors and cgroups.
pub(crate) fn locked_in(entry: &Entry) -> Result<(), Errno> {
    status(entry.request.uid)?;
    namespaces(&entry.request.zone_namespaces)?;
    root()?;
    descriptors(entry.image().is_some())?;
    if entry.cgroups().is_empty() { Ok(()) } else { cgroups() }
}

/// Succeeds only if the zygote has a filter, `no_new_privs` and exactly `CAP_SYS_ADMIN`.
pub(crate) fn zygote_confined() -> Result<(), Errno> {
    const ONLY_SYS_ADMIN: &[u8] = b"0000000000200000";
    let mut buffer = [0; PROC_FILE_BYTES_MAX];
    let text = read_file(c"/proc/self/status", &mut buffer)?;
    let mut seen = 0;
    for (key, value) in entries(text) {
        let good = match key {
            b"CapPrm" | b"CapEff" | b"CapBnd" => value == ONLY_SYS_ADMIN,
            b"CapInh" | b"CapAmb" => value.iter().all(|&byte| byte == b'0'),
            b"NoNewPrivs" => value == b"1",
            b"Seccomp" => value == b"2",
            _ => continue,
        };
        require(good)?;
        seen += 1;
    }
    // A kernel that leaves out one of the lines is not trusted.
    require(seen == 7)
}

/// The `key: value` lines of a /proc file.
fn entries(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

fn require(holds: bool) -> Result<(), Errno> {
    if holds { Ok(()) } else { Err(EPERM) }
}

fn read_file<'a>(
    path: &core::ffi::CStr,
    buffer: &'a mut [u8; PROC_FILE_BYTES_MAX],
) -> Result<&'a [u8], Errno> {
    let file = sys::open(path, sys::O_RDONLY)?;
    let mut length = 0;
    let outcome = loop {
        match sys::read(file, &mut buffer[length..]) {
            Ok(0) => break Ok(()),
            Ok(more) => length += more,
            Err(errno) => break Err(errno),
        }
        if length == buffer.len() {
            break Ok(());
        }
    };
    sys::close(file);
    outcome.map(|()| &buffer[..length])
}

/// Checks ids, capabilities, `no_new_privs` and the seccomp mode in /proc/self/status.
fn status(uid: u32) -> Result<(), Errno> {
    let mut buffer = [0; PROC_FILE_BYTES_MAX];
    let text = read_file(c"/proc/self/status", &mut buffer)?;
    let mut seen = 0;
    for (key, value) in entries(text) {
        let good = match key {
            b"Uid" | b"Gid" => value.split(|&byte| byte == b'\t').all(|id| number(id) == Some(uid)),
            b"CapInh" | b"CapPrm" | b"CapEff" | b"CapBnd" | b"CapAmb" => {
                value.iter().all(|&byte| byte == b'0')
            }
            b"NoNewPrivs" => value == b"1",
            b"Seccomp" => value == b"2",
            _ => continue,
        };
        require(good)?;
        seen += 1;
    }
    require(seen == 9)
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |sum, &digit| {
        let digit = digit.is_ascii_digit().then(|| u32::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// Checks that none of the namespaces is the zone's.
fn namespaces(zone: &[u64; 7]) -> Result<(), Errno> {
    for (path, &of_zone) in NAMESPACES.iter().zip(zone) {
        require(of_zone != 0 && sys::inode(path)? != of_zone)?;
    }
    Ok(())
}

/// Checks that the root is a read-only overlay.
fn root() -> Result<(), Errno> {
    let (kind, flags) = sys::statfs(c"/")?;
    require(kind == OVERLAYFS_MAGIC && flags & ST_RDONLY != 0)
}

/// Checks that exactly descriptors 0 to 3 are open, and 4 if there is an image.
fn descriptors(has_image: bool) -> Result<(), Errno> {
    let directory = sys::open(c"/proc/self/fd", sys::O_RDONLY | sys::O_DIRECTORY)?;
    let open = listed(directory);
    sys::close(directory);
    require(open? == 0b1111 | u64::from(has_image) << 4 | 1 << directory)
}

/// Returns the entries of a directory whose names are numbers, as a set of bits. It reads to the
/// end: a signal, which a guest in the enclosure may send, can cut a single call short.
fn listed(directory: i32) -> Result<u64, Errno> {
    let mut buffer = [0_u8; 512];
    let mut numbers = 0_u64;
    loop {
        let length = sys::getdents(directory, &mut buffer)?;
        if length == 0 {
            return Ok(numbers);
        }
        let mut at = 0;
        // Records of `struct linux_dirent64`: the length at 16, the name from 19; getdents(2).
        while at + 19 < length {
            let record = usize::from(u16::from_ne_bytes([buffer[at + 16], buffer[at + 17]]));
            let name = &buffer[at + 19..(at + record).min(length)];
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(0);
            match number(&name[..end]) {
                Some(fd) if end > 0 && fd < 64 => numbers |= 1 << fd,
                Some(_) if end > 0 => return Err(EPERM),
                _ => {}
            }
            require(record > 0)?;
            at += record;
        }
    }
}

/// Checks that this process is in the sandbox's own group of every hierarchy, which is the root as
/// seen from the cgroup namespace that the enclosure's init made.
fn cgroups() -> Result<(), Errno> {
    let mut buffer = [0; PROC_FILE_BYTES_MAX];
    let text = read_file(c"/proc/self/cgroup", &mut buffer)?;
    let mut lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    require(!text.is_empty() && lines.all(|line| line.ends_with(b":/")))
}
