//! A change of files leaves its mark, however it ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::mark_after;

#[test]
fn a_change_is_marked_when_it_is_over() {
    let changed = Arc::new(AtomicBool::new(false));
    let seen = mark_after(&changed, || changed.load(Ordering::Acquire));
    assert!(!seen, "not before the change is over: a cell may begin in the middle of it");
    assert!(changed.load(Ordering::Acquire));
}

#[test]
fn a_change_that_panics_is_marked() {
    let changed = Arc::new(AtomicBool::new(false));
    let broken = catch_unwind(AssertUnwindSafe(|| mark_after(&changed, || panic!("on purpose"))));
    assert!(broken.is_err());
    assert!(changed.load(Ordering::Acquire));
}
