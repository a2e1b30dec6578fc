//! Records of sandboxes: made, changed, ended, lost, listed.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::{
    Filter, NewSandbox, Order, PageToken, SandboxMetadata, SandboxRecord, State, delete_ended,
};
use crate::testing::{TestData, tenant};
use crate::{SandboxId, Store, StoreError, Timestamp};

fn id(number: usize) -> SandboxId {
    SandboxId::parse(&format!("sbx_{number:020}")).unwrap()
}

fn new(number: usize) -> NewSandbox {
    NewSandbox {
        id: id(number),
        tenant: tenant("a"),
        template: "python".to_owned(),
        metadata: SandboxMetadata::new(),
        limits: json!({"memory_bytes": 1}),
        expires_at: None,
    }
}

fn pairs(pairs: &[(&str, &str)]) -> SandboxMetadata {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn get(store: &Store, number: usize) -> SandboxRecord {
    store.sandboxes().get(&id(number)).wait().unwrap().unwrap()
}

/// The numbers of the sandboxes that fit, over all pages.
fn numbers(store: &Store, filter: &Filter) -> Vec<usize> {
    let mut filter = filter.clone();
    let mut found = Vec::new();
    loop {
        let page = store.sandboxes().list(&filter).wait().unwrap();
        assert!(page.records.len() <= filter.limit.max(1));
        found.extend(
            page.records.iter().map(|record| record.id.as_str()[4..].parse::<usize>().unwrap()),
        );
        let Some(next) = page.next else {
            return found;
        };
        filter.after = Some(next.to_string().parse().unwrap());
    }
}

#[test]
fn record_follows_the_life_of_a_sandbox() {
    let data = TestData::new();
    let store = data.open();
    let sandboxes = store.sandboxes();
    let metadata = pairs(&[("user", "zoë"), ("quote\"", "a'b")]);
    let made = NewSandbox { metadata: metadata.clone(), ..new(1) };
    let made = sandboxes.insert(made).wait().unwrap();
    assert_eq!((made.state, made.created_at), (State::Running, Timestamp::from_micros(1_000_000)));
    assert_eq!(get(&store, 1), made);
    let later = Some(Timestamp::from_micros(9_000_000));
    assert!(sandboxes.set_expiry(&id(1), later).wait().unwrap());
    data.set_time(5_000_000);
    let usage = json!({"cpu_ms": 12});
    sandboxes.finish(&id(1), "deleted", Some(&usage)).wait().unwrap();
    let expected = SandboxRecord {
        metadata,
        expires_at: later,
        state: State::Ended,
        end_reason: Some("deleted".to_owned()),
        ended_at: Some(Timestamp::from_micros(5_000_000)),
        usage: Some(usage),
        ..made
    };
    assert_eq!(get(&store, 1), expected);
}

#[test]
fn what_has_ended_does_not_change() {
    let data = TestData::new();
    let store = data.open();
    let sandboxes = store.sandboxes();
    sandboxes.insert(new(1)).wait().unwrap();
    sandboxes.finish(&id(1), "deleted", None).wait().unwrap();
    let before = get(&store, 1);
    for number in [1, 2] {
        assert!(!sandboxes.set_expiry(&id(number), None).wait().unwrap());
        sandboxes.finish(&id(number), "again", None).wait().unwrap();
    }
    assert_eq!(get(&store, 1), before);
    assert_eq!(sandboxes.get(&id(2)).wait().unwrap(), None);
}

#[test]
fn id_is_used_once() {
    let data = TestData::new();
    let store = data.open();
    store.sandboxes().insert(new(1)).wait().unwrap();
    let error = store.sandboxes().insert(new(1)).wait().unwrap_err();
    assert!(matches!(&error, StoreError::Duplicate { id: found } if found == id(1).as_str()));
}

#[test]
fn next_server_marks_what_was_running_as_lost() {
    let data = TestData::new();
    let store = data.open();
    for number in 1..=3 {
        store.sandboxes().insert(new(number)).wait().unwrap();
    }
    store.sandboxes().finish(&id(2), "deleted", None).wait().unwrap();
    let reason = "the server stopped without ending it";
    assert_eq!(store.sandboxes().mark_lost(reason).wait().unwrap(), 2);
    assert_eq!(store.sandboxes().mark_lost(reason).wait().unwrap(), 0);
    let states: Vec<State> = (1..=3).map(|number| get(&store, number).state).collect();
    assert_eq!(states, [State::Lost, State::Ended, State::Lost]);
    assert_eq!(get(&store, 1).end_reason.as_deref(), Some(reason));
}

#[test]
fn filters_narrow_and_order_is_by_age() {
    let data = TestData::new();
    let store = data.open();
    let insert = |number: usize, who: &str, template: &str, metadata: &[(&str, &str)]| {
        data.set_time(number as i64);
        let new = NewSandbox {
            tenant: tenant(who),
            template: template.to_owned(),
            metadata: pairs(metadata),
            ..new(number)
        };
        store.sandboxes().insert(new).wait().unwrap();
    };
    insert(1, "a", "python", &[("user", "1"), ("team", "x")]);
    insert(2, "b", "python", &[("user", "1")]);
    insert(3, "a", "science", &[("user", "2"), ("team", "x")]);
    insert(4, "a", "python", &[("team", "user")]);
    store.sandboxes().finish(&id(4), "deleted", None).wait().unwrap();
    let check = |filter: Filter, expected: &[usize]| {
        assert_eq!(numbers(&store, &filter), expected, "{filter:?}");
    };
    let all = Filter::default();
    check(all.clone(), &[4, 3, 2, 1]);
    check(Filter { order: Order::OldestFirst, ..all.clone() }, &[1, 2, 3, 4]);
    check(Filter { tenant: Some(tenant("a")), ..all.clone() }, &[4, 3, 1]);
    check(Filter { states: BTreeSet::from([State::Running]), ..all.clone() }, &[3, 2, 1]);
    let gone = BTreeSet::from([State::Ended, State::Lost]);
    check(Filter { states: gone, ..all.clone() }, &[4]);
    check(Filter { template: Some("science".to_owned()), ..all.clone() }, &[3]);
    check(Filter { metadata: pairs(&[("user", "1")]), ..all.clone() }, &[2, 1]);
    let both = pairs(&[("user", "1"), ("team", "x")]);
    check(Filter { metadata: both, ..all.clone() }, &[1]);
    check(Filter { metadata: pairs(&[("user", "' OR 1 --")]), ..all.clone() }, &[]);
    let from =
        |micros| Filter { created_from: Some(Timestamp::from_micros(micros)), ..all.clone() };
    let third = store.sandboxes().get(&id(3)).wait().unwrap().unwrap().created_at.as_micros();
    check(from(third), &[4, 3]);
    check(from(third + 1), &[4]);
}

#[test]
fn pages_hold_their_place_while_records_come_and_go() {
    let data = TestData::new();
    let store = data.open();
    for number in 1..=6 {
        store.sandboxes().insert(new(number)).wait().unwrap();
    }
    let filter = Filter { limit: 2, ..Filter::default() };
    let first = store.sandboxes().list(&filter).wait().unwrap();
    data.tamper(&format!("DELETE FROM sandbox WHERE id = '{}'", id(5)));
    data.set_time(2_000_000);
    store.sandboxes().insert(new(7)).wait().unwrap();
    let rest = Filter { after: first.next, ..filter };
    assert_eq!(numbers(&store, &rest), [4, 3, 2, 1]);
}

#[test]
fn bounds_are_kept() {
    let data = TestData::new();
    let store = data.open();
    let many: SandboxMetadata = (0..65).map(|number| (number.to_string(), String::new())).collect();
    let too_many = NewSandbox { metadata: many.clone(), ..new(1) };
    let too_long = NewSandbox { limits: json!("x".repeat(20_000)), ..new(1) };
    for new in [too_many, too_long] {
        let error = store.sandboxes().insert(new).wait().unwrap_err();
        assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");
    }
    let filter = Filter { metadata: many, ..Filter::default() };
    let error = store.sandboxes().list(&filter).wait().unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { max: 16, .. }), "{error}");
    store.sandboxes().insert(new(1)).wait().unwrap();
    store.sandboxes().finish(&id(1), &"é".repeat(5000), None).wait().unwrap();
    assert_eq!(get(&store, 1).end_reason.unwrap().chars().count(), 1000);
}

#[test]
fn only_what_ended_long_ago_is_forgotten() {
    let data = TestData::new();
    let store = data.open();
    for number in 1..=3 {
        store.sandboxes().insert(new(number)).wait().unwrap();
    }
    data.set_time(10);
    store.sandboxes().finish(&id(1), "x", None).wait().unwrap();
    data.set_time(20);
    store.sandboxes().finish(&id(2), "x", None).wait().unwrap();
    let delete = |before: i64| {
        let before = Timestamp::from_micros(before);
        store.write(move |connection| delete_ended(connection, before)).wait().unwrap()
    };
    assert_eq!((delete(10), delete(11), delete(11)), (0, 1, 0));
    assert_eq!(numbers(&store, &Filter::default()), [3, 2]);
}

#[test]
fn other_texts_are_no_page_tokens() {
    for wrong in ["", "1", "x.sbx_00000000000000000001", "1.sbx_1", "1.' OR 1"] {
        assert!(wrong.parse::<PageToken>().is_err(), "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn pages_of_any_size_hold_everything_once(
        times in prop::collection::vec(0_i64..4, 1..20),
        limit in 0_usize..7,
    ) {
        let data = TestData::new();
        let store = data.open();
        for (number, &time) in times.iter().enumerate() {
            data.set_time(time);
            store.sandboxes().insert(new(number)).wait().unwrap();
        }
        for order in [Order::NewestFirst, Order::OldestFirst] {
            let found = numbers(&store, &Filter { order, limit, ..Filter::default() });
            let mut expected: Vec<usize> = (0..times.len()).collect();
            expected.sort_by_key(|&number| (times[number], number));
            if order == Order::NewestFirst {
                expected.reverse();
            }
            prop_assert_eq!(found, expected);
        }
    }
}
