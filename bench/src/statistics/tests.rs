//! Quantiles are values that were measured, whatever the order they came in.

use super::{Samples, Summary};

#[test]
fn quantiles_are_measured_values() {
    let samples: Samples = (1..=100).rev().map(f64::from).collect();
    let expected = Summary { count: 100, min: 1.0, p50: 50.0, p90: 90.0, p99: 99.0 };
    assert_eq!(samples.summary(), Some(expected));
}

#[test]
fn few_samples_have_quantiles_too() {
    let one: Samples = [7.0].into_iter().collect();
    assert_eq!(one.summary(), Some(Summary::once(7.0)));
    let two: Samples = [9.0, 3.0].into_iter().collect();
    let expected = Summary { count: 2, min: 3.0, p50: 3.0, p90: 9.0, p99: 9.0 };
    assert_eq!(two.summary(), Some(expected));
}

#[test]
fn nothing_is_said_about_nothing() {
    assert_eq!(Samples::default().summary(), None);
    let nonsense: Samples = [f64::NAN, f64::INFINITY].into_iter().collect();
    assert_eq!(nonsense.summary(), None);
}
