//! FairSemaphore go round, bounds hold, and what is dropped is given back.

use std::time::Duration;

use silica_store::Tenant;

use super::{Admission, AdmissionError, Budget, Capacity, Load, Quota};

pub(crate) fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).unwrap()
}

fn quota() -> Quota {
    Quota {
        requests_per_second: 10.0,
        request_burst: 5.0,
        sandboxes: 2,
        running: 2,
        queued: 8,
        upload_bytes_per_minute: 1000,
        output_bytes_per_minute: 1000,
        audit_bytes_per_minute: 1000,
        cpu_seconds_per_minute: 10,
        budget: BUDGET,
    }
}

const BUDGET: Budget =
    Budget { in_flight_bytes: 1000, kept_bytes: 1000, transfers: 2, connections: 2 };

const CAPACITY: Capacity =
    Capacity { running: 1, reserved: 0, queued: 12, sandboxes: 3, creating: 2, budget: BUDGET };

fn admission(running: usize) -> Admission {
    Admission::new(quota(), Capacity { running, ..CAPACITY })
}

/// Returns an admission with these budgets of kept bytes.
pub(crate) fn admission_with(of_key: u64, of_server: u64) -> Admission {
    let quota = Quota { budget: Budget { kept_bytes: of_key, ..BUDGET }, ..quota() };
    let budget = Budget { kept_bytes: of_server, ..BUDGET };
    Admission::new(quota, Capacity { budget, ..CAPACITY })
}

#[tokio::test]
async fn permits_go_round_the_keys() {
    let admission = admission(1);
    let first = admission.queue(&tenant("a")).unwrap().permit().await;
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut waiting = Vec::new();
    for (name, count) in [("a", 3), ("b", 1), ("c", 2)] {
        for _ in 0..count {
            let (queued, sender) = (admission.queue(&tenant(name)).unwrap(), sender.clone());
            waiting.push(tokio::spawn(async move {
                let permit = queued.permit().await;
                sender.send(name).unwrap();
                drop(permit);
            }));
            tokio::task::yield_now().await;
        }
    }
    drop((first, sender));
    for task in waiting {
        task.await.unwrap();
    }
    let mut seen = Vec::new();
    while let Some(name) = order.recv().await {
        seen.push(name);
    }
    assert_eq!(seen, ["a", "b", "c", "a", "c", "a"]);
    assert_eq!(admission.load(None), Load::default());
}

#[tokio::test]
async fn a_key_holds_no_more_permits_than_its_quota() {
    let admission = admission(4);
    let one = admission.queue(&tenant("a")).unwrap().permit().await;
    let _two = admission.queue(&tenant("a")).unwrap().permit().await;
    let third = admission.queue(&tenant("a")).unwrap().permit();
    tokio::pin!(third);
    assert!(tokio::time::timeout(Duration::from_millis(20), third.as_mut()).await.is_err());
    let _other = admission.queue(&tenant("b")).unwrap().permit().await;
    drop(one);
    third.await;
}

#[tokio::test]
async fn a_waiter_that_is_dropped_leaves_no_trace() {
    let admission = admission(1);
    let held = admission.queue(&tenant("a")).unwrap().permit().await;
    let queued = admission.queue(&tenant("b")).unwrap();
    let gone = tokio::time::timeout(Duration::from_millis(5), queued.permit()).await;
    assert!(gone.is_err());
    drop(held);
    assert_eq!(admission.load(None), Load::default());
    admission.queue(&tenant("c")).unwrap().permit().await;
}

#[test]
fn queues_are_bounded_for_each_and_for_all() {
    let admission = admission(1);
    let mut held: Vec<_> = (0..8).map(|_| admission.queue(&tenant("a")).unwrap()).collect();
    assert_eq!(admission.queue(&tenant("a")).unwrap_err(), AdmissionError::QueueFull { queued: 8 });
    held.extend((0..4).map(|_| admission.queue(&tenant("b")).unwrap()));
    assert_eq!(
        admission.queue(&tenant("c")).unwrap_err(),
        AdmissionError::QueueFull { queued: 12 }
    );
    held.clear();
    admission.queue(&tenant("c")).unwrap();
}

#[test]
fn sandboxes_are_bounded_for_each_and_for_all() {
    let admission = admission(1);
    let held: Vec<_> = (0..2).map(|_| admission.sandbox(&tenant("a")).unwrap()).collect();
    let refused = admission.sandbox(&tenant("a")).unwrap_err();
    assert_eq!(refused.to_string(), "the quota is used up: at most 2 sandboxes of one key");
    let _other = admission.sandbox(&tenant("b")).unwrap();
    let refused = admission.sandbox(&tenant("c")).unwrap_err();
    assert_eq!(refused.to_string(), "the quota is used up: at most 3 sandboxes on this server");
    drop(held);
    admission.sandbox(&tenant("a")).unwrap();
}

#[tokio::test]
async fn requests_above_the_rate_are_delayed_and_then_refused() {
    let admission = admission(1);
    let began = std::time::Instant::now();
    // Five at once, five in the half second that a request may be delayed.
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let admission = admission.clone();
        all.spawn(async move { admission.request(&tenant("a")).await });
    }
    let refused: Vec<_> = all.join_all().await.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused[0].retry_after() > Duration::from_millis(500), "{refused:?}");
    assert!(began.elapsed() >= Duration::from_millis(490), "the last one was delayed");
    admission.request(&tenant("b")).await.unwrap();
}

#[test]
fn rates_refuse_and_say_when_to_try_again() {
    let admission = admission(1);
    admission.upload(&tenant("a"), 1000).unwrap();
    let refused = admission.upload(&tenant("a"), 500).unwrap_err();
    let retry = refused.retry_after();
    assert!(retry > Duration::from_secs(25) && retry <= Duration::from_secs(30), "{retry:?}");
}

#[test]
fn what_was_used_too_much_is_paid_for_later() {
    let admission = admission(1);
    admission.charge(&tenant("a"), 0, Duration::from_secs(20));
    let refused = admission.queue(&tenant("a")).unwrap_err();
    let words = "the quota is used up: at most 10 processor seconds per minute";
    assert_eq!(refused.to_string(), words);
    admission.charge(&tenant("b"), 5000, Duration::ZERO);
    let refused = admission.queue(&tenant("b")).unwrap_err();
    assert!(refused.to_string().contains("output bytes"), "{refused}");
    admission.queue(&tenant("c")).unwrap();
}

#[tokio::test]
async fn creating_sandboxes_goes_round_the_keys_too() {
    let admission = admission(1);
    let held = admission.creating(&tenant("a")).await;
    let again = tenant("a");
    let second = admission.creating(&again);
    tokio::pin!(second);
    assert!(tokio::time::timeout(Duration::from_millis(20), second.as_mut()).await.is_err());
    drop(admission.creating(&tenant("b")).await);
    assert!(!admission.is_idle());
    drop(held);
    drop(second.await);
    assert!(admission.is_idle());
}

/// One key cannot take every thread for file calls, nor every reader of the store.
#[tokio::test(start_paused = true)]
async fn file_calls_and_searches_of_one_key_leave_room_for_others() {
    let admission = Admission::new(quota(), CAPACITY);
    let hostile = tenant("hostile");
    let mut calls = Vec::new();
    for _ in 0..super::FILE_CALLS.per_key {
        calls.push(admission.file_call(&hostile).await.unwrap());
    }
    let refused = admission.file_call(&hostile).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the quota is used up: at most 8 file calls of one key at a time"
    );
    admission.file_call(&tenant("other")).await.unwrap();
    let search = admission.search(&hostile).await.unwrap();
    assert!(admission.search(&hostile).await.is_err());
    let others = [tenant("b"), tenant("c")];
    let first = admission.search(&others[0]).await.unwrap();
    let second = admission.search(&others[1]).await.unwrap();
    drop((calls, search, first, second));
    admission.file_call(&hostile).await.unwrap();
    admission.search(&hostile).await.unwrap();
}
