//! Times as people write them.

use std::time::Duration;

use silica_store::Timestamp;

use super::{ago, moment};

#[test]
fn times_and_ages_are_read() {
    assert_eq!(moment("1970-01-02"), Ok(Timestamp::from_micros(86_400_000_000)));
    let table = [("90s", 90), ("30m", 1800), ("2h", 7200), ("7d", 604_800), ("0s", 0)];
    for (text, seconds) in table {
        assert_eq!(ago(text).unwrap(), Duration::from_secs(seconds), "{text}");
    }
    assert!(moment("1h").unwrap() < Timestamp::now());
}

#[test]
fn what_is_neither_is_refused_with_an_example() {
    for wrong in ["", "h", "-1h", "1.5h", "2w", "tomorrow", "99999999999999999999d", "2026-02-30"] {
        let error = moment(wrong).unwrap_err();
        assert!(error.contains("2026-11-15"), "{error}");
    }
}
