//! Where code runs: a trait, so that the loop can be looked at without a sandbox, and the real one.

mod place;

use std::sync::Arc;
use std::time::Duration;

use silica_domain::{Bundle, CellError, Limit, Outcome};
use silica_engine::Changes;
use silica_sessions::{CellEnd, SessionError};

use crate::event::Voice;

pub use place::OutputFile;
pub(crate) use place::Place;

/// What came of running code.
#[derive(Clone, Debug)]
pub struct Ran {
    /// How it ended.
    pub outcome: Outcome,
    /// What happened, where the code's own words do not say it.
    pub message: Option<String>,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// What it showed.
    pub results: Vec<Arc<Bundle>>,
    /// The exception that ended it.
    pub error: Option<CellError>,
    /// Which files it made, changed and removed.
    pub files: Changes,
    /// How long it took.
    pub duration: Duration,
    /// What was lost with its interpreter, if that is gone.
    pub lost: Option<String>,
}

impl Ran {
    /// Whether it did what it was written for, as far as that can be seen from outside.
    pub fn succeeded(&self) -> bool {
        matches!(self.outcome, Outcome::Ok | Outcome::Exited(0))
    }

    /// What it printed, and behind it the value of its last expression; without space around it.
    pub fn output(&self) -> String {
        let main = self.results.iter().find(|bundle| bundle.main);
        let value = main.and_then(|bundle| bundle.get("text/plain"));
        let value = value.map(String::from_utf8_lossy).unwrap_or_default();
        let printed = self.stdout.trim();
        match (printed.is_empty(), value.trim()) {
            (_, "") => printed.to_owned(),
            (true, value) => value.to_owned(),
            (false, value) => format!("{printed}\n{value}"),
        }
    }

    /// What it complained about, its exception, and what stopped it; `None` if there is nothing.
    pub fn complaint(&self) -> Option<String> {
        let traceback = self.error.as_ref().map(|error| {
            if error.traceback.is_empty() {
                format!("{}: {}", error.name, error.value)
            } else {
                error.traceback.join("\n")
            }
        });
        let parts = [Some(self.stderr.clone()), traceback, self.message.clone()];
        let parts = parts.into_iter().flatten().map(|part| part.trim().to_owned());
        let text: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        (!text.is_empty()).then(|| text.join("\n"))
    }
}

impl From<&CellEnd> for Ran {
    fn from(end: &CellEnd) -> Self {
        let report = &end.report;
        let text = |kept: &silica_engine::HeadTail| {
            String::from_utf8_lossy(&kept.clone().into_bytes()).into_owned()
        };
        Self {
            outcome: report.outcome,
            message: report.outcome.explain(&end.limits, Limit::field),
            stdout: text(&report.stdout),
            stderr: text(&report.stderr),
            results: report.results.clone(),
            error: report.error.clone(),
            files: end.files.clone(),
            duration: report.duration,
            lost: end.lost.clone(),
        }
    }
}

/// Runs code, one piece after the other, in one place.
pub trait Runner: Send {
    /// Runs a piece for at most so long, and tells what it says while it runs. Dropping this stops it.
    fn run(
        &mut self,
        code: &str,
        time_max: Duration,
        voice: &Voice,
    ) -> impl Future<Output = Result<Ran, SessionError>> + Send;
}
