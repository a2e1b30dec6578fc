//! Addresses of this machine, as the kernel lists them.

use std::net::IpAddr;

use super::{addresses_in, interface_addresses, local_v4, local_v6};

#[test]
fn tables_of_the_kernel_are_read() {
    let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.0\n        /8 universe UNICAST\n     \
                 |-- 10.0.0.5\n        /32 host LOCAL\n     |-- 10.255.255.255\n        /32 link \
                 BROADCAST\n";
    assert_eq!(local_v4(table), ["10.0.0.5".parse::<IpAddr>().unwrap()]);
    let table = "20010db8000000000000000000000001 02 40 00 80     eth0\nshort 01\n";
    assert_eq!(local_v6(table), ["2001:db8::1".parse::<IpAddr>().unwrap()]);
}

#[test]
fn loopback_is_an_interface_of_this_machine() {
    assert!(interface_addresses().contains(&"127.0.0.1".parse().unwrap()));
}

#[test]
fn hosts_own_list_is_read() {
    let list =
        "# names\n10.0.0.1 db.example DB # 10.0.0.9 db.example\n::1\tdb.example\nx db.example\n";
    let addresses = addresses_in(list, &"db.example".parse().unwrap());
    assert_eq!(addresses, ["10.0.0.1".parse::<IpAddr>().unwrap(), "::1".parse().unwrap()]);
    assert_eq!(addresses_in(list, &"example".parse().unwrap()), Vec::<IpAddr>::new());
}
