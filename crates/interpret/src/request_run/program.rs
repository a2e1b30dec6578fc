//! The shape `interpret`: one program, sent back to the model with its errors a bounded number of times.

use std::cell::RefCell;
use std::collections::HashSet;

use silica_domain::Outcome;
use silica_policy::{CheckedCode, Kind};

use super::{Abort, Ending, RequestRun};
use crate::event::PromptEvent;
use crate::extract::{ExtractedCode, extract};
use crate::feedback;
use crate::model::{ModelAnswer, Part, Stop};
use crate::runner::Runner;

/// What follows from one answer.
enum Next {
    /// The request ends.
    Over(Ending),
    /// The model is sent this message; how the request ends if there is no round left.
    Repair { message: String, otherwise: Ending },
}

impl<R: Runner> RequestRun<'_, R> {
    /// Runs programs of the model until one succeeds or no round is left. A failure before the first attempt is
    /// an error; a later one is an ending.
    pub(crate) async fn program(&mut self) -> Result<Ending, Abort<R::Error>> {
        let mut tried = HashSet::new();
        let mut round = 0;
        loop {
            let next = match self.round(&mut tried).await {
                Ok(next) => next,
                Err(abort) if self.attempts.is_empty() => return Err(abort),
                Err(abort) => return Ok(abort.ending()),
            };
            match next {
                Next::Over(ending) => return Ok(ending),
                Next::Repair { otherwise, .. } if round >= self.bounds.rounds => {
                    return Ok(otherwise);
                }
                Next::Repair { message, .. } => {
                    self.events.send(PromptEvent::Repair(message.clone())).await;
                    self.add_user_parts(vec![Part::Text(message)]);
                    round += 1;
                }
            }
        }
    }

    async fn round(&mut self, tried: &mut HashSet<String>) -> Result<Next, Abort<R::Error>> {
        let answer = self.ask_model().await?;
        let code = match self.code_of(&answer) {
            Ok(code) => code,
            Err(next) => return Ok(next),
        };
        if !tried.insert(essence(code.code())) {
            return Ok(Next::Over(Ending::Repeated));
        }
        let attempt = self.attempt(code).await?;
        let verdict = attempt.report.verdict;
        Ok(match &attempt.run {
            None if verdict == silica_policy::Action::Block => Next::Repair {
                message: feedback::blocked(&attempt.report),
                otherwise: Ending::Blocked,
            },
            None => Next::Over(Ending::Denied),
            Some(run) if run.succeeded() => Next::Over(Ending::Answered),
            Some(run) if run.outcome == Outcome::Denied => Next::Over(Ending::Denied),
            Some(run) => Next::Repair { message: feedback::failed(run), otherwise: Ending::Failed },
        })
    }

    /// Finds the code in an answer and checks it. Looking for code checks candidates; the one that is chosen is
    /// not checked again.
    fn code_of(&self, answer: &ModelAnswer) -> Result<CheckedCode, Next> {
        let candidates = RefCell::new(Vec::new());
        let parses = |text: &str| {
            let checked = self.policy.check_code(text);
            let findings = &checked.report().findings;
            let parses = findings.iter().all(|finding| finding.kind != Kind::Syntax);
            candidates.borrow_mut().push(checked);
            parses
        };
        let repair = |message: String| Next::Repair { message, otherwise: Ending::NoCode };
        match (extract(&answer.text(), parses), answer.stop) {
            (_, Stop::Refused) => Err(Next::Over(Ending::Refused)),
            (_, Stop::Length) => Err(repair(feedback::CUT_OFF.to_owned())),
            (ExtractedCode::Python(code), _) => {
                let same = |checked: &CheckedCode| **checked.code() == *code;
                let checked = candidates.take().into_iter().find(same);
                Ok(checked.unwrap_or_else(|| self.policy.check_code(code)))
            }
            (ExtractedCode::Other(tag), _) => Err(repair(feedback::other_language(&tag))),
            (ExtractedCode::Nothing, _) => Err(repair(feedback::NO_CODE.to_owned())),
        }
    }
}

/// Returns a program without empty lines, comment lines and trailing space, to compare it with others.
pub(super) fn essence(code: &str) -> String {
    let lines = code.lines().map(str::trim_end);
    let code = lines.filter(|line| !line.is_empty() && !line.trim_start().starts_with('#'));
    code.collect::<Vec<_>>().join("\n")
}
