//! Permits are granted fairly, in every order in which they can be wanted and returned.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use silica_store::Tenant;

use super::{FairSemaphore, Permit, PermitBounds};

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).unwrap()
}

type Waiting<'a> = Pin<Box<dyn Future<Output = Permit> + 'a>>;

/// Polls a waiting future once.
fn poll(waiting: Pin<&mut (impl Future<Output = Permit> + ?Sized)>) -> Option<Permit> {
    match waiting.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(permit) => Some(permit),
        Poll::Pending => None,
    }
}

#[test]
fn one_is_reserved_for_a_key_that_holds_none() {
    let semaphore = FairSemaphore::new(PermitBounds { total: 2, per_key: 9, reserved: 1 });
    let (greedy, modest) = (tenant("greedy"), tenant("modest"));
    let _held: Vec<Permit> =
        (0..2).map(|_| poll(pin!(semaphore.acquire(&greedy))).unwrap()).collect();
    let mut third = pin!(semaphore.acquire(&greedy));
    assert!(poll(third.as_mut()).is_none());
    let own = poll(pin!(semaphore.acquire(&modest))).unwrap();
    let mut second = pin!(semaphore.acquire(&modest));
    assert!(poll(second.as_mut()).is_none(), "it has one");
    let third_key = tenant("other");
    let mut other = pin!(semaphore.acquire(&third_key));
    assert!(poll(other.as_mut()).is_none(), "there is no more");
    drop(own);
    // It comes behind the greedy one, who may not, and before those who come later.
    assert!(poll(second.as_mut()).is_some());
    assert!(poll(third.as_mut()).is_none());
}

#[test]
fn a_key_whose_waiters_left_does_not_hide_those_behind_it() {
    let semaphore = FairSemaphore::new(PermitBounds { total: 1, per_key: 1, reserved: 0 });
    let [first, second, third] = ["a", "b", "c"].map(tenant);
    let held = poll(pin!(semaphore.acquire(&first))).unwrap();
    {
        let mut left = pin!(semaphore.acquire(&second));
        assert!(poll(left.as_mut()).is_none());
    }
    let mut waiting = pin!(semaphore.acquire(&third));
    assert!(poll(waiting.as_mut()).is_none());
    drop(held);
    assert!(poll(waiting.as_mut()).is_some());
}

#[tokio::test]
async fn work_that_takes_long_returns_its_permit() {
    let semaphore = FairSemaphore::new(PermitBounds { total: 1, per_key: 1, reserved: 0 });
    let (first, second) = (tenant("a"), tenant("b"));
    let (sender, finished) = tokio::sync::oneshot::channel::<u32>();
    let permit = semaphore.acquire(&first).await;
    let mut work = pin!(permit.spend(finished));
    let mut waiting = pin!(semaphore.acquire(&second));
    tokio::select! {
        _ = work.as_mut() => panic!("nothing was sent"),
        permit = waiting.as_mut() => drop(permit),
    }
    sender.send(7).unwrap();
    assert_eq!(work.await, Ok(7));
    assert_eq!(semaphore.held(None), 0);
}

proptest! {
    /// Bounds hold in every order, no key waits that could have a permit, and no state is left in the end.
    #[test]
    fn bounds_hold_and_no_permit_is_lost(
        (total, per_key, reserved) in (1..4_usize, 1..4_usize, 0..3_usize),
        steps in proptest::collection::vec((0..4_u8, 0..3_usize, 0..8_usize), 1..60),
    ) {
        let bounds = PermitBounds { total, per_key, reserved };
        let semaphore = FairSemaphore::new(bounds);
        let tenants = ["a", "b", "c"].map(tenant);
        let mut waiting: Vec<(usize, Waiting<'_>)> = Vec::new();
        let mut held: Vec<(usize, Permit)> = Vec::new();
        for (what, who, which) in steps {
            match what {
                0 | 1 => {
                    let (semaphore, tenant) = (&semaphore, &tenants[who]);
                    waiting.push((who, Box::pin(semaphore.acquire(tenant))));
                }
                2 if !held.is_empty() => drop(held.swap_remove(which % held.len())),
                3 if !waiting.is_empty() => drop(waiting.swap_remove(which % waiting.len())),
                _ => {}
            }
            let mut still = Vec::new();
            for (who, mut one) in waiting {
                match poll(one.as_mut()) {
                    Some(permit) => held.push((who, permit)),
                    None => still.push((who, one)),
                }
            }
            waiting = still;
            let taken = |who: usize| held.iter().filter(|(holder, _)| *holder == who).count();
            prop_assert_eq!(semaphore.held(None), held.len());
            prop_assert!(held.len() <= total + reserved);
            for (who, tenant) in tenants.iter().enumerate() {
                prop_assert_eq!(semaphore.held(Some(tenant)), taken(who));
                prop_assert!(taken(who) <= per_key);
            }
            for (who, _) in &waiting {
                let may = (held.len() < total && taken(*who) < per_key)
                    || (held.len() < total + reserved && taken(*who) == 0);
                prop_assert!(!may, "{bounds:?}: {who} waits, {} are taken", held.len());
            }
        }
        drop((waiting, held));
        prop_assert_eq!(semaphore.held(None), 0);
        // Even those who left while they waited are forgotten as soon as anything happens.
        drop(poll(pin!(semaphore.acquire(&tenants[0]))));
        prop_assert!(semaphore.lock().keys.is_empty() && semaphore.lock().order.is_empty());
    }
}
