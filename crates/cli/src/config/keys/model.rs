//! The keys of the sections `model` and `interpret`.

use std::time::Duration;

use silica_interpret::model::Price;

use super::{ENTRIES_MAX, Key, MILLISECOND, SECOND, TIME_MAX, URL};
use crate::config::codec::{
    Choice, Codec, List, Optional, PATH, Seconds, Table, Text, TextError, Whole,
};
use crate::config::settings::{AuthHeader, Provider};

/// The longest name of a model, and the longest name or value of a header.
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
        "The API of the provider: none, Anthropic Messages, OpenAI chat completions (also of \
         OpenRouter, Ollama, vLLM and llama.cpp), or a file of scripted answers"),
    key!("model.base_url" => model.base_url, Optional { of: URL },
        "The URL of the provider; its public API if not set", Some("\"http://localhost:11434/v1\"")),
    key!("model.name" => model.name, Optional { of: NAME },
        "The model for requests that name none", Some("\"claude-sonnet-4-5\"")),
    key!("model.allowed" => model.allowed,
        List { of: NAME, items_max: ENTRIES_MAX, separator: Some(',') },
        "Other models that clients may use; * for any"),
    key!("model.key_file" => model.key_file, Optional { of: PATH },
        "A file that contains only the key of the provider; SILICA_MODEL_KEY takes precedence, and \
         ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN or OPENAI_API_KEY are used without either",
        Some("\"/etc/silica/model.key\"")),
    key!("model.key_needed" => model.key_needed, Choice(&[("yes", true), ("no", false)]),
        "Whether the provider requires a key; one on this machine may not"),
    key!("model.auth" => model.auth,
        Choice(&[
            ("usual", AuthHeader::Usual),
            ("x-api-key", AuthHeader::ApiKey),
            ("bearer", AuthHeader::Bearer),
        ]),
        "The header that carries the key; usual is x-api-key for Anthropic, Authorization for \
         others"),
    key!("model.anthropic_version" => model.anthropic_version, NAME,
        "The version of Anthropic's API"),
    key!("model.script" => model.script, Optional { of: PATH },
        "The file of answers of the provider scripted; in a configuration file its path may be \
         relative to that file", Some("\"/etc/silica/turns.toml\"")),
    key!("model.tokens_max" => model.tokens_max, Whole(1..=ANSWER_TOKENS_MAX),
        "The longest answer, in tokens"),
    key!("model.connect_seconds" => model.connect, Seconds(MILLISECOND..=HOUR),
        "How long a connection to the provider may take"),
    key!("model.silence_seconds" => model.silence, Seconds(MILLISECOND..=HOUR),
        "How long the provider may send nothing"),
    key!("model.timeout_seconds" => model.timeout, Seconds(MILLISECOND..=HOUR),
        "How long one answer may take, with retries"),
    key!("model.retries" => model.retries, Whole(0..=TRIES_MAX),
        "How often a request to a provider that is busy or fails is repeated"),
    key!("model.headers" => model.headers,
        Table { name: NAME, of: NAME, entries_max: ENTRIES_MAX },
        "Headers for the provider", Some("x-title = \"silica\"")),
    key!("model.prices" => model.prices,
        Table { name: NAME, of: PRICE, entries_max: ENTRIES_MAX },
        "Prices by model", Some("claude-sonnet-4-5 = \"3/15\"")),
    key!("interpret.preset" => interpret.preset, NAME,
        "The preset of requests that name none: data, math, program or one of interpret.presets"),
    key!("interpret.presets" => interpret.presets, Optional { of: PATH },
        "A directory of further presets, each in NAME.toml", Some("\"/etc/silica/presets\"")),
    key!("interpret.prompt_chars_max" => interpret.prompt_chars_max, Whole(1..=PROMPT_CHARS_MAX),
        "The longest prompt, in characters"),
    key!("interpret.rounds" => interpret.rounds, Whole(0..=TRIES_MAX),
        "How often the model may correct code that fails"),
    key!("interpret.steps_max" => interpret.steps_max, Whole(1..=STEPS_MAX),
        "The most requests to the model of an agent in one prompt"),
    key!("interpret.tokens_max" => interpret.tokens_max, Whole(1..=REQUEST_TOKENS_MAX),
        "The most tokens of one prompt, in all answers together"),
    key!("interpret.timeout_seconds" => interpret.timeout, Seconds(SECOND..=TIME_MAX),
        "How long one prompt may take, with model and code"),
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
