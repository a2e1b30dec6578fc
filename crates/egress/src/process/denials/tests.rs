//! Counts of refusals.

use std::time::Duration;

use super::{Denials, HOSTS_MAX};
use crate::events::ConnectionKind;
use crate::process::refusal::Refusal;

#[tokio::test(start_paused = true)]
async fn first_is_reported_and_others_are_counted() {
    let denials = Denials::default();
    let refusal = Refusal::forbidden("host_not_allowed", "no");
    let note = |host: &str| denials.note(host, 443, ConnectionKind::Tcp, &refusal);
    assert_eq!(note("a.example").map(|record| record.count), Some(1));
    assert_eq!(note("a.example"), None);
    assert_eq!(note("a.example"), None);
    assert!(note("b.example").is_some());
    assert_eq!(denials.due().len(), 0);
    tokio::time::advance(Duration::from_secs(11)).await;
    let due = denials.due();
    assert_eq!(due.len(), 1);
    assert_eq!((due[0].host.as_str(), due[0].count), ("a.example", 2));
    assert_eq!(denials.due().len(), 0);
    assert_eq!(denials.total(), 4);
}

#[tokio::test]
async fn different_hosts_are_bounded() {
    let denials = Denials::default();
    let refusal = Refusal::forbidden("host_not_allowed", "no");
    let mut reported = 0;
    for number in 0..HOSTS_MAX + 500 {
        let host = format!("{number}.evil.test");
        reported += usize::from(denials.note(&host, 0, ConnectionKind::Dns, &refusal).is_some());
    }
    assert_eq!(reported, HOSTS_MAX + 1);
    let rest = denials.rest();
    assert_eq!((rest[0].host.as_str(), rest[0].count), ("*", 499));
}
