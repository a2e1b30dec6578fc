//! Errors in the dialect of a facade.
//!
//! Handlers, extractors and the guard fail with a [`Problem`]; the facade that a request was
//! dispatched to renders it ([`Dialect`]). A facade that has an error type of its own, or several
//! forms of errors by route, renders them in a layer around those routes ([`render_errors`]).

use std::fmt::Debug;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Problem;
use super::returnable;

/// Renders refusals the way the clients of one facade expect them.
pub(crate) trait Dialect: Debug + Send + Sync + 'static {
    /// Renders the whole response to a request that is refused.
    fn refuse(&self, problem: &Problem, request_id: &str) -> Response;

    /// Returns which web pages may make requests.
    fn pages(&self) -> Pages {
        Pages::Refused
    }

    /// Returns whether requests may name this server's own address as their origin, as some clients do
    /// that are no browsers.
    fn own_origin(&self) -> OwnOrigin {
        OwnOrigin::Refused
    }
}

/// Which web pages may make requests to a facade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// None but those that the operator allows, and only under the server's own host names.
    Refused,
    /// Those that it serves itself, under host names that it checks itself.
    Own,
}

/// Whether requests may name this server's own address as their origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnOrigin {
    Allowed,
    Refused,
}

/// Marks an error response that is complete: the guard does not render it again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Complete;

/// One form of a facade's own error type.
pub(crate) trait ErrorForm: Clone + Send + Sync + 'static {
    /// The error type of the facade.
    type Error: Clone + Send + Sync + 'static;

    /// Renders an error in this form.
    fn render(&self, error: &Self::Error) -> Response;
}

/// An error on its way to the layer that knows its form, in the extensions of a response.
#[derive(Clone, Debug)]
struct Unrendered<E>(E);

/// Returns a response without a body that [`render_errors`] completes.
pub(crate) fn unrendered<E: Clone + Send + Sync + 'static>(
    status: StatusCode,
    error: E,
) -> Response {
    let mut response = status.into_response();
    response.extensions_mut().insert(Unrendered(error));
    response
}

/// Middleware for routes that fail in one form: renders their errors, after what is left of the
/// request's body has been read, and marks every other response as complete.
pub(crate) async fn render_errors<F: ErrorForm>(
    State(form): State<F>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let (body, returned) = returnable::lend(body);
    let mut response = next.run(Request::from_parts(parts, body)).await;
    if let Some(Unrendered(error)) = response.extensions_mut().remove::<Unrendered<F::Error>>() {
        returned.read_rest().await;
        response = form.render(&error);
    }
    response.extensions_mut().insert(Complete);
    response
}
