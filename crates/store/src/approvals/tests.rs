//! What waits, who decides first, and what is kept.

use std::time::Duration;

use serde_json::json;

use super::{Asked, Decided, Decision, NewApproval, PENDING_OF_ONE_MAX, Scope, State, Subject};
use crate::keys::{KeyName, NewKey};
use crate::testing::TestData;
use crate::{ApprovalId, Digest, SandboxId, Store, Tenant, Timestamp};

fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).unwrap()
}

fn new(by: &str) -> NewApproval {
    NewApproval {
        id: ApprovalId::random().unwrap(),
        tenant: tenant(by),
        subject: Subject::Code,
        sandbox: SandboxId::random().unwrap(),
        cell: "c1".to_owned(),
        policy: "mine".to_owned(),
        findings: json!([{"rule": "a"}]),
        code: "print(1)".to_owned(),
        expires_at: Timestamp::now().after(Duration::from_mins(10)),
    }
}

fn ask(store: &Store, new: NewApproval) -> ApprovalId {
    let id = new.id.clone();
    assert!(matches!(store.approvals().ask(new).wait().unwrap(), Asked::Waits(_)));
    id
}

fn approve(by: &str) -> Decision {
    Decision::Approve { by: tenant(by), reason: Some("looks good".to_owned()), scope: None }
}

fn deny(by: &str) -> Decision {
    Decision::Deny { by: tenant(by), reason: None }
}

#[test]
fn the_first_decision_holds_and_the_second_hears_of_it() {
    let data = TestData::new();
    let store = data.open();
    let id = ask(&store, new("asker"));
    let waiting = store.approvals().get(&id).wait().unwrap().unwrap();
    assert_eq!((waiting.state, waiting.code.as_deref()), (State::Pending, Some("print(1)")));
    assert_eq!(waiting.sha256, Digest::of(b"print(1)"));
    let Decided::Now(record) = store.approvals().decide(&id, approve("boss")).wait().unwrap()
    else {
        panic!("not decided")
    };
    assert_eq!((record.state, &record.code), (State::Approved, &None));
    assert_eq!(record.decided_by, Some(tenant("boss")));
    for late in [approve("boss"), deny("other"), Decision::Expire] {
        let before = store.approvals().decide(&id, late).wait().unwrap();
        assert_eq!(before, Decided::Before(record.clone()));
    }
    let other = ApprovalId::random().unwrap();
    assert_eq!(store.approvals().decide(&other, deny("boss")).wait().unwrap(), Decided::Unknown);
}

#[test]
fn an_approval_after_the_time_is_a_no() {
    let data = TestData::new();
    let store = data.open();
    let id =
        ask(&store, NewApproval { expires_at: Timestamp::from_micros(1_000_000), ..new("asker") });
    assert_eq!(store.approvals().overdue().wait().unwrap(), std::slice::from_ref(&id));
    let late = store.approvals().decide(&id, approve("boss")).wait().unwrap();
    let Decided::Before(record) = late else { panic!("{late:?}") };
    assert_eq!((record.state, record.decided_by), (State::Expired, None));
    assert!(store.approvals().overdue().wait().unwrap().is_empty());
}

#[test]
fn what_waits_is_there_after_a_restart() {
    let data = TestData::new();
    let store = data.open();
    let id = ask(&store, new("asker"));
    store.close_wait();
    let store = data.open();
    let pending = store.approvals().list(Some(State::Pending), None).wait().unwrap();
    assert_eq!(pending.iter().map(|record| &record.id).collect::<Vec<_>>(), [&id]);
    let others = store.approvals().list(None, Some(&tenant("someone"))).wait().unwrap();
    assert!(others.is_empty());
}

#[test]
fn one_key_cannot_fill_the_list() {
    let data = TestData::new();
    let store = data.open();
    for _ in 0..PENDING_OF_ONE_MAX {
        ask(&store, new("greedy"));
    }
    let more = store.approvals().ask(new("greedy")).wait().unwrap();
    assert_eq!(more, Asked::TooMany(PENDING_OF_ONE_MAX));
    ask(&store, new("modest"));
}

#[test]
fn everything_is_in_the_audit_log() {
    let data = TestData::new();
    let store = data.open();
    let id = ask(&store, new("asker"));
    store.approvals().decide(&id, deny("boss")).wait().unwrap();
    let records = store.audit().tail(10).wait().unwrap();
    let bodies: Vec<String> = records.iter().map(|record| record.body.clone()).collect();
    let said = |what: &str| bodies.iter().filter(|body| body.contains(what)).count();
    assert_eq!((said("approval_asked"), said("approval_denied")), (1, 1), "{bodies:?}");
    assert_eq!(said(id.as_str()), 2, "{bodies:?}");
}

#[test]
fn what_a_revoked_key_waits_for_has_expired() {
    let data = TestData::new();
    let (server, tool) = (data.open(), data.open());
    let name = KeyName::new("a").unwrap();
    let key = NewKey { name, admin: false, approve: false, jupyter: false, limits: None };
    let (key, _) = server.keys().create(key).wait().unwrap();
    let id = ask(&server, new(key.id.as_str()));
    let others = ask(&server, new("other"));
    tool.keys().revoke(&key.id).wait().unwrap();
    let decided = server.approvals().decide(&id, approve("boss")).wait().unwrap();
    assert!(matches!(&decided, Decided::Before(record) if record.state == State::Expired));
    let asked = server.approvals().ask(new(key.id.as_str())).wait().unwrap();
    assert_eq!(asked, Asked::Revoked);
    let decided = server.approvals().decide(&others, approve("boss")).wait().unwrap();
    assert!(matches!(decided, Decided::Now(_)));
}

#[test]
fn approval_of_a_connection_for_a_key_becomes_a_grant_until_the_key_is_revoked() {
    let data = TestData::new();
    let store = data.open();
    let key = NewKey {
        name: KeyName::new("k").unwrap(),
        admin: false,
        approve: false,
        jupyter: false,
        limits: None,
    };
    let (key, _) = store.keys().create(key).wait().unwrap();
    let owner = Tenant::from(&key.id);
    for (port, scope) in [(1, Scope::Once), (2, Scope::Sandbox), (3, Scope::Key)] {
        let subject = Subject::Network { host: "api.example.com".to_owned(), port };
        let code = subject.text();
        let asked = NewApproval { subject: subject.clone(), code, ..new(owner.as_str()) };
        let id = ask(&store, asked);
        let decision = Decision::Approve { by: tenant("boss"), reason: None, scope: Some(scope) };
        let Decided::Now(record) = store.approvals().decide(&id, decision).wait().unwrap() else {
            panic!("not decided")
        };
        assert_eq!((record.subject, record.scope), (subject, Some(scope)));
    }
    let grants = store.approvals().grants(&owner).wait().unwrap();
    assert_eq!(grants.iter().map(|grant| grant.port).collect::<Vec<_>>(), [3]);
    assert!(!store.approvals().remove_grant(&owner, "api.example.com", 2).wait().unwrap());
    assert_eq!(store.approvals().grants(&tenant("other")).wait().unwrap(), []);
    store.keys().revoke(&key.id).wait().unwrap();
    assert_eq!(store.approvals().grants(&owner).wait().unwrap(), []);
}
