//! Asks whoever sits at the terminal before code runs.
//!
//! The question goes the way of everything that is shown: whoever tells what happens puts it, and only
//! when the code it is about has been shown.

use std::io::{BufRead, Write};

use silica_interpret::Approver;
use silica_policy::Report;
use tokio::sync::{mpsc, oneshot};

use crate::show;

/// Code that waits for a word from the terminal.
pub(super) struct Question {
    findings: Vec<String>,
    said: oneshot::Sender<bool>,
}

/// The person at the terminal, as the interpreter sees them.
pub(super) struct Terminal(mpsc::Sender<Question>);

impl Terminal {
    /// One who is asked by whoever holds the other end.
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
            let (said, answer) = oneshot::channel();
            // A question that nobody answers any more is no consent.
            self.0.send(Question { findings, said }).await.is_ok() && answer.await.unwrap_or(false)
        })
    }
}

impl Question {
    /// Asks, and waits for the answer.
    pub(super) async fn put(self) {
        self.findings.iter().for_each(|line| say!("{line}"));
        let yes = tokio::task::spawn_blocking(asked).await.unwrap_or(false);
        // Whoever wanted to know has gone.
        let _ = self.said.send(yes);
    }
}

fn asked() -> bool {
    prompt!("silica: run this? [Y/n] ");
    let mut line = String::new();
    let read =
        std::io::stderr().flush().and_then(|()| std::io::stdin().lock().read_line(&mut line));
    let said = line.trim().to_ascii_lowercase();
    matches!(read, Ok(length) if length > 0) && matches!(said.as_str(), "" | "y" | "yes")
}
