//! A key's own numbers.

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use super::wire::account::{ModelsToday, ServerStats, Stats, budget_uses};
use crate::app::App;
use crate::http::auth::Caller;
use crate::http::json::Answer;

/// `GET /v1/stats`
pub(crate) async fn stats(State(app): State<App>, caller: Caller) -> Response {
    let admission = app.sessions.admission();
    let own = admission.load(Some(&caller.tenant));
    let all = admission.load(None);
    let spent = app.prompts.spent_today(&caller.tenant);
    let server = || {
        let pool_ready = app.sessions.engine().ready_count();
        ServerStats::new(admission, pool_ready, app.sessions.statistics().ended())
    };
    let stats = Stats {
        sandboxes: own.sandboxes,
        cells_running: own.running,
        cells_queued: own.queued,
        quota: admission.quota().into(),
        budgets: budget_uses(admission, Some(&caller.tenant)),
        queue_depth: all.queued,
        models_today: ModelsToday {
            requests: spent.requests,
            input_tokens: spent.input_tokens,
            output_tokens: spent.output_tokens,
            cost_dollars: spent.cost().as_dollars(),
        },
        server: caller.admin.then(server),
    };
    Answer(stats).into_response()
}
