//! Chooses the facade of each request.
//!
//! The choice is made before the guard and before authentication, so that every refusal, be it of a
//! host name, a key, a body's size, a route that does not exist or a handler that panics, is rendered
//! in the dialect of the chosen facade. A facade is added by one entry in [`facade::all`].
//!
//! [`facade::all`]: crate::facade::all

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use axum::response::Response;
use axum::{Router, middleware};
use tower::ServiceExt;

use crate::app::App;
use crate::http::dialect::Dialect;
use crate::http::guard::{self, Guard, GuardContext, host_of};
use crate::http::problem::{Code, Problem};
use crate::ports;
use crate::ports::domain::PortDomain;

/// One API of this server, whose handlers share the state `S`.
pub(crate) trait Facade<S = App>: Dialect {
    /// Returns the routes, relative to the facade's prefix if it has one. They need no fallback: what
    /// they do not contain is refused in the facade's dialect.
    fn routes(&self) -> Router<S>;
}

/// Which requests a facade takes.
#[derive(Clone, Debug)]
pub(crate) enum Mount {
    /// Those whose path lies below a prefix such as `/openai`.
    Prefix(&'static str),
    /// Those that carry a header with a value.
    Header { name: &'static str, value: &'static str },
    /// Those that carry a header, whatever its value.
    AnyHeader(&'static str),
    /// Those to a host below a domain, whatever their path.
    Hosts(PortDomain),
    /// Those whose path is, or lies below, one of these. For clients that cannot be given a prefix.
    Paths(&'static [&'static str]),
}

impl Mount {
    pub(crate) fn takes(&self, request: &Request) -> bool {
        let path = request.uri().path();
        match self {
            Self::Prefix(prefix) => is_below(path, prefix),
            Self::Header { name, value } => {
                request.headers().get(*name).is_some_and(|given| given == value)
            }
            Self::Hosts(domain) => {
                host_of(request).is_ok_and(|host| host.is_some_and(|host| domain.is_above(host)))
            }
            Self::AnyHeader(name) => request.headers().contains_key(*name),
            Self::Paths(paths) => paths.iter().any(|known| is_below(path, known)),
        }
    }
}

/// Whether a path is `above` or lies below it.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The facades of a server; cheap to clone.
#[derive(Clone)]
pub(crate) struct Dispatch(Arc<Routers>);

struct Routers {
    mounted: Vec<(Mount, Router)>,
    otherwise: Router,
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Dispatch")
    }
}

impl Dispatch {
    /// Mounts facades. The first whose mount takes a request serves it; `otherwise` serves the rest.
    pub(crate) fn new<S: Clone + Send + Sync + 'static>(
        state: &S,
        context: &GuardContext,
        facades: Vec<(Mount, Arc<dyn Facade<S>>)>,
        otherwise: Arc<dyn Facade<S>>,
    ) -> Self {
        let mounted = facades.into_iter().map(|(mount, facade)| {
            let routes = facade.routes().method_not_allowed_fallback(wrong_method);
            let routes = match &mount {
                Mount::Prefix(prefix) => Router::new().nest(prefix, routes),
                Mount::Header { .. } | Mount::AnyHeader(_) | Mount::Hosts(_) | Mount::Paths(_) => {
                    routes
                }
            };
            (mount, guarded(state, context, facade, routes))
        });
        let mounted = mounted.collect();
        let otherwise = one(state, context, otherwise);
        Self(Arc::new(Routers { mounted, otherwise }))
    }

    /// Returns the dispatcher as the one service behind the sockets.
    pub(crate) fn into_router(self) -> Router {
        Router::new().fallback(move |request: Request| {
            let dispatch = self.clone();
            async move { dispatch.serve(request).await }
        })
    }

    /// Returns whether a request is passed on to a sandbox, with its path as it is.
    fn passes_on(&self, request: &Request) -> bool {
        let is_host = |mount: &Mount| matches!(mount, Mount::Hosts(_)) && mount.takes(request);
        ports::is_passed_on(request.uri().path())
            || self.0.mounted.iter().any(|(mount, _)| is_host(mount))
    }

    async fn serve(&self, mut request: Request) -> Response {
        if let Some(uri) = without_double_slashes(request.uri())
            && !self.passes_on(&request)
        {
            *request.uri_mut() = uri;
        }
        let mounted = self.0.mounted.iter().find(|(mount, _)| mount.takes(&request));
        let router = mounted.map_or(&self.0.otherwise, |(_, router)| router);
        let response: Result<Response, Infallible> = router.clone().oneshot(request).await;
        match response {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// Returns the router of one facade, for requests that need no choice.
pub(crate) fn one<S: Clone + Send + Sync + 'static>(
    state: &S,
    context: &GuardContext,
    facade: Arc<dyn Facade<S>>,
) -> Router {
    let routes = facade.routes().method_not_allowed_fallback(wrong_method);
    guarded(state, context, facade, routes)
}

/// Adds what every facade has: refusals of unknown routes, and the guard around all of it.
fn guarded<S: Clone + Send + Sync + 'static>(
    state: &S,
    context: &GuardContext,
    facade: Arc<dyn Facade<S>>,
    routes: Router<S>,
) -> Router {
    let guard = Guard { context: context.clone(), dialect: facade };
    routes
        .fallback(no_such_route)
        .layer(middleware::from_fn_with_state(guard, guard::guard))
        .with_state(state.clone())
}

async fn no_such_route() -> Problem {
    Problem::new(Code::NotFound, "no such route; see /docs")
}

async fn wrong_method() -> Problem {
    Problem::new(Code::MethodNotAllowed, "this route does not support that method; see /docs")
}

/// Removes empty segments from a path. A base URL that ends in a slash, set where a client expects
/// none, puts one in front of every path.
fn without_double_slashes(uri: &Uri) -> Option<Uri> {
    if !uri.path().contains("//") {
        return None;
    }
    let mut path = String::with_capacity(uri.path().len());
    for character in uri.path().chars() {
        if !(character == '/' && path.ends_with('/')) {
            path.push(character);
        }
    }
    if let Some(query) = uri.query() {
        path = format!("{path}?{query}");
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests;
