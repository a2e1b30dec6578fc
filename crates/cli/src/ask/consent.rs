//! Asks whoever sits at the terminal before code runs.

use std::io::{BufRead, Write};

use silica_interpret::Approver;
use silica_policy::Report;

use crate::show;

/// The person at the terminal.
pub(super) struct Terminal;

impl Approver for Terminal {
    fn approve<'a>(
        &'a self,
        _: &'a str,
        report: &'a Report,
    ) -> std::pin::Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        for finding in &report.findings {
            let why = show::plain(&finding.why, 300);
            eprintln!("silica: line {}: {why} ({})", finding.line, finding.rule);
        }
        Box::pin(async {
            // A question that nobody answers any more is no consent.
            tokio::task::spawn_blocking(asked).await.unwrap_or(false)
        })
    }
}

fn asked() -> bool {
    eprint!("silica: run this? [Y/n] ");
    let mut line = String::new();
    let read =
        std::io::stderr().flush().and_then(|()| std::io::stdin().lock().read_line(&mut line));
    let said = line.trim().to_ascii_lowercase();
    matches!(read, Ok(length) if length > 0) && matches!(said.as_str(), "" | "y" | "yes")
}
