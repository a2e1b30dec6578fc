//! Whose turn it is, in every order in which turns can be wanted and given back.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use silica_store::Tenant;

use super::{Bounds, Turn, Turns};

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).unwrap()
}

type Waiting<'a> = Pin<Box<dyn Future<Output = Turn> + 'a>>;

/// Whoever waits, looked at once.
fn poll(waiting: Pin<&mut (impl Future<Output = Turn> + ?Sized)>) -> Option<Turn> {
    match waiting.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(turn) => Some(turn),
        Poll::Pending => None,
    }
}

#[test]
fn one_is_kept_for_a_key_that_has_none() {
    let turns = Turns::new(Bounds { most: 2, for_one: 9, kept: 1 });
    let (greedy, modest) = (tenant("greedy"), tenant("modest"));
    let _held: Vec<Turn> = (0..2).map(|_| poll(pin!(turns.take(&greedy))).unwrap()).collect();
    let mut third = pin!(turns.take(&greedy));
    assert!(poll(third.as_mut()).is_none());
    let own = poll(pin!(turns.take(&modest))).unwrap();
    let mut second = pin!(turns.take(&modest));
    assert!(poll(second.as_mut()).is_none(), "it has one");
    let third_key = tenant("other");
    let mut other = pin!(turns.take(&third_key));
    assert!(poll(other.as_mut()).is_none(), "there is no more");
    drop(own);
    // It comes behind the greedy one, who may not, and before those who come later.
    assert!(poll(second.as_mut()).is_some());
    assert!(poll(third.as_mut()).is_none());
}

#[test]
fn a_key_whose_waiters_left_does_not_hide_those_behind_it() {
    let turns = Turns::new(Bounds { most: 1, for_one: 1, kept: 0 });
    let [first, second, third] = ["a", "b", "c"].map(tenant);
    let held = poll(pin!(turns.take(&first))).unwrap();
    {
        let mut left = pin!(turns.take(&second));
        assert!(poll(left.as_mut()).is_none());
    }
    let mut waiting = pin!(turns.take(&third));
    assert!(poll(waiting.as_mut()).is_none());
    drop(held);
    assert!(poll(waiting.as_mut()).is_some());
}

#[tokio::test]
async fn work_that_takes_long_leaves_its_turn_to_others() {
    let turns = Turns::new(Bounds { most: 1, for_one: 1, kept: 0 });
    let (first, second) = (tenant("a"), tenant("b"));
    let (sender, finished) = tokio::sync::oneshot::channel::<u32>();
    let turn = turns.take(&first).await;
    let mut work = pin!(turn.spend(finished));
    let mut waiting = pin!(turns.take(&second));
    tokio::select! {
        _ = work.as_mut() => panic!("nothing was sent"),
        turn = waiting.as_mut() => drop(turn),
    }
    sender.send(7).unwrap();
    assert_eq!(work.await, Ok(7));
    assert_eq!(turns.taken(None), 0);
}

proptest! {
    /// Whatever comes and goes, bounds hold, nobody waits who could have a turn, and nothing is left in the end.
    #[test]
    fn bounds_hold_and_no_turn_is_lost(
        (most, for_one, kept) in (1..4_usize, 1..4_usize, 0..3_usize),
        steps in proptest::collection::vec((0..4_u8, 0..3_usize, 0..8_usize), 1..60),
    ) {
        let bounds = Bounds { most, for_one, kept };
        let turns = Turns::new(bounds);
        let tenants = ["a", "b", "c"].map(tenant);
        let mut waiting: Vec<(usize, Waiting<'_>)> = Vec::new();
        let mut held: Vec<(usize, Turn)> = Vec::new();
        for (what, who, which) in steps {
            match what {
                0 | 1 => {
                    let (turns, tenant) = (&turns, &tenants[who]);
                    waiting.push((who, Box::pin(turns.take(tenant))));
                }
                2 if !held.is_empty() => drop(held.swap_remove(which % held.len())),
                3 if !waiting.is_empty() => drop(waiting.swap_remove(which % waiting.len())),
                _ => {}
            }
            let mut still = Vec::new();
            for (who, mut one) in waiting {
                match poll(one.as_mut()) {
                    Some(turn) => held.push((who, turn)),
                    None => still.push((who, one)),
                }
            }
            waiting = still;
            let taken = |who: usize| held.iter().filter(|(holder, _)| *holder == who).count();
            prop_assert_eq!(turns.taken(None), held.len());
            prop_assert!(held.len() <= most + kept);
            for (who, tenant) in tenants.iter().enumerate() {
                prop_assert_eq!(turns.taken(Some(tenant)), taken(who));
                prop_assert!(taken(who) <= for_one);
            }
            for (who, _) in &waiting {
                let may = (held.len() < most && taken(*who) < for_one)
                    || (held.len() < most + kept && taken(*who) == 0);
                prop_assert!(!may, "{bounds:?}: {who} waits, {} are taken", held.len());
            }
        }
        drop((waiting, held));
        prop_assert_eq!(turns.taken(None), 0);
        // Even those who left while they waited are forgotten as soon as anything happens.
        drop(poll(pin!(turns.take(&tenants[0]))));
        prop_assert!(turns.lock().keys.is_empty() && turns.lock().order.is_empty());
    }
}
