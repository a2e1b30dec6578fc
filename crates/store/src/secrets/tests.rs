//! Values go in sealed, come out to their owner alone, and are nowhere in the files.

use std::fs;

use super::{NewSecret, Put, SECRETS_OF_ONE_MAX, SecretName, SecretTerms, SecretText};
use crate::keys::{KeyName, NewKey};
use crate::testing::{TestData, tenant};
use crate::{StoreError, Tenant};

const VALUE: &str = "sk-live-0123456789abcdef";

fn terms() -> SecretTerms {
    SecretTerms { hosts: vec!["api.example.com".to_owned()], ..SecretTerms::default() }
}

fn new(owner: &str, name: &str) -> NewSecret {
    NewSecret {
        tenant: tenant(owner),
        name: SecretName::parse(name).unwrap(),
        value: SecretText::new(VALUE.to_owned()),
        terms: terms(),
    }
}

#[test]
fn value_comes_back_to_its_owner_alone() {
    let data = TestData::new();
    let store = data.open();
    let name = SecretName::parse("openai").unwrap();
    assert!(matches!(store.secrets().put(new("one", "openai")).wait().unwrap(), Put::Created(_)));
    let (record, value) = store.secrets().open(&tenant("one"), &name).wait().unwrap().unwrap();
    assert_eq!((value.reveal(), record.terms), (VALUE, terms()));
    assert_eq!(store.secrets().open(&tenant("two"), &name).wait().unwrap(), None);
    assert_eq!(store.secrets().list(&tenant("two")).wait().unwrap(), []);
    assert_eq!(store.secrets().list(&tenant("one")).wait().unwrap().len(), 1);
}

#[test]
fn value_is_nowhere_in_the_files_and_in_no_debug_text() {
    let data = TestData::new();
    let store = data.open();
    store.secrets().put(new("one", "openai")).wait().unwrap();
    assert!(!format!("{:?}", new("one", "openai")).contains(VALUE));
    store.close_wait();
    for entry in fs::read_dir(data.beside("")).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let found = bytes.windows(VALUE.len()).any(|window| window == VALUE.as_bytes());
        assert!(!found);
    }
}

#[test]
fn sealed_value_does_not_open_for_another_owner_or_name() {
    let data = TestData::new();
    let store = data.open();
    store.secrets().put(new("one", "openai")).wait().unwrap();
    for (owner, name) in [("two", "openai"), ("one", "other")] {
        data.tamper(&format!("UPDATE secret SET tenant = '{owner}', name = '{name}'"));
        let named = SecretName::parse(name).unwrap();
        let error = store.secrets().open(&tenant(owner), &named).wait().unwrap_err();
        assert!(matches!(error, StoreError::SecretSealed { .. }), "{error}");
    }
}

#[test]
fn missing_and_foreign_keys_are_reported() {
    let data = TestData::new();
    let store = data.open();
    let name = SecretName::parse("openai").unwrap();
    store.secrets().put(new("one", "openai")).wait().unwrap();
    let path = data.beside("secrets.key");
    fs::remove_file(&path).unwrap();
    let error = store.secrets().open(&tenant("one"), &name).wait().unwrap_err();
    assert!(matches!(error, StoreError::SecretsKeyMissing { .. }), "{error}");
    // A new key is made only if no secret depends on the old one.
    let error = store.secrets().put(new("one", "other")).wait().unwrap_err();
    assert!(matches!(error, StoreError::SecretsKeyMissing { .. }), "{error}");
    store.secrets().delete(&tenant("one"), &name).wait().unwrap();
    store.secrets().put(new("one", "other")).wait().unwrap();
}

#[test]
fn replacing_keeps_the_first_time_and_deleting_says_whether_it_was_there() {
    let data = TestData::new();
    let store = data.open();
    let name = SecretName::parse("openai").unwrap();
    store.secrets().put(new("one", "openai")).wait().unwrap();
    data.set_time(9_000_000);
    let Put::Replaced(record) = store.secrets().put(new("one", "openai")).wait().unwrap() else {
        panic!("not replaced");
    };
    assert_eq!(
        (record.created_at.as_micros(), record.changed_at.as_micros()),
        (1_000_000, 9_000_000)
    );
    assert!(store.secrets().delete(&tenant("one"), &name).wait().unwrap());
    assert!(!store.secrets().delete(&tenant("one"), &name).wait().unwrap());
    let events: Vec<String> =
        store.audit().tail(10).wait().unwrap().into_iter().map(|record| record.body).collect();
    assert!(events[0].contains("secret_created") && events[1].contains("secret_replaced"));
    assert!(events[2].contains("secret_deleted") && !events.concat().contains(VALUE));
}

#[test]
fn number_of_secrets_is_bounded_and_revoking_a_key_deletes_them() {
    let data = TestData::new();
    let store = data.open();
    let key = NewKey {
        name: KeyName::new("mine").unwrap(),
        admin: false,
        approve: false,
        jupyter: false,
        limits: None,
    };
    let (key, _) = store.keys().create(key).wait().unwrap();
    let owner = Tenant::from(&key.id);
    for number in 0..SECRETS_OF_ONE_MAX {
        store.secrets().put(new(owner.as_str(), &format!("s{number}"))).wait().unwrap();
    }
    let more = store.secrets().put(new(owner.as_str(), "more")).wait().unwrap();
    assert_eq!(more, Put::TooMany);
    store.secrets().put(new("other", "theirs")).wait().unwrap();
    store.keys().revoke(&key.id).wait().unwrap();
    assert_eq!(store.secrets().list(&owner).wait().unwrap(), []);
    assert_eq!(store.secrets().list(&tenant("other")).wait().unwrap().len(), 1);
}
