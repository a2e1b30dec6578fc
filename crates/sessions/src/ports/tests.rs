//! Which ports can be exposed.

use super::{Audience, EXPOSED_PORTS_MAX, Exposure};

#[test]
fn nothing_is_exposed_unless_it_is_listed() {
    let none = Exposure::default();
    assert!((0..=u16::MAX).all(|port| !none.contains(port)));
    let some = Exposure::listed([8000, 3000]).unwrap();
    let found: Vec<u16> = (0..=u16::MAX).filter(|port| some.contains(*port)).collect();
    assert_eq!(found, [3000, 8000]);
    assert_eq!(some.audience(), Audience::Owner);
}

#[test]
fn low_and_reserved_ports_cannot_be_exposed() {
    let every = Exposure::every(Audience::Public);
    for port in [0, 1, 53, 80, 443, 1023, 3128, 49983, 49999] {
        assert!(Exposure::listed([port]).is_err(), "{port}");
        assert!(!every.contains(port), "{port}");
    }
    for port in [1024, 3000, 8000, 65535] {
        assert!(Exposure::listed([port]).is_ok(), "{port}");
        assert!(every.contains(port), "{port}");
    }
}

#[test]
fn the_list_is_bounded() {
    let many = |count: usize| Exposure::listed((0..count).map(|port| 2000 + port as u16));
    assert!(many(EXPOSED_PORTS_MAX).is_ok());
    assert!(many(EXPOSED_PORTS_MAX + 1).is_err());
    assert!(Exposure::listed([2000; 100]).is_ok());
}
