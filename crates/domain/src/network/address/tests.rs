//! Ranges and forbidden addresses.

use std::net::IpAddr;

use super::{Cidr, OwnAddresses, denied_range};

fn denied(address: &str) -> bool {
    let address: IpAddr = address.parse().unwrap();
    denied_range(address, 443, &[], &OwnAddresses::default()).is_some()
}

#[test]
fn addresses_that_are_not_public_are_forbidden() {
    for address in [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.9.9.9",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.16",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "100.100.100.200",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "2001:db8::1",
        "2001::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "100::1",
        "4000::1",
        "5f00::1",
        "3fff::1",
    ] {
        assert!(denied(address), "{address}");
    }
}

#[test]
fn public_addresses_are_allowed() {
    for address in [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450::1",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::1",
    ] {
        assert!(!denied(address), "{address}");
    }
}

#[test]
fn teredo_is_judged_by_both_addresses_in_it() {
    // The server 8.8.8.8 and the client 10.0.0.1, inverted.
    assert!(denied("2001:0:808:808:0:0:f5ff:fffe"));
    // The server 10.0.0.1 and the client 8.8.8.8, inverted.
    assert!(denied("2001:0:a00:1:0:0:f7f7:f7f7"));
}

#[test]
fn operator_opens_ranges_but_not_the_servers_own_port() {
    let allowed: Vec<Cidr> = vec!["127.0.0.0/8".parse().unwrap()];
    let own = OwnAddresses {
        interfaces: vec!["93.184.215.14".parse().unwrap(), "127.0.0.1".parse().unwrap()],
        listeners: vec!["0.0.0.0:8000".parse().unwrap(), "[::1]:9000".parse().unwrap()],
    };
    let denied = |address: &str, port| {
        denied_range(address.parse().unwrap(), port, &allowed, &own).is_some()
    };
    assert!(!denied("127.0.0.1", 80));
    assert!(!denied("::ffff:127.0.0.1", 80));
    assert!(denied("10.0.0.1", 80));
    for address in ["127.0.0.1", "127.5.5.5", "::ffff:127.0.0.1", "93.184.215.14"] {
        assert!(denied(address, 8000), "{address}");
    }
    assert!(denied("93.184.215.14", 443), "an address of this machine");
    assert!(!denied("93.184.215.15", 8000));
}

#[test]
fn ranges_are_written_in_one_way() {
    for (text, valid) in [
        ("93.184.215.0/24", true),
        ("93.184.215.14", true),
        ("0.0.0.0/0", true),
        ("2606:4700::/32", true),
        ("93.184.215.1/24", false),
        ("93.184.215.0/33", false),
        ("93.184.215.0/", false),
        ("93.184.215.0/+8", false),
        ("93.184.215/24", false),
        ("x/8", false),
    ] {
        assert_eq!(text.parse::<Cidr>().is_ok(), valid, "{text}");
    }
    let all: Cidr = "0.0.0.0/0".parse().unwrap();
    assert!(all.contains("255.1.2.3".parse().unwrap()));
    assert!(!all.contains("::1".parse().unwrap()));
    assert_eq!("10.0.0.0/8".parse::<Cidr>().unwrap().to_string(), "10.0.0.0/8");
}
