//! Lanes take turns; a lane that fails is reported and does not affect the others.

use std::cell::RefCell;
use std::time::Duration;

use super::{Effort, Lane, interleave};

const EFFORT: Effort =
    Effort { warm_ups: 1, samples: 4, lane: Duration::from_mins(1), samples_least: 3, in_a_row: 1 };

/// A lane that writes down when it is its turn.
fn noting(seen: &RefCell<String>, who: char) -> Lane<'_> {
    Lane::new(who.to_string(), false, move || {
        seen.borrow_mut().push(who);
        Ok(Duration::from_millis(2))
    })
}

#[test]
fn lanes_take_turns() {
    let seen = RefCell::new(String::new());
    let table = interleave("t", vec![noting(&seen, 'a'), noting(&seen, 'b')], EFFORT);
    assert_eq!(*seen.borrow(), "ababababab");
    let row = table.row("a").unwrap();
    assert_eq!((row.summary.count, row.summary.p50), (4, 2.0));
}

#[test]
fn turns_may_be_longer_than_one_sample() {
    let seen = RefCell::new(String::new());
    let effort = Effort { warm_ups: 0, samples: 5, in_a_row: 3, ..EFFORT };
    interleave("t", vec![noting(&seen, 'a'), noting(&seen, 'b')], effort);
    assert_eq!(*seen.borrow(), "aaabbbaabb");
}

#[test]
fn failing_lane_says_why_and_others_go_on() {
    let mut left = 3;
    let fails = Lane::new("bad", false, move || {
        left -= 1;
        anyhow::ensure!(left > 0, "\nno such thing\nand more");
        Ok(Duration::ZERO)
    });
    let table =
        interleave("t", vec![fails, Lane::new("good", true, || Ok(Duration::ZERO))], EFFORT);
    assert_eq!(table.rows.len(), 1);
    assert_eq!(table.row("good").unwrap().summary.count, 4);
    assert_eq!(table.absent[0].reason, "no such thing");
}

#[test]
fn reason_does_not_tell_where_the_bench_stands() {
    let place = std::env::current_dir().unwrap();
    let error = anyhow::anyhow!("no {}/target/bench here", place.display());
    assert_eq!(super::first_line(&error), "no …/target/bench here");
}

#[test]
fn slow_lane_stops_when_its_time_is_used_up() {
    let effort = Effort { lane: Duration::ZERO, ..EFFORT };
    let table = interleave("t", vec![Lane::new("slow", false, || Ok(Duration::ZERO))], effort);
    assert_eq!(table.row("slow").unwrap().summary.count, 3);
}
