//! The shape `agent`: the model runs code in a live kernel, step by step, until it has an answer.

use std::collections::HashMap;

use serde_json::json;
use silica_domain::Outcome;

use super::program::essence;
use super::{Abort, Attempt, Ending, RequestRun};
use crate::EXECUTE_PYTHON;
use crate::feedback;
use crate::model::{Call, Part, Reply, Stop, Tool};
use crate::runner::Runner;

/// How often the same code may end with the same result.
const REPEATS_MAX: u32 = 3;

/// The most calls of one answer that are carried out; more are refused.
const CALLS_MAX: usize = 8;

/// Returns the tool that runs code.
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

impl<R: Runner> RequestRun<'_, R> {
    /// Runs the code of the model until it answers without code, or a bound is reached.
    pub(crate) async fn agent(&mut self) -> Result<Ending, Abort<R::Error>> {
        let mut seen = HashMap::new();
        for step in 1.. {
            let answer = match self.ask_model().await {
                Ok(answer) => answer,
                Err(abort) if self.attempts.is_empty() => return Err(abort),
                Err(abort) => return Ok(abort.ending()),
            };
            let calls: Vec<Call> = answer.calls().cloned().collect();
            match answer.stop {
                Stop::Refused => return Ok(Ending::Refused),
                _ if calls.is_empty() => return Ok(Ending::Answered),
                Stop::Length | Stop::Done | Stop::Tools => {}
            }
            let ending = (step >= self.bounds.steps).then_some(Ending::Steps);
            if let Some(ending) = self.step(&calls, ending, &mut seen).await? {
                return Ok(ending);
            }
        }
        Ok(Ending::Steps)
    }

    /// Carries out the calls of one answer, or refuses them if the request has to end. Each gets a reply: a call
    /// without one makes the conversation unusable. Returns how the request ends, if it does.
    async fn step(
        &mut self,
        calls: &[Call],
        mut ending: Option<Ending>,
        seen: &mut HashMap<String, u32>,
    ) -> Result<Option<Ending>, Abort<R::Error>> {
        let mut replies = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            let reply = match (code_of(call), ending) {
                (_, Some(ending)) => refused(call, ending.explain().unwrap_or("not run")),
                (Err(words), None) => refused(call, &words),
                (Ok(_), None) if index >= CALLS_MAX => {
                    refused(call, "too many calls in one answer")
                }
                (Ok(code), None) => match self.attempt(self.policy.check_code(code)).await {
                    Ok(attempt) => {
                        let reply = reply(call, attempt);
                        let times = count(seen, attempt);
                        // A person who has denied is not asked again.
                        if attempt.run.as_ref().is_some_and(|run| run.outcome == Outcome::Denied) {
                            ending = Some(Ending::Denied);
                        }
                        if times >= REPEATS_MAX {
                            ending = Some(Ending::Repeated);
                        }
                        reply
                    }
                    Err(Abort::Sandbox(error)) => return Err(Abort::Sandbox(error)),
                    Err(abort) => {
                        ending = Some(abort.ending());
                        refused(call, abort.ending().explain().unwrap_or("not run"))
                    }
                },
            };
            replies.push(Part::Reply(reply));
        }
        self.add_user_parts(replies);
        Ok(ending)
    }
}

/// Returns the code of a call, or why there is none.
fn code_of(call: &Call) -> Result<String, String> {
    if call.name != EXECUTE_PYTHON {
        return Err(format!("there is no such tool; use {EXECUTE_PYTHON}"));
    }
    let code = call.input["code"].as_str().filter(|code| !code.trim().is_empty());
    code.map(str::to_owned).ok_or_else(|| "the argument code is missing".to_owned())
}

/// Returns the reply to a call that was not carried out.
fn refused(call: &Call, words: &str) -> Reply {
    let text = format!("Not run: {words}.");
    Reply { id: call.id.clone(), text, pictures: Vec::new(), failed: true }
}

/// Returns the reply to a call that was attempted.
fn reply(call: &Call, attempt: &Attempt) -> Reply {
    let id = call.id.clone();
    match &attempt.run {
        Some(run) => Reply {
            id,
            text: feedback::outcome(run),
            pictures: feedback::pictures(run),
            failed: !run.succeeded(),
        },
        None if attempt.report.verdict == silica_policy::Action::Block => {
            let text = feedback::blocked(&attempt.report);
            Reply { id, text, pictures: Vec::new(), failed: true }
        }
        None => refused(call, "a person has to approve this code and did not"),
    }
}

/// Counts how often this code has ended with this result.
fn count(seen: &mut HashMap<String, u32>, attempt: &Attempt) -> u32 {
    let outcome = attempt.run.as_ref().map(feedback::essence).unwrap_or_default();
    let times = seen.entry(format!("{}\0{outcome}", essence(&attempt.code))).or_default();
    *times += 1;
    *times
}
