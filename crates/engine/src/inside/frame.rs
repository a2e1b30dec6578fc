//! What the reader in a sandbox writes, decoded as the hostile bytes that they are.

use std::time::{Duration, SystemTime};

use crate::files::{FileKind, FileStat, Listed, Owner};

/// The longest frame: an entry with three texts of at most 4096 bytes each.
pub(super) const FRAME_BYTES_MAX: usize = 16 * 1024;

/// The length of a frame's head: its kind and the length of its payload.
pub(super) const HEAD_BYTES: usize = 5;

/// The end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// Its path without links, as the guest sees it.
    pub path: String,
    /// What is there; `None` if nothing is, or if the guest may not look.
    pub found: Option<(FileKind, u32)>,
}

/// An entry as a process in the sandbox sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsideEntry {
    /// The entry itself, also if it is a link.
    pub listed: Listed,
    /// Where it leads, if it is a link.
    pub link_end: Option<LinkEnd>,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Entry(Box<InsideEntry>),
    Complete { truncated: bool },
    Failed(i32),
}

/// The bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Returns the kind and the length of the payload that a head announces.
pub(super) fn head(bytes: [u8; HEAD_BYTES]) -> Result<(u8, usize), Malformed> {
    let [kind, length @ ..] = bytes;
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(|_| Malformed)?;
    if length > FRAME_BYTES_MAX { Err(Malformed) } else { Ok((kind, length)) }
}

/// Decodes a payload.
pub(super) fn decode(kind: u8, payload: &[u8]) -> Result<Frame, Malformed> {
    let mut rest = Rest(payload);
    let frame = match kind {
        b'e' => Frame::Entry(Box::new(rest.entry()?)),
        b'.' => Frame::Complete { truncated: false },
        b'+' => Frame::Complete { truncated: true },
        b'!' => Frame::Failed(i32::from_le_bytes(rest.take()?)),
        _ => return Err(Malformed),
    };
    if rest.0.is_empty() { Ok(frame) } else { Err(Malformed) }
}

/// What is left of a payload.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::from(u16::from_le_bytes(self.take()?));
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn entry(&mut self) -> Result<InsideEntry, Malformed> {
        let [kind, owned] = self.take()?;
        let kind = file_kind(kind).ok_or(Malformed)?;
        let mode = u32::from_le_bytes(self.take()?) & 0o7777;
        let size = u64::from_le_bytes(self.take()?);
        let seconds = i64::from_le_bytes(self.take()?);
        let nanoseconds = u32::from_le_bytes(self.take()?);
        let path = self.text()?;
        let target = self.text()?;
        let end = self.text()?;
        let [end_kind] = self.take()?;
        let end_mode = u32::from_le_bytes(self.take()?) & 0o7777;
        let is_link = kind == FileKind::Symlink;
        let stat = FileStat {
            kind,
            size,
            mode,
            modified: time(seconds, nanoseconds),
            owner: if owned == 1 { Owner::User } else { Owner::Nobody },
            target: is_link.then(|| shown(target)),
        };
        let usable = std::str::from_utf8(path).is_ok();
        let listed = Listed { path: shown(path), usable, stat };
        let link_end = (is_link && !end.is_empty()).then(|| LinkEnd {
            path: shown(end),
            found: file_kind(end_kind).map(|kind| (kind, end_mode)),
        });
        Ok(InsideEntry { listed, link_end })
    }
}

fn file_kind(number: u8) -> Option<FileKind> {
    [FileKind::File, FileKind::Directory, FileKind::Symlink, FileKind::Other]
        .get(usize::from(number))
        .copied()
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Converts a time that the guest chose: any number, before 1970 too.
fn time(seconds: i64, nanoseconds: u32) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    };
    time.and_then(|time| time.checked_add(Duration::from_nanos(nanoseconds.into())))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
