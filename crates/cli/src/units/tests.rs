//! Sizes, times and variables as people write them.

use super::*;

#[test]
fn sizes() {
    for (text, value) in [
        ("0", Some(0)),
        ("1000", Some(1000)),
        ("64k", Some(65_536)),
        ("512M", Some(536_870_912)),
        ("2GiB", Some(2_147_483_648)),
        ("1 mb", Some(1_048_576)),
        ("", None),
        ("-1", None),
        ("1.5G", None),
        ("1T", None),
        ("99999999999G", None),
    ] {
        assert_eq!(bytes(text).ok(), value, "{text:?}");
    }
}

#[test]
fn times() {
    for (text, value) in [
        ("30", Some(30_000)),
        ("1.5s", Some(1500)),
        ("500ms", Some(500)),
        ("2m", Some(120_000)),
        ("1h", Some(3_600_000)),
        ("h", None),
        ("0", Some(0)),
        ("-1", None),
        ("soon", None),
        ("1e300", None),
    ] {
        let millis = duration(text).ok().map(|time| time.as_millis());
        assert_eq!(millis, value, "{text:?}");
    }
}

#[test]
fn processors_and_variables() {
    assert_eq!(cpus("0.5"), Ok(500));
    assert_eq!(cpus("2"), Ok(2000));
    assert!(cpus("-1").is_err() && cpus("NaN").is_err() && cpus("x").is_err());
    assert_eq!(variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
    assert!(variable("A").is_err() && variable("=b").is_err());
}
