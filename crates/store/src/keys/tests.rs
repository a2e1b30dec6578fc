//! Keys: made, found, revoked, by this process and by another.

use std::time::Instant;

use proptest::prelude::*;

use super::{KeyMatch, KeyName, KeySecret, NewKey, Revocation, UNKNOWN_AGE_MAX};
use crate::audit::NoteBody;
use crate::testing::{TestData, eventually};
use crate::{KeyId, Store, StoreError, Timestamp};

fn new(name: &str) -> NewKey {
    NewKey {
        name: KeyName::new(name).unwrap(),
        admin: false,
        approve: false,
        jupyter: false,
        limits: None,
    }
}

/// Looks a secret up as the server does for a request that comes now.
fn find(store: &Store, secret: &str) -> KeyMatch {
    let asked = Instant::now();
    match store.keys().find_by_secret(secret, asked).unwrap() {
        KeyMatch::Unseen(rest) => {
            std::thread::sleep(rest);
            store.keys().find_by_secret(secret, asked).unwrap()
        }
        found => found,
    }
}

fn active(store: &Store, secret: &str) -> bool {
    matches!(find(store, secret), KeyMatch::Active(_))
}

#[test]
fn key_is_found_by_its_secret_in_both_spellings() {
    let data = TestData::new();
    let store = data.open();
    let wanted = NewKey {
        admin: true,
        limits: Some(r#"{"memory_bytes":1}"#.to_owned()),
        ..new("build server")
    };
    let (record, secret) = store.keys().create(wanted).wait().unwrap();
    assert_eq!((record.name.as_str(), record.admin), ("build server", true));
    assert_eq!(record.created_at, Timestamp::from_micros(1_000_000));
    let text = secret.reveal();
    let digits = text.strip_prefix("silica_").unwrap();
    assert_eq!(digits.len(), 40);
    for spelling in [text.clone(), format!("e2b_{digits}")] {
        let found = find(&store, &spelling);
        assert!(matches!(found, KeyMatch::Active(found) if *found == record));
    }
    assert_eq!(store.keys().list().wait().unwrap(), [record]);
}

#[test]
fn what_is_no_key_finds_nobody() {
    let data = TestData::new();
    let store = data.open();
    let (_, secret) = store.keys().create(new("a")).wait().unwrap();
    let text = secret.reveal();
    let digits = text.strip_prefix("silica_").unwrap();
    let wrong = [
        String::new(),
        digits.to_owned(),
        format!("{text} "),
        format!("{text}0"),
        text.to_uppercase(),
        format!("sk_{digits}"),
        format!("silica_e2b_{digits}"),
        format!("silica_{}", "0".repeat(40)),
        format!("silica_{}", "é".repeat(20)),
    ];
    for text in wrong {
        assert_eq!(find(&store, &text), KeyMatch::Unknown, "{text}");
    }
}

#[test]
fn revoked_key_is_distinguished_from_an_unknown_one() {
    let data = TestData::new();
    let store = data.open();
    let (record, secret) = store.keys().create(new("a")).wait().unwrap();
    assert!(active(&store, &secret.reveal()));
    data.set_time(2_000_000);
    let Revocation::Done(revoked) = store.keys().revoke(&record.id).wait().unwrap() else {
        panic!("it was there");
    };
    assert_eq!(revoked.revoked_at, Some(Timestamp::from_micros(2_000_000)));
    let found = find(&store, &secret.reveal());
    assert!(matches!(found, KeyMatch::Revoked(found) if *found == revoked));
    data.set_time(3_000_000);
    let again = store.keys().revoke(&record.id).wait().unwrap();
    assert_eq!(again, Revocation::Before(revoked));
    let unknown = KeyId::parse("key_000000000000").unwrap();
    assert_eq!(store.keys().revoke(&unknown).wait().unwrap(), Revocation::Unknown);
}

#[test]
fn change_by_another_process_is_seen_when_memory_has_aged() {
    let data = TestData::new();
    let (server, tool) = (data.open(), data.open());
    let (record, secret) = tool.keys().create(new("a")).wait().unwrap();
    assert!(active(&server, &secret.reveal()));
    tool.keys().revoke(&record.id).wait().unwrap();
    assert!(eventually(|| !active(&server, &secret.reveal())));
    let (_, second) = tool.keys().create(new("b")).wait().unwrap();
    assert!(eventually(|| active(&server, &second.reveal())));
}

#[test]
fn new_key_of_another_process_is_known_to_the_next_request() {
    let data = TestData::new();
    let (server, tool) = (data.open(), data.open());
    for number in 0..8 {
        let (_, secret) = tool.keys().create(new(&format!("key {number}"))).wait().unwrap();
        assert!(active(&server, &secret.reveal()), "key {number} is unknown");
    }
}

#[test]
fn unknown_secrets_do_not_have_the_file_read_each_time() {
    let data = TestData::new();
    let (server, tool) = (data.open(), data.open());
    let wrong = |digit: u32| format!("silica_{}", format!("{digit:08x}").repeat(5));
    assert_eq!(find(&server, &wrong(0)), KeyMatch::Unknown);
    // From here on the file can be read again only after a while: a lookup within it says so.
    let (_, secret) = tool.keys().create(new("a")).wait().unwrap();
    let first = server.keys().find_by_secret(&wrong(1), Instant::now()).unwrap();
    assert!(
        matches!(first, KeyMatch::Unseen(rest) if rest <= UNKNOWN_AGE_MAX),
        "{first:?} after the file was just read"
    );
    assert!(active(&server, &secret.reveal()));
    // One look answers all that asked before it.
    let asked = Instant::now();
    std::thread::sleep(UNKNOWN_AGE_MAX);
    assert_eq!(server.keys().find_by_secret(&wrong(2), asked).unwrap(), KeyMatch::Unknown);
    data.tamper("UPDATE change SET count = count + 1; DELETE FROM key");
    for digit in 3..1000 {
        assert_eq!(server.keys().find_by_secret(&wrong(digit), asked).unwrap(), KeyMatch::Unknown);
    }
    // Not read again: the deleted key is still in memory.
    assert!(matches!(
        server.keys().find_by_secret(&secret.reveal(), asked).unwrap(),
        KeyMatch::Active(_)
    ));
}

#[test]
fn keys_are_read_again_only_when_they_changed() {
    let data = TestData::new();
    let store = data.open();
    let (_, secret) = store.keys().create(new("a")).wait().unwrap();
    assert!(active(&store, &secret.reveal()));
    // The file is changed without its counter of changes.
    data.tamper("DELETE FROM key");
    store.key_cache().invalidate();
    assert!(active(&store, &secret.reveal()));
}

#[test]
fn secret_is_nowhere_in_the_files_and_in_no_debug_text() {
    let data = TestData::new();
    let store = data.open();
    let answer = store.keys().create(new("a")).wait().unwrap();
    let text = answer.1.reveal();
    let digits = text.strip_prefix("silica_").unwrap().to_owned();
    assert!(!format!("{answer:?}").contains(&digits));
    assert!(format!("{answer:?}").contains("****"));
    store.close_wait();
    for entry in std::fs::read_dir(data.path().parent().unwrap()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(40).any(|window| window == digits.as_bytes()));
    }
}

#[test]
fn making_and_revoking_stand_in_the_audit_log() {
    let data = TestData::new();
    let store = data.open();
    let (record, _) = store.keys().create(new("a")).wait().unwrap();
    store.keys().revoke(&record.id).wait().unwrap();
    store.keys().revoke(&record.id).wait().unwrap();
    let notes: Vec<NoteBody> = store
        .audit()
        .tail(10)
        .wait()
        .unwrap()
        .iter()
        .map(|record| serde_json::from_str(&record.body).unwrap())
        .collect();
    let events: Vec<&str> = notes.iter().map(|note| note.event.as_str()).collect();
    assert_eq!(events, ["key_created", "key_revoked"]);
    assert_eq!(notes[0].details["key"], record.id.as_str());
    assert_eq!(notes[0].details["admin"], "false");
}

#[test]
fn bounds_are_kept() {
    let data = TestData::new();
    let store = data.open();
    let long = NewKey { limits: Some("x".repeat(16 * 1024 + 1)), ..new("a") };
    let error = store.keys().create(long).wait().unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { max: 16_384, .. }), "{error}");
    data.tamper(
        "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number LIMIT 10000)
         INSERT INTO key (id, name, digest, admin, created_at)
         SELECT printf('key_%012x', n), 'x', randomblob(32), 0, n FROM number",
    );
    let error = store.keys().create(new("one more")).wait().unwrap_err();
    assert!(matches!(error, StoreError::TooLarge { size: 10_001, .. }), "{error}");
}

#[test]
fn names_are_one_line() {
    let long = "x".repeat(101);
    for wrong in ["", " a", "a ", "a\nb", "\u{1b}[31m", &long] {
        assert!(KeyName::new(wrong).is_err(), "{wrong:?}");
    }
    for right in ["a", "Zoë's laptop", "ci (main)"] {
        assert!(KeyName::new(right).is_ok(), "{right}");
    }
}

proptest! {
    #[test]
    fn only_the_two_spellings_are_read(text in "(silica_|e2b_|x)?[0-9a-f]{38,42}") {
        let digits = text.trim_start_matches("silica_").trim_start_matches("e2b_");
        let expected = digits.len() == 40 && text.len() > 40 && !text.starts_with('x');
        prop_assert_eq!(KeySecret::parse(&text).is_some(), expected);
    }
}
