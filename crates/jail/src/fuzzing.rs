//! The entry point for `tests/fuzz`: parses packets of the jail's own protocol, as each side does.
//!
//! It exists only with the feature `fuzzing`; no other code may use it.

use crate::protocol::{self, NumberedRequest, ZoneConfig, ZoneMessage};

/// Parses bytes as every kind of packet that a process of a zone or the engine receives.
pub fn packet(data: &[u8]) {
    drop(protocol::parse::<NumberedRequest>(data));
    drop(protocol::parse::<ZoneMessage>(data));
    drop(protocol::parse::<ZoneConfig>(data));
    let Ok((ours, theirs)) = crate::command::report() else {
        return;
    };
    // An empty packet, or one that is too long, cannot be sent.
    if protocol::send_bytes(&theirs, data, &[]).is_ok() {
        drop(crate::command::hear(&ours));
    }
}
