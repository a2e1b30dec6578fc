//! The end of a key: what runs for it ends, what waits for a person expires, by the API and by another process.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use silica_store::{Access, DATABASE_NAME, SandboxId, Store, StoreOptions};

use crate::harness::http::Client;
use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{SILICA, TIMEOUT, eventually, finish};

/// A policy that asks about `print`.
const ASKS: &str = "name = 'asks'\n\
    [[rule]]\nid = 'careful'\nkind = 'call'\nseverity = 'high'\naction = 'ask'\nwhy = 'it needs a word'\n\
    names = ['print']\n";

/// A server and a key with a cell that runs, one that is queued, a single run, and code that waits for a person.
struct Scene {
    server: TestServer,
    boss: Client,
    key: String,
    busy: TestSandbox,
    waiting: TestSandbox,
    approval: String,
}

impl Scene {
    fn new() -> Self {
        let server = TestServer::new();
        let boss = server.admin.post("/v1/keys", &json!({"name": "boss", "approve": true}));
        let boss = server.admin.with_key(boss.expect(201).json()["key"].as_str());
        let (tenant, key) = server.new_key();
        let busy = TestSandbox::new(&tenant, &json!({}));
        busy.start_until_up("print('up', flush=True)\nwhile True: pass");
        busy.start(&json!({"code": "print('queued')"}));
        let client = tenant.clone();
        std::thread::spawn(move || {
            let code = "import time\nwhile True: time.sleep(1)";
            client.post("/v1/run", &json!({"code": code}))
        });
        let waiting = TestSandbox::new(&tenant, &json!({}));
        let body = json!({"code": "print('approved')", "policy": ASKS});
        let cell = waiting.post("/cells", &body).expect(202).json();
        let approval = cell["approval"]["id"].as_str().unwrap().to_owned();
        let scene = Self { server, boss, key, busy, waiting, approval };
        assert!(eventually(TIMEOUT, || scene.live() == 3), "{}", scene.live());
        scene
    }

    /// How many sandboxes live, of single runs too.
    fn live(&self) -> usize {
        let seen = self.server.admin.get("/v1/admin/sandboxes").expect(200).json();
        seen["sandboxes"].as_array().unwrap().len()
    }

    fn store(&self) -> Store {
        let path = self.server.home().path().join(DATABASE_NAME);
        Store::open(&path, StoreOptions::new(Access::ReadOnly)).unwrap()
    }

    #[track_caller]
    fn assert_all_is_over(&self) {
        let store = self.store();
        for sandbox in [&self.busy, &self.waiting] {
            let id = SandboxId::parse(&sandbox.id).unwrap();
            let record = store.sandboxes().get(&id).wait().unwrap().unwrap();
            assert_eq!(record.end_reason.as_deref(), Some("revoked"), "{record:?}");
        }
        // The waiting code has no beginning in the audit log, every other execution has an end.
        let log = || store.audit().search(&silica_store::audit::Search::default()).wait().unwrap();
        let all_ended = || log().iter().all(|execution| execution.outcome != "unfinished");
        assert!(eventually(TIMEOUT, all_ended), "{:#?}", log());
        let codes: Vec<_> = log().into_iter().filter_map(|it| it.begin.code?.text).collect();
        assert_eq!(codes.len(), 3, "{codes:#?}");
        assert!(!codes.iter().any(|code| code.contains("approved")), "{codes:#?}");
    }

    #[track_caller]
    fn assert_cannot_be_approved(&self) {
        let path = format!("/v1/approvals/{}", self.approval);
        let refused = self.boss.post(&format!("{path}/approve"), &json!({}));
        assert_eq!(refused.problem(), (409, "already_decided".to_owned()));
        assert_eq!(self.boss.get(&path).expect(200).json()["state"], "expired");
        let records = self.store().audit().tail(1000).wait().unwrap();
        let fits = |body: &Value| {
            body["event"] == "approval_expired"
                && body["details"]["approval"] == self.approval.as_str()
                && body["details"]["reason"] == "its key was revoked"
        };
        let bodies = records.iter().map(|record| serde_json::from_str(&record.body).unwrap());
        assert_eq!(bodies.filter(fits).count(), 1);
    }
}

#[test]
fn revoked_key_has_nothing_left_when_the_revocation_is_answered() {
    let scene = Scene::new();
    scene.server.admin.delete(&format!("/v1/keys/{}", scene.key)).expect(204);
    assert_eq!(scene.live(), 0);
    assert_eq!(scene.busy.get("").problem(), (401, "unauthorized".to_owned()));
    scene.assert_cannot_be_approved();
    scene.assert_all_is_over();
    scene.server.assert_works();
}

#[test]
fn key_revoked_by_another_process_loses_its_sandboxes_within_two_seconds() {
    let scene = Scene::new();
    let mut command = Command::new(SILICA);
    command.args(["key", "revoke", &scene.key]).env("SILICA_HOME", scene.server.home().path());
    let revoked = finish(command.stdin(Stdio::null()));
    assert_eq!(revoked.status, 0, "{revoked:?}");
    // Before the server has noticed.
    scene.assert_cannot_be_approved();
    let began = Instant::now();
    assert!(eventually(TIMEOUT, || scene.live() == 0));
    assert!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
    scene.assert_all_is_over();
    scene.server.assert_works();
}
