//! Which values are made at once.

use super::*;

/// A value that must not be made on a thread of the runtime.
struct Heavy;

impl Serialize for Heavy {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("it was made at once");
    }
}

impl LongText for Heavy {
    fn bytes_least(&self) -> u64 {
        SHORT_BYTES_MAX as u64 + 1
    }
}

#[derive(Serialize)]
struct Text(String);

impl LongText for Text {
    fn bytes_least(&self) -> u64 {
        0
    }
}

#[test]
fn a_value_that_is_known_to_be_long_is_not_begun() {
    assert_eq!(short_text(&Heavy).unwrap(), None);
}

#[test]
fn a_short_value_is_made_at_once_and_a_long_one_is_given_up() {
    assert_eq!(short_text(&Text("a".to_owned())).unwrap(), Some(b"\"a\"".to_vec()));
    assert_eq!(short_text(&Text("a".repeat(SHORT_BYTES_MAX))).unwrap(), None);
}
