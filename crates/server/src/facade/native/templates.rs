//! The templates that sandboxes can start from.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};

use super::wire::account::{TemplateList, TemplateShown};
use crate::app::App;
use crate::http::auth::Caller;
use crate::http::json::Answer;
use crate::http::problem::{Code, Problem};

/// `GET /v1/templates`
pub(crate) async fn list(State(app): State<App>, _: Caller) -> Response {
    let templates = app.options.templates.iter().map(TemplateShown).collect();
    Answer(TemplateList { templates }).into_response()
}

/// `GET /v1/templates/{name}`
pub(crate) async fn get(
    State(app): State<App>,
    _: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let found = app.options.templates.iter().find(|template| template["name"] == name.as_str());
    let missing = || {
        let detail = format!("there is no template {name} on this server");
        Problem::new(Code::TemplateNotFound, detail)
    };
    Ok(Answer(TemplateShown(found.ok_or_else(missing)?)).into_response())
}
