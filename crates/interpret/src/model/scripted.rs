//! A model that reads its answers from a file, for tests and demonstrations without a key.
//!
//! ```toml
//! [[turn]]
//! when = "Fibonacci"        # used for every request whose last message holds this; optional
//! text = "print(1)"         # the answer
//! code = "print(1)"         # a call of `execute_python`, for the shape `agent`; optional
//! ```
//!
//! Turns with `when` can be used again and again. Turns without it are used up one after the other by
//! the requests that no `when` fits.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::json;

use super::{Call, Delta, Listener, ModelAnswer, ModelError, Part, Request, Stop, Tokens};
use crate::EXECUTE_PYTHON;

/// The most turns of one script.
const TURNS_MAX: usize = 10_000;

/// Why a file is not a script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It is not TOML of the expected form.
    #[error("the script cannot be read")]
    Syntax(#[from] toml::de::Error),
    /// It has too many turns.
    #[error("a script must have at most {TURNS_MAX} turns")]
    TooLong,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    turn: Vec<Turn>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Turn {
    when: Option<String>,
    #[serde(default)]
    text: String,
    code: Option<String>,
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

/// A model that reads its answers from a file.
#[derive(Debug)]
pub struct Scripted {
    turns: Vec<Turn>,
    /// The index of the next turn among those without a condition.
    next: AtomicUsize,
    /// The number of calls so far, for their ids.
    calls: AtomicUsize,
}

impl Scripted {
    /// Reads a script.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let Script { turn } = toml::from_str(text)?;
        if turn.len() > TURNS_MAX {
            return Err(ScriptError::TooLong);
        }
        Ok(Self { turns: turn, next: 0.into(), calls: 0.into() })
    }

    fn turn(&self, request: &Request) -> Option<&Turn> {
        let last = request.messages.last().map(super::Message::text).unwrap_or_default();
        let fits = |turn: &&Turn| turn.when.as_ref().is_some_and(|when| last.contains(when));
        self.turns.iter().find(fits).or_else(|| {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            self.turns.iter().filter(|turn| turn.when.is_none()).nth(next)
        })
    }

    pub(super) async fn ask(
        &self,
        request: &Request,
        listener: &mut impl Listener,
    ) -> Result<ModelAnswer, ModelError> {
        let turn = self.turn(request).ok_or(ModelError::ScriptEnded)?;
        let mut parts = Vec::new();
        if !turn.text.is_empty() {
            listener.receive(Delta::Text(turn.text.clone())).await;
            parts.push(Part::Text(turn.text.clone()));
        }
        if let Some(code) = &turn.code {
            let input = json!({"code": code});
            listener.receive(Delta::Input(input.to_string())).await;
            let id = format!("call_{}", self.calls.fetch_add(1, Ordering::Relaxed));
            parts.push(Part::Call(Call { id, name: EXECUTE_PYTHON.to_owned(), input }));
        }
        Ok(ModelAnswer {
            parts,
            stop: if turn.code.is_some() { Stop::Tools } else { Stop::Done },
            tokens: Tokens { input: turn.input_tokens, output: turn.output_tokens },
            model: request.model.clone(),
        })
    }
}
