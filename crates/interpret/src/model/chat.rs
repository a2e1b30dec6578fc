//! Chat completions of OpenAI: the request and its stream of events.
//!
//! Servers with this format differ in details: a missing field is taken as empty, an unknown one is ignored.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::anthropic::object;
use super::error::ProviderMessage;
use super::http::Reading;
use super::{
    Call, Delta, Message, ModelAnswer, ModelError, Part, Picture, Request, Role, Stop, Tokens,
    Tool, sse,
};

/// The most calls of one answer.
const CALLS_MAX: usize = 64;

/// The data of the last event of a stream.
const DONE: &str = "[DONE]";

/// Returns the body of a request.
pub(super) fn body(request: &Request, base_url: &str) -> Value {
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    for message in &request.messages {
        add(&mut messages, message);
    }
    // OpenAI has renamed the field; most other servers know the old name only.
    let length =
        if base_url.contains("//api.openai.com") { "max_completion_tokens" } else { "max_tokens" };
    let mut body = json!({
        "model": request.model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    body[length] = request.tokens_max.into();
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    body
}

fn tool(tool: &Tool) -> Value {
    let function = json!({
        "name": tool.name,
        "description": tool.about,
        "parameters": tool.schema,
    });
    json!({"type": "function", "function": function})
}

/// Converts a message. Replies to calls become messages of their own; pictures must be in a user message after them.
fn add(messages: &mut Vec<Value>, message: &Message) {
    let mut text = String::new();
    let mut calls = Vec::new();
    let mut pictures: Vec<&Picture> = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text(more) => text.push_str(more),
            Part::Call(call) => calls.push(call_object(call)),
            Part::Reply(reply) => {
                messages.push(json!({
                    "role": "tool",
                    "tool_call_id": reply.id,
                    "content": reply.text,
                }));
                pictures.extend(&reply.pictures);
            }
            // A part of another wire format.
            Part::Opaque(_) => {}
        }
    }
    match message.role {
        Role::User if !pictures.is_empty() => {
            let words = "The pictures that the code drew:";
            let mut content = vec![json!({"type": "text", "text": words})];
            content.extend(pictures.into_iter().map(picture));
            if !text.is_empty() {
                content.push(json!({"type": "text", "text": text}));
            }
            messages.push(json!({"role": "user", "content": content}));
        }
        Role::User if text.is_empty() => {}
        Role::User => messages.push(json!({"role": "user", "content": text})),
        Role::Assistant if calls.is_empty() => {
            messages.push(json!({"role": "assistant", "content": text}));
        }
        Role::Assistant => {
            let content = if text.is_empty() { Value::Null } else { text.into() };
            messages.push(json!({"role": "assistant", "content": content, "tool_calls": calls}));
        }
    }
}

fn call_object(call: &Call) -> Value {
    let function = json!({"name": call.name, "arguments": call.input.to_string()});
    json!({"id": call.id, "type": "function", "function": function})
}

fn picture(picture: &Picture) -> Value {
    let url = format!("data:{};base64,{}", picture.mime, STANDARD.encode(&picture.data));
    json!({"type": "image_url", "image_url": {"url": url}})
}

#[derive(Debug, Default)]
struct Partial {
    id: String,
    name: String,
    arguments: String,
}

/// Reads the events of an answer.
#[derive(Debug, Default)]
pub(super) struct Reader {
    text: String,
    calls: Vec<Partial>,
    model: String,
    tokens: Option<Tokens>,
    stop: Option<Stop>,
    done: bool,
}

impl Reading for Reader {
    fn event(&mut self, event: &sse::Event) -> Result<Option<Delta>, ModelError> {
        if event.data.trim() == DONE {
            self.done = true;
            return Ok(None);
        }
        let value: Value = serde_json::from_str(&event.data)
            .map_err(|_| ModelError::Malformed("an event that is no JSON".to_owned()))?;
        if !value["error"].is_null() {
            let error = &value["error"];
            let message = error["message"].as_str().or(error.as_str()).unwrap_or_default();
            return Err(ModelError::Failed { status: 200, words: ProviderMessage::new(message) });
        }
        if let Some(model) = value["model"].as_str() {
            model.clone_into(&mut self.model);
        }
        if let Some(input) = value["usage"]["prompt_tokens"].as_u64() {
            let output = value["usage"]["completion_tokens"].as_u64().unwrap_or(0);
            self.tokens = Some(Tokens { input, output });
        }
        let choice = &value["choices"][0];
        self.stop = choice["finish_reason"].as_str().map(stop).or(self.stop);
        self.delta(&choice["delta"])
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn finish(self, request: &Request) -> Result<ModelAnswer, ModelError> {
        let tokens = self.tokens.unwrap_or_else(|| self.estimate(request));
        let mut parts = Vec::new();
        if !self.text.is_empty() {
            parts.push(Part::Text(self.text));
        }
        for (index, Partial { id, name, arguments }) in self.calls.into_iter().enumerate() {
            let id = if id.is_empty() { format!("call_{index}") } else { id };
            parts.push(Part::Call(Call { id, name, input: object(&arguments)? }));
        }
        let model = if self.model.is_empty() { request.model.clone() } else { self.model };
        Ok(ModelAnswer { parts, stop: self.stop.unwrap_or(Stop::Done), tokens, model })
    }
}

impl Reader {
    fn delta(&mut self, delta: &Value) -> Result<Option<Delta>, ModelError> {
        let mut input = String::new();
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            input.push_str(&self.call(call)?);
        }
        if !input.is_empty() {
            return Ok(Some(Delta::Input(input)));
        }
        match delta["content"].as_str() {
            None | Some("") => Ok(None),
            Some(text) => {
                self.text.push_str(text);
                Ok(Some(Delta::Text(text.to_owned())))
            }
        }
    }

    /// Reads a piece of a call; returns the arguments in it.
    fn call(&mut self, call: &Value) -> Result<String, ModelError> {
        // Some servers send whole calls without an index.
        let index = call["index"].as_u64().unwrap_or(self.calls.len() as u64);
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if index > self.calls.len() || index >= CALLS_MAX {
            return Err(ModelError::Malformed("calls of tools out of order".to_owned()));
        }
        if index == self.calls.len() {
            self.calls.push(Partial::default());
        }
        let partial = &mut self.calls[index];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if partial.id.is_empty() {
            partial.id = text(&call["id"]);
        }
        if partial.name.is_empty() {
            partial.name = text(&call["function"]["name"]);
        }
        let more = text(&call["function"]["arguments"]);
        partial.arguments.push_str(&more);
        Ok(more)
    }

    /// Estimates tokens at four bytes each, for servers that do not count. Their answers must not be free.
    fn estimate(&self, request: &Request) -> Tokens {
        let said: usize = request.messages.iter().map(|message| message.text().len()).sum();
        let written: usize = self.calls.iter().map(|call| call.arguments.len()).sum();
        Tokens {
            input: (said + request.system.len()) as u64 / 4,
            output: (self.text.len() + written) as u64 / 4,
        }
    }
}

fn stop(reason: &str) -> Stop {
    match reason {
        "tool_calls" | "function_call" => Stop::Tools,
        "length" => Stop::Length,
        "content_filter" => Stop::Refused,
        _ => Stop::Done,
    }
}
