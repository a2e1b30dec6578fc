//! Tests of budgets and reservations.

use super::*;

const KEY: Budget = Budget { in_flight_bytes: 10, kept_bytes: 100, transfers: 1, connections: 2 };
const SERVER: Budget =
    Budget { in_flight_bytes: 15, kept_bytes: 150, transfers: 2, connections: 3 };

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).expect("a valid name")
}

fn refused(result: Result<(), AdmissionError>) -> (&'static str, u64) {
    match result {
        Err(AdmissionError::Quota { what, most, .. }) => (what, most),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn a_key_holds_no_more_than_its_budget() {
    let ledger = Ledger::new(KEY, SERVER);
    let mut hold = ledger.hold(&tenant("one"), Resource::KeptBytes);
    hold.grow(60).expect("within the budget");
    let refusal = refused(hold.grow(41));
    assert_eq!(refusal, ("bytes of kept output of one key", 100));
    assert_eq!(hold.amount(), 60, "a refused part is not held");
    hold.grow(40).expect("exactly the budget");
    assert_eq!(ledger.refused(Resource::KeptBytes), 1);
}

#[test]
fn all_keys_hold_no_more_than_the_budget_of_the_server() {
    let ledger = Ledger::new(KEY, SERVER);
    let mut one = ledger.hold(&tenant("one"), Resource::InFlightBytes);
    let mut two = ledger.hold(&tenant("two"), Resource::InFlightBytes);
    one.grow(10).expect("within both budgets");
    assert_eq!(refused(two.grow(6)), ("bytes of requests and responses in flight", 15));
    two.grow(5).expect("what is left of the server's budget");
    assert_eq!(ledger.held(None, Resource::InFlightBytes), 15);
    assert_eq!(ledger.largest(Resource::InFlightBytes), Some(tenant("one")));
}

#[test]
fn what_is_dropped_or_given_back_can_be_held_again() {
    let ledger = Ledger::new(KEY, SERVER);
    let mut one = ledger.hold(&tenant("one"), Resource::Connections);
    one.grow(2).expect("within the budget");
    one.shrink(1);
    assert_eq!(ledger.held(Some(&tenant("one")), Resource::Connections), 1);
    drop(one);
    assert_eq!(ledger.held(None, Resource::Connections), 0);
    assert!(ledger.lock().keys.is_empty(), "a key that holds nothing is forgotten");
}

#[test]
fn resources_are_counted_apart() {
    let ledger = Ledger::new(KEY, SERVER);
    let mut transfers = ledger.hold(&tenant("one"), Resource::Transfers);
    transfers.grow(1).expect("within the budget");
    let mut kept = ledger.hold(&tenant("one"), Resource::KeptBytes);
    kept.grow(100).expect("another resource");
    assert_eq!(ledger.held(None, Resource::Transfers), 1);
}
