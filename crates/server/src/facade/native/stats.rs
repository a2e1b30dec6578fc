//! A key's own numbers.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::app::App;
use crate::http::auth::Caller;
use crate::http::json::Answer;

/// `GET /v1/stats`
pub(crate) async fn stats(State(app): State<App>, caller: Caller) -> Response {
    let admission = app.sessions.admission();
    let (own, all, quota) =
        (admission.load(Some(&caller.tenant)), admission.load(None), admission.quota());
    let spent = app.interpreter.spent_today(&caller.tenant);
    let mut answer = json!({
        "sandboxes": own.sandboxes,
        "cells_running": own.running,
        "cells_queued": own.queued,
        "quota": {
            "sandboxes": quota.sandboxes,
            "cells_running": quota.running,
            "cells_queued": quota.queued,
            "requests_per_second": quota.requests_per_second,
            "request_burst": quota.request_burst,
            "upload_bytes_per_minute": quota.upload_bytes_per_minute,
            "output_bytes_per_minute": quota.output_bytes_per_minute,
            "cpu_seconds_per_minute": quota.cpu_seconds_per_minute,
        },
        "queue_depth": all.queued,
        "models_today": {
            "requests": spent.requests,
            "input_tokens": spent.input_tokens,
            "output_tokens": spent.output_tokens,
            "cost_dollars": spent.cost().as_dollars(),
        },
    });
    if caller.admin {
        answer["server"] = json!({
            "sandboxes": all.sandboxes,
            "cells_running": all.running,
            "pool_ready": app.sessions.engine().ready_count(),
            "sandboxes_ended": app.sessions.numbers().ended(),
        });
    }
    Answer(answer).into_response()
}
