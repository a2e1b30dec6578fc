//! The providers' own clients as judges of ours: the same question in their words and in ours has to
//! arrive as the same request, and the same stream has to be heard as the same answer.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use silica_interpret::model::{
    Auth, Call, HttpOptions, IgnoreDeltas, Message, ModelAnswer, Part, Picture, Reply as ToolReply,
    Request, Role, Stop, Tool, Wire,
};

use crate::provider::{Provider, Reply, anthropic, anthropic_end, chat, chat_end, chunk, event};
use crate::{KEY, model, options, request};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/oracle.py");

/// Where a client of a provider is installed, once, in the build directory.
fn client(package: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(package.replace("==", "-"));
    if !place.is_dir() {
        let part = place.with_extension(format!("part-{}", std::process::id()));
        let installed = Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"])
            .arg(&part)
            .arg(package)
            .output()
            .expect("python3 is there");
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        // Another process may have made the same directory meanwhile.
        let _ = std::fs::rename(&part, &place);
    }
    place
}

fn judge(package: &str, wire: &str, url: &str, kwargs: &Value) -> Value {
    let mut python = Command::new("python3")
        .args([SCRIPT, wire, url])
        .env("PYTHONPATH", client(package))
        .env("KEY", KEY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut stdin = python.stdin.take().expect("it is piped");
    stdin.write_all(kwargs.to_string().as_bytes()).expect("it reads");
    drop(stdin);
    let output = python.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Our answer in the judge's words.
fn in_words(answer: &ModelAnswer, stops: [(Stop, &str); 2]) -> Value {
    let calls = answer
        .calls()
        .map(|Call { id, name, input }| json!({"id": id, "name": name, "input": input}));
    let stop = stops.iter().find(|(stop, _)| *stop == answer.stop).map(|(_, word)| word);
    json!({
        "text": answer.text(),
        "calls": calls.collect::<Vec<_>>(),
        "stop": stop,
        "input_tokens": answer.tokens.input,
        "output_tokens": answer.tokens.output,
    })
}

struct Case {
    package: &'static str,
    options: fn(&str) -> HttpOptions,
    headers: &'static [&'static str],
    stops: [(Stop, &'static str); 2],
}

impl Case {
    /// Asks the same of the judge and of ours, with the same stream for both.
    async fn check(&self, request: &Request, kwargs: &Value, events: &[String]) {
        let provider = Provider::new(vec![Reply::Events(events.to_vec())]);
        let options = (self.options)(&provider.url);
        let wire = match options.wire {
            Wire::Anthropic => "anthropic",
            Wire::Chat => "chat",
        };
        let judged = judge(self.package, wire, &options.base_url, kwargs);
        let answer = model(options).ask(request, &mut IgnoreDeltas).await.expect("an answer");
        assert_eq!(in_words(&answer, self.stops), judged);
        let [theirs, ours] = provider.seen().try_into().expect("two requests");
        assert_eq!((&ours.method, &ours.path), (&theirs.method, &theirs.path));
        assert_eq!(ours.body, theirs.body);
        for name in self.headers {
            assert_eq!(ours.headers.get(*name), theirs.headers.get(*name), "{name}");
            assert!(ours.headers.contains_key(*name), "{name}");
        }
    }
}

fn tool() -> Tool {
    let schema =
        json!({"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]});
    Tool { name: "execute_python", about: "Runs code".to_owned(), schema }
}

/// A conversation with everything in it: words, a call, its reply with a picture, and a tool.
fn long_request() -> Request {
    let call = Call {
        id: "call_1".to_owned(),
        name: "execute_python".to_owned(),
        input: json!({"code": "1"}),
    };
    let picture = Picture { mime: "image/png".to_owned(), data: b"png".as_slice().into() };
    let reply = ToolReply {
        id: "call_1".to_owned(),
        text: "1".to_owned(),
        pictures: vec![picture],
        failed: true,
    };
    let parts = vec![Part::Text("Let me see.".to_owned()), Part::Call(call)];
    let mut request = request();
    request.messages.extend([
        Message { role: Role::Assistant, parts },
        Message { role: Role::User, parts: vec![Part::Reply(reply)] },
    ]);
    request.tools = vec![tool()];
    request
}

fn anthropic_kwargs() -> Value {
    json!({"model": "m-1", "max_tokens": 100, "system": "Be brief.",
           "messages": [{"role": "user", "content": "Print one"}]})
}

fn anthropic_long() -> Value {
    let source = json!({"type": "base64", "media_type": "image/png", "data": "cG5n"});
    let result = json!({"type": "tool_result", "tool_use_id": "call_1", "is_error": true, "content": [
        {"type": "text", "text": "1"}, {"type": "image", "source": source}]});
    let call = json!({"type": "tool_use", "id": "call_1", "name": "execute_python", "input": {"code": "1"}});
    let mut kwargs = anthropic_kwargs();
    let messages = kwargs["messages"].as_array_mut().expect("a list");
    messages.push(
        json!({"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, call]}),
    );
    messages.push(json!({"role": "user", "content": [result]}));
    kwargs["tools"] = json!([{"name": "execute_python", "description": "Runs code",
                              "input_schema": tool().schema}]);
    kwargs
}

/// Words and then a call, its arguments in pieces.
fn anthropic_call() -> Vec<String> {
    let mut events = anthropic(&["I look.\n"]);
    events.truncate(events.len() - 2);
    let block = json!({"type": "tool_use", "id": "toolu_1", "name": "execute_python", "input": {}});
    let start = json!({"type": "content_block_start", "index": 1, "content_block": block});
    events.push(event("content_block_start", &start));
    for piece in ["", "{\"code\": \"pri", "nt(1)\"}"] {
        let delta = json!({"type": "input_json_delta", "partial_json": piece});
        let delta = json!({"type": "content_block_delta", "index": 1, "delta": delta});
        events.push(event("content_block_delta", &delta));
    }
    events.extend(anthropic_end(1, "tool_use"));
    events
}

const ANTHROPIC_STOPS: [(Stop, &str); 2] = [(Stop::Done, "end_turn"), (Stop::Tools, "tool_use")];

async fn check_anthropic(case: Case) {
    case.check(&request(), &anthropic_kwargs(), &anthropic(&["Hel", "lo \u{e4}\n"])).await;
    case.check(&long_request(), &anthropic_long(), &anthropic_call()).await;
}

#[tokio::test]
async fn anthropics_client_of_today_agrees() {
    check_anthropic(Case {
        package: "anthropic==2.8.0",
        options: |url| {
            let mut options = options(Wire::Anthropic, url);
            options.auth = Auth::Bearer;
            options.anthropic_version = "2026-10-21".to_owned();
            options
        },
        headers: &["content-type", "anthropic-version", "authorization"],
        stops: ANTHROPIC_STOPS,
    })
    .await;
}

#[tokio::test]
async fn anthropics_client_of_before_agrees() {
    check_anthropic(Case {
        package: "anthropic==0.75.0",
        options: |url| options(Wire::Anthropic, url),
        headers: &["content-type", "anthropic-version", "x-api-key"],
        stops: ANTHROPIC_STOPS,
    })
    .await;
}

fn chat_kwargs() -> Value {
    json!({"model": "m-1", "max_tokens": 100, "stream": true, "stream_options": {"include_usage": true},
           "messages": [{"role": "system", "content": "Be brief."},
                        {"role": "user", "content": "Print one"}]})
}

fn chat_long() -> Value {
    let mut kwargs = chat_kwargs();
    let call = json!({"id": "call_1", "type": "function",
                      "function": {"name": "execute_python", "arguments": "{\"code\":\"1\"}"}});
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}});
    let words = json!({"type": "text", "text": "The pictures that the code drew:"});
    let messages = kwargs["messages"].as_array_mut().expect("a list");
    messages.push(json!({"role": "assistant", "content": "Let me see.", "tool_calls": [call]}));
    messages.push(json!({"role": "tool", "tool_call_id": "call_1", "content": "1"}));
    messages.push(json!({"role": "user", "content": [words, picture]}));
    let function =
        json!({"name": "execute_python", "description": "Runs code", "parameters": tool().schema});
    kwargs["tools"] = json!([{"type": "function", "function": function}]);
    kwargs
}

fn chat_call() -> Vec<String> {
    let mut events = vec![chunk(&json!({"role": "assistant", "content": "I look.\n"}), None)];
    let start = json!({"index": 0, "id": "call_9", "type": "function",
                       "function": {"name": "execute_python", "arguments": ""}});
    events.push(chunk(&json!({"tool_calls": [start]}), None));
    for piece in ["{\"code\": \"pri", "nt(1)\"}"] {
        let call = json!({"index": 0, "function": {"arguments": piece}});
        events.push(chunk(&json!({"tool_calls": [call]}), None));
    }
    events.push(chunk(&json!({}), Some("tool_calls")));
    events.extend(chat_end());
    events
}

#[tokio::test]
async fn openais_client_agrees() {
    let case = Case {
        package: "openai==3.49.0",
        options: |url| options(Wire::Chat, &format!("{url}/v1")),
        headers: &["content-type", "authorization"],
        stops: [(Stop::Done, "stop"), (Stop::Tools, "tool_calls")],
    };
    case.check(&request(), &chat_kwargs(), &chat(&["Hel", "lo \u{e4}\n"])).await;
    case.check(&long_request(), &chat_long(), &chat_call()).await;
}
