//! Questions about code that is not run: what can follow it, what a name in it is, whether it is complete.
//!
//! They wait for the cell that runs, as cells do, but take no place in the queue; each kernel has a bound of
//! its own. Looking a name up may run code of the guest, for a second or a few; the engine bounds that.

use silica_domain::KernelId;
use silica_engine::{CODE_BYTES_MAX, Completeness, Completions, KernelError};
use tokio::sync::oneshot;

use super::{KernelHandle, Message};
use crate::error::SessionError;
use crate::session::Session;

/// The most questions that wait for one kernel.
pub(super) const QUESTIONS_MAX: usize = 16;

/// Where the answer goes.
type Answer<T> = oneshot::Sender<Result<T, KernelError>>;

/// A question for an interpreter.
pub(crate) enum Question {
    Complete { code: String, answer: Answer<Completions> },
    Inspect { code: String, cursor: usize, detail: u8, answer: Answer<Option<String>> },
    IsComplete { code: String, answer: Answer<Completeness> },
}

impl KernelHandle {
    async fn ask<T>(
        &self,
        question: impl FnOnce(Answer<T>) -> Question,
    ) -> Result<T, SessionError> {
        let permit = self.questions.try_acquire();
        let _permit = permit.map_err(|_| SessionError::TooManyQuestions(QUESTIONS_MAX))?;
        let (answer, answered) = oneshot::channel();
        let gone = || SessionError::NoKernel(self.id.to_string());
        self.messages.send(Message::Ask(question(answer))).map_err(|_| gone())?;
        Ok(answered.await.map_err(|_| gone())??)
    }
}

fn check(code: &str) -> Result<String, SessionError> {
    if code.len() > CODE_BYTES_MAX {
        let message = format!("code must have at most {CODE_BYTES_MAX} bytes");
        return Err(SessionError::Bad(message));
    }
    Ok(code.to_owned())
}

impl Session {
    /// Returns which names can follow the code before a cursor.
    pub async fn complete(
        &self,
        kernel: Option<KernelId>,
        code: &str,
    ) -> Result<Completions, SessionError> {
        self.ensure_open()?;
        let code = check(code)?;
        self.kernel(kernel)?.ask(|answer| Question::Complete { code, answer }).await
    }

    /// Returns a text about the name at a cursor, in characters; `None` if there is none.
    pub async fn inspect(
        &self,
        kernel: Option<KernelId>,
        code: &str,
        cursor: usize,
        detail: u8,
    ) -> Result<Option<String>, SessionError> {
        self.ensure_open()?;
        let code = check(code)?;
        self.kernel(kernel)?.ask(|answer| Question::Inspect { code, cursor, detail, answer }).await
    }

    /// Returns whether code is complete, for an editor that reads it line by line.
    pub async fn is_complete(
        &self,
        kernel: Option<KernelId>,
        code: &str,
    ) -> Result<Completeness, SessionError> {
        self.ensure_open()?;
        let code = check(code)?;
        self.kernel(kernel)?.ask(|answer| Question::IsComplete { code, answer }).await
    }
}
