//! The attempts to start a zygote that fails to start.

use std::time::Instant;

use super::{Attempts, FAILURES_MAX, FAILURES_PAUSE};

#[test]
fn zygote_is_tried_a_few_times_and_then_once_in_a_while() {
    let start = Instant::now();
    let mut attempts = Attempts::default();
    for _ in 0..FAILURES_MAX {
        assert!(attempts.may_try(start));
        attempts.failed(start);
    }
    assert!(!attempts.may_try(start));
    let later = start + FAILURES_PAUSE;
    assert!(attempts.may_try(later));
    attempts.failed(later);
    assert!(!attempts.may_try(later));
    assert!(attempts.may_try(later + FAILURES_PAUSE));
}
