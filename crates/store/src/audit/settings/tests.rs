//! Redaction.

use proptest::prelude::*;

use super::{Redaction, RedactionError};

#[test]
fn what_matches_is_replaced_and_the_rest_stays() {
    let redaction = Redaction::new(&["sk-[a-z0-9]+", r"(?i)password=\S+"]).unwrap();
    let text = "key = 'sk-abc123'\nurl = 'x?Password=hunter2 y'\n# $0 sk-";
    let expected = "key = '[redacted]'\nurl = 'x?[redacted] y'\n# $0 sk-";
    assert_eq!(redaction.apply(text), expected);
}

#[test]
fn patterns_that_cannot_be_meant_are_refused() {
    assert!(matches!(Redaction::new(&["("]), Err(RedactionError::Pattern { .. })));
    assert!(matches!(Redaction::new(&["x*"]), Err(RedactionError::Everything(_))));
    assert!(matches!(Redaction::new(&["x"; 101]), Err(RedactionError::TooMany(101))));
}

proptest! {
    #[test]
    fn nothing_that_matches_is_left(text in "[a-z0-9 \\-]{0,200}") {
        let redaction = Redaction::new(&["[0-9]+"]).unwrap();
        prop_assert!(!redaction.apply(&text).bytes().any(|byte| byte.is_ascii_digit()));
    }
}
