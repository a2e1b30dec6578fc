//! A loaded or uneven machine is complained about, a quiet one is not.

use super::{Noise, Quiet};
use crate::statistics::Summary;

fn quiet(load: f64, p90: f64) -> Quiet {
    let rounds = Summary { count: 10, min: 0.9, p50: 1.0, p90, p99: 2.0 };
    Quiet { load: [load, 0.0, 0.0], processors: 2, rounds }
}

#[test]
fn quiet_machine_is_fit_for_comparing() {
    let mut noise = Noise::began(quiet(0.3, 1.1));
    noise.ended(quiet(9.0, 1.1));
    assert_eq!(noise.complaint, None);
}

#[test]
fn load_is_complained_about() {
    let noise = Noise::began(quiet(1.5, 1.0));
    let expected = "before the run the load is 1.50, more than 1.00";
    assert_eq!(noise.complaint.as_deref(), Some(expected));
}

#[test]
fn unevenness_is_complained_about_before_and_after() {
    let before = Noise::began(quiet(0.0, 1.3));
    assert!(before.complaint.unwrap().starts_with("before the run one in ten rounds"));
    let mut after = Noise::began(quiet(0.0, 1.0));
    after.ended(quiet(0.0, 1.5));
    assert!(after.complaint.unwrap().starts_with("after the run one in ten rounds"));
}

#[test]
fn looking_gives_numbers() {
    let seen = Quiet::look_at(3);
    assert!(seen.spread() >= 1.0 && seen.rounds.min > 0.0 && seen.processors > 0, "{seen:?}");
}
