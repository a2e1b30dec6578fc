//! The shape `interpret`: one program, sent back with what went wrong, a bounded number of times.

use std::collections::HashSet;

use silica_policy::Kind;

use super::{Ending, Halt, Work};
use crate::event::Event;
use crate::extract::{Extracted, extract};
use crate::feedback;
use crate::model::{Answer, Part, Stop};
use crate::runner::Runner;

/// What follows from one answer.
enum Next {
    /// It is over.
    Over(Ending),
    /// It goes back to the model with these words; how it ends if there is no round left.
    Repair { words: String, otherwise: Ending },
}

impl<R: Runner> Work<'_, R> {
    /// Works until there is a result, or no round is left. Failing before anything is there to show is
    /// an error; failing later is an ending.
    pub(crate) async fn program(&mut self) -> Result<Ending, Halt> {
        let mut tried = HashSet::new();
        let mut round = 0;
        loop {
            let next = match self.round(&mut tried).await {
                Ok(next) => next,
                Err(halt) if self.attempts.is_empty() => return Err(halt),
                Err(halt) => return Ok(halt.ending()),
            };
            match next {
                Next::Over(ending) => return Ok(ending),
                Next::Repair { otherwise, .. } if round >= self.bounds.rounds => {
                    return Ok(otherwise);
                }
                Next::Repair { words, .. } => {
                    self.voice.tell(Event::Repair(words.clone())).await;
                    self.say(vec![Part::Text(words)]);
                    round += 1;
                }
            }
        }
    }

    async fn round(&mut self, tried: &mut HashSet<String>) -> Result<Next, Halt> {
        let answer = self.ask().await?;
        let code = match self.code_of(&answer) {
            Ok(code) => code,
            Err(next) => return Ok(next),
        };
        if !tried.insert(essence(&code)) {
            return Ok(Next::Over(Ending::Repeated));
        }
        let attempt = self.attempt(code).await?;
        let verdict = attempt.report.verdict;
        Ok(match &attempt.ran {
            None if verdict == silica_policy::Action::Block => Next::Repair {
                words: feedback::blocked(&attempt.report),
                otherwise: Ending::Blocked,
            },
            None => Next::Over(Ending::Denied),
            Some(ran) if ran.succeeded() => Next::Over(Ending::Answered),
            Some(ran) => Next::Repair { words: feedback::failed(ran), otherwise: Ending::Failed },
        })
    }

    fn code_of(&self, answer: &Answer) -> Result<String, Next> {
        let parses = |text: &str| {
            let report = self.policy.check(text);
            report.findings.iter().all(|finding| finding.kind != Kind::Syntax)
        };
        let repair = |words: String| Next::Repair { words, otherwise: Ending::NoCode };
        match (extract(&answer.text(), parses), answer.stop) {
            (_, Stop::Refused) => Err(Next::Over(Ending::Refused)),
            (_, Stop::Length) => Err(repair(feedback::CUT_OFF.to_owned())),
            (Extracted::Code(code), _) => Ok(code),
            (Extracted::Other(tag), _) => Err(repair(feedback::other_language(&tag))),
            (Extracted::Nothing, _) => Err(repair(feedback::NO_CODE.to_owned())),
        }
    }
}

/// What makes two programs the same: lines without comments of their own, and without space at the end.
pub(super) fn essence(code: &str) -> String {
    let lines = code.lines().map(str::trim_end);
    let telling = lines.filter(|line| !line.is_empty() && !line.trim_start().starts_with('#'));
    telling.collect::<Vec<_>>().join("\n")
}
