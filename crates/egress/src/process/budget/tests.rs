//! Limits of several owners at once.

use std::sync::Arc;
use std::time::Duration;

use silica_domain::NetworkLimits;

use super::{Budget, Budgets, Direction, UsedUp};

fn budgets(own: NetworkLimits, key: NetworkLimits) -> Budgets {
    let server = NetworkLimits::for_server();
    Budgets([own, key, server].map(|limits| Arc::new(Budget::new(limits))))
}

#[tokio::test(start_paused = true)]
async fn connection_needs_a_place_in_every_budget() {
    let key = NetworkLimits { connections: 1, ..NetworkLimits::for_key() };
    let budgets = budgets(NetworkLimits::default(), key);
    let place = budgets.open_connection().ok().unwrap();
    assert_eq!(budgets.open_connection().err(), Some(UsedUp("connections")));
    // What the refused one had taken of its own sandbox was given back.
    drop(place);
    assert!(budgets.open_connection().is_ok());
    assert!(!budgets.own().was_hit());
}

#[tokio::test(start_paused = true)]
async fn rate_comes_back_with_time() {
    let own = NetworkLimits {
        connections_per_second: 2,
        connections_burst: 3,
        ..NetworkLimits::default()
    };
    let budgets = budgets(own, NetworkLimits::for_key());
    for _ in 0..3 {
        assert!(budgets.open_connection().is_ok());
    }
    assert_eq!(budgets.open_connection().err(), Some(UsedUp("connections_per_second")));
    tokio::time::advance(Duration::from_millis(500)).await;
    assert!(budgets.open_connection().is_ok());
    assert!(budgets.open_connection().is_err());
}

#[tokio::test(start_paused = true)]
async fn bytes_are_counted_and_slowed_down() {
    let own = NetworkLimits { bytes_up: 1000, bytes_per_second: 100, ..NetworkLimits::default() };
    let budgets = budgets(own, NetworkLimits::for_key());
    assert_eq!(budgets.spend(Direction::Up, 100), Ok(Duration::ZERO));
    assert_eq!(budgets.spend(Direction::Up, 50), Ok(Duration::from_millis(500)));
    assert_eq!(budgets.spend(Direction::Down, 50), Ok(Duration::from_secs(1)));
    assert_eq!(budgets.spend(Direction::Up, 900), Err(UsedUp("bytes_up")));
    assert_eq!(budgets.open_connection().err(), Some(UsedUp("bytes_up")));
    assert!(budgets.own().was_hit());
}

#[tokio::test]
async fn names_are_given_back() {
    let own = NetworkLimits { names: 1, ..NetworkLimits::default() };
    let budgets = budgets(own, NetworkLimits::for_key());
    assert_eq!(budgets.take_name(), Ok(()));
    assert_eq!(budgets.take_name(), Err(UsedUp("names")));
    budgets.give_names_back(1);
    assert_eq!(budgets.take_name(), Ok(()));
}
