//! Bad prompts and bad providers: a clear error each, a record of it, and nothing left running.

use serde_json::{Value, json};

use super::provider::{Provider, Reply, anthropic, chat};
use super::{TestServer, assert_over, python, script, scripted};
use crate::harness::{SILICA, TIMEOUT, eventually, finish};

/// A key that must be seen nowhere.
const KEY: &str = "sk-never-to-be-seen-0123456789";

/// A server in front of a provider.
fn behind(provider: &Provider, settings: &[&str]) -> (TestServer, tempfile::NamedTempFile) {
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), format!("{KEY}\n")).unwrap();
    let url = format!("model.base_url={}", provider.url);
    let file = format!("model.key_file={}", key.path().display());
    let mut all = vec!["model.provider=anthropic", "model.name=m", "model.retries=0", &url, &file];
    all.extend(settings);
    (TestServer::with(&all), key)
}

fn refusal(status: u16, words: &str) -> Reply {
    let body = json!({"type": "error", "error": {"type": "x", "message": words}});
    Reply::Status(status, vec![("retry-after", "7".to_owned())], body.to_string())
}

#[test]
fn prompts_that_cannot_be_answered() {
    let on = scripted(&script(&[("fine", &python("print(1)"))]), &[]);
    let admin = &on.server.admin;
    let problem = |body: &Value| admin.post("/v1/interpret", body).problem();
    let bad = |code: &str| (400, code.to_owned());
    assert_eq!(problem(&json!({"prompt": ""})), bad("bad_request"));
    assert_eq!(problem(&json!({"prompt": " \n"})), bad("bad_request"));
    assert_eq!(problem(&json!({})), bad("bad_request"));
    assert_eq!(problem(&json!({"prompt": "a\u{0}b"})), bad("bad_request"));
    assert_eq!(problem(&json!({"prompt": "ä".repeat(2001)})), bad("prompt_too_long"));
    assert_eq!(problem(&json!({"prompt": "x".repeat(1 << 20)})), bad("prompt_too_long"));
    assert_eq!(problem(&json!({"prompt": "fine", "preset": "other"})), bad("bad_request"));
    assert_eq!(problem(&json!({"prompt": "fine", "policy": "rules = 3"})), bad("bad_request"));
    assert_eq!(problem(&json!({"prompt": "fine", "temperature": 1})), bad("bad_request"));
    let unknown = json!({"prompt": "fine", "model": "other"});
    assert_eq!(problem(&unknown), (404, "model_not_found".to_owned()));
    let binary = admin.request("POST", "/interpret", &[], b"{\"prompt\": \"\xff\xfe\x00\"}");
    assert_eq!(binary.problem(), bad("bad_request"));
    let exact = "fine".to_owned() + &"ä".repeat(1996);
    assert_eq!(
        admin.post("/interpret", &json!({"prompt": exact})).expect(200).json()["output"],
        "1"
    );
    let nobody = admin.with_key(None).post("/interpret", &json!({"prompt": "fine"}));
    assert_eq!(nobody.problem().0, 401);
    assert_over(&on.server, "answered", None);
    let mut tail = std::process::Command::new(SILICA);
    tail.args(["audit", "tail", "-n", "100"]).env("SILICA_HOME", on.server.home().path());
    let noted = || finish(&mut tail).stdout.matches("interpret_refused").count() == 8;
    assert!(eventually(TIMEOUT, noted), "{}", finish(&mut tail).stdout);
}

#[test]
fn without_a_model_it_says_so() {
    let server = TestServer::new();
    let refused = server.admin.post("/interpret", &json!({"prompt": "Hello"}));
    assert_eq!(refused.problem(), (503, "model_not_configured".to_owned()));
    let url = "model.base_url=http://127.0.0.1:9";
    let server = TestServer::with(&["model.provider=anthropic", "model.name=m", url]);
    let refused = server.admin.post("/interpret", &json!({"prompt": "Hello"}));
    assert_eq!(refused.problem(), (503, "model_not_configured".to_owned()));
    assert_over(&server, "error", Some("no_key"));
}

/// What a client gets for what a provider does, and what the audit log calls it.
#[track_caller]
fn check(reply: Reply, settings: &[&str], problem: (u16, &str), name: &str) {
    let provider = Provider::new(vec![reply]);
    let (server, _key) = behind(&provider, settings);
    let refused = server.admin.post("/interpret", &json!({"prompt": "Hello"}));
    assert_eq!(refused.problem(), (problem.0, problem.1.to_owned()));
    assert!(!refused.text().contains(KEY), "{}", refused.text());
    assert_over(&server, "error", Some(name));
    assert!(!server.log().contains(KEY), "{}", server.log());
    server.assert_works();
}

#[test]
fn chat_completions_work_as_well() {
    let provider = Provider::new(vec![Reply::Events(chat(&["```python\n", "print(6 * 7)\n```"]))]);
    let url = format!("model.base_url={}/v1", provider.url);
    let (server, _key) = behind(&provider, &["model.provider=openai", &url, "model.allowed=other"]);
    let ask = json!({"prompt": "Hello", "model": "other"});
    assert_eq!(server.admin.post("/interpret", &ask).expect(200).json()["output"], "42");
    let seen = provider.seen().remove(0);
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(seen.headers.get("authorization"), Some(&format!("Bearer {KEY}")));
    assert_eq!(
        (&seen.body["model"], &seen.body["messages"][1]["content"]),
        (&json!("other"), &json!("Hello"))
    );
}

#[test]
fn a_wrong_key() {
    let words = format!("invalid x-api-key {KEY}");
    check(refusal(401, &words), &[], (502, "model_failed"), "key_refused");
}

#[test]
fn an_unknown_model() {
    check(refusal(404, "model: m not found"), &[], (404, "model_not_found"), "no_model");
}

#[test]
fn a_busy_provider_says_when_to_come_back() {
    for status in [429, 529] {
        let provider = Provider::new(vec![refusal(status, "later")]);
        let (server, _key) = behind(&provider, &[]);
        let refused = server.admin.post("/interpret", &json!({"prompt": "Hello"}));
        assert_eq!(refused.problem(), (503, "model_busy".to_owned()));
        assert_eq!(refused.header("retry-after"), Some("7"));
        assert_over(&server, "error", Some("busy"));
    }
}

#[test]
fn a_provider_that_is_down() {
    let provider = Provider::new(vec![refusal(500, "")]);
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("model.base_url=http://{}", gone.local_addr().unwrap());
    drop(gone);
    let (server, _key) = behind(&provider, &[&url]);
    let refused = server.admin.post("/interpret", &json!({"prompt": "Hello"}));
    assert_eq!(refused.problem(), (502, "model_failed".to_owned()));
    assert_over(&server, "error", Some("unreachable"));
}

#[test]
fn a_provider_that_is_slow() {
    let half = anthropic(&["x"])[..2].to_vec();
    check(Reply::Silence(half), &["model.silence_seconds=0.3"], (504, "model_slow"), "slow");
}

#[test]
fn an_answer_that_breaks_off() {
    let half = anthropic(&["one", "two"])[..4].to_vec();
    check(Reply::Cut(half), &[], (502, "model_failed"), "cut");
}

#[test]
fn malformed_events() {
    let broken = vec!["event: message_start\ndata: {nonsense\n\n".to_owned()];
    check(Reply::Events(broken), &[], (502, "model_failed"), "malformed");
}

#[test]
fn an_answer_without_end() {
    let noise = format!(": {}\n\n", "z".repeat(1 << 16));
    check(Reply::Endless(noise), &[], (502, "model_failed"), "too_long");
}

#[test]
fn a_failure_in_the_middle_of_a_stream_is_its_last_event() {
    let half = anthropic(&["one", "two"])[..4].to_vec();
    let provider = Provider::new(vec![Reply::Cut(half)]);
    let (server, _key) = behind(&provider, &[]);
    let events = server.admin.stream("/v1/interpret", &json!({"prompt": "Hello"}));
    let last = events.last().unwrap();
    assert_eq!((last.name.as_str(), &last.data["code"]), ("problem", &json!("model_failed")));
    assert_over(&server, "error", Some("cut"));
}

#[test]
fn answers_that_are_no_programs() {
    let turns = [
        ("empty", ""),
        ("french", "Bonjour, je ne peux pas."),
        ("js", "```js\nconsole.log(1)\n```"),
    ];
    let on = scripted(&script(&turns), &["interpret.rounds=0"]);
    for prompt in ["empty", "french", "js"] {
        let answer =
            on.server.admin.post("/interpret", &json!({"prompt": prompt})).expect(200).json();
        assert_eq!(
            (&answer["ending"], &answer["success"]),
            (&json!("no_code"), &json!(false)),
            "{answer}"
        );
        assert_eq!((&answer["code"], &answer["exit_code"]), (&json!(""), &Value::Null));
        assert_over(&on.server, "no_code", None);
    }
}

#[test]
fn code_that_never_ends_and_a_model_that_repeats_itself() {
    let turns = [
        ("forever", &*python("import time\nwhile True:\n    time.sleep(0.01)")),
        ("", &python("1 / 0")),
    ];
    let mut all = turns.to_vec();
    all.push(turns[1]);
    let on = scripted(&script(&all), &["interpret.rounds=1"]);
    let ask = json!({"prompt": "Divide"});
    let answer = on.server.admin.post("/v1/interpret", &ask).expect(200).json();
    assert_eq!((&answer["ending"], &answer["rounds"]), (&json!("repeated"), &json!(1)), "{answer}");
    assert_over(&on.server, "repeated", None);
    let ask = json!({"prompt": "forever", "timeout_seconds": 0.5, "rounds": 0, "policy": "open"});
    let answer = on.server.admin.post("/v1/interpret", &ask).expect(200).json();
    assert_eq!(
        (&answer["outcome"], &answer["exit_code"]),
        (&json!("timed_out"), &json!(124)),
        "{answer}"
    );
    assert_over(&on.server, "failed", None);
}
