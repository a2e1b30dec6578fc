//! Moments as text.

use proptest::prelude::*;

use super::{DAY_MAX, SECONDS_PER_DAY, Timestamp};

#[test]
fn known_moments_are_written_and_read() {
    let table = [
        (0, "1970-01-01T00:00:00.000000Z"),
        (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
        (1_794_735_001_000_042, "2026-11-15T09:30:01.000042Z"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
    ];
    for (micros, text) in table {
        assert_eq!(Timestamp::from_micros(micros).to_string(), text);
        assert_eq!(text.parse(), Ok(Timestamp::from_micros(micros)));
    }
    for short in ["2026-11-15T09:30:00", "2026-11-15 09:30", "2026-11-15T09:30:00.0Z"] {
        assert_eq!(short.parse(), Ok(Timestamp::from_micros(1_794_735_000_000_000)), "{short}");
    }
}

#[test]
fn moments_without_a_year_are_plain_numbers() {
    assert_eq!(Timestamp::from_micros(-1).to_string(), "-1us");
    assert_eq!(Timestamp::from_micros(i64::MAX).to_string(), "9223372036854775807us");
}

#[test]
fn what_is_no_moment_is_refused() {
    for wrong in [
        "",
        "yesterday",
        "2026-02-29",
        "2026-13-01",
        "2026-1-1",
        "1969-12-31",
        "2026-11-15T24:00:00",
        "2026-11-15T09:60:00",
        "2026-11-15T09",
        "2026-11-15T09:30:00.",
        "2026-11-15T09:30:00.1234567",
        "2026-11-15T09:30:00+01:00",
        "2026-11-15-01",
        "+026-11-15",
    ] {
        assert!(wrong.parse::<Timestamp>().is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn every_moment_is_read_as_it_was_written(
        micros in prop_oneof![any::<i64>(), 0..(DAY_MAX + 1) * SECONDS_PER_DAY * 1_000_000]
    ) {
        let moment = Timestamp::from_micros(micros);
        prop_assert_eq!(moment.to_string().parse(), Ok(moment));
    }

    #[test]
    fn no_text_makes_it_panic(text in "[-0-9TZ:. ]{0,30}|.{0,30}") {
        let _ = text.parse::<Timestamp>();
    }
}
