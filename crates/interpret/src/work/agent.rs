//! The shape `agent`: the model runs code in a live kernel, step by step, until it has an answer.

use std::collections::HashMap;

use serde_json::json;

use super::program::essence;
use super::{Attempt, Ending, Halt, Work};
use crate::EXECUTE_PYTHON;
use crate::feedback;
use crate::model::{Call, Part, Reply, Stop, Tool};
use crate::runner::Runner;

/// How often the same code may end in the same way.
const REPEATS_MAX: u32 = 3;

/// Calls of one answer that are carried out; more are refused with words.
const CALLS_MAX: usize = 8;

/// What an agent may use.
pub(crate) fn tool() -> Tool {
    Tool {
        name: EXECUTE_PYTHON,
        about: "Runs Python code in a live interpreter, like a cell of a notebook. Variables, imports \
                and files stay from one call to the next. Returns what was printed, the value of the \
                last expression, and errors. Figures are shown to the user by making them."
            .to_owned(),
        schema: json!({
            "type": "object",
            "properties": {"code": {"type": "string", "description": "The Python code to run."}},
            "required": ["code"],
        }),
    }
}

impl<R: Runner> Work<'_, R> {
    /// Works until the model has no more code to run, or a bound is reached.
    pub(crate) async fn agent(&mut self) -> Result<Ending, Halt> {
        let mut seen = HashMap::new();
        for step in 1.. {
            let answer = match self.ask().await {
                Ok(answer) => answer,
                Err(halt) if self.attempts.is_empty() => return Err(halt),
                Err(halt) => return Ok(halt.ending()),
            };
            let calls: Vec<Call> = answer.calls().cloned().collect();
            match answer.stop {
                Stop::Refused => return Ok(Ending::Refused),
                _ if calls.is_empty() => return Ok(Ending::Answered),
                Stop::Length | Stop::Done | Stop::Tools => {}
            }
            let over = self.step(&calls, step < self.bounds.steps, &mut seen).await?;
            if let Some(ending) = over {
                return Ok(ending);
            }
        }
        Ok(Ending::Steps)
    }

    /// Carries out the calls of one answer. Each gets its reply, also if it is the last step: a call
    /// without one makes the conversation unusable.
    async fn step(
        &mut self,
        calls: &[Call],
        more: bool,
        seen: &mut HashMap<String, u32>,
    ) -> Result<Option<Ending>, Halt> {
        let mut ending = if more { None } else { Some(Ending::Steps) };
        let mut replies = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            let reply = match (wanted(call), ending) {
                (_, Some(ending)) => refused(call, ending.explain().unwrap_or("not run")),
                (Err(words), None) => refused(call, &words),
                (Ok(_), None) if index >= CALLS_MAX => {
                    refused(call, "too many calls in one answer")
                }
                (Ok(code), None) => match self.attempt(code).await {
                    Ok(attempt) => {
                        let (reply, times) = (reply(call, attempt), note(seen, attempt));
                        if times >= REPEATS_MAX {
                            ending = Some(Ending::Repeated);
                        }
                        reply
                    }
                    Err(Halt::Session(error)) => return Err(Halt::Session(error)),
                    Err(halt) => {
                        ending = Some(halt.ending());
                        refused(call, halt.ending().explain().unwrap_or("not run"))
                    }
                },
            };
            replies.push(Part::Reply(reply));
        }
        self.say(replies);
        Ok(ending)
    }
}

/// The code of a call, or why there is none.
fn wanted(call: &Call) -> Result<String, String> {
    if call.name != EXECUTE_PYTHON {
        return Err(format!("there is no such tool; use {EXECUTE_PYTHON}"));
    }
    let code = call.input["code"].as_str().filter(|code| !code.trim().is_empty());
    code.map(str::to_owned).ok_or_else(|| "the argument code is missing".to_owned())
}

fn refused(call: &Call, words: &str) -> Reply {
    let text = format!("Not run: {words}.");
    Reply { id: call.id.clone(), text, pictures: Vec::new(), failed: true }
}

fn reply(call: &Call, attempt: &Attempt) -> Reply {
    let id = call.id.clone();
    match &attempt.ran {
        Some(ran) => Reply {
            id,
            text: feedback::outcome(ran),
            pictures: feedback::pictures(ran),
            failed: !ran.succeeded(),
        },
        None if attempt.report.verdict == silica_policy::Action::Block => {
            let text = feedback::blocked(&attempt.report);
            Reply { id, text, pictures: Vec::new(), failed: true }
        }
        None => refused(call, "a person has to approve this code and did not"),
    }
}

/// How often this code has ended in this way.
fn note(seen: &mut HashMap<String, u32>, attempt: &Attempt) -> u32 {
    let outcome = attempt.ran.as_ref().map(feedback::outcome).unwrap_or_default();
    let times = seen.entry(format!("{}\0{outcome}", essence(&attempt.code))).or_default();
    *times += 1;
    *times
}
