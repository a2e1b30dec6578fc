//! Tests of which output is dropped when a budget is used up.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::fairness::tests::{admission_with, tenant};

/// Something that has ended, with its output.
#[derive(Debug)]
struct Ended {
    kept: Mutex<Option<KeptBytes>>,
    is_read: AtomicBool,
}

impl HasOutput for Ended {
    fn drop_output(&self) -> bool {
        let is_read = self.is_read.load(Ordering::Relaxed);
        !is_read && self.kept.lock().unwrap().take().is_some()
    }
}

impl Ended {
    fn has_output(&self) -> bool {
        self.kept.lock().unwrap().is_some()
    }
}

fn ended(kept: &KeptOutput, name: &str, bytes: u64) -> Arc<Ended> {
    let mut counted = kept.begin(&tenant(name));
    assert!(counted.grow(bytes), "{bytes} bytes of {name}");
    counted.settle();
    let item = Arc::new(Ended { kept: Mutex::new(Some(counted)), is_read: false.into() });
    kept.ended(&tenant(name), Arc::downgrade(&item) as Weak<dyn HasOutput>);
    item
}

fn kept(of_key: u64, of_server: u64) -> KeptOutput {
    KeptOutput::new(admission_with(of_key, of_server))
}

#[test]
fn the_oldest_output_of_a_key_makes_room() {
    let kept = kept(5 * STEP_BYTES, 100 * STEP_BYTES);
    let other = ended(&kept, "other", STEP_BYTES);
    let first = ended(&kept, "one", 2 * STEP_BYTES);
    let second = ended(&kept, "one", 2 * STEP_BYTES);
    let third = ended(&kept, "one", 2 * STEP_BYTES);
    let has_output = [&other, &first, &second, &third].map(|item| item.has_output());
    assert_eq!(has_output, [true, false, true, true]);
}

#[test]
fn output_that_is_read_stays_and_the_next_goes() {
    let kept = kept(5 * STEP_BYTES, 100 * STEP_BYTES);
    let first = ended(&kept, "one", 2 * STEP_BYTES);
    let second = ended(&kept, "one", 2 * STEP_BYTES);
    first.is_read.store(true, Ordering::Relaxed);
    let _third = ended(&kept, "one", 2 * STEP_BYTES);
    assert!(first.has_output() && !second.has_output());
}

#[test]
fn a_full_server_drops_output_of_the_key_that_has_most() {
    let kept = kept(5 * STEP_BYTES, 6 * STEP_BYTES);
    let large = ended(&kept, "large", 4 * STEP_BYTES);
    let small = ended(&kept, "small", 2 * STEP_BYTES);
    let new = ended(&kept, "new", STEP_BYTES);
    assert!(!large.has_output() && small.has_output() && new.has_output());
}

#[test]
fn what_cannot_be_made_room_for_is_refused_and_counted() {
    let kept = kept(2 * STEP_BYTES, 100 * STEP_BYTES);
    let mut running = kept.begin(&tenant("one"));
    assert!(running.grow(2 * STEP_BYTES));
    assert!(!running.grow(1), "a cell that runs keeps what it has");
    let admission = &kept.0.admission;
    assert_eq!(admission.refused(Resource::KeptBytes), 1);
    drop(running);
    assert_eq!(admission.held(None, Resource::KeptBytes), 0);
}

#[test]
fn only_what_is_used_is_held_after_the_end() {
    let kept = kept(2 * STEP_BYTES, 100 * STEP_BYTES);
    let _small = ended(&kept, "one", 10);
    assert_eq!(kept.0.admission.held(None, Resource::KeptBytes), 10);
}

#[test]
fn entries_of_sandboxes_that_are_gone_are_removed() {
    let kept = kept(2 * STEP_BYTES, 100 * STEP_BYTES);
    let alive = ended(&kept, "one", 1);
    for _ in 0..3 * ENTRIES_MIN {
        drop(ended(&kept, "one", 1));
    }
    let entries = kept.lock()[&tenant("one")].ended.len();
    assert!(entries <= ENTRIES_MIN + 1 && alive.has_output(), "{entries} entries");
}
