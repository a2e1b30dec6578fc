//! Amounts are written with three digits and a unit that fits.

use super::{amount, digits, tick};

#[test]
fn amounts_have_three_digits_and_a_unit_that_fits() {
    for (value, unit, expected) in [
        (0.0631, "ms", "63.1 µs"),
        (1.284, "ms", "1.28 ms"),
        (151.4, "ms", "151 ms"),
        (1396.0, "ms", "1.40 s"),
        (0.0, "ms", "0.00 ms"),
        (2.64, "MB", "2.64 MB"),
        (0.0494, "×", "0.049 ×"),
        (104.4, "/s", "104 /s"),
        (12_345.6, "/s", "12\u{202f}346 /s"),
        (-0.5, "MB", "-0.50 MB"),
    ] {
        assert_eq!(amount(value, unit), expected);
    }
}

#[test]
fn rounding_up_does_not_add_a_digit() {
    assert_eq!(digits(9.999), "10.0");
    assert_eq!(digits(99.96), "100");
}

#[test]
fn ticks_are_short() {
    assert_eq!(
        [0.01, 0.5, 20.0, 1_000_000.0].map(tick),
        ["0.01", "0.5", "20", "1\u{202f}000\u{202f}000"]
    );
}
