//! Everything that can go wrong between us and a provider, each with an error that says so.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use silica_interpret::model::{
    ANSWER_BYTES_MAX, Auth, Delta, HttpModel, IgnoreDeltas, Listener, ModelAnswer, ModelError,
    Stop, Tokens, Wire,
};

use crate::provider::{Provider, Reply, anthropic, chat, event};
use crate::{KEY, model, options, request};

const WIRES: [Wire; 2] = [Wire::Anthropic, Wire::Chat];

fn said(wire: Wire, pieces: &[&str]) -> Vec<String> {
    match wire {
        Wire::Anthropic => anthropic(pieces),
        Wire::Chat => chat(pieces),
    }
}

async fn ask(wire: Wire, replies: Vec<Reply>) -> Result<ModelAnswer, ModelError> {
    let provider = Provider::new(replies);
    model(options(wire, &provider.url)).ask(&request(), &mut IgnoreDeltas).await
}

fn refusal(status: u16, words: &str) -> Reply {
    let body = json!({"type": "error", "error": {"type": "x", "message": words}});
    Reply::Status(status, Vec::new(), body.to_string())
}

/// Remembers what it hears.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<String>>>);

impl Listener for Ear {
    async fn receive(&mut self, delta: Delta) {
        let (Delta::Text(text) | Delta::Input(text)) = delta;
        self.0.lock().expect("no panic").push(text);
    }
}

#[tokio::test]
async fn an_answer_is_heard_piece_by_piece_and_counted() {
    for wire in WIRES {
        let provider = Provider::new(vec![Reply::Events(said(wire, &["one ", "two"]))]);
        let ear = Ear::default();
        let asked = model(options(wire, &provider.url)).ask(&request(), &mut ear.clone()).await;
        let answer = asked.expect("an answer");
        assert_eq!((answer.text().as_str(), answer.stop), ("one two", Stop::Done));
        assert_eq!(answer.tokens, Tokens { input: 16, output: 7 });
        assert_eq!(*ear.0.lock().expect("no panic"), ["one ", "two"]);
    }
}

#[tokio::test]
async fn a_request_says_what_it_should_and_nothing_about_sampling() {
    for wire in WIRES {
        let provider = Provider::new(vec![Reply::Events(said(wire, &["x"]))]);
        let asked = model(options(wire, &provider.url)).ask(&request(), &mut IgnoreDeltas).await;
        asked.expect("an answer");
        let seen = provider.seen().remove(0);
        for field in ["temperature", "top_p", "top_k"] {
            assert!(seen.body.get(field).is_none(), "{field}");
        }
        assert_eq!((seen.body["stream"].as_bool(), seen.method.as_str()), (Some(true), "POST"));
    }
}

#[tokio::test]
async fn both_headers_for_the_key() {
    for (auth, name, value) in [
        (Auth::ApiKey, "x-api-key", KEY.to_owned()),
        (Auth::Bearer, "authorization", format!("Bearer {KEY}")),
    ] {
        let provider = Provider::new(vec![Reply::Events(anthropic(&["x"]))]);
        let mut options = options(Wire::Anthropic, &provider.url);
        options.auth = auth;
        options.headers.insert("X-Team".to_owned(), "blue".to_owned());
        model(options).ask(&request(), &mut IgnoreDeltas).await.expect("an answer");
        let headers = provider.seen().remove(0).headers;
        assert_eq!(headers.get(name), Some(&value));
        assert_eq!(headers.get("x-team").map(String::as_str), Some("blue"));
        let other = if name == "x-api-key" { "authorization" } else { "x-api-key" };
        assert_eq!(headers.get(other), None);
    }
}

#[tokio::test]
async fn without_a_key_nothing_is_sent() {
    let provider = Provider::new(vec![Reply::Events(anthropic(&["x"]))]);
    let mut options = options(Wire::Anthropic, &provider.url);
    options.key = None;
    let asked = model(options.clone()).ask(&request(), &mut IgnoreDeltas).await;
    assert!(matches!(asked, Err(ModelError::NoKey)));
    assert_eq!(provider.seen().len(), 0);
    options.key_needed = false;
    model(options).ask(&request(), &mut IgnoreDeltas).await.expect("it needs none");
}

#[tokio::test]
async fn refusals_are_told_apart_and_never_repeat_the_key() {
    for wire in WIRES {
        let words = format!("{KEY} is wrong\n\u{1b}[31m");
        let error = ask(wire, vec![refusal(401, &words)]).await.expect_err("it refused");
        assert!(matches!(error, ModelError::KeyRefused { status: 401, .. }), "{error}");
        let text = error.to_string();
        assert!(text.ends_with("(status 401): **** is wrong  [31m"), "{text:?}");
        assert!(!format!("{error:?}").contains(KEY));
        let error = ask(wire, vec![refusal(404, "model m-1 not found")]).await;
        assert!(matches!(error, Err(ModelError::NoModel { model, .. }) if model == "m-1"));
        let error = ask(wire, vec![refusal(400, "max_tokens is too large")]).await;
        assert!(matches!(error, Err(ModelError::Refused { status: 400, .. })));
        let error = ask(wire, vec![refusal(302, "elsewhere")]).await;
        assert!(matches!(error, Err(ModelError::Refused { status: 302, .. })));
        for status in [500, 502] {
            let error = ask(wire, vec![refusal(status, "")]).await;
            assert!(matches!(error, Err(ModelError::Failed { .. })));
        }
        for status in [429, 503, 529] {
            let error = ask(wire, vec![refusal(status, "later")]).await;
            assert!(matches!(error, Err(ModelError::Busy { .. })));
        }
        let huge = Reply::Status(400, Vec::new(), "x".repeat(1 << 20));
        assert!(matches!(ask(wire, vec![huge]).await, Err(ModelError::Refused { .. })));
    }
}

#[tokio::test]
async fn a_busy_provider_is_tried_again_when_it_says_so() {
    for wire in WIRES {
        let later = |after: &str| {
            Reply::Status(429, vec![("retry-after-ms", after.to_owned())], "{}".to_owned())
        };
        let replies = vec![later("1"), later("2"), Reply::Events(said(wire, &["at last"]))];
        let provider = Provider::new(replies);
        let mut options = options(wire, &provider.url);
        options.retries = 2;
        let answer =
            model(options.clone()).ask(&request(), &mut IgnoreDeltas).await.expect("an answer");
        assert_eq!((answer.text().as_str(), provider.seen().len()), ("at last", 3));
        let provider = Provider::new(vec![later("3600000")]);
        options.base_url.clone_from(&provider.url);
        let error =
            model(options).ask(&request(), &mut IgnoreDeltas).await.expect_err("an hour is long");
        assert_eq!(error.retry_after(), Some(Duration::from_hours(1)));
        assert_eq!(provider.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_provider_that_is_not_there() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let asked = model(options(Wire::Chat, &url)).ask(&request(), &mut IgnoreDeltas).await;
    assert!(matches!(asked, Err(ModelError::Unreachable(_))), "{asked:?}");
}

// More than one thread: this one waits while another hangs up.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_says_nothing_is_given_up() {
    for wire in WIRES {
        let provider = Provider::new(vec![Reply::Silence(said(wire, &["half"])[..2].to_vec())]);
        let mut options = options(wire, &provider.url);
        options.silence_max = Duration::from_millis(300);
        let asked = model(options).ask(&request(), &mut IgnoreDeltas).await;
        assert!(matches!(asked, Err(ModelError::Slow(_))), "{asked:?}");
        provider.wait_until_left();
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_answer_and_not_tried_again() {
    for wire in WIRES {
        let whole = said(wire, &["one", "two"]);
        let provider = Provider::new(vec![Reply::Cut(whole[..4].to_vec())]);
        let mut options = options(wire, &provider.url);
        options.retries = 3;
        let asked = model(options).ask(&request(), &mut IgnoreDeltas).await;
        assert!(matches!(asked, Err(ModelError::Cut)), "{asked:?}");
        assert_eq!(provider.seen().len(), 1, "half of an answer had been heard");
    }
}

#[tokio::test]
async fn malformed_events_are_an_error() {
    let broken = ["event: message_start\ndata: {\n\n", "data: {\n\n", "data: \u{fffd}{]\n\n"];
    for wire in WIRES {
        for text in broken {
            // Of Anthropic's events those without a name do not count.
            let asked = ask(wire, vec![Reply::Events(vec![text.to_owned()])]).await;
            let expected = matches!(asked, Err(ModelError::Malformed(_) | ModelError::Cut));
            assert!(expected, "{asked:?}");
        }
    }
    let orphan =
        json!({"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta"}});
    let orphan = event("content_block_delta", &orphan);
    let asked = ask(Wire::Anthropic, vec![Reply::Events(vec![orphan])]).await;
    assert!(matches!(asked, Err(ModelError::Malformed(_))), "{asked:?}");
    let calls = json!({"tool_calls": [{"index": 70, "function": {"arguments": "{"}}]});
    let far = crate::provider::chunk(&calls, None);
    let asked = ask(Wire::Chat, vec![Reply::Events(vec![far])]).await;
    assert!(matches!(asked, Err(ModelError::Malformed(_))), "{asked:?}");
}

#[tokio::test]
async fn an_answer_in_one_piece_is_reported_as_that() {
    for wire in [Wire::Anthropic, Wire::Chat] {
        let kind = vec![("content-type", "application/json; charset=utf-8".to_owned())];
        let asked = ask(wire, vec![Reply::Status(200, kind, "{\"choices\": []}".to_owned())]).await;
        let Err(error @ ModelError::Malformed(_)) = asked else { panic!("{asked:?}") };
        assert!(error.to_string().contains("a stream of events was requested"), "{error}");
    }
}

#[tokio::test]
async fn errors_in_the_middle_of_a_stream_are_errors() {
    let overloaded =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "full"}});
    let overloaded = vec![event("error", &overloaded)];
    let asked = ask(Wire::Anthropic, vec![Reply::Events(overloaded)]).await;
    assert!(matches!(asked, Err(ModelError::Busy { status: 529, .. })), "{asked:?}");
    let failed = vec![format!("data: {}\n\n", json!({"error": {"message": "out of memory"}}))];
    let asked = ask(Wire::Chat, vec![Reply::Events(failed)]).await;
    assert!(matches!(asked, Err(ModelError::Failed { .. })), "{asked:?}");
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    for wire in WIRES {
        let long = "x".repeat(64 * 1024);
        let start = said(wire, &[]);
        let events: Vec<String> = start[..3.min(start.len() - 3)].to_vec();
        let one = said(wire, &[&long]).into_iter().find(|event| event.contains(&long));
        let mut replies = events;
        replies
            .extend(std::iter::repeat_n(one.expect("an event"), ANSWER_BYTES_MAX / long.len() + 2));
        let asked = ask(wire, vec![Reply::Events(replies)]).await;
        assert!(matches!(asked, Err(ModelError::TooLong(ANSWER_BYTES_MAX))), "{asked:?}");
        let noise = format!("data: {}", "y".repeat(1 << 20));
        let asked = ask(wire, vec![Reply::Endless(noise)]).await;
        assert!(matches!(asked, Err(ModelError::TooLong(_))), "{asked:?}");
        let asked = ask(wire, vec![Reply::Endless(format!(": {}\n\n", "z".repeat(1 << 16)))]).await;
        assert!(matches!(asked, Err(ModelError::TooLong(_))), "{asked:?}");
    }
}

#[tokio::test]
async fn an_empty_answer_is_an_answer() {
    for wire in WIRES {
        let answer = ask(wire, vec![Reply::Events(said(wire, &[]))]).await.expect("an answer");
        assert_eq!(answer.text(), "");
        assert_eq!(answer.parts, []);
    }
}

// More than one thread: this one waits while another hangs up.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_stops_listening_hangs_up() {
    for wire in WIRES {
        let provider = Provider::new(vec![Reply::Silence(said(wire, &["half"])[..4].to_vec())]);
        let (model, ear) = (model(options(wire, &provider.url)), Ear::default());
        let heard = Arc::clone(&ear.0);
        let mut listener = ear;
        let request = request();
        let asking = model.ask(&request, &mut listener);
        let heard_something = async {
            while heard.lock().expect("no panic").is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            asked = asking => panic!("it ends by itself: {asked:?}"),
            () = heard_something => {}
        }
        provider.wait_until_left();
    }
}

#[test]
fn options_that_cannot_be_used_are_refused() {
    let mut bad = options(Wire::Chat, "not a url");
    HttpModel::new(bad.clone()).expect_err("no URL");
    bad = options(Wire::Chat, "http://localhost");
    bad.headers.insert("a b".to_owned(), "c".to_owned());
    HttpModel::new(bad.clone()).expect_err("no header");
    bad.headers = [("a".to_owned(), "b\nc".to_owned())].into();
    let error = HttpModel::new(bad.clone()).expect_err("no value");
    assert!(!error.contains("b\nc"), "{error}");
    bad.headers.clear();
    let debug = format!("{:?}", HttpModel::new(bad).expect("good options"));
    assert!(!debug.contains(KEY), "{debug}");
}
