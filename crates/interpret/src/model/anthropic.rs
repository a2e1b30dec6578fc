//! Anthropic Messages: the request and its stream of events.
//!
//! No sampling parameters are sent: newer versions of the format refuse them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::error::ProviderMessage;
use super::http::Reading;
use super::{
    Call, Delta, Message, ModelAnswer, ModelError, Part, Reply, Request, Role, Stop, Tokens, Tool,
    sse,
};

/// The most blocks of one answer.
const BLOCKS_MAX: usize = 256;

/// Returns the body of a request.
pub(super) fn body(request: &Request) -> Value {
    let mut body = json!({
        "model": request.model,
        "max_tokens": request.tokens_max,
        "messages": request.messages.iter().map(message).collect::<Vec<_>>(),
        "stream": true,
    });
    if !request.system.is_empty() {
        body["system"] = request.system.as_str().into();
    }
    if !request.tools.is_empty() {
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    body
}

fn tool(tool: &Tool) -> Value {
    json!({"name": tool.name, "description": tool.about, "input_schema": tool.schema})
}

fn message(message: &Message) -> Value {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    // A message of one text is sent as a string, which every server accepts.
    let content = match message.parts.as_slice() {
        [Part::Text(text)] => text.as_str().into(),
        parts => parts.iter().map(block).collect::<Value>(),
    };
    json!({"role": role, "content": content})
}

fn block(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Call(Call { id, name, input }) => {
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
        Part::Reply(reply) => reply_block(reply),
        Part::Opaque(value) => value.clone(),
    }
}

fn reply_block(reply: &Reply) -> Value {
    let content: Value = if reply.pictures.is_empty() {
        reply.text.as_str().into()
    } else {
        let text = json!({"type": "text", "text": reply.text});
        let pictures = reply.pictures.iter().map(|picture| {
            let data = STANDARD.encode(&picture.data);
            let source = json!({"type": "base64", "media_type": picture.mime, "data": data});
            json!({"type": "image", "source": source})
        });
        std::iter::once(text).chain(pictures).collect()
    };
    let mut block = json!({"type": "tool_result", "tool_use_id": reply.id, "content": content});
    if reply.failed {
        block["is_error"] = true.into();
    }
    block
}

/// A block of an answer, read so far.
#[derive(Debug)]
enum Block {
    Text(String),
    Call {
        id: String,
        name: String,
        input: String,
    },
    /// Thinking, or an unknown kind: kept unchanged, to be sent back.
    Other(Value),
}

/// Reads the events of an answer.
#[derive(Debug, Default)]
pub(super) struct Reader {
    blocks: Vec<Block>,
    model: String,
    tokens: Tokens,
    stop: Option<Stop>,
    done: bool,
}

impl Reading for Reader {
    fn event(&mut self, event: &sse::Event) -> Result<Option<Delta>, ModelError> {
        let kinds = [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "message_delta",
            "message_stop",
            "error",
        ];
        // Pings, ends of blocks, and unknown events.
        if !kinds.contains(&event.name.as_str()) {
            return Ok(None);
        }
        let value: Value = serde_json::from_str(&event.data).map_err(|_| {
            ModelError::Malformed(format!("an event {} that is no JSON", event.name))
        })?;
        match event.name.as_str() {
            "message_start" => {
                let message = &value["message"];
                message["model"].as_str().unwrap_or_default().clone_into(&mut self.model);
                self.count(&message["usage"]);
            }
            "content_block_start" => return self.start(&value).map(|()| None),
            "content_block_delta" => return self.delta(&value),
            "message_delta" => {
                self.stop = value["delta"]["stop_reason"].as_str().map(stop).or(self.stop);
                self.count(&value["usage"]);
            }
            "message_stop" => self.done = true,
            _ => return Err(failure(&value["error"])),
        }
        Ok(None)
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn finish(self, request: &Request) -> Result<ModelAnswer, ModelError> {
        let part = |block: Block| {
            Ok(match block {
                Block::Text(text) => Part::Text(text),
                Block::Call { id, name, input } => {
                    Part::Call(Call { id, name, input: object(&input)? })
                }
                Block::Other(value) => Part::Opaque(value),
            })
        };
        let parts: Result<Vec<Part>, ModelError> = self
            .blocks
            .into_iter()
            // The format refuses in a request what it sometimes sends in an answer.
            .filter(|block| !matches!(block, Block::Text(text) if text.is_empty()))
            .map(part)
            .collect();
        let model = if self.model.is_empty() { request.model.clone() } else { self.model };
        Ok(ModelAnswer {
            parts: parts?,
            stop: self.stop.unwrap_or(Stop::Done),
            tokens: self.tokens,
            model,
        })
    }
}

impl Reader {
    /// Sets the numbers of tokens. The last ones of a stream count; tokens from a cache count as read.
    fn count(&mut self, usage: &Value) {
        let number = |name: &str| usage[name].as_u64();
        if let Some(input) = number("input_tokens") {
            let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
            let cached = cached.into_iter().filter_map(number);
            self.tokens.input = cached.fold(input, u64::saturating_add);
        }
        self.tokens.output = number("output_tokens").unwrap_or(self.tokens.output);
    }

    fn start(&mut self, value: &Value) -> Result<(), ModelError> {
        if value["index"].as_u64() != Some(self.blocks.len() as u64) {
            return Err(ModelError::Malformed("blocks out of order".to_owned()));
        }
        if self.blocks.len() >= BLOCKS_MAX {
            return Err(ModelError::Malformed(format!("more than {BLOCKS_MAX} blocks")));
        }
        let block = &value["content_block"];
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        self.blocks.push(match block["type"].as_str() {
            Some("text") => Block::Text(text("text")),
            Some("tool_use") => {
                Block::Call { id: text("id"), name: text("name"), input: String::new() }
            }
            _ => Block::Other(block.clone()),
        });
        Ok(())
    }

    fn delta(&mut self, value: &Value) -> Result<Option<Delta>, ModelError> {
        let index = value["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        let block = index.and_then(|index| self.blocks.get_mut(index));
        let block = block.ok_or_else(|| ModelError::Malformed("a piece of no block".to_owned()))?;
        let delta = &value["delta"];
        let text = |name: &str| delta[name].as_str().unwrap_or_default();
        match (block, delta["type"].as_str().unwrap_or_default()) {
            (Block::Text(all), "text_delta") => {
                all.push_str(text("text"));
                Ok(Some(Delta::Text(text("text").to_owned())))
            }
            (Block::Call { input, .. }, "input_json_delta") => {
                input.push_str(text("partial_json"));
                Ok(Some(Delta::Input(text("partial_json").to_owned())))
            }
            (Block::Other(all), "thinking_delta") => {
                append(all, "thinking", text("thinking"))?;
                Ok(None)
            }
            (Block::Other(all), "signature_delta") => {
                append(all, "signature", text("signature"))?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}

/// Parses the arguments of a call; an empty text is an empty object.
pub(super) fn object(text: &str) -> Result<Value, ModelError> {
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(Value::Object(map)),
        _ => Err(ModelError::Malformed("arguments of a tool that are no JSON object".to_owned())),
    }
}

/// Bounds opaque blocks. They are not passed to the listener, so the bound on the answer does not count them.
fn append(block: &mut Value, name: &str, more: &str) -> Result<(), ModelError> {
    if !block[name].is_string() {
        block[name] = Value::String(String::new());
    }
    if let Value::String(text) = &mut block[name] {
        if text.len() + more.len() > super::ANSWER_BYTES_MAX {
            return Err(ModelError::TooLong(super::ANSWER_BYTES_MAX));
        }
        text.push_str(more);
    }
    Ok(())
}

fn stop(reason: &str) -> Stop {
    match reason {
        "tool_use" => Stop::Tools,
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "refusal" => Stop::Refused,
        _ => Stop::Done,
    }
}

/// Returns the error of an event in a stream that began with status 200.
fn failure(error: &Value) -> ModelError {
    let words = ProviderMessage::new(error["message"].as_str().unwrap_or_default());
    match error["type"].as_str().unwrap_or_default() {
        "overloaded_error" => ModelError::Busy { status: 529, retry_after: None, words },
        "rate_limit_error" => ModelError::Busy { status: 429, retry_after: None, words },
        _ => ModelError::Failed { status: 200, words },
    }
}
