//! Entry points for `tests/fuzz`: each decoder of hostile bytes, called as its users call it.
//!
//! Compiled only with the feature `fuzzing`; no other code may use it.

use crate::{GuestPath, InsidePath, inside, wire};

/// The longest body that the engine asks for in these calls.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// Decodes bytes as one frame: the first two say where the head ends, so that a fuzzer finds both.
pub fn frame(data: &[u8]) {
    if let Some(prefix) = data.first_chunk::<8>()
        && let Ok((head, body)) = wire::lengths(*prefix, BODY_BYTES_MAX)
    {
        assert!(head <= wire::HEAD_BYTES_MAX && body as u64 <= BODY_BYTES_MAX);
    }
    let Some((split, rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let (head, body) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*split))));
    if let Ok(wire::FromGuest::Result { bundle, .. }) = wire::decode(head, body) {
        let bytes: usize = bundle.payloads.iter().map(|payload| payload.data.len()).sum();
        assert_eq!(bytes, body.len(), "payloads that are not the body");
    }
}

/// Decodes bytes as what the reader in a sandbox writes: the first is the kind of a frame.
pub fn answer(data: &[u8]) {
    inside::fuzz(data);
}

/// Checks a path; one that is accepted must be what it says.
pub fn path(text: &str) {
    if let Ok(path) = InsidePath::parse(text) {
        let shown = path.to_string();
        assert!(shown.starts_with('/') && !shown.contains("//") && !shown.contains('\0'));
        assert!(shown.split('/').all(|part| !matches!(part, "." | "..")), "{shown:?}");
    }
    let Ok(path) = GuestPath::parse(text) else {
        return;
    };
    let shown = path.to_string();
    assert!(shown.starts_with('/') && !shown.contains('\0'), "{shown:?}");
    assert!(shown.split('/').skip(1).all(|part| !matches!(part, "" | "." | "..")), "{shown:?}");
    let again = GuestPath::parse(&shown).expect("a path that was accepted is accepted again");
    assert_eq!(again, path);
    drop(path.join(text));
}
