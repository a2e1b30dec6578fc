//! Ranges of addresses, and the variables of a sandbox with a network.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use silica_templates::TRUST_BUNDLE;

use super::{GuestPrefix, SYNTHETIC_ADDRESSES, network_environment};

#[test]
fn range_starts_at_its_first_address() {
    for (address, length, is_range) in [
        ([93, 184, 215, 0], 24, true),
        ([93, 184, 215, 14], 32, true),
        ([93, 184, 215, 14], 24, false),
        ([93, 184, 215, 14], 31, true),
        ([93, 184, 215, 15], 31, false),
        ([0, 0, 0, 0], 0, true),
        ([128, 0, 0, 0], 0, false),
        ([10, 0, 0, 0], 33, false),
        ([10, 0, 0, 0], 255, false),
    ] {
        let prefix = GuestPrefix::new(Ipv4Addr::from(address), length);
        assert_eq!(prefix.is_some(), is_range, "{address:?}/{length}");
    }
}

#[test]
fn range_has_its_addresses_and_no_others() {
    for (address, is_inside) in [
        ([198, 18, 0, 0], true),
        ([198, 19, 255, 255], true),
        ([198, 17, 255, 255], false),
        ([198, 20, 0, 0], false),
    ] {
        assert_eq!(SYNTHETIC_ADDRESSES.contains(Ipv4Addr::from(address)), is_inside, "{address:?}");
    }
    let everything = GuestPrefix::new(Ipv4Addr::UNSPECIFIED, 0).unwrap();
    assert!(everything.contains(Ipv4Addr::BROADCAST));
}

#[test]
fn every_variable_is_there_once() {
    let pairs: Vec<(String, String)> = network_environment().collect();
    let variables: BTreeMap<String, String> = pairs.iter().cloned().collect();
    assert_eq!(variables.len(), pairs.len());
    assert_eq!(variables["https_proxy"], "http://127.0.0.1:3128");
    assert_eq!(variables["NO_PROXY"], "localhost,127.0.0.1,::1");
    assert_eq!(variables["SSL_CERT_FILE"], TRUST_BUNDLE);
}
