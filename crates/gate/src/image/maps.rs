//! The mappings of this process, as /proc/self/maps lists them.

use crate::sys::{self, Errno};

/// The most mappings that are read; the kernel's own default bound is twice as many.
pub(super) const MAPPINGS_MAX: usize = 32 * 1024;
const TEXT_BYTES_MAX: usize = 4 << 20;

/// Out of room in a table: E2BIG.
pub(super) const TOO_MANY: Errno = Errno(7);

/// One line of the list.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    pub(super) device: u64,
    pub(super) inode: u64,
    name: u32,
    name_length: u32,
    /// `PROT_READ`, `PROT_WRITE`, `PROT_EXEC`.
    pub(super) protection: u32,
    pub(super) shared: u32,
}

/// All lines, and their text.
#[repr(C)]
pub(super) struct Maps {
    text: [u8; TEXT_BYTES_MAX],
    list: [Mapping; MAPPINGS_MAX],
    count: u64,
}

impl Maps {
    /// Reads the list. This process must have one thread, or it could change meanwhile.
    pub(super) fn read(&mut self) -> Result<(), Errno> {
        let file = sys::open(c"/proc/self/maps", sys::O_RDONLY)?;
        let mut length = 0;
        let outcome = loop {
            if length == TEXT_BYTES_MAX {
                break Err(TOO_MANY);
            }
            match sys::read(file, &mut self.text[length..]) {
                Ok(0) => break Ok(()),
                Ok(more) => length += more,
                Err(errno) => break Err(errno),
            }
        };
        sys::close(file);
        outcome?;
        self.count = 0;
        let mut at = 0;
        while at < length {
            let rest = &self.text[at..length];
            let line = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
            let mapping = parse(&self.text[at..at + line], at).ok_or(sys::EINVAL)?;
            let slot = self.list.get_mut(self.count as usize).ok_or(TOO_MANY)?;
            *slot = mapping;
            self.count += 1;
            at += line + 1;
        }
        Ok(())
    }

    pub(super) fn list(&self) -> &[Mapping] {
        &self.list[..(self.count as usize).min(MAPPINGS_MAX)]
    }

    /// Returns what the kernel calls a mapping: a path, a name in brackets, or nothing.
    pub(super) fn name(&self, mapping: &Mapping) -> &[u8] {
        let start = mapping.name as usize;
        self.text.get(start..start + mapping.name_length as usize).unwrap_or_default()
    }

    /// Whether the running kernel put a mapping here for its own calls without a system call.
    pub(super) fn is_of_kernel(&self, mapping: &Mapping) -> bool {
        self.name(mapping).starts_with(b"[v")
    }
}

/// Parses `start-end rwxp offset major:minor inode   name`; `at` is where the line is in the text.
fn parse(line: &[u8], at: usize) -> Option<Mapping> {
    let mut rest = line;
    let start = number(&mut rest, 16, b'-')?;
    let end = number(&mut rest, 16, b' ')?;
    let (access, after) = rest.split_at_checked(5)?;
    rest = after;
    let offset = number(&mut rest, 16, b' ')?;
    let major = number(&mut rest, 16, b':')?;
    let minor = number(&mut rest, 16, b' ')?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let inode = digits_of(&rest[..digits], 10)?;
    let name = rest[digits..].trim_ascii_start();
    let flag = |index: usize, letter: u8, bit: u32| u32::from(access[index] == letter) * bit;
    Some(Mapping {
        start,
        end,
        offset,
        device: major << 32 | minor,
        inode,
        name: (at + line.len() - name.len()) as u32,
        name_length: name.len() as u32,
        protection: flag(0, b'r', 1) | flag(1, b'w', 2) | flag(2, b'x', 4),
        shared: flag(3, b's', 1),
    })
}

/// Takes a number and the byte that ends it.
fn number(rest: &mut &[u8], base: u32, end: u8) -> Option<u64> {
    let length = rest.iter().position(|&byte| byte == end)?;
    let number = digits_of(&rest[..length], base)?;
    *rest = &rest[length + 1..];
    Some(number)
}

fn digits_of(digits: &[u8], base: u32) -> Option<u64> {
    digits.iter().try_fold(0_u64, |sum, &digit| {
        let digit = char::from(digit).to_digit(base)?;
        sum.checked_mul(u64::from(base))?.checked_add(u64::from(digit))
    })
}
