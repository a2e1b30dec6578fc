//! The keys about models and prompts.

use std::time::Duration;

use silica_interpret::model::Price;

use super::{ENTRIES_MAX, Key, MILLISECOND, SECOND, TIME_MAX, URL};
use crate::config::codec::{
    Choice, Codec, List, Optional, PATH, Seconds, Table, Text, TextError, Whole,
};
use crate::config::settings::{AuthHeader, Provider};

/// The longest name of a model, and the longest value of a header.
const NAME_BYTES_MAX: usize = 200;
/// The longest prompt that can be allowed, in characters.
const PROMPT_CHARS_MAX: u32 = 1_000_000;
/// The longest answer that can be allowed, in tokens.
const ANSWER_TOKENS_MAX: u32 = 1_000_000;
/// The most tokens of one request.
const REQUEST_TOKENS_MAX: u64 = 1_000_000_000;
/// The most tries, rounds and steps.
const TRIES_MAX: u32 = 10;
const STEPS_MAX: u32 = 1000;
const HOUR: Duration = Duration::from_hours(1);

pub(super) const MODEL: &[Key] = &[
    key!("model.provider" => model.provider,
        Choice(&[
            ("none", Provider::None),
            ("anthropic", Provider::Anthropic),
            ("openai", Provider::OpenAi),
            ("scripted", Provider::Scripted),
        ]),
        "Who answers: nobody, Anthropic Messages, chat completions as of OpenAI (which OpenRouter, \
         Ollama, vLLM and llama.cpp speak too), or a file of turns"),
    key!("model.base_url" => model.base_url, Optional { of: URL },
        "Where the provider is; its own address if not given", Some("\"http://localhost:11434/v1\"")),
    key!("model.name" => model.name, Optional { of: NAME },
        "The model that is asked unless a client names another", Some("\"claude-sonnet-4-5\"")),
    key!("model.allowed" => model.allowed,
        List { of: NAME, items_max: ENTRIES_MAX, separator: Some(',') },
        "Other models that clients may ask for; * for any"),
    key!("model.key_file" => model.key_file, Optional { of: PATH },
        "A file that holds the provider's key and nothing else; SILICA_MODEL_KEY comes first, \
         ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or OPENAI_API_KEY last",
        Some("\"/etc/silica/model.key\"")),
    key!("model.key_needed" => model.key_needed, Choice(&[("yes", true), ("no", false)]),
        "Whether the provider wants a key; one on the own machine may not"),
    key!("model.auth" => model.auth,
        Choice(&[
            ("usual", AuthHeader::Usual),
            ("x-api-key", AuthHeader::ApiKey),
            ("bearer", AuthHeader::Bearer),
        ]),
        "The header that carries the key: x-api-key for Anthropic, Authorization for others, unless \
         said here"),
    key!("model.anthropic_version" => model.anthropic_version, NAME,
        "The version of Anthropic's format that is asked for"),
    key!("model.script" => model.script, Optional { of: PATH },
        "The file of turns of the provider scripted", Some("\"/etc/silica/turns.toml\"")),
    key!("model.tokens_max" => model.tokens_max, Whole(1..=ANSWER_TOKENS_MAX),
        "The longest answer, in tokens"),
    key!("model.connect_seconds" => model.connect, Seconds(MILLISECOND..=HOUR),
        "How long a connection to the provider may take"),
    key!("model.silence_seconds" => model.silence, Seconds(MILLISECOND..=HOUR),
        "How long the provider may send nothing"),
    key!("model.timeout_seconds" => model.timeout, Seconds(MILLISECOND..=HOUR),
        "How long one answer may take, further tries included"),
    key!("model.retries" => model.retries, Whole(0..=TRIES_MAX),
        "How often a provider that is busy or broken is tried again"),
    key!("model.headers" => model.headers,
        Table { name: NAME, of: NAME, entries_max: ENTRIES_MAX },
        "Headers for the provider", Some("x-title = \"silica\"")),
    key!("model.prices" => model.prices,
        Table { name: NAME, of: PRICE, entries_max: ENTRIES_MAX },
        "Prices by model", Some("claude-sonnet-4-5 = \"3/15\"")),
    key!("interpret.preset" => interpret.preset, NAME,
        "The preset of requests that name none: data, math, program or an own one"),
    key!("interpret.presets" => interpret.presets, Optional { of: PATH },
        "A directory of further presets, NAME.toml each", Some("\"/etc/silica/presets\"")),
    key!("interpret.prompt_chars_max" => interpret.prompt_chars_max, Whole(1..=PROMPT_CHARS_MAX),
        "The longest prompt, in characters"),
    key!("interpret.rounds" => interpret.rounds, Whole(0..=TRIES_MAX),
        "How often code that fails goes back to the model"),
    key!("interpret.steps_max" => interpret.steps_max, Whole(1..=STEPS_MAX),
        "How often an agent is asked in one request"),
    key!("interpret.tokens_max" => interpret.tokens_max, Whole(1..=REQUEST_TOKENS_MAX),
        "Tokens of one request, all answers together"),
    key!("interpret.timeout_seconds" => interpret.timeout, Seconds(SECOND..=TIME_MAX),
        "How long one request may take, model and code together"),
];

const NAME: Text<String> = Text {
    allowed: "a text of 1 to 200 printable characters",
    read: |text| {
        let good = (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control);
        if good { Ok(text.to_owned()) } else { Err(TextError::NotAllowed) }
    },
    write: String::clone,
};

const PRICE: Text<Price> = Text {
    allowed: "dollars per million tokens read and written, such as \"3/15\"",
    read: |text| text.parse().map_err(|_| TextError::NotAllowed),
    write: ToString::to_string,
};
