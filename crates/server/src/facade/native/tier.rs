//! The isolation tier in requests.

use schemars::JsonSchema;
use serde::Deserialize;
use silica_domain::Tier;

use crate::app::App;
use crate::http::problem::Problem;

/// The tier that a request asks for
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum TierBody {
    Jail,
}

impl From<TierBody> for Tier {
    fn from(body: TierBody) -> Self {
        match body {
            TierBody::Jail => Self::Jail,
        }
    }
}

/// Refuses a request for a tier that this server does not run: a sandbox is never isolated in another
/// way than its owner asked for.
pub(crate) fn check(app: &App, asked: Option<TierBody>) -> Result<(), Problem> {
    let runs = app.sessions.engine().tier();
    match asked.map(Tier::from) {
        Some(asked) if asked != runs => {
            Err(Problem::bad(format!("tier must be {runs}; this server does not run {asked}")))
        }
        Some(_) | None => Ok(()),
    }
}
