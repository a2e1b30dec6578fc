//! The addresses that names have inside one sandbox.
//!
//! Each name that may be looked up gets the next address of 198.18.0.0/15. A connection to that
//! address is a connection to that name. A name keeps its address as long as the sandbox lives.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::Ipv4Addr;

use silica_domain::DnsName;

/// The first address of the range (RFC 2544).
const RANGE: u32 = Ipv4Addr::new(198, 18, 0, 0).to_bits();

/// How many addresses the range has.
const RANGE_SIZE: u32 = 1 << 17;

/// The first place that a name gets. Those before are the network's and the interface's own.
const PLACE_FIRST: u32 = 16;

#[derive(Default)]
pub(super) struct NameTable {
    places: HashMap<DnsName, u32>,
    names: Vec<DnsName>,
}

impl NameTable {
    /// Returns the address of a name that has one.
    pub(super) fn address(&self, name: &DnsName) -> Option<Ipv4Addr> {
        self.places.get(name).map(|&place| address_of(place))
    }

    /// Returns the name at an address.
    pub(super) fn name(&self, address: Ipv4Addr) -> Option<&DnsName> {
        let place = address.to_bits().checked_sub(RANGE + PLACE_FIRST)?;
        self.names.get(place as usize)
    }

    /// Gives a name the next address; `None` if the range is used up.
    pub(super) fn add(&mut self, name: &DnsName) -> Option<(u32, Ipv4Addr)> {
        let place = PLACE_FIRST + self.names.len() as u32;
        if place >= RANGE_SIZE - 1 {
            return None;
        }
        self.names.push(name.clone());
        self.places.insert(name.clone(), place);
        Some((place, address_of(place)))
    }

    /// Returns all names, in the order of their addresses.
    pub(super) fn all(&self) -> &[DnsName] {
        &self.names
    }

    pub(super) fn len(&self) -> u32 {
        self.names.len() as u32
    }
}

fn address_of(place: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(RANGE + place)
}
