//! Sockets of the host in the network namespaces of enclosures. The master makes them, because it
//! alone may enter such a namespace, and keeps none of them.
//!
//! Tests: `tests/it/engine/sockets.rs`, `tests/it/jail/init_pool.rs`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::numbers::{EnclosureNumber, RequestNumber};
use super::{EnclosureState, Master};
use crate::protocol::{
    self, LocalPrefix, PREFIXES_MAX, SOCKETS_MAX, ZoneFailure, ZoneMessage, ZoneReply, ZoneSocket,
};
use crate::zone::sockets;

/// The step that failures are reported under.
const STEP: &str = "open-sockets";

/// What the master has done in the network namespace of an enclosure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NetworkUse {
    /// Nothing since the enclosure was made.
    Untouched,
    /// It went in to make sockets.
    Entered,
    /// It went in, and the synthetic addresses are local.
    Addressed,
}

/// A request to make sockets.
#[derive(Debug)]
pub(super) struct OpenRequest {
    pub(super) number: RequestNumber,
    pub(super) enclosure: EnclosureNumber,
    pub(super) sockets: Vec<ZoneSocket>,
    pub(super) prefixes: Vec<LocalPrefix>,
}

impl Master<'_> {
    /// Makes sockets in an enclosure's network namespace and replies with them. An error of this
    /// function ends the zone: the master may be in that namespace still.
    pub(super) fn open_sockets(&mut self, open: &OpenRequest) -> io::Result<()> {
        if let Err(failure) = self.check_open(open) {
            return self.reply(open.number, Err(failure));
        }
        let enclosure = self.enclosures.get_mut(&open.enclosure).expect("checked above");
        let is_first = enclosure.network != NetworkUse::Addressed;
        if is_first {
            // Before anything can fail: from here on the namespace serves no other sandbox.
            enclosure.network = NetworkUse::Entered;
        }
        let network = enclosure.namespaces[0].as_fd();
        let opened = self.init_pool.networks.within(network, || {
            if is_first {
                sockets::add_synthetic()?;
            }
            enclosure.network = NetworkUse::Addressed;
            sockets::add_local(&open.prefixes)?;
            open.sockets.iter().map(sockets::open).collect::<io::Result<Vec<OwnedFd>>>()
        })?;
        match opened {
            Ok(sockets) => {
                let result = Ok(ZoneReply::Sockets);
                let message = ZoneMessage::Reply { number: open.number.0, result };
                let fds: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
                protocol::send(self.engine, &message, &fds)
            }
            Err(error) => self.reply(open.number, Err(ZoneFailure::new(STEP, &error))),
        }
    }

    /// Fails unless the enclosure is complete and not about to end.
    fn check_open(&self, open: &OpenRequest) -> Result<(), ZoneFailure> {
        if open.sockets.len() > SOCKETS_MAX || open.prefixes.len() > PREFIXES_MAX {
            return Err(ZoneFailure::because(
                STEP,
                format!("at most {SOCKETS_MAX} sockets and {PREFIXES_MAX} ranges in one request"),
            ));
        }
        self.require_enclosure(open.enclosure)?;
        let enclosure = &self.enclosures[&open.enclosure];
        if enclosure.is_given_up {
            return Err(ZoneFailure::because(STEP, "the enclosure has ended"));
        }
        match &enclosure.state {
            EnclosureState::Ready => Ok(()),
            EnclosureState::Making { .. } => {
                Err(ZoneFailure::because(STEP, "the enclosure is being made"))
            }
            EnclosureState::Failed | EnclosureState::Dead => {
                Err(ZoneFailure::because(STEP, "the enclosure has ended"))
            }
        }
    }
}
