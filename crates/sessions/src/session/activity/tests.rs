//! The parts of a key's weight.

use super::*;

/// Sessions that become active at once, before the weights are divided: all of them together do not outweigh many keys.
#[test]
fn sessions_that_become_active_have_a_bounded_weight() {
    let all: u32 = (1..=32).map(first_part).sum();
    assert!(all < 5 * CpuShare::WEIGHT_MAX / 2, "{all}");
    assert_eq!((part(1), part(2), part(32)), (800, 400, 25));
    assert_eq!((first_part(1), first_part(8), first_part(32)), (100, 100, 25));
    assert_eq!(part(10_000), ACTIVE_WEIGHT_MIN);
}

#[test]
fn sessions_are_counted_by_key() {
    let executing = ExecutingSessions::default();
    let (a, b) = (Tenant::parse("a").unwrap(), Tenant::parse("b").unwrap());
    assert_eq!((executing.begin(&a), executing.begin(&a), executing.begin(&b)), (1, 2, 1));
    executing.end(&a);
    assert_eq!(executing.begin(&a), 2);
    executing.end(&b);
    assert_eq!(executing.begin(&b), 1);
}
