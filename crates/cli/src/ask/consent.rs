//! Asks the user at the terminal to confirm code before it runs.
//!
//! The task that prints events also asks the question, after it has printed the code.

use std::io::{BufRead, Write};

use silica_interpret::Approver;
use silica_policy::Report;
use tokio::sync::{mpsc, oneshot};

use crate::show;

/// A confirmation that code waits for.
pub(super) struct Question {
    findings: Vec<String>,
    answer: oneshot::Sender<bool>,
}

/// The user at the terminal, as an approver of code.
pub(super) struct Terminal(mpsc::Sender<Question>);

impl Terminal {
    /// Returns an approver and the receiver of its questions.
    pub(super) fn new() -> (Self, mpsc::Receiver<Question>) {
        let (sender, questions) = mpsc::channel(1);
        (Self(sender), questions)
    }
}

impl Approver for Terminal {
    fn approve<'a>(
        &'a self,
        _: &'a str,
        report: &'a Report,
    ) -> std::pin::Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        let finding = |finding: &silica_policy::Finding| {
            let why = show::plain(&finding.why, 300);
            format!("silica: line {}: {why} ({})", finding.line, finding.rule)
        };
        let findings = report.findings.iter().map(finding).collect();
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let question = Question { findings, answer };
            // A question that is dropped without an answer is not a consent.
            self.0.send(question).await.is_ok() && answered.await.unwrap_or(false)
        })
    }
}

impl Question {
    /// Prints the question, and waits for the answer of the user.
    pub(super) async fn ask(self) {
        self.findings.iter().for_each(|line| say!("{line}"));
        let yes = tokio::task::spawn_blocking(read_answer).await.unwrap_or(false);
        // Fails only if the request has been cancelled.
        let _ = self.answer.send(yes);
    }
}

fn read_answer() -> bool {
    prompt!("silica: run this? [Y/n] ");
    let mut line = String::new();
    let read =
        std::io::stderr().flush().and_then(|()| std::io::stdin().lock().read_line(&mut line));
    let answer = line.trim().to_ascii_lowercase();
    matches!(read, Ok(length) if length > 0) && matches!(answer.as_str(), "" | "y" | "yes")
}
