//! Host names of ports, and names that look like some.

use super::PortDomain;

#[test]
fn host_names_of_ports_are_read_back() {
    let domain = PortDomain::new("Ports.Example");
    assert_eq!(domain.host(8000, "sbx1a"), "8000-sbx1a.ports.example");
    for (host, expected) in [
        ("8000-sbx1a.ports.example", Some((8000, "sbx1a"))),
        ("8000-SBX1A.PORTS.EXAMPLE", Some((8000, "sbx1a"))),
        ("65535-x.ports.example", Some((65535, "x"))),
        ("65536-x.ports.example", None),
        ("08000-x.ports.example", None),
        ("+8000-x.ports.example", None),
        ("-x.ports.example", None),
        ("8000-.ports.example", None),
        ("8000.ports.example", None),
        ("a.8000-x.ports.example", None),
        ("8000-x.y.ports.example", None),
        ("8000-x-y.ports.example", None),
        ("8000-x.ports.example.", None),
        ("8000-xports.example", None),
        ("8000-x.ports.example.org", None),
        ("ports.example", None),
        (".ports.example", None),
        ("", None),
    ] {
        let found = domain.parse(host);
        assert_eq!(found, expected.map(|(port, id)| (port, id.to_owned())), "{host}");
    }
}

#[test]
fn every_name_below_the_domain_is_known() {
    let domain = PortDomain::new("ports.example");
    for (host, is_below) in [
        ("8000-x.ports.example", true),
        ("anything.PORTS.example", true),
        ("a.b.ports.example", true),
        ("ports.example", false),
        ("xports.example", false),
        ("localhost", false),
        ("é.example", false),
    ] {
        assert_eq!(domain.is_above(host), is_below, "{host}");
    }
}
