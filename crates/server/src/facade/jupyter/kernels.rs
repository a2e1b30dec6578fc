//! Kernels: created, listed, interrupted, restarted and deleted; and what the server says about itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use silica_sessions::SandboxRequest;
use silica_store::{Tenant, Timestamp};

use super::auth::Visit;
use super::kernel::{FIRST_KERNEL, JupyterKernel};
use super::notebooks::Notebook;
use super::requests;
use crate::app::App;
use crate::http::in_flight::InFlight;
use crate::http::json::{self, Answer};
use crate::http::problem::{Code, Problem};

/// The name that notebooks ask for, whatever the template is called.
const ALIAS: &str = "python3";

/// The longest request that is no file.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The version of Jupyter's server whose routes these are.
const VERSION: &str = "2.21.0";

/// The kernels of a server, with the notebooks that use them.
#[derive(Debug, Default)]
pub(super) struct Kernels(Mutex<Live>);

#[derive(Debug, Default)]
pub(super) struct Live {
    kernels: Vec<Arc<JupyterKernel>>,
    pub(super) notebooks: Vec<Notebook>,
}

impl Kernels {
    /// Returns what is live, without kernels whose sandbox has ended.
    pub(super) fn lock(&self) -> MutexGuard<'_, Live> {
        let mut live = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let live_ones = |kernel: &Arc<JupyterKernel>| kernel.session.end_reason().is_none();
        live.kernels.retain(live_ones);
        let Live { kernels, notebooks } = &mut *live;
        notebooks.retain(|notebook| kernels.iter().any(|kernel| kernel.id == notebook.kernel.id));
        live
    }

    /// Returns the kernels of an owner.
    pub(super) fn of(&self, tenant: &Tenant) -> Vec<Arc<JupyterKernel>> {
        let live = self.lock();
        live.kernels.iter().filter(|kernel| kernel.tenant == *tenant).cloned().collect()
    }

    /// Returns a kernel of an owner.
    pub(super) fn find(&self, tenant: &Tenant, id: &str) -> Result<Arc<JupyterKernel>, Problem> {
        let found = self.of(tenant).into_iter().find(|kernel| kernel.id == id);
        found.ok_or_else(|| {
            Problem::new(Code::KernelNotFound, format!("Kernel does not exist: {id}"))
        })
    }
}

/// Reads the JSON of a request; what it would be without any for an empty one.
pub(super) async fn body<T: DeserializeOwned + Default>(
    request: Request,
    bytes_max: usize,
) -> Result<T, Problem> {
    let in_flight = InFlight::of(request.extensions());
    let bytes = json::read(request.into_body(), bytes_max, &in_flight).await?;
    if bytes.trim_ascii().is_empty() { Ok(T::default()) } else { json::parse(&bytes) }
}

/// Reads the JSON of a request that is no file.
pub(super) async fn short_body<T: DeserializeOwned + Default>(
    request: Request,
) -> Result<T, Problem> {
    body(request, BODY_BYTES_MAX).await
}

/// `GET /api`: without a key.
pub(super) async fn version() -> Response {
    Answer(json!({"version": VERSION})).into_response()
}

/// `GET /api/status`
pub(super) async fn status(visit: Visit) -> Response {
    let kernels = visit.state.kernels.of(&visit.caller.tenant);
    let connections: u64 =
        kernels.iter().filter_map(|kernel| kernel.model()["connections"].as_u64()).sum();
    let now = Timestamp::now();
    let status = json!({
        "started": now, "last_activity": now, "connections": connections, "kernels": kernels.len(),
    });
    Answer(status).into_response()
}

/// `GET /api/me`
pub(super) async fn me(visit: Visit) -> Response {
    let name = visit.caller.tenant.as_str();
    let identity = json!({
        "username": name, "name": name, "display_name": name, "initials": null, "avatar_url": null,
        "color": null,
    });
    Answer(json!({"identity": identity, "permissions": {}})).into_response()
}

/// Returns the kernelspecs by name: one for each template, and the alias of the default one.
fn all_specs(app: &App) -> Vec<(String, Value)> {
    let default = app.sessions.options().template.clone();
    let offered = app.options.templates.iter().filter_map(|template| template["name"].as_str());
    let mut names: Vec<String> = offered.map(str::to_owned).collect();
    if !names.contains(&default) {
        names.insert(0, default);
    }
    let titled = |name: String| {
        let title = format!("Python (Silica, {name})");
        (name.clone(), spec_of(&name, &title))
    };
    std::iter::once((ALIAS.to_owned(), spec_of(ALIAS, "Python 3 (Silica)")))
        .chain(names.into_iter().map(titled))
        .collect()
}

fn spec_of(name: &str, title: &str) -> Value {
    let spec = json!({
        "argv": [], "env": {}, "display_name": title, "language": "python",
        "interrupt_mode": "message", "metadata": {},
    });
    json!({"name": name, "spec": spec, "resources": {}})
}

/// `GET /api/kernelspecs`
pub(super) async fn specs(visit: Visit) -> Response {
    let specs: serde_json::Map<String, Value> = all_specs(&visit.app).into_iter().collect();
    Answer(json!({"default": ALIAS, "kernelspecs": specs})).into_response()
}

/// `GET /api/kernelspecs/{name}`
pub(super) async fn spec(visit: Visit) -> Result<Response, Problem> {
    let name = visit.param("name");
    let found = all_specs(&visit.app).into_iter().find(|(known, _)| known == name);
    let missing = || Problem::new(Code::NotFound, format!("Kernel spec not found: {name}"));
    Ok(Answer(found.ok_or_else(missing)?.1).into_response())
}

/// `GET /api/kernels`
pub(super) async fn list(visit: Visit) -> Response {
    let kernels = visit.state.kernels.of(&visit.caller.tenant);
    let models: Vec<Value> = kernels.iter().map(|kernel| kernel.model()).collect();
    Answer(models).into_response()
}

/// What a kernel is asked for; other fields are for servers with files of their own.
#[derive(Debug, Default, Deserialize)]
pub(super) struct KernelBody {
    pub(super) name: Option<String>,
}

/// Makes a kernel.
pub(super) async fn start(
    visit: &Visit,
    name: Option<String>,
) -> Result<Arc<JupyterKernel>, Problem> {
    let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| ALIAS.to_owned());
    let template = (name != ALIAS).then(|| name.clone());
    let metadata = [("client".to_owned(), "jupyter".to_owned())].into();
    let request = SandboxRequest { template, metadata, ..SandboxRequest::default() };
    let session = visit.app.sessions.create(&visit.caller.tenant, request).await?;
    let (kernel, inbox) = JupyterKernel::new(name, session);
    tokio::spawn(requests::serve(Arc::clone(&kernel), inbox));
    visit.state.kernels.lock().kernels.push(Arc::clone(&kernel));
    Ok(kernel)
}

/// `POST /api/kernels`
pub(super) async fn create(visit: Visit, request: Request) -> Result<Response, Problem> {
    let KernelBody { name } = short_body(request).await?;
    let kernel = start(&visit, name).await?;
    let mut response = (StatusCode::CREATED, Answer(kernel.model())).into_response();
    // Relative to the host and without the key that may be in the base.
    if let Ok(location) =
        HeaderValue::from_str(&format!("{}/api/kernels/{}", super::PREFIX, kernel.id))
    {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Returns the kernel that a request names.
pub(super) fn named(visit: &Visit) -> Result<Arc<JupyterKernel>, Problem> {
    visit.state.kernels.find(&visit.caller.tenant, visit.param("kernel"))
}

/// `GET /api/kernels/{kernel}`
pub(super) async fn get(visit: Visit) -> Result<Response, Problem> {
    Ok(Answer(named(&visit)?.model()).into_response())
}

/// `DELETE /api/kernels/{kernel}`
pub(super) async fn delete(State(app): State<App>, visit: Visit) -> Result<Response, Problem> {
    named(&visit)?.shut_down(&app.sessions).await;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /api/kernels/{kernel}/interrupt`
pub(super) async fn interrupt(visit: Visit) -> Result<Response, Problem> {
    named(&visit)?.session.interrupt_kernel(FIRST_KERNEL)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST /api/kernels/{kernel}/restart`
pub(super) async fn restart(visit: Visit) -> Result<Response, Problem> {
    let kernel = named(&visit)?;
    kernel.restart().await?;
    Ok(Answer(kernel.model()).into_response())
}
