//! The native API, one file per noun.

pub(crate) mod admin;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod cells;
pub(crate) mod commands;
pub(crate) mod docs;
pub(crate) mod files;
pub(crate) mod health;
pub(crate) mod interpret;
pub(crate) mod kernels;
pub(crate) mod keys;
pub(crate) mod openapi;
pub(crate) mod render;
pub(crate) mod run;
pub(crate) mod sandboxes;
pub(crate) mod stats;
pub(crate) mod templates;

use std::sync::Arc;
use std::time::Duration;

use silica_policy::{Policy, Preset};
use silica_sessions::{PolicyChoice, Session, SessionError};

use crate::app::App;
use crate::http::auth::Caller;
use crate::http::problem::Problem;

/// The caller's live sandbox; one that has ended says so, another's does not exist.
async fn session(app: &App, caller: &Caller, id: &str) -> Result<Arc<Session>, Problem> {
    match app.sessions.find(&caller.tenant, id) {
        Ok(session) => Ok(session),
        Err(missing) => {
            let record = app.sessions.record(&caller.tenant, id).await;
            let record = record.map_err(|error| match error {
                SessionError::NoSandbox(_) => Problem::from(missing),
                error => error.into(),
            })?;
            let reason = record.end_reason.unwrap_or_else(|| record.state.name().to_owned());
            let detail = format!("sandbox {id} has ended: {reason}");
            Err(Problem::new(crate::http::problem::Code::SandboxEnded, detail))
        }
    }
}

/// Seconds as clients write them; `None` for what no clock can measure.
fn seconds(number: f64) -> Result<Duration, Problem> {
    Duration::try_from_secs_f64(number)
        .map_err(|_| Problem::bad(format!("{number} is no number of seconds")))
}

/// A policy as clients name or write it: a preset's name, or the text of a policy file.
fn policy(text: &str) -> Result<PolicyChoice, Problem> {
    if let Some(preset) = Preset::from_name(text) {
        return Ok(PolicyChoice::Preset(preset));
    }
    if !text.contains('=') {
        let words = "policy is strict, data or open, or the text of a policy file";
        return Err(Problem::bad(words));
    }
    let own = Policy::parse(text).map_err(|error| Problem::bad(error.to_string()))?;
    Ok(PolicyChoice::Own(Arc::new(own)))
}
