//! Addresses of names.

use std::net::Ipv4Addr;

use super::NameTable;

#[test]
fn each_name_has_its_own_address() {
    let mut table = NameTable::default();
    let first = "a.example".parse().unwrap();
    let second = "b.example".parse().unwrap();
    assert_eq!(table.add(&first), Some((16, Ipv4Addr::new(198, 18, 0, 16))));
    assert_eq!(table.add(&second), Some((17, Ipv4Addr::new(198, 18, 0, 17))));
    assert_eq!(table.address(&first), Some(Ipv4Addr::new(198, 18, 0, 16)));
    assert_eq!(table.name(Ipv4Addr::new(198, 18, 0, 17)), Some(&second));
    for address in [[198, 18, 0, 18], [198, 18, 0, 15], [198, 18, 0, 1], [127, 0, 0, 1], [255; 4]] {
        assert_eq!(table.name(address.into()), None, "{address:?}");
    }
}
