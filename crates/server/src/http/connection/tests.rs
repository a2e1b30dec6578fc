//! Tests of which connection is closed for a new one.

use std::net::Ipv4Addr;

use super::*;

fn peer(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

fn is_closed(connection: &Connection) -> bool {
    let closed = std::pin::pin!(connection.closed());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    closed.poll(&mut context).is_ready()
}

#[test]
fn a_full_server_closes_the_oldest_connection_without_a_key() {
    let connections = Connections::new(2);
    let first = connections.admit(peer(1)).expect("the server is empty");
    let second = connections.admit(peer(2)).expect("there is room for two");
    let third = connections.admit(peer(3)).expect("the first is closed for it");
    assert!(is_closed(&first));
    assert!(!is_closed(&second));
    assert!(!is_closed(&third));
    drop(first);
    assert_eq!(connections.lock().open.len(), 2, "a closed connection is counted off once");
}

#[test]
fn a_peer_has_a_bounded_number_of_connections_without_a_key() {
    let connections = Connections::new(usize::MAX);
    let other = connections.admit(peer(2)).expect("the server is empty");
    let all: Vec<_> =
        (0..=WITHOUT_KEY_PER_PEER_MAX).map(|_| connections.admit(peer(1)).expect("room")).collect();
    assert!(is_closed(&all[0]), "the oldest of the peer is closed");
    assert!(!is_closed(&all[1]));
    assert!(!is_closed(&other), "connections of other peers stay");
}

#[test]
fn connections_that_end_leave_nothing() {
    let connections = Connections::new(10);
    let all: Vec<_> = (0..10).map(|_| connections.admit(peer(1)).expect("room")).collect();
    drop(all);
    let state = connections.lock();
    assert!(state.open.is_empty());
    assert!(state.without_key.is_empty());
    assert!(state.peers.is_empty());
}
