//! A door for `tests/fuzz`: the packets of the jail's own protocol, as each side reads them.
//!
//! Only there with the feature `fuzzing`; no other code may use it.

use crate::protocol::{self, Message, Request, ZoneConfig};

/// Reads bytes as every kind of packet that anybody in a zone receives.
pub fn packet(data: &[u8]) {
    drop(protocol::parse::<Request>(data));
    drop(protocol::parse::<Message>(data));
    drop(protocol::parse::<ZoneConfig>(data));
    let Ok((ours, theirs)) = crate::command::report() else {
        return;
    };
    // A packet without a byte, or too long for one, is not sent at all.
    if protocol::send_bytes(&theirs, data, &[]).is_ok() {
        drop(crate::command::hear(&ours));
    }
}
