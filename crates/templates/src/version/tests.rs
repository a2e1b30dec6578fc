//! Tables of version requirements.

use super::{PythonVersion, VersionSpec};

fn version(text: &str) -> PythonVersion {
    PythonVersion::parse(text).expect(text)
}

#[test]
fn admits() {
    for (spec, yes, no) in [
        (">=3.10", "3.10.0", "3.9.18"),
        (">=3.10.2", "3.10.2", "3.10.1"),
        ("<3.13", "3.12.9", "3.13.0"),
        ("==3.11.*", "3.11.7", "3.12.0"),
        (">=3.10, <3.12", "3.11.7", "3.12.0"),
        // The floor holds even where the template asks for less.
        (">=3.6", "3.10.0", "3.9.18"),
    ] {
        let parsed = VersionSpec::parse(spec).expect(spec);
        assert!(parsed.admits(version(yes)), "{spec} should admit {yes}");
        assert!(!parsed.admits(version(no)), "{spec} should not admit {no}");
    }
}

#[test]
fn refuses_what_it_does_not_understand() {
    for spec in [
        "",
        "3.10",
        ">=3",
        ">=3.x",
        "~=3.10",
        ">=3.10,",
        "==3.11",
        "==3.*",
        ">3.10",
        "<=3.12",
        ">=3.10.1.2",
        ">=+3.10",
        "==3.11.7.*",
    ] {
        assert!(VersionSpec::parse(spec).is_err(), "{spec:?}");
    }
    assert!(VersionSpec::parse(&[">=3.10"; 9].join(",")).is_err());
}
