//! Digests as text.

use proptest::prelude::*;

use super::{Digest, from_hex, to_hex};

#[test]
fn digest_of_nothing_is_the_known_one() {
    let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(Digest::of("").to_string(), text);
    assert_eq!(text.parse(), Ok(Digest::of("")));
}

#[test]
fn other_forms_are_refused() {
    let good = Digest::of("x").to_string();
    for wrong in [&good[1..], &good.to_uppercase(), &format!("{good}0"), "", &"ä".repeat(32)] {
        assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn hexadecimal_is_read_as_it_was_written(bytes: [u8; 20]) {
        prop_assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
    }

    #[test]
    fn no_text_is_read_wrongly(text in ".{0,12}") {
        if let Some(bytes) = from_hex::<4>(&text) {
            prop_assert_eq!(to_hex(&bytes), text);
        }
    }
}
