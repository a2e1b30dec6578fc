//! Jupyter's sessions: a name and a path for a kernel, such as those of a notebook.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::auth::Visit;
use super::kernel::JupyterKernel;
use super::kernels::{short_body, start};
use crate::http::json::Answer;
use crate::http::problem::{Code, Problem};

/// The longest path, name or type.
const TEXT_BYTES_MAX: usize = 4096;

/// The most notebooks of one kernel.
const NOTEBOOKS_PER_KERNEL_MAX: usize = 64;

/// A session of Jupyter.
#[derive(Clone, Debug)]
pub(super) struct Notebook {
    id: String,
    path: String,
    name: String,
    kind: String,
    pub(super) kernel: Arc<JupyterKernel>,
}

impl Notebook {
    fn model(&self) -> Value {
        json!({
            "id": self.id, "path": self.path, "name": self.name, "type": self.kind,
            "kernel": self.kernel.model(),
            "notebook": {"path": self.path, "name": self.name},
        })
    }
}

#[derive(Debug, Default, Deserialize)]
struct NotebookBody {
    path: Option<String>,
    name: Option<String>,
    r#type: Option<String>,
    kernel: Option<KernelChoice>,
}

#[derive(Debug, Default, Deserialize)]
struct KernelChoice {
    id: Option<String>,
    name: Option<String>,
}

impl NotebookBody {
    fn check(&self) -> Result<(), Problem> {
        let texts = [&self.path, &self.name, &self.r#type];
        let fits =
            |text: &&Option<String>| text.as_ref().is_none_or(|text| text.len() <= TEXT_BYTES_MAX);
        if texts.iter().all(fits) {
            return Ok(());
        }
        Err(Problem::bad(format!("path, name and type must have at most {TEXT_BYTES_MAX} bytes")))
    }
}

/// Returns the kernel that a body asks for.
async fn chosen(
    visit: &Visit,
    choice: Option<KernelChoice>,
) -> Result<Arc<JupyterKernel>, Problem> {
    let choice = choice.unwrap_or_default();
    match choice.id.filter(|id| !id.is_empty()) {
        Some(id) => visit.state.kernels.find(&visit.caller.tenant, &id),
        None => start(visit, choice.name).await,
    }
}

/// `GET /api/sessions`
pub(super) async fn list(visit: Visit) -> Response {
    let live = visit.state.kernels.lock();
    let own = live.notebooks.iter().filter(|it| it.kernel.tenant == visit.caller.tenant);
    Answer(own.map(Notebook::model).collect::<Vec<_>>()).into_response()
}

/// `POST /api/sessions`
pub(super) async fn create(visit: Visit, request: Request) -> Result<Response, Problem> {
    let body: NotebookBody = short_body(request).await?;
    body.check()?;
    let path = body.path.unwrap_or_default();
    // A client that asks again for a path gets the session that is there.
    let is_it = |it: &&Notebook| it.kernel.tenant == visit.caller.tenant && it.path == path;
    let known = visit.state.kernels.lock().notebooks.iter().find(is_it).cloned();
    if let Some(known) = known.filter(|_| !path.is_empty()) {
        return Ok((StatusCode::CREATED, Answer(known.model())).into_response());
    }
    let kernel = chosen(&visit, body.kernel).await?;
    let notebook = Notebook {
        id: uuid::Uuid::new_v4().to_string(),
        path,
        name: body.name.unwrap_or_default(),
        kind: body.r#type.unwrap_or_else(|| "notebook".to_owned()),
        kernel,
    };
    let mut live = visit.state.kernels.lock();
    let of_kernel = live.notebooks.iter().filter(|it| it.kernel.id == notebook.kernel.id).count();
    if of_kernel >= NOTEBOOKS_PER_KERNEL_MAX {
        let words = format!("a kernel may have at most {NOTEBOOKS_PER_KERNEL_MAX} sessions");
        return Err(Problem::new(Code::QuotaExceeded, words));
    }
    let model = notebook.model();
    live.notebooks.push(notebook);
    Ok((StatusCode::CREATED, Answer(model)).into_response())
}

fn named(visit: &Visit) -> Result<Notebook, Problem> {
    let id = visit.param("session");
    let is_it = |it: &&Notebook| it.kernel.tenant == visit.caller.tenant && it.id == id;
    let found = visit.state.kernels.lock().notebooks.iter().find(is_it).cloned();
    found.ok_or_else(|| Problem::new(Code::NotFound, format!("Session does not exist: {id}")))
}

/// `GET /api/sessions/{session}`
pub(super) async fn get(visit: Visit) -> Result<Response, Problem> {
    Ok(Answer(named(&visit)?.model()).into_response())
}

/// `PATCH /api/sessions/{session}`
pub(super) async fn change(visit: Visit, request: Request) -> Result<Response, Problem> {
    let body: NotebookBody = short_body(request).await?;
    body.check()?;
    let mut notebook = named(&visit)?;
    if body.kernel.is_some() {
        notebook.kernel = chosen(&visit, body.kernel).await?;
    }
    notebook.path = body.path.unwrap_or(notebook.path);
    notebook.name = body.name.unwrap_or(notebook.name);
    notebook.kind = body.r#type.unwrap_or(notebook.kind);
    let mut live = visit.state.kernels.lock();
    if let Some(place) = live.notebooks.iter_mut().find(|it| it.id == notebook.id) {
        *place = notebook.clone();
    }
    Ok(Answer(notebook.model()).into_response())
}

/// `DELETE /api/sessions/{session}`: ends the kernel, too.
pub(super) async fn delete(visit: Visit) -> Result<Response, Problem> {
    let notebook = named(&visit)?;
    visit.state.kernels.lock().notebooks.retain(|it| it.id != notebook.id);
    notebook.kernel.shut_down(&visit.app.sessions).await;
    Ok(StatusCode::NO_CONTENT.into_response())
}
