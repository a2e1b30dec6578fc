//! Ports of sandboxes under host names of their own. Nothing else answers there: no route of the API,
//! no page of this server, no other facade.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};

use super::native::wire::problem;
use crate::app::App;
use crate::dispatch::Facade;
use crate::http::dialect::{Dialect, Pages};
use crate::http::guard::host_of;
use crate::http::problem::{Code, Problem};
use crate::http::session::{Found, Requester, find};
use crate::ports::domain::PortDomain;
use crate::ports::{self, Form, PortRequest, Target, access};

/// Every host below the domain of ports.
#[derive(Clone, Debug)]
pub(crate) struct PortHosts(pub(crate) PortDomain);

impl Dialect for PortHosts {
    fn refuse(&self, problem: &Problem, request_id: &str) -> Response {
        problem::response(problem, request_id)
    }

    fn pages(&self) -> Pages {
        Pages::Own
    }
}

impl Facade for PortHosts {
    fn routes(&self) -> Router<App> {
        let domain = self.0.clone();
        let handler = move |State(app): State<App>, request: Request| {
            let domain = domain.clone();
            async move {
                let served = serve(&app, &domain, request).await;
                served.unwrap_or_else(Problem::into_response)
            }
        };
        Router::new()
            .route("/", routing::any(handler.clone()))
            .route("/{*path}", routing::any(handler))
    }
}

async fn serve(app: &App, domain: &PortDomain, request: Request) -> Result<Response, Problem> {
    let host = host_of(&request)?.unwrap_or_default();
    let unknown = || Problem::new(Code::NotFound, "there is no port of a sandbox at this host");
    let (port, id) = domain.parse(host).ok_or_else(unknown)?;
    let session = find(app, Requester::TokenHolder, &id).and_then(Found::live);
    let missing = || Problem::new(Code::SandboxNotFound, format!("there is no sandbox {id}"));
    let target = Target { session: session.ok_or_else(missing)?, port };
    let (parts, body) = request.into_parts();
    if let Some(token) = parts.uri.path().strip_prefix(access::OPEN) {
        return access::open(app, &parts, &target, token).await;
    }
    let shown = access::authorize(app, &parts, &target).await?;
    let path = ports::inner_path(parts.uri.path(), parts.uri.query());
    let path = path.ok_or_else(|| Problem::bad("the path is not valid"))?;
    let request = Request::from_parts(parts, body);
    let asked = PortRequest { target, form: Form::Host, shown, path, request };
    ports::forward(&app.kept_connections, asked).await
}
